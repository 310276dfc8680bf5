"""The same exchange on the stock server and on Threadwire, but for the differences that are in the table."""

import pytest
from comparison import Difference, differences
from playing import BROKEN_OFF, Records
from scenarios import SCENARIOS
from table import key_of, read_table

TABLE = read_table()


@pytest.mark.timeout(600)  # the first one plays them all
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_only_tabled_differences(scenario: str, records: Records) -> None:
    found, tabled = differences(*records[scenario]), TABLE.of(scenario)
    new, gone = _without(found, tabled), _without(tabled, found)
    assert not new, "differs, and is not in the table:\n" + "\n".join(map(str, new))
    assert not gone, "is in the table, and does not differ:\n" + "\n".join(map(str, gone))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_scenario_is_played_to_its_end(scenario: str, records: Records) -> None:
    for record in records[scenario]:
        assert [each["why"] for each in record if each["asked"] == BROKEN_OFF] == []


def test_every_difference_has_a_reason_and_every_reason_a_difference() -> None:
    assert {row.reason for row in TABLE.rows} == set(TABLE.reasons)


def test_every_tabled_scenario_exists() -> None:
    assert {name for row in TABLE.rows for name in row.places} <= set(SCENARIOS)


def _without(some: list[Difference], others: list[Difference]) -> list[Difference]:
    known = {(each.place, key_of(each)) for each in others}
    return [each for each in some if (each.place, key_of(each)) not in known]
