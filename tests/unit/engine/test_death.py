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
from threadwire.errors import StorageDied
from threadwire.graphs.memory import Memory
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
    with pytest.RaisesGroup(StorageDied, flatten_subgroups=True):
        await _serve_until_the_disk_fails(tmp_path, registry, engines, monkeypatch)
    assert isinstance(engines[0].death, StorageDied)


async def _serve_until_the_disk_fails(
    directory: Path, registry: GraphRegistry, engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        open_sqlite_storage(directory / "data") as storage,
        open_engine(storage, registry, Memory()) as engine,
    ):
        engines.append(engine)
        assert await _health(engine) == (200, engine.death)
        run = await engine.runs.start(StartRun("agent", None, run_kwargs(config={}, input={"n": 1})))
        assert await engine.runs.outcome(run) == {"n": 2}
        monkeypatch.setattr(write_ahead_log, "sync", _fail)
        with pytest.raises(StorageDied):
            await engine.threads.create(None, {})
        with anyio.CancelScope(shield=True):
            assert await _health(engine) == (503, engine.death and engine.death.message)
        await anyio.sleep_forever()


async def _health(engine: Engine) -> tuple[int, str | None]:
    app = FastAPI()
    app.include_router(system_routes(engine))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        response = await client.get("/ok")
    return response.status_code, response.json().get("detail")
