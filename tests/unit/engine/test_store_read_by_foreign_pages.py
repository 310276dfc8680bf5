"""A read of the store restarts the time to live of an item, which is a change."""

import re

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from threadwire.core.store_items import MINUTE
from threadwire.engine.lifecycle import open_engine
from threadwire.graphs.persistence_config import TtlConfig
from threadwire.graphs.project_persistence import ProjectPersistence
from threadwire.graphs.registry import GraphRegistry
from threadwire.http.trusted_source import LOOPBACK_HOSTS, TrustedSource
from threadwire.protocols.langgraph.routes.store import store_routes
from threadwire.storage.abc import Storage

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("refresh_ttl", [{}, {"refresh_ttl": True}])
@pytest.mark.parametrize(
    ("headers", "refreshed"),
    [
        ({}, True),
        ({"origin": "https://here.example"}, True),
        ({"origin": "https://evil.example"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
    ],
)
async def test_a_foreign_page_does_not_extend_the_life_of_an_item(
    storage: Storage,
    registry: GraphRegistry,
    headers: dict[str, str],
    refreshed: bool,
    refresh_ttl: dict[str, bool],
) -> None:
    now = 1_000_000
    persistence = ProjectPersistence(ttl=TtlConfig(default=2, refresh_on_read=True))
    async with open_engine(storage, registry, persistence, clock=lambda: now) as engine:
        router = APIRouter()
        store_routes(router, engine)
        app = FastAPI()
        app.include_router(router)
        trusted = TrustedSource(app, LOOPBACK_HOSTS, re.compile("https://here.example"))
        await engine.store.put(["a"], "k", {"n": 1})
        now += MINUTE
        async with httpx.AsyncClient(transport=httpx.ASGITransport(trusted), base_url="http://127.0.0.1") as client:
            parameters = {"namespace": "a", "key": "k", **refresh_ttl}
            assert (await client.get("/store/items", params=parameters, headers=headers)).json()["value"] == {"n": 1}
        now += MINUTE + MINUTE // 2
        assert (await engine.store.get(["a"], "k") is not None) == refreshed
