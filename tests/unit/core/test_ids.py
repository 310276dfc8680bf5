import subprocess
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadwire.core.ids import (
    NAMED_THREADS,
    assistant_id_of,
    parse_run_id,
    parse_thread_id,
    parse_uuid,
    thread_id_from_name,
    uuid7,
)
from threadwire.errors import Invalid


@pytest.mark.parametrize(
    ("graph_id", "expected"),
    [
        ("agent", "fe096781-5601-53d2-b2f6-0d3403f7e9ca"),
        ("echo", "046b5dc7-2108-582c-9c6c-31d556d138f0"),
    ],
)
def test_a_graphs_assistant_has_the_same_id_as_on_the_stock_server(graph_id, expected):
    assert assistant_id_of(graph_id) == expected


@given(st.uuids())
def test_a_uuid_is_parsed_in_either_case_and_returned_in_lower_case(value):
    assert parse_uuid(str(value)) == parse_uuid(str(value).upper()) == str(value)


@given(st.uuids())
def test_a_uuid_is_parsed_in_its_other_forms(value):
    hexed = value.hex
    for other in (hexed, hexed.upper(), f"{{{value}}}", f"{{{hexed}}}", f"urn:uuid:{value}", "-".join(hexed)):
        assert parse_uuid(other) == str(value)


@given(st.uuids())
def test_what_is_almost_a_uuid_is_not_parsed(value):
    hexed = value.hex
    nearly = (f" {value}", f"{value}\n", str(value)[:-1], f"{hexed}0", f"+{hexed[1:]}", f"{hexed[:-2]}_0", "-" * 32, "")
    for other in (*nearly, f" {hexed[1:]}", f"\u0661{hexed[1:]}", f"uuid:{value}", hexed * 2, f"{hexed}{'-' * 10_000}"):
        assert parse_uuid(other) is None


@given(st.text(st.sampled_from("0123456789abcdefABCDEF-{}urn:id +_"), min_size=30, max_size=46) | st.text())
def test_every_parsed_uuid_is_in_canonical_form(text):
    parsed = parse_uuid(text)
    assert parsed is None or str(uuid.UUID(text)) == parsed == parse_uuid(parsed)


@given(st.uuids())
def test_a_client_chosen_name_is_the_thread_id_only_if_it_is_a_canonical_uuid(value):
    assert thread_id_from_name(str(value)) == thread_id_from_name(str(value).upper()) == str(value)
    for name in (value.hex, f"{{{value}}}", f"urn:uuid:{value}", "x"):
        assert thread_id_from_name(name) == str(uuid.uuid5(NAMED_THREADS, name))


def test_the_error_names_the_kind_of_id():
    with pytest.raises(Invalid, match=r"^Invalid thread ID: must be a UUID$"):
        parse_thread_id("x")
    with pytest.raises(Invalid, match=r"^Invalid run ID: must be a UUID$"):
        parse_run_id("x")


@given(st.integers(0, 2**48 - 1))
def test_uuid7_contains_its_timestamp(timestamp):
    value = uuid.UUID(uuid7(timestamp))
    assert value.version == 7
    assert value.variant == uuid.RFC_4122
    assert value.int >> 80 == timestamp


@given(st.integers(0, 2**48 - 2))
def test_uuid7_sorts_by_time(timestamp):
    assert uuid7(timestamp) < uuid7(timestamp + 1)


def test_uuid7_does_not_repeat():
    assert len({uuid7(1) for _ in range(10_000)}) == 10_000


def test_ids_of_a_forked_process_are_its_own():
    fork = "import os; from threadwire.core.ids import uuid7; uuid7(0); os.fork(); os.write(1, f' {uuid7(0)}'.encode())"
    created = subprocess.run([sys.executable, "-c", fork], capture_output=True, text=True, check=True).stdout.split()
    assert len(created) == len(set(created)) == 2
