"""Loading a project anew when its files change, while it is being served.

In the process, not by starting another one: runs under way go on with the code they began with, streams stay open, and
what is kept in memory alone is kept. All or nothing: if something that could be loaded before cannot be any more, the
project goes on as it was, and the next change is another chance.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from threadwire.errors import ConfigError, ThreadwireError
from threadwire.graphs.config import ProjectConfig, load_config
from threadwire.graphs.forgetting import drop_bytecode, forgotten
from threadwire.server.app import Server
from threadwire.server.changes import LOOK_EVERY, SHARE, Seen, differing, look, look_when_settled
from threadwire.server.project import Project, import_project, read_project


@dataclass(frozen=True)
class Reloaded:
    changed: list[Path]
    seconds: float
    project: Project
    added: list[str]
    removed: list[str]


@dataclass(frozen=True)
class NotReloaded:
    changed: list[Path]
    problem: str


Report = Callable[[Reloaded | NotReloaded], None]


async def reload_on_change(server: Server, seen: Seen, report: Report) -> None:
    """For ever: look, and when something has changed since it was `seen`, load it and say what came of it."""
    latest = server.project.config  # what the file last said, which may not be what is being served
    while True:
        began = time.monotonic()
        now = await anyio.to_thread.run_sync(look, latest, server.project.config)
        looked_for = time.monotonic() - began
        if now != seen:
            now = await anyio.to_thread.run_sync(look_when_settled, now, latest, server.project.config)
            report(await reload(server, differing(seen, now)))
            latest = _as_it_says(latest)
            # What is looked at may be other files now. Those that were looked at before are compared with how they were
            # then: they may have changed while they were being loaded.
            fresh = await anyio.to_thread.run_sync(look, latest, server.project.config)
            seen = {path: now.get(path, stat) for path, stat in fresh.items()}
        await anyio.sleep(max(LOOK_EVERY, looked_for / SHARE))


async def reload(server: Server, changed: list[Path]) -> Reloaded | NotReloaded:
    began = time.monotonic()
    before = server.project.registry.ids()
    try:
        project = await _load_and_use(server, changed)
    except ThreadwireError as mistake:
        return NotReloaded(changed, mistake.message)
    except Exception as error:  # the lifespan of the user's own application
        return NotReloaded(changed, f"{type(error).__name__}: {error}")
    now = project.registry.ids()
    return Reloaded(
        changed,
        time.monotonic() - began,
        project,
        added=[graph_id for graph_id in now if graph_id not in before],
        removed=[graph_id for graph_id in before if graph_id not in now],
    )


async def _load_and_use(server: Server, changed: list[Path]) -> Project:
    """The project as its files now are, being served. If that fails, everything is as it was."""
    serving = server.project
    config = read_project(server.settings)
    for path in changed:
        if path.suffix == ".py":
            drop_bytecode(path)
    with _environment(config), forgotten([*serving.config.places, *config.places]):
        project = await import_project(config)
        _refuse_loss(serving, project)
        await server.use(project)
    return project


def _as_it_says(latest: ProjectConfig) -> ProjectConfig:
    try:
        return load_config(latest.path)
    except ConfigError:
        return latest


def _refuse_loss(serving: Project, project: Project) -> None:
    broken_before = serving.registry.failures()
    for graph_id, problem in project.registry.failures().items():
        if graph_id in serving.registry.ids() and graph_id not in broken_before:
            raise ConfigError(f"graph {graph_id}: {problem}")
    for problem in project.config.problems:
        if problem not in serving.config.problems:
            raise ConfigError(f"{project.config.path.name}: {problem}")


@contextmanager
def _environment(config: ProjectConfig) -> Iterator[None]:
    """If the block fails, the variables that the config sets are what they were."""
    before = {name: os.environ.get(name) for name in config.env}
    try:
        yield
    except BaseException:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        raise
