"""The stock server and Threadwire respond alike, except for the differences in the table."""

import pytest
from comparison import Difference, differences
from playback import ABORTED, Records
from scenarios import SCENARIOS
from table import read_table, values_key

TABLE = read_table()


@pytest.mark.timeout(600)  # the first test plays all scenarios
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_servers_differ_only_as_tabled(scenario: str, records: Records) -> None:
    found, expected = differences(*records[scenario]), TABLE.of(scenario)
    new, stale = _without(found, expected), _without(expected, found)
    assert not new, "Not in the table, but the servers differ:\n" + "\n".join(map(str, new))
    assert not stale, "In the table, but the servers agree:\n" + "\n".join(map(str, stale))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_scenario_runs_to_its_end(scenario: str, records: Records) -> None:
    for record in records[scenario]:
        assert [each["traceback"] for each in record if each["request"] == ABORTED] == []


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    assert {row.reason for row in TABLE.rows} == set(TABLE.reasons)


def test_every_tabled_scenario_exists() -> None:
    assert {name for row in TABLE.rows for name in row.places} <= set(SCENARIOS)


def _without(some: list[Difference], others: list[Difference]) -> list[Difference]:
    known = {(each.place, values_key(each)) for each in others}
    return [each for each in some if (each.place, values_key(each)) not in known]
