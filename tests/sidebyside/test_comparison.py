"""The comparison finds every difference, in the right place, and no others."""

import pytest
from comparison import ABSENT, Difference, differences
from normalization import NOWHERE, Normalizer
from table import Row, Table, build_table, read_table, write_table

FIRST, SECOND = "01a1e088-0000-7000-8000-000000000001", "01a1e088-0000-7000-8000-000000000002"


def normalized(*exchanges: dict) -> list[dict]:
    return Normalizer("http://127.0.0.1:1", "/tmp/gate", ["echo"]).exchanges(list(exchanges))


def test_ids_are_named_by_role_in_order_of_appearance() -> None:
    [shown, _] = normalized(
        {"request": f"GET /threads/{FIRST}", "body": {"run_id": SECOND, "thread_id": FIRST, "id": SECOND}}
    )
    assert shown == {
        "request": "GET /threads/thread-1",
        "body": {"id": "id-1", "run_id": "id-1", "thread_id": "thread-1"},
    }


def test_a_nonexistent_id_and_the_assistant_of_a_graph_have_their_own_names() -> None:
    [shown, _] = normalized({"request": "x", "body": [NOWHERE, "046b5dc7-2108-582c-9c6c-31d556d138f0"]})
    assert shown["body"] == ["nowhere", "assistant-echo"]


def test_keys_that_are_ids_are_named_in_order_of_their_values() -> None:
    for one, other in ((FIRST, SECOND), (SECOND, FIRST)):
        [shown, _] = normalized({"request": "x", "body": {one: "b", other: "a"}})
        assert shown["body"] == {"id-1": "a", "id-2": "b"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-15T10:00:00.123456+00:00", "<time>"),
        ("2026-11-15T10:00:00Z", "<time as 0000-00-00T00:00:00Z>"),
        ("at http://127.0.0.1:1/x", "at http://server/x"),
        ("until /tmp/gate", "until <gate>"),
        ("since 1794785516590", "since <milliseconds>"),
    ],
)
def test_values_that_vary_between_recordings_are_replaced(text: str, shown: str) -> None:
    assert normalized({"request": "x", "body": text})[0]["body"] == shown


def test_server_metadata_is_listed_once() -> None:
    [first, server] = normalized({"request": "x", "body": {"langgraph_plan": "p", "metadata": {"langgraph_plan": "p"}}})
    assert first["body"] == {"metadata": {}}
    assert server["keys"] == "langgraph_plan=p"


def found(stock: dict, threadwire: dict) -> list[Difference]:
    return differences([{"request": "GET /x", **stock}], [{"request": "GET /x", **threadwire}])


def test_equal_records_have_no_differences() -> None:
    assert (
        found({"status": 200, "body": {"a": [1, {"b": None}]}}, {"status": 200, "body": {"a": [1, {"b": None}]}}) == []
    )


@pytest.mark.parametrize(
    ("stock", "threadwire", "difference"),
    [
        ({"a": 1}, {"a": 1.0}, Difference("1 GET /x: body.a", 1, 1.0)),
        ({"a": None}, {}, Difference("1 GET /x: body.a", None, ABSENT)),
        ({}, {"a": None}, Difference("1 GET /x: body.a", ABSENT, None)),
        ([{"a": 1}, 2], [{"a": 3}, 2], Difference("1 GET /x: body[0].a", 1, 3)),
        ([1], [1, 2], Difference("1 GET /x: body", [1], [1, 2])),
        (0, False, Difference("1 GET /x: body", 0, False)),
    ],
)
def test_a_difference_is_reported_at_its_place(stock: object, threadwire: object, difference: Difference) -> None:
    assert found({"status": 200, "body": stock}, {"status": 200, "body": threadwire}) == [difference]


def test_responses_with_different_statuses_are_one_difference() -> None:
    left, right = {"status": 200, "body": {"a": 1}}, {"status": 422, "body": {"detail": "no"}}
    assert found(left, right) == [Difference("1 GET /x: response", left, right)]


def test_a_frame_that_only_one_server_sends_does_not_shift_the_others() -> None:
    a, b, c = ({"event": name, "data": name} for name in "abc")
    changed = {**c, "data": "d"}
    assert found({"status": 200, "frames": [a, b, c]}, {"status": 200, "frames": [a, changed]}) == [
        Difference("1 GET /x: frames[1]", b, ABSENT),
        Difference("1 GET /x: frames[2].data", "c", "d"),
    ]
    assert found({"status": 200, "frames": [a]}, {"status": 200, "frames": [a, b]}) == [
        Difference("1 GET /x: frames[+1]", ABSENT, b)
    ]


def test_a_table_round_trips_through_its_file(tmp_path) -> None:
    table = Table({"r": {"what": "it", "why": "so"}}, [Row("r", ABSENT, {"a": [1]}, {"one": ["x", "y"]})])
    write_table(table, tmp_path / "table.json")
    assert read_table(tmp_path / "table.json") == table


def test_known_differences_keep_their_reason_and_new_ones_have_none() -> None:
    before = Table({"r": {"what": "it", "why": "so"}}, [Row("r", 1, 2, {"one": ["x"]})])
    after = build_table({"one": [Difference("x", 1, 3)], "two": [Difference("y", 1, 2), Difference("z", 5, 6)]}, before)
    assert [(row.reason, row.places) for row in after.rows] == [
        ("r", {"one": ["x"]}),
        ("r", {"two": ["y"]}),
        ("unexplained", {"two": ["z"]}),
    ]
