import os
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.version import Version

from services.preloaded_servers import PreloadedServers
from threadwire.server.process_patches import PROCESS_PATCHES, patch_process
from threadwire.testing import server

TESTS = Path(__file__).parent
IN_ONE_PROCESS = ("unit", "conformance", "transcripts", "protocols")
EXTENDED = bool(os.environ.get("EXTENDED"))
"""Whether to run the tests marked `extended`, too."""
OUT_OF_TIME = [r"(?i)timed? ?out", "built-in function monotonic"]
"""What the error of a test contains that ran out of time. The second is in `assert time.monotonic() < deadline`."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Repeat some of the tests once if they fail, see `_repetition`. Leave out those of `make test-extended`, and those
    that need a newer version than the installed one. With the versions of constraints.txt, there are none of the
    latter."""
    for item in items:
        if (repetition := _repetition(item)) is not None:
            item.add_marker(repetition)
    left_out = [item for item in items if _is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _repetition(item: pytest.Item) -> pytest.MarkDecorator | None:
    """A busy machine can stop for a minute, and then whatever starts processes may run out of time. Such tests are
    repeated once. What a page shows at an instant depends on the load, too, so a test in a browser is repeated whatever
    its error is. A wrong result of any other test counts at once: what it checks must not go wrong a single time."""
    if item.path.relative_to(TESTS).parts[0] in IN_ONE_PROCESS or find_spec("pytest_rerunfailures") is None:
        return None
    if item.get_closest_marker("browser"):
        return pytest.mark.flaky(reruns=1)
    return pytest.mark.flaky(reruns=1, only_rerun=OUT_OF_TIME)


def _is_left_out(item: pytest.Item) -> bool:
    is_extended = item.get_closest_marker("extended") is not None
    return (is_extended and not EXTENDED) or any(map(_is_too_old, item.iter_markers("needs")))


def _is_too_old(needs: pytest.Mark) -> bool:
    distribution, least = needs.args
    return Version(version(distribution)) < Version(least)


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers of the tests from a template, with as many worker processes as `WORKERS` says: `make
    test-workers`."""
    server.DEFAULT_WORKERS = int(os.environ.get("WORKERS", server.DEFAULT_WORKERS))
    servers = PreloadedServers()
    server.launch = servers.launch  # type: ignore[assignment]
    config.add_cleanup(servers.close)


@pytest.fixture
def new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start servers as new processes, which share no memory with others."""
    monkeypatch.setattr(server, "launch", server.start_process)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def patched_process() -> None:
    """Unless a test says otherwise, LangGraph is as in `threadwire serve`."""
    patch_process()


@pytest.fixture
def unpatched_process(patched_process: None) -> Iterator[None]:
    """LangGraph as in an embedded server."""
    applied = [patch for patch in PROCESS_PATCHES if patch.applied]
    for patch in reversed(applied):
        patch.undo()
    yield
    for patch in applied:
        patch.apply()
