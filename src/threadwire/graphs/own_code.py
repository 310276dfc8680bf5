"""Which files are the project's own code, as opposed to libraries, the standard library and Threadwire."""

import os
import sysconfig
from pathlib import Path

INSTALLED_FOLDERS = frozenset({"site-packages", "dist-packages"})
"""Names of folders whose content never belongs to the project."""

STANDARD_LIBRARY = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_THREADWIRE = str(Path(__file__).parent.parent) + os.sep


def is_own_code(filename: str) -> bool:
    """Whether a file is the project's own. A virtual environment is usually inside the project's folder, so the folder
    alone does not decide. False for code without a file, such as `<frozen importlib._bootstrap>`."""
    if filename.startswith(("<", _THREADWIRE, *STANDARD_LIBRARY)):
        return False
    return not INSTALLED_FOLDERS & set(Path(filename).parts)
