from collections.abc import Iterator

import anyio
import httpx
import pytest
from playback import Played, Records, play_both
from scenarios import SCENARIOS
from servers import both_servers


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of the stock server and of Threadwire."""
    with both_servers(tmp_path_factory.mktemp("servers")) as addresses:
        yield addresses


@pytest.fixture(scope="session")
def played(
    request: pytest.FixtureRequest, servers: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Played:
    """The scenarios that the selected tests need, played once on both servers."""
    needed = _needed_scenarios(request.session.items)
    plain = [name for name in needed if not SCENARIOS[name].has_auth]
    records = anyio.run(play_both, plain, servers, tmp_path_factory.mktemp("gates"))
    if with_auth := [name for name in needed if SCENARIOS[name].has_auth]:
        with both_servers(tmp_path_factory.mktemp("auth"), with_auth=True) as addresses:
            records |= anyio.run(play_both, with_auth, addresses, tmp_path_factory.mktemp("auth-gates"))
    return Played(records, httpx.get(f"{servers[1]}/openapi.json").json())


@pytest.fixture
def records(played: Played) -> Records:
    """The records of the stock server and of Threadwire, by scenario."""
    return played.records


def _needed_scenarios(items: list[pytest.Item]) -> list[str]:
    """Return the scenarios to play. A test that is not parametrised by scenario needs all of them."""
    users = [item for item in items if "played" in getattr(item, "fixturenames", ())]
    named = {item.callspec.params["scenario"] for item in users if _has_scenario(item)}
    return sorted(named if all(_has_scenario(item) for item in users) else SCENARIOS)


def _has_scenario(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and "scenario" in item.callspec.params
