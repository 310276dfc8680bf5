"""A fatal storage error ends the engine, instead of leaving it running and rejecting every request."""

import errno
import os
from pathlib import Path

import anyio
import httpx
import pytest
from fastapi import FastAPI

from threadwire.engine.lifecycle import Engine, open_engine
from threadwire.engine.runs import StartRun, run_kwargs
from threadwire.errors import StorageFailed
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.server.health import system_routes
from threadwire.storage.sqlite import open_sqlite_storage, write_ahead_log

pytestmark = pytest.mark.anyio


def _fail(file: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_a_failed_storage_ends_the_engine(
    tmp_path: Path, registry: GraphRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines: list[Engine] = []
    with pytest.RaisesGroup(StorageFailed, flatten_subgroups=True):
        await _serve_until_the_disk_fails(tmp_path, registry, engines, monkeypatch)
    assert isinstance(engines[0].fatal_error, StorageFailed)


async def _serve_until_the_disk_fails(
    directory: Path, registry: GraphRegistry, engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_sqlite_storage(directory / "data") as storage,
        open_engine(storage, registry, ProjectPersistence()) as engine,
    ):
        engines.append(engine)
        assert await _health(engine) == (200, engine.fatal_error)
        run = await engine.runs.start(StartRun("agent", None, run_kwargs(config={}, input={"n": 1})))
        assert await engine.runs.outcome(run) == {"n": 2}
        monkeypatch.setattr(write_ahead_log, "sync", _fail)
        with pytest.raises(StorageFailed):
            await engine.threads.create(None, {})
        with anyio.CancelScope(shield=True):
            assert await _health(engine) == (503, engine.fatal_error and engine.fatal_error.message)
        await anyio.sleep_forever()


async def _health(engine: Engine) -> tuple[int, str | None]:
    app = FastAPI()
    app.include_router(system_routes(engine))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        response = await client.get("/ok")
    return response.status_code, response.json().get("detail")
