"""How a command reports an error. This module does not import the server, so that an early error appears quickly."""

from rich.console import Console
from rich.text import Text

from threadwire.errors import ThreadwireError
from threadwire.graphs.project_modules import load_traceback


def print_error(console: Console, error: ThreadwireError) -> None:
    """Print why a command failed."""
    console.print(Text.assemble(("threadwire: ", "red"), error.message), soft_wrap=True)
    print_traceback(console, load_traceback(error))


def print_traceback(console: Console, traceback: str | None) -> None:
    """Print the traceback, if there is one, indented."""
    for line in (traceback or "").splitlines():
        console.print(Text(f"    {line}"), soft_wrap=True)
