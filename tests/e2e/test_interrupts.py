"""Interrupts, and how a client answers them."""

import pytest
from clients import collect, data_of, event_names, human

pytestmark = pytest.mark.anyio


async def open_interrupts(sdk, thread_id):
    """Return the ids of the open interrupts in the state, by their value."""
    state = await sdk.threads.get_state(thread_id)
    return {each["value"]: each["id"] for task in state["tasks"] for each in task["interrupts"]}


async def test_an_interrupt_is_on_the_stream_the_thread_and_the_state(sdk):
    thread_id = await sdk.thread()
    parts = await collect(
        sdk.runs.stream(thread_id, "approve", input={"topic": "x"}, stream_mode=["values", "updates"])
    )
    assert event_names(parts) == ["metadata", "values", "updates", "values"]
    (interrupt,) = parts[2].data["__interrupt__"]
    assert interrupt["value"] == {"question": "ok?", "topic": "x"}
    assert parts[3].data == {"topic": "x", "__interrupt__": [interrupt]}

    thread = await sdk.threads.get(thread_id)
    expected = {"id": interrupt["id"], "value": interrupt["value"]}
    assert thread["status"] == "interrupted"
    assert list(thread["interrupts"].values()) == [[expected]]
    assert thread["values"] == {"topic": "x"}
    state = await sdk.threads.get_state(thread_id)
    assert state["next"] == ["ask"]
    assert state["interrupts"] == [expected]
    assert list(thread["interrupts"]) == [state["tasks"][0]["id"]]
    (run,) = await sdk.runs.list(thread_id)
    assert run["status"] == "success"


async def test_wait_returns_the_interrupt(sdk):
    thread_id = await sdk.thread()
    values = await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    assert [each["value"]["question"] for each in values["__interrupt__"]] == ["ok?"]


async def test_wait_returns_all_open_interrupts(sdk):
    thread_id = await sdk.thread()
    values = await sdk.runs.wait(thread_id, "approve_many", input={"answers": []})
    assert sorted(each["value"] for each in values["__interrupt__"]) == ["deep?", "left?", "right?"]
    assert values["answers"] == []
    interrupt_ids = await open_interrupts(sdk, thread_id)
    assert {each["id"] for each in values["__interrupt__"]} == set(interrupt_ids.values())
    values = await sdk.runs.wait(thread_id, "approve_many", command={"resume": {interrupt_ids["left?"]: "L"}})
    assert sorted(each["value"] for each in values["__interrupt__"]) == ["deep?", "right?"]


@pytest.mark.parametrize("answer", ["yes", 0, False, "", [], {"nested": [1, None]}], ids=repr)
async def test_an_answer_goes_to_the_node_that_interrupted(sdk, answer):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    parts = await collect(
        sdk.runs.stream(thread_id, "approve", command={"resume": answer}, stream_mode=["values", "updates"])
    )
    assert [(part.event, part.data) for part in parts[1:]] == [
        ("values", {"topic": "x"}),
        ("updates", {"ask": {"answer": answer}}),
        ("values", {"topic": "x", "answer": answer}),
        ("updates", {"act": {"done": True}}),
        ("values", {"topic": "x", "answer": answer, "done": True}),
    ]
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["interrupts"]) == ("idle", {})


@pytest.mark.needs("langgraph", "1.2.16")
async def test_several_open_interrupts_are_answered_by_id(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve_many", input={"answers": []})
    interrupt_ids = await open_interrupts(sdk, thread_id)
    assert set(interrupt_ids) == {"left?", "right?", "deep?"}
    thread = await sdk.threads.get(thread_id)
    assert {each["value"] for interrupts in thread["interrupts"].values() for each in interrupts} == set(interrupt_ids)

    # One is answered, two remain.
    await sdk.runs.wait(thread_id, "approve_many", command={"resume": {interrupt_ids["left?"]: "L"}})
    assert set(await open_interrupts(sdk, thread_id)) == {"right?", "deep?"}
    assert (await sdk.threads.get(thread_id))["status"] == "interrupted"

    # Both others together; then one node interrupts twice in a row.
    await sdk.runs.wait(
        thread_id, "approve_many", command={"resume": {interrupt_ids["right?"]: "R", interrupt_ids["deep?"]: "D"}}
    )
    assert set(await open_interrupts(sdk, thread_id)) == {"first?"}
    await sdk.runs.wait(thread_id, "approve_many", command={"resume": "1"})
    assert set(await open_interrupts(sdk, thread_id)) == {"second?"}
    values = await sdk.runs.wait(thread_id, "approve_many", command={"resume": "2"})
    assert sorted(values["answers"]) == ["deep=D", "first=1", "left=L", "right=R", "second=2"]
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


async def test_a_nested_interrupt_is_visible_inside_and_outside(sdk):
    thread_id = await sdk.thread()
    parts = await collect(
        sdk.runs.stream(thread_id, "approve_many", input={"answers": []}, stream_mode="updates", stream_subgraphs=True)
    )
    inside = [part for part in parts if part.event.startswith("updates|deep:")]
    assert [each["value"] for part in inside for each in part.data["__interrupt__"]] == ["deep?"]
    outside = [each["value"] for data in data_of(parts, "updates") for each in data.get("__interrupt__", [])]
    assert sorted(outside) == ["deep?", "left?", "right?"]


async def test_a_static_interrupt_stops_before_a_node(sdk):
    thread_id = await sdk.thread()
    parts = await collect(
        sdk.runs.stream(
            thread_id, "steps", input={"count": 2}, stream_mode=["values", "updates"], interrupt_before=["step"]
        )
    )
    assert [(part.event, part.data) for part in parts[1:]] == [
        ("values", {"count": 2, "done": []}),
        ("updates", {"__interrupt__": []}),
    ]
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["interrupts"]) == ("interrupted", {})
    assert (await sdk.threads.get_state(thread_id))["next"] == ["step"]
    assert await sdk.runs.wait(thread_id, "steps", input=None) == {"count": 2, "done": [1, 2]}
    assert (await sdk.threads.get(thread_id))["status"] == "idle"


@pytest.mark.parametrize("after", [["step"], "*"], ids=["named", "any"])
async def test_a_static_interrupt_stops_after_a_node(sdk, after):
    thread_id = await sdk.thread()
    values = await sdk.runs.wait(thread_id, "steps", input={"count": 3}, interrupt_after=after)
    assert values["done"] == [1]
    assert (await sdk.threads.get(thread_id))["status"] == "interrupted"
    values = await sdk.runs.wait(thread_id, "steps", input=None, interrupt_after=after)
    assert values["done"] == [1, 2]
    assert (await sdk.runs.wait(thread_id, "steps", input=None))["done"] == [1, 2, 3]


async def test_a_star_stops_before_every_node(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "slow", input={"seconds": 0}, interrupt_before="*")
    assert (await sdk.threads.get_state(thread_id))["next"] == ["begin"]
    await sdk.runs.wait(thread_id, "slow", input=None, interrupt_before="*")
    assert (await sdk.threads.get_state(thread_id))["next"] == ["wait"]


async def test_a_command_can_go_to_a_node(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    values = await sdk.runs.wait(thread_id, "approve", command={"goto": "act"})
    assert values["done"] is True


async def test_a_command_can_send_a_node_its_own_input(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": "before"})
    values = await sdk.runs.wait(thread_id, "echo", command={"goto": {"node": "say_again", "input": {"text": "sent"}}})
    assert values == {"text": "before", "echoed": "sent"}


async def test_a_command_can_update_the_state_and_answer(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    values = await sdk.runs.wait(thread_id, "approve", command={"resume": "yes", "update": {"topic": "y"}})
    assert values == {"topic": "y", "answer": "yes", "done": True}


async def test_a_command_can_update_the_state_with_pairs(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    update = [("topic", "y"), ("answer", "early")]
    values = await sdk.runs.wait(thread_id, "approve", command={"resume": "yes", "update": update})
    assert values == {"topic": "y", "answer": "yes", "done": True}


@pytest.mark.parametrize("given", [{}, {"topic": "z"}], ids=repr)
async def test_a_command_takes_precedence_over_input(sdk, given):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    values = await sdk.runs.wait(thread_id, "approve", input=given, command={"resume": "yes"})
    assert values == {"topic": "x", "answer": "yes", "done": True}
    (run, _) = await sdk.runs.list(thread_id)
    assert (run["kwargs"]["input"], run["kwargs"]["command"]) == (given, {"resume": "yes"})


async def test_an_empty_command_counts_as_missing(http):
    interrupt = {"assistant_id": "echo", "input": {"text": "hi"}, "command": {}}
    assert (await http.post("/runs/wait", json=interrupt)).json() == {"text": "hi", "echoed": "hi"}


async def test_a_command_with_only_null_is_rejected(http):
    thread_id = (await http.post("/threads", json={})).json()["thread_id"]
    interrupt = {"assistant_id": "approve", "command": {"resume": None}}
    answer = await http.post(f"/threads/{thread_id}/runs", json=interrupt)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("command: a command must resume")
    assert (await http.get(f"/threads/{thread_id}/runs")).json() == []


UNKNOWN = "0" * 32


@pytest.mark.needs("langgraph-sdk", "0.4.14")
async def test_a_strict_answer_to_an_unknown_interrupt_fails_and_leaves_the_open_one(sdk):
    thread_id = await sdk.thread()
    (interrupt,) = (await sdk.runs.wait(thread_id, "approve", input={"topic": "x"}))["__interrupt__"]
    before = await sdk.threads.get_state(thread_id)
    ended = await sdk.runs.wait(
        thread_id, "approve", command={"resume": {UNKNOWN: "yes"}}, strict_resume=True, raise_error=False
    )
    assert ended["__error__"] == {
        "error": "UnknownInterruptError",
        "message": f"Unknown or already-consumed interrupt: {UNKNOWN}",
    }
    assert await sdk.threads.get_state(thread_id) == before
    assert list((await sdk.threads.get(thread_id))["interrupts"].values()) == [
        [{"id": interrupt["id"], "value": interrupt["value"]}]
    ]
    answer = {"resume": {interrupt["id"]: "yes"}}
    values = await sdk.runs.wait(thread_id, "approve", command=answer, strict_resume=True)
    assert values == {"topic": "x", "answer": "yes", "done": True}


@pytest.mark.needs("langgraph-sdk", "0.4.14")
async def test_an_answer_to_an_unknown_interrupt_is_ignored_unless_strict(sdk):
    thread_id = await sdk.thread()
    first = await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    for strict in (None, False):
        again = await sdk.runs.wait(thread_id, "approve", command={"resume": {UNKNOWN: "yes"}}, strict_resume=strict)
        assert again == first


async def test_an_interrupt_after_tools_and_subgraphs_can_be_answered(sdk):
    thread_id = await sdk.thread()
    values = await sdk.runs.wait(thread_id, "everything", input=human("hi"))
    (interrupt,) = values["__interrupt__"]
    assert interrupt["value"] == {"question": "publish?", "draft": "You said: The sum is 42."}
    values = await sdk.runs.wait(thread_id, "everything", command={"resume": {"ok": True}})
    assert values["review"] == {"ok": True}
    assert [each["type"] for each in values["messages"]] == ["human", "ai", "tool", "ai", "ai", "ai"]


async def test_a_new_run_replaces_an_open_interrupt_with_its_own(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    first = await sdk.threads.get(thread_id)
    again = await sdk.runs.wait(thread_id, "approve", input={"topic": "y"})
    assert again["__interrupt__"][0]["value"] == {"question": "ok?", "topic": "y"}
    second = await sdk.threads.get(thread_id)
    assert second["status"] == "interrupted"
    assert second["interrupts"] != first["interrupts"]
