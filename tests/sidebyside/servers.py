"""The stock dev server and Threadwire: the same project, each server in its own process."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stock_server import stock_server
from threadwire.testing.server import running_server

HERE = Path(__file__).parent
GRAPHS = HERE.parent / "graphs"


@contextmanager
def both_servers(folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses of the stock server and of Threadwire."""
    project = copy_project(folder / "project")
    with stock_server(project, folder / "stock.log") as stock, running_server(project, folder / "data") as ours:
        yield stock, ours.url


def copy_project(folder: Path) -> Path:
    """Copy the agents of tests/graphs and the configuration in this folder, because the stock server writes into its
    project."""
    folder.mkdir(parents=True)
    shutil.copy(GRAPHS / "agents.py", folder)
    return Path(shutil.copy(HERE / "langgraph.json", folder))
