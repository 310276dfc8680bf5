import sys
from pathlib import Path

for folder in ("integration", "soak", "e2e"):
    sys.path.append(str(Path(__file__).parent.parent / folder))
