"""Reload a project when its files change, while it is being served.

The reload happens in the same process: active runs continue with the code they started with, streams stay open, and
data that is only in memory survives. It is all or nothing: if something that loaded before fails to load, the previous
version stays in use until the next change.
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
from threadwire.graphs.module_reload import drop_bytecode, unloaded_modules
from threadwire.graphs.project_modules import load_traceback
from threadwire.graphs.tracebacks import render_traceback
from threadwire.server.app import Server
from threadwire.server.file_changes import (
    MAX_POLL_SHARE,
    POLL_SECONDS,
    FileSnapshot,
    changed_files,
    snapshot_files,
    snapshot_when_stable,
)
from threadwire.server.project import Project, import_project, read_project


@dataclass(frozen=True)
class Reloaded:
    changed: list[Path]
    seconds: float
    project: Project
    added: list[str]
    removed: list[str]


@dataclass(frozen=True)
class ReloadFailed:
    changed: list[Path]
    reason: str
    traceback: str | None = None


Report = Callable[[Reloaded | ReloadFailed], None]


async def reload_on_change(server: Server, seen: FileSnapshot, report: Report) -> None:
    """Poll forever. Whenever a file differs from `seen`, reload the project and report the result."""
    latest = server.project.config  # the last valid project file, which may differ from the one being served
    while True:
        started = time.monotonic()
        now = await anyio.to_thread.run_sync(snapshot_files, latest, server.project.config)
        poll_seconds = time.monotonic() - started
        if now != seen:
            now = await anyio.to_thread.run_sync(snapshot_when_stable, now, latest, server.project.config)
            report(await reload(server, changed_files(seen, now)))
            latest = _latest_config(latest)
            # The set of files may have changed. For those that were polled before, keep the state from before the
            # reload, because they may have changed while they were being loaded.
            fresh = await anyio.to_thread.run_sync(snapshot_files, latest, server.project.config)
            seen = {path: now.get(path, stat) for path, stat in fresh.items()}
        await anyio.sleep(max(POLL_SECONDS, poll_seconds / MAX_POLL_SHARE))


async def reload(server: Server, changed: list[Path]) -> Reloaded | ReloadFailed:
    started = time.monotonic()
    before = server.project.registry.ids()
    try:
        project = await _load_and_use(server, changed)
    except ThreadwireError as error:
        return ReloadFailed(changed, error.message, load_traceback(error))
    except Exception as error:  # the lifespan of the project's own application
        return ReloadFailed(changed, f"{type(error).__name__}: {error}", render_traceback(error))
    now = project.registry.ids()
    return Reloaded(
        changed,
        time.monotonic() - started,
        project,
        added=[graph_id for graph_id in now if graph_id not in before],
        removed=[graph_id for graph_id in before if graph_id not in now],
    )


async def _load_and_use(server: Server, changed: list[Path]) -> Project:
    """Load the project from its current files and serve it. If that fails, nothing changes."""
    serving = server.project
    config = read_project(server.settings)
    for path in changed:
        if path.suffix == ".py":
            drop_bytecode(path)
    with _environment(config), unloaded_modules([*serving.config.code_paths, *config.code_paths]):
        project = await import_project(config)
        _reject_regressions(serving, project)
        await server.use(project)
    return project


def _latest_config(latest: ProjectConfig) -> ProjectConfig:
    try:
        return load_config(latest.path)
    except ConfigError:
        return latest


def _reject_regressions(serving: Project, project: Project) -> None:
    broken_before = serving.registry.failures()
    for graph_id, error in project.registry.load_errors().items():
        if graph_id in serving.registry.ids() and graph_id not in broken_before:
            raise ConfigError(f"graph {graph_id}: {error}") from error
    for reason in project.config.problems:
        if reason not in serving.config.problems:
            raise ConfigError(f"{project.config.path.name}: {reason}")


@contextmanager
def _environment(config: ProjectConfig) -> Iterator[None]:
    """Restore the variables that the config sets if the block fails."""
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
