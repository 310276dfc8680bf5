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
def both_servers(folder: Path, *, with_auth: bool = False) -> Iterator[tuple[str, str]]:
    """The addresses of the stock server and of Threadwire, both without authentication or with that of `auth`."""
    project = copy_project(folder / "project", HERE / "auth" if with_auth else HERE)
    with stock_server(project, folder / "stock.log") as stock, running_server(project, folder / "data") as ours:
        yield stock, ours.url


def copy_project(folder: Path, source: Path) -> Path:
    """Copy the agents of tests/graphs and the configuration in `source`, because the stock server writes into its
    project."""
    folder.mkdir(parents=True)
    shutil.copy(GRAPHS / "agents.py", folder)
    if source != HERE:
        for module in source.glob("*.py"):
            shutil.copy(module, folder)
    return Path(shutil.copy(source / "langgraph.json", folder))
