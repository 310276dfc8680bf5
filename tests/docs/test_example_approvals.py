"""The approvals example: every kind of interrupt, read and answered with the SDK."""

import json
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

CLAIMS = {
    "Pay Ana 48.20 for “Taxi to the airport”?",
    "Pay Ben 612.00 for “Two nights in Oslo”?",
    "Pay Chloe 86.50 for “Lunch with a client”?",
}
TAXI, HOTEL, LUNCH = sorted(CLAIMS)  # Ana, Ben, Chloe


class Office:
    """One conversation with the example."""

    def __init__(self, client, thread_id: str) -> None:
        self.client = client
        self.thread_id = thread_id

    def ask(self, text: str, **options: Any) -> list[Any]:
        return self._run(input=message(text), **options)

    def answer(self, resume: Any, **options: Any) -> list[Any]:
        return self._run(command={"resume": resume}, **options)

    def _run(self, **options: Any) -> list[Any]:
        options.setdefault("stream_mode", ["values", "updates"])
        return list(self.client.runs.stream(self.thread_id, "approvals", **options))

    def pending(self) -> dict[str, str]:
        """The ids of the pending interrupts by question. Checks that the thread agrees, unless the last run failed."""
        state = self.client.threads.get_state(self.thread_id)
        assert [each for task in state["tasks"] for each in task["interrupts"]] == state["interrupts"]
        thread = self.client.threads.get(self.thread_id)
        if thread["status"] != "error":
            assert thread["interrupts"] == {task["id"]: task["interrupts"] for task in asking(state)}
        return {each["value"]["question"]: each["id"] for each in state["interrupts"]}

    @property
    def status(self) -> str:
        return self.client.threads.get(self.thread_id)["status"]

    @property
    def values(self) -> dict[str, Any]:
        return self.client.threads.get_state(self.thread_id)["values"]

    @property
    def last_text(self) -> str:
        return self.values["messages"][-1]["content"]


@pytest.fixture
def office(client, thread_id) -> Office:
    return Office(client, thread_id)


def asking(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [task for task in state["tasks"] if task["interrupts"]]


def message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def interrupts(parts: list[Any], event: str) -> list[dict[str, Any]]:
    """The interrupts in the frames of that event, in order."""
    return [each for part in parts if part.event == event for each in part.data.get("__interrupt__", [])]


def failure(parts: list[Any]) -> dict[str, str]:
    (error,) = [part.data for part in parts if part.event == "error"]
    return error


# -- expenses: interrupts in parallel --------------------------------------------------------------------------------


def test_every_claim_interrupts_in_parallel(office):
    parts = office.ask("Review the expenses")
    assert set(office.pending()) == CLAIMS
    assert {each["value"]["question"] for each in interrupts(parts, "updates")} == CLAIMS
    assert {each["id"] for each in interrupts(parts, "values")} == set(office.pending().values())
    assert office.status == "interrupted"
    state = office.client.threads.get_state(office.thread_id)
    assert [task["name"] for task in state["tasks"]] == ["expenses"] * 3
    assert [len(task["interrupts"]) for task in state["tasks"]] == [1, 1, 1]


def test_claims_can_be_answered_separately_or_together(office):
    office.ask("Review the expenses")
    ids = office.pending()

    office.answer({ids[TAXI]: {"approved": True}})
    assert set(office.pending()) == {HOTEL, LUNCH}
    assert office.status == "interrupted"

    office.answer(
        {
            ids[HOTEL]: {"approved": True, "amount": 500},
            ids[LUNCH]: {"approved": False, "reason": "there is no receipt"},
        }
    )
    assert office.pending() == {}
    assert office.status == "idle"
    assert office.values["settled"] == {"c_taxi": 48.2, "c_hotel": 500, "c_lunch": 0}
    assert office.last_text == (
        "- Taxi to the airport: 48.20 paid to Ana.\n"
        "- Two nights in Oslo: 500.00 paid to Ben.\n"
        "- Lunch with a client: refused, because there is no receipt."
    )


def test_a_decided_claim_is_not_asked_about_again(office):
    office.ask("Reimburse c_taxi")
    office.answer({"approved": True})
    office.ask("Review the expenses")
    assert set(office.pending()) == {HOTEL, LUNCH}


def test_an_answer_without_an_id_fails_while_several_interrupts_are_pending(office):
    office.ask("Review the expenses")
    error = failure(office.answer({"approved": True}))
    assert "you must specify the interrupt id" in error["message"]
    assert office.status == "error"
    ids = office.pending()
    assert set(ids) == CLAIMS
    office.answer({interrupt_id: {"approved": False} for interrupt_id in ids.values()})
    assert office.values["settled"] == {"c_taxi": 0, "c_hotel": 0, "c_lunch": 0}


def test_an_answer_to_an_interrupt_that_is_not_pending_changes_nothing(office):
    office.ask("Review the expenses")
    ids = office.pending()
    closed = ids.pop(TAXI)
    office.answer({closed: {"approved": True}})
    office.answer({closed: {"approved": False}})
    assert office.pending() == ids
    office.answer({interrupt_id: {"approved": False} for interrupt_id in ids.values()})
    assert office.values["settled"] == {"c_taxi": 48.2, "c_hotel": 0, "c_lunch": 0}


def test_a_new_message_drops_pending_interrupts(office):
    office.ask("Review the expenses")
    office.ask("Buy 2 chairs")
    assert set(office.pending()) == {"Which cost centre pays for 2 chairs?"}


def test_an_interrupt_includes_the_schema_of_its_answer(office):
    (asked,) = interrupts(office.ask("Reimburse c_taxi"), "updates")
    schema = asked["response_schema"]
    assert office.client.threads.get_state(office.thread_id)["interrupts"] == [asked]
    assert (schema["title"], schema["required"]) == ("Verdict", ["approved"])
    assert set(schema["properties"]) == {"approved", "amount", "reason"}


@pytest.mark.parametrize("invalid", [{"approved": "perhaps"}, {"approved": True, "amount": -5}, "yes"], ids=repr)
def test_an_invalid_answer_fails_and_the_interrupt_stays_pending(office, invalid):
    office.ask("Reimburse c_taxi")
    assert failure(office.answer(invalid))["error"] == "ValidationError"
    assert set(office.pending()) == {TAXI}
    thread = office.client.threads.get(office.thread_id)
    assert [each["value"]["question"] for task in thread["interrupts"].values() for each in task] == [TAXI]
    office.answer({"approved": True})
    assert office.values["settled"] == {"c_taxi": 48.2}


def test_an_invalid_answer_can_be_corrected_over_the_thread_wire(office):
    office.ask("Reimburse c_taxi")
    (interrupt_id,) = office.pending().values()
    for response in ("yes", {"approved": True}):
        params = {"interrupt_id": interrupt_id, "response": response}
        command = {"id": 1, "method": "input.respond", "params": params}
        reply = office.client.http.post(f"/threads/{office.thread_id}/commands", json=command)
        office.client.runs.join(office.thread_id, reply["result"]["run_id"])
    assert office.values["settled"] == {"c_taxi": 48.2}


def test_an_invalid_answer_can_be_corrected_in_the_timeline(office):
    office.ask("Reimburse c_taxi")
    path = f"/threads/{office.thread_id}/timeline"
    [asked] = office.client.http.get(path)["interrupts"]
    assert failure(office.answer({asked["interruptId"]: "yes"}))["error"] == "ValidationError"

    [block] = office.client.http.get(path)["interrupts"]
    assert (block["id"], block["phase"]) == (asked["id"], "open")
    answer = {"frozenValue": "approved", "response": {"approved": True}, "resume": True}
    submitted = office.client.http.put(f"{path}/interrupts/{asked['interruptId']}", json=answer)
    office.client.runs.join(office.thread_id, submitted["runId"])
    assert office.values["settled"] == {"c_taxi": 48.2}
    [block] = [each for each in office.client.http.get(path)["blocks"] if each["kind"] == "interrupt"]
    assert (block["outcome"], block["frozenValue"], block["response"]) == ("answered", "approved", {"approved": True})


# -- purchasing: interrupts in sequence, inside a subgraph -----------------------------------------------------------


def test_an_order_interrupts_several_times_in_sequence(office):
    office.ask("Buy 12 laptops")
    asked = []
    for reply in ("Research", "the first of May", {"approved": True}, {"approved": True}):
        ((question, interrupt_id),) = office.pending().items()
        asked.append((question, interrupt_id))
        office.answer(reply)
    assert [question for question, _ in asked] == [
        "Which cost centre pays for 12 laptops?",
        "By when does Research need 12 laptops?",
        "Buy 12 laptops for 14400.00, paid by Research?",
        "Buy 12 laptops for 14400.00, paid by Research?",
    ]
    assert len({interrupt_id for _, interrupt_id in asked}) == 4
    assert office.last_text == "- 12 laptops ordered for 14400.00, needed by the first of May."
    assert office.status == "idle"


def test_a_small_order_needs_no_second_signature(office):
    office.ask("Buy 2 chairs")
    for reply in ("Office", "Friday", {"approved": True}):
        office.answer(reply)
    assert office.last_text == "- 2 chairs ordered for 360.00, needed by Friday."


def test_finance_is_not_asked_if_the_manager_rejects(office):
    office.ask("Buy 12 laptops")
    for reply in ("Sales", "May", {"approved": False, "note": "next year"}):
        office.answer(reply)
    assert office.pending() == {}
    assert office.last_text == "- 12 laptops not ordered: refused by manager, “next year”."


def test_finance_can_reject_what_the_manager_signed(office):
    office.ask("Buy 12 laptops")
    for reply in ("Sales", "May", {"approved": True}, {"approved": False}):
        office.answer(reply)
    (result,) = [json.loads(each["content"]) for each in office.values["messages"] if each["type"] == "tool"]
    assert result["ordered"] is False
    assert [(each["role"], each["approved"]) for each in result["signatures"]] == [
        ("manager", True),
        ("finance", False),
    ]


def test_a_choice_accepts_only_its_options(office):
    (asked,) = interrupts(office.ask("Buy 2 chairs"), "updates")
    assert asked["response_schema"]["enum"] == ["Research", "Sales", "Office"]
    assert failure(office.answer("Kitchen"))["error"] == "ValidationError"
    office.answer("Sales")
    assert set(office.pending()) == {"By when does Sales need 2 chairs?"}


def test_a_nested_interrupt_is_visible_in_the_subgraph_and_at_the_root(office):
    parts = office.ask("Buy 12 laptops", stream_mode="updates", stream_subgraphs=True)
    inside = [part for part in parts if part.event.startswith("updates|purchasing:")]
    outside = interrupts(parts, "updates")
    assert [part.data["__interrupt__"] for part in inside] == [outside]

    state = office.client.threads.get_state(office.thread_id, subgraphs=True)
    (task,) = state["tasks"]
    assert task["name"] == "purchasing"
    assert task["state"]["next"] == ["specify"]
    assert task["state"]["values"]["quantity"] == 12
    assert [each["id"] for each in task["state"]["interrupts"]] == [each["id"] for each in outside]


def test_interrupts_of_several_departments_are_pending_together(office):
    office.ask("Reimburse c_taxi and buy 2 chairs")
    ids = office.pending()
    which_centre = "Which cost centre pays for 2 chairs?"
    assert set(ids) == {TAXI, which_centre}
    office.answer({ids[which_centre]: "Office"})
    ids = office.pending()
    by_when = "By when does Office need 2 chairs?"
    assert set(ids) == {TAXI, by_when}
    office.answer({ids[TAXI]: {"approved": True}, ids[by_when]: "Friday"})
    office.answer({"approved": True})
    assert office.last_text == (
        "- Taxi to the airport: 48.20 paid to Ana.\n- 2 chairs ordered for 360.00, needed by Friday."
    )


# -- publishing: the human-in-the-loop middleware --------------------------------------------------------------------

PUBLISH = "Publish: We moved. Visit us in Harbour Street."
POST = {"title": "We moved", "text": "We moved. Visit us in Harbour Street."}


def review_request(office: Office) -> dict[str, Any]:
    (asked,) = office.client.threads.get_state(office.thread_id)["interrupts"]
    return asked["value"]


def test_a_review_lists_every_action_and_its_allowed_decisions(office):
    parts = office.ask(PUBLISH)
    request = review_request(office)
    assert [each["value"] for each in interrupts(parts, "updates")] == [request]
    assert [(each["name"], each["args"]) for each in request["action_requests"]] == [
        ("post_to_website", POST),
        ("email_subscribers", {"subject": "We moved"}),
    ]
    assert request["review_configs"] == [
        {"action_name": "post_to_website", "allowed_decisions": ["approve", "edit", "reject"]},
        {"action_name": "email_subscribers", "allowed_decisions": ["approve", "reject"]},
    ]


def test_approved_calls_are_executed(office):
    office.ask(PUBLISH)
    office.answer({"decisions": [{"type": "approve"}, {"type": "approve"}]})
    assert office.last_text == "- “We moved” is on the website; “We moved” was sent to 1240 subscribers."


def test_edited_calls_are_executed_as_edited_and_rejected_calls_are_not(office):
    office.ask(PUBLISH)
    edited = {"name": "post_to_website", "args": {**POST, "title": "We have moved"}}
    office.answer(
        {"decisions": [{"type": "edit", "edited_action": edited}, {"type": "reject", "message": "too early"}]}
    )
    assert "“We have moved” is on the website" in office.last_text
    assert "rejected the tool call for `email_subscribers` with reason: too early" in office.last_text
    assert "subscribers." not in office.last_text


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        ([{"type": "approve"}], "Number of human decisions (1) does not match"),
        (
            [{"type": "approve"}, {"type": "edit", "edited_action": {"name": "email_subscribers", "args": {}}}],
            "Decision type 'edit' is not allowed for tool 'email_subscribers'",
        ),
    ],
    ids=["too few", "not allowed"],
)
def test_an_invalid_review_fails_and_a_new_message_starts_another(office, decisions, expected):
    """LangGraph stores such an answer, so the same interrupt can no longer be answered."""
    office.ask(PUBLISH)
    error = failure(office.answer({"decisions": decisions}))
    assert error["error"] == "ValueError"
    assert expected in error["message"]
    office.ask(PUBLISH)
    office.answer({"decisions": [{"type": "approve"}, {"type": "reject"}]})
    assert "“We moved” is on the website" in office.last_text


# -- other behaviour -------------------------------------------------------------------------------------------------


def test_wait_returns_all_pending_interrupts(office):
    asked = office.client.runs.wait(office.thread_id, "approvals", input=message("Review the expenses"))[
        "__interrupt__"
    ]
    assert {each["value"]["question"]: each["id"] for each in asked} == office.pending()
    answer = {asked[0]["id"]: {"approved": True}}
    left = office.client.runs.wait(office.thread_id, "approvals", command={"resume": answer})["__interrupt__"]
    assert {each["id"] for each in left} == {each["id"] for each in asked[1:]}


def test_an_impossible_request_is_rejected_without_an_interrupt(office):
    office.ask("Buy 3 elephants")
    assert office.status == "idle"
    assert office.last_text == "- item: Input should be 'laptop', 'monitor' or 'chair'."
    office.ask("Reimburse c_yacht")
    assert office.last_text == "- There is no claim c_yacht."
    office.ask("Hello!")
    assert "- **buy 12 laptops**" in office.last_text


def test_the_desk_streams_its_text(office):
    office.ask("Reimburse c_taxi")
    parts = office.answer({"approved": True}, stream_mode="messages-tuple")
    chunks = [part.data[0] for part in parts if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk"]
    words = [chunk["content"] for chunk in chunks if chunk["content"]]
    assert len(words) > 5
    assert "".join(words) == "- Taxi to the airport: 48.20 paid to Ana."


def test_interrupts_survive_a_killed_server(own_server):
    with get_sync_client(url=own_server.url) as client:
        office = Office(client, client.threads.create()["thread_id"])
        office.ask("Reimburse c_taxi and buy 2 chairs")
        ids = office.pending()
        own_server.kill()
        own_server.start()
        assert office.pending() == ids
        office.answer({ids[TAXI]: {"approved": True}})
        assert set(office.pending()) == set(ids) - {TAXI}
