"""Every scenario once on a server, and what was recorded."""

import json
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
from exchanges import PATIENCE, Wire
from normal import Normal
from scenarios import SCENARIOS, Scenario

AT_ONCE = 12
"""Scenarios under way on each server."""

BROKEN_OFF = "BROKEN OFF"
GRAPHS = list(json.loads((Path(__file__).parent / "langgraph.json").read_text())["graphs"])

Record = list[dict[str, Any]]
Records = dict[str, tuple[Record, Record]]
"""By scenario: the stock server's and Threadwire's."""


@dataclass(frozen=True)
class Played:
    records: Records
    api: dict[str, Any]
    """How Threadwire describes itself."""


async def play_both(names: list[str], addresses: tuple[str, str], folder: Path) -> Records:
    """On both servers at the same time: the stock one mostly waits."""
    played: dict[str, dict[str, Record]] = {}

    async def one(server: str, url: str) -> None:
        played[server] = await play(names, url, folder / f"gates-{server}")

    async with anyio.create_task_group() as group:
        for server, url in zip(("stock", "threadwire"), addresses, strict=True):
            group.start_soon(one, server, url)
    return {name: (played["stock"][name], played["threadwire"][name]) for name in names}


async def play(names: Iterable[str], url: str, folder: Path) -> dict[str, Record]:
    """The normalised record of each of these scenarios on the server at `url`."""
    await anyio.Path(folder).mkdir()
    records: dict[str, Record] = {}
    chosen = [SCENARIOS[name] for name in names]
    turns = anyio.CapacityLimiter(AT_ONCE)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)  # the stock server closes at will
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits) as client:

        async def one(scenario: Scenario) -> None:
            async with turns:
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
    """What a scenario saw. If it broke off that is in the record too: the other scenarios go on."""
    normal = Normal(url, wire.slow["until"], GRAPHS)
    try:
        await scenario.play(wire)
    except Exception:  # whatever a server's answer made it stumble over
        wire.exchanges.append({"asked": BROKEN_OFF, "why": traceback.format_exc(limit=-2)})
    finally:
        wire.finish()
    return normal.exchanges(wire.exchanges)
