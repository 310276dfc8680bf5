"""Play every scenario once on a server and record it."""

import json
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
from exchanges import TIMEOUT, Wire
from normalization import Normalizer
from scenarios import SCENARIOS, Scenario

CONCURRENCY = 12
"""Scenarios that are played concurrently on each server."""

ABORTED = "ABORTED"
GRAPHS = list(json.loads((Path(__file__).parent / "langgraph.json").read_text())["graphs"])

Record = list[dict[str, Any]]
Records = dict[str, tuple[Record, Record]]
"""The records of the stock server and of Threadwire, by scenario."""


@dataclass(frozen=True)
class Played:
    records: Records
    api: dict[str, Any]
    """Threadwire's OpenAPI document."""


async def play_both(names: list[str], addresses: tuple[str, str], folder: Path) -> Records:
    """Play the scenarios on both servers at the same time, because the stock server mostly waits."""
    played: dict[str, dict[str, Record]] = {}

    async def one(server: str, url: str) -> None:
        played[server] = await play(names, url, folder / f"gates-{server}")

    async with anyio.create_task_group() as group:
        for server, url in zip(("stock", "threadwire"), addresses, strict=True):
            group.start_soon(one, server, url)
    return {name: (played["stock"][name], played["threadwire"][name]) for name in names}


async def play(names: Iterable[str], url: str, folder: Path) -> dict[str, Record]:
    """Return the normalised record of each of these scenarios on the server at `url`."""
    await anyio.Path(folder).mkdir()
    records: dict[str, Record] = {}
    chosen = [SCENARIOS[name] for name in names]
    limiter = anyio.CapacityLimiter(CONCURRENCY)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)  # the stock server closes at any time
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT, limits=limits) as client:

        async def one(scenario: Scenario) -> None:
            async with limiter:
                records[scenario.name] = await _record(scenario, Wire(client, folder), url)

        async with anyio.create_task_group() as group:
            for scenario in chosen:
                if not scenario.alone:
                    group.start_soon(one, scenario)
        for scenario in chosen:
            if scenario.alone:
                await one(scenario)
    return records


async def _record(scenario: Scenario, wire: Wire, url: str) -> Record:
    """Return the record of a scenario. An exception is recorded too, so that the other scenarios continue."""
    normalizer = Normalizer(url, wire.slow["until"], GRAPHS)
    try:
        await scenario.play(wire)
    except Exception:  # a response may break the scenario in any way
        wire.exchanges.append({"request": ABORTED, "traceback": traceback.format_exc(limit=-2)})
    finally:
        wire.finish()
    return normalizer.exchanges(wire.exchanges)
