"""`python -m threadwire`."""

from threadwire.cli import main

main()
