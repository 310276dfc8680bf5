import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.core.ids import assistant_id_of, parse_run_id, parse_thread_id, parse_uuid, uuid7
from threadwire.errors import Invalid


@pytest.mark.parametrize(
    ("graph_id", "expected"),
    [
        ("agent", "fe096781-5601-53d2-b2f6-0d3403f7e9ca"),
        ("echo", "046b5dc7-2108-582c-9c6c-31d556d138f0"),
    ],
)
def test_a_graphs_assistant_has_the_id_that_the_official_server_gives_it(graph_id, expected):
    assert assistant_id_of(graph_id) == expected


@given(st.uuids())
def test_a_uuid_is_known_in_either_case_and_kept_in_lower(value):
    assert parse_uuid(str(value)) == parse_uuid(str(value).upper()) == str(value)


@given(st.uuids())
def test_only_the_usual_form_of_a_uuid_counts(value):
    for other in (value.hex, f"{{{value}}}", f"urn:uuid:{value}", f" {value}", f"{value}\n", str(value)[:-1]):
        assert parse_uuid(other) is None


@given(st.text(min_size=36, max_size=36))
def test_36_characters_are_not_yet_a_uuid(text):
    parsed = parse_uuid(text)
    assert parsed is None or parsed == text.lower()


@given(st.uuids(), st.data())
def test_misplaced_dashes_are_refused(value, data):
    at = data.draw(st.sampled_from([8, 13, 18, 23]))
    text = str(value)
    moved = text[:at] + text[at + 1] + "-" + text[at + 2 :]
    assert parse_uuid(moved) is None


def test_what_is_wrong_is_said():
    with pytest.raises(Invalid, match=r"^Invalid thread ID: must be a UUID$"):
        parse_thread_id("x")
    with pytest.raises(Invalid, match=r"^Invalid run ID: must be a UUID$"):
        parse_run_id("x")


@given(st.integers(0, 2**48 - 1))
def test_uuid7_carries_its_moment(moment):
    value = uuid.UUID(uuid7(moment))
    assert value.version == 7
    assert value.variant == uuid.RFC_4122
    assert value.int >> 80 == moment


@given(st.integers(0, 2**48 - 2))
def test_uuid7_sorts_by_time(moment):
    assert uuid7(moment) < uuid7(moment + 1)


def test_uuid7_does_not_repeat():
    assert len({uuid7(1) for _ in range(10_000)}) == 10_000
