"""Interrupts as cards, forms and questions: answered once, from anywhere, and the same after a reload."""

import asyncio
import json
from pathlib import Path

import pytest
from chatkit_client import OpenChat, first_token, message, release
from langgraph_sdk import get_client

from threadwire.testing.server import RunningServer

pytestmark = pytest.mark.anyio

ANSWER = "threadwire.answer"


async def test_an_approval_is_a_card_that_is_answered_by_a_click(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    card = chat.last("widget")
    assert card["widget"]["confirm"]["label"] == "Approve"
    assert card["widget"]["cancel"]["label"] == "Reject"
    assert "end_of_turn" not in chat.types

    events = await chat.act(card["id"], card["widget"]["confirm"]["action"])

    assert [event["type"] for event in events[:2]] == ["stream_options", "thread.item.replaced"]
    assert events[1]["item"]["id"] == card["id"]
    answered = chat.page.items[card["id"]]["widget"]
    assert answered["status"] == {"text": "Approved", "icon": "check"}
    assert not {"confirm", "cancel", "asForm"} & answered.keys()
    assert chat.answer == "Done: deleted notes.txt"
    (task,) = chat.last("workflow")["workflow"]["tasks"]
    assert (task["status_indicator"], task["content"]) == ("complete", "deleted notes.txt")
    await chat.require_reload_is_equal()


async def test_an_edited_call_is_executed_with_the_new_arguments(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    card = chat.last("widget")
    names = [each["name"] for each in card["widget"]["children"] if "name" in each]
    assert names == ["edit.0.name", "edit.0.force", "message.0"]
    (button,) = card["widget"]["children"][-1]["children"]
    payload = {**button["onClickAction"]["payload"], "edit": {"0": {"name": "old.txt", "force": True}}}

    await chat.act(card["id"], {"type": ANSWER, "payload": payload})

    assert chat.answer.endswith("deleted old.txt by force")
    assert chat.page.items[card["id"]]["widget"]["status"]["text"] == "Edited and approved"
    await chat.require_reload_is_equal()


async def test_a_rejection_has_a_reason(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    card = chat.last("widget")
    payload = {**card["widget"]["cancel"]["action"]["payload"], "message": {"0": "I need it"}}

    await chat.act(card["id"], {"type": ANSWER, "payload": payload})

    assert "I need it" in chat.answer
    assert chat.page.items[card["id"]]["widget"]["status"]["text"] == "Rejected"


async def test_several_approvals_are_one_form(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete and mail")
    card = chat.last("widget")
    assert card["widget"]["asForm"] is True
    payload = {**card["widget"]["confirm"]["action"]["payload"], "decision": {"0": "reject", "1": "approve"}}

    await chat.act(card["id"], {"type": ANSWER, "payload": payload})

    assert chat.page.items[card["id"]]["widget"]["status"]["text"] == "1 rejected, 1 approved"
    assert "sent to ann" in chat.answer
    await chat.require_reload_is_equal()


async def test_approvals_per_call_are_one_card_each(open_chat: OpenChat) -> None:
    chat = open_chat("careful_per_call")
    await chat.send("delete and mail")
    cards = [item for item in chat.page.items.values() if item["type"] == "widget"]
    assert len(cards) == 2

    for card in cards:
        await chat.act(card["id"], card["widget"]["confirm"]["action"])

    assert chat.answer == "Done: deleted notes.txt; sent to ann"
    assert [chat.page.items[card["id"]]["widget"]["status"]["text"] for card in cards] == ["Approved", "Approved"]
    await chat.require_reload_is_equal()


async def test_a_decision_that_is_not_offered_is_rejected(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("mail her")
    card = chat.last("widget")
    payload = {**card["widget"]["confirm"]["action"]["payload"], "decision": {"0": "edit"}}

    response = await chat.post(
        "threads.custom_action",
        thread_id=chat.thread_id,
        item_id=card["id"],
        action={"type": ANSWER, "payload": payload},
    )

    assert response.status_code == 400
    assert response.json()["detail"] == "action.payload.decision.0: must be one of approve, respond"
    await chat.require_reload_is_equal()


async def test_a_second_click_shows_the_answer_that_won(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    card = chat.last("widget")
    await chat.act(card["id"], card["widget"]["confirm"]["action"])

    events = await chat.act(card["id"], card["widget"]["cancel"]["action"])

    assert [event["type"] for event in events] == ["stream_options", "thread.item.replaced", "notice"]
    assert chat.page.items[card["id"]]["widget"]["status"]["text"] == "Approved"
    assert chat.types.count("assistant_message") == 2
    await chat.require_reload_is_equal()


async def test_an_answer_from_another_client_replaces_the_card(open_chat: OpenChat, server: RunningServer) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    card = chat.last("widget")

    resume = {"resume": {"decisions": [{"type": "reject", "message": "no"}]}}
    async with get_client(url=server.url) as sdk:
        await sdk.runs.wait(chat.thread_id, "careful", command=resume)

    stored = {item["id"]: item for item in await chat.stored()}
    assert stored[card["id"]]["widget"]["status"]["text"] == "Rejected"


async def test_a_card_answers_only_its_own_interrupt(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    card = chat.last("widget")
    payload = {**card["widget"]["confirm"]["action"]["payload"], "interrupt_id": "f" * 32}

    response = await chat.post(
        "threads.custom_action",
        thread_id=chat.thread_id,
        item_id=card["id"],
        action={"type": ANSWER, "payload": payload},
    )

    assert response.status_code == 409


async def test_typing_instead_of_clicking_declines_and_leaves_a_valid_history(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    card = chat.last("widget")

    await chat.send("types please")

    assert json.loads(chat.answer) == ["human", "ai", "tool", "human"]
    assert chat.page.items[card["id"]]["widget"]["status"] == {"text": "Skipped", "icon": "empty-circle"}
    await chat.require_reload_is_equal()


async def test_a_retry_after_typing_instead_of_clicking_leaves_a_valid_history(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    await chat.send("types please")

    await chat.stream("threads.retry_after_item", thread_id=chat.thread_id, item_id=chat.last("user_message")["id"])

    assert json.loads(chat.answer) == ["human", "ai", "tool", "human"]
    await chat.require_reload_is_equal()


async def test_a_message_queued_before_the_question_leaves_a_valid_history(open_chat: OpenChat, gate: Path) -> None:
    chat = open_chat("careful")
    await first_token(chat, "threads.create", input=message(f"delete it {gate}"))
    typed = chat.post("threads.add_user_message", thread_id=chat.thread_id, input=message("types please"))
    sending = asyncio.create_task(typed)
    while len(await chat.stored()) < 3:
        pass

    release(gate)
    await sending

    stored = await chat.stored()
    card = next(item for item in stored if item["type"] == "widget")
    assert card["widget"]["status"]["text"] == "Skipped"
    assert json.loads(stored[-2]["content"][0]["text"]) == ["human", "ai", "tool", "human"]


async def test_typing_answers_an_interrupt_that_asks_for_text(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("ask How old are you?")
    assert chat.last("widget")["widget"]["children"][0]["value"] == "How old are you?"

    events = await chat.send("forty-two")

    assert [event["type"] for event in events[:3]] == ["thread.item.done", "stream_options", "thread.item.replaced"]
    assert chat.answer == "You said forty-two"
    assert chat.types == ["user_message", "widget", "user_message", "assistant_message", "end_of_turn"]
    await chat.require_reload_is_equal()


async def test_typing_responds_instead_of_a_tool_where_that_is_allowed(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("mail her")

    await chat.send("I called her")

    assert chat.answer == "Done: I called her"
    await chat.require_reload_is_equal()


async def test_a_thread_can_be_locked_while_it_waits(open_chat: OpenChat) -> None:
    chat = open_chat("locking")
    events = await chat.send("ask Why?")
    assert events[-1]["type"] == "thread.updated"
    assert events[-1]["thread"]["status"] == {"type": "locked", "reason": "Answer the question above first."}

    rejected = await chat.post(
        "threads.add_user_message",
        thread_id=chat.thread_id,
        input={"content": [{"type": "input_text", "text": "hm"}], "attachments": [], "inference_options": {}},
    )
    assert rejected.status_code == 409
    action = chat.last("widget")["widget"]["confirm"]["action"]
    payload = {**action["payload"], "answer": {"answer": "because"}}
    events = await chat.act(chat.last("widget")["id"], {**action, "payload": payload})

    assert chat.answer == "You said because"
    assert events[-1]["thread"]["status"] == {"type": "active"}


async def test_a_choice_is_a_card_with_buttons(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("choose")
    card = chat.last("widget")
    buttons = card["widget"]["children"][-1]["children"]
    assert [button["label"] for button in buttons] == ["red", "green"]

    await chat.act(card["id"], buttons[1]["onClickAction"])

    assert chat.answer == "You chose green"
    assert chat.page.items[card["id"]]["widget"]["status"]["text"] == "green"
    await chat.require_reload_is_equal()


async def test_flat_questions_use_the_composer(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("order")
    item = chat.last("structured_input")
    assert item["status"] == "pending"
    assert [(each["id"], each["type"]) for each in item["inputs"]] == [
        ("size", "multiple_choice"),
        ("note", "freeform"),
    ]
    answers = {"size": {"values": ["large", "small"]}, "note": {"skipped": True}}

    events = await chat.stream(
        "threads.add_structured_input",
        thread_id=chat.thread_id,
        item_id=item["id"],
        input={"status": "answered", "answers": answers},
    )

    assert [event["type"] for event in events[:2]] == ["stream_options", "thread.item.replaced"]
    answered = chat.page.items[item["id"]]
    assert answered["status"] == "answered"
    assert [each["answer"] for each in answered["inputs"]] == [
        {"values": ["large"], "skipped": False},
        {"values": [], "skipped": True},
    ]
    assert chat.answer == "Ordered large"
    await chat.require_reload_is_equal()
    again = await chat.post(
        "threads.add_structured_input",
        thread_id=chat.thread_id,
        item_id=item["id"],
        input={"status": "answered", "answers": answers},
    )
    assert again.status_code == 409


async def test_a_form_follows_the_schema_of_its_answer(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("book")
    card = chat.last("widget")
    controls = {each["name"]: each["type"] for each in card["widget"]["children"] if "name" in each}
    assert controls == {
        "answer.nights": "Input",
        "answer.breakfast": "Checkbox",
        "answer.room": "Select",
        "answer.comment": "Input",
    }
    action = card["widget"]["confirm"]["action"]

    invalid = {**action, "payload": {**action["payload"], "answer": {"nights": "many", "breakfast": True}}}
    response = await chat.post("threads.custom_action", thread_id=chat.thread_id, item_id=card["id"], action=invalid)
    assert (response.status_code, response.json()["detail"]) == (400, "nights: must be a number")
    valid = {"nights": "3", "breakfast": True, "room": "double", "comment": ""}
    await chat.act(card["id"], {**action, "payload": {**action["payload"], "answer": valid}})

    assert chat.answer == 'Booked {"nights":3,"breakfast":true,"room":"double","comment":null}'
    await chat.require_reload_is_equal()


async def test_an_author_can_provide_the_card(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("card")
    card = chat.last("widget")
    assert card["widget"]["border"] == {"size": 1}

    await chat.act(card["id"], card["widget"]["children"][0]["onClickAction"])

    assert chat.answer == 'Picked {"picked": 7}'
    assert chat.page.items[card["id"]]["widget"]["children"] == [{"type": "Button", "label": "Pick", "disabled": True}]
    await chat.require_reload_is_equal()


async def test_a_client_tool_is_called_and_returns_its_result(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("client tables")
    call = chat.last("client_tool_call")
    assert list(chat.page.items)[-1] == call["id"]
    assert (call["status"], call["name"], call["arguments"]) == ("pending", "get_selection", {"of": "tables"})

    await chat.stream("threads.add_client_tool_output", thread_id=chat.thread_id, result={"rows": [1, 2]})

    assert chat.answer == 'The page says {"rows": [1, 2]}'
    assert chat.page.items[call["id"]]["status"] == "completed"
    assert chat.page.items[call["id"]]["output"] == {"rows": [1, 2]}
    await chat.require_reload_is_equal()
    again = await chat.post("threads.add_client_tool_output", thread_id=chat.thread_id, result=1)
    assert again.status_code == 409


async def test_only_one_of_two_results_of_a_client_tool_is_used(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("client tables")

    responses = await asyncio.gather(
        *(chat.post("threads.add_client_tool_output", thread_id=chat.thread_id, result=each) for each in (1, 2))
    )

    assert sorted(response.status_code for response in responses) == [200, 409]
    assert [item["type"] for item in await chat.stored()] == [
        "user_message",
        "client_tool_call",
        "assistant_message",
        "end_of_turn",
    ]


async def test_an_answer_without_its_card_is_rejected(open_chat: OpenChat) -> None:
    chat = open_chat("careful")
    await chat.send("delete it")
    action = chat.last("widget")["widget"]["confirm"]["action"]

    response = await chat.post("threads.custom_action", thread_id=chat.thread_id, action=action)

    assert (response.status_code, response.json()["detail"]) == (400, "item_id: must be the card of a question")
    await chat.require_reload_is_equal()


async def test_an_interrupt_can_be_answered_again_if_the_graph_rejects_the_answer(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("age")
    card = chat.last("widget")
    action = card["widget"]["confirm"]["action"]

    def answered(age: int) -> dict[str, object]:
        return {**action, "payload": {**action["payload"], "answer": {"name": "Ann", "age": age}}}

    events = await chat.act(card["id"], answered(3))
    assert events[-1]["type"] == "notice"
    assert chat.page.items[card["id"]] == card
    await chat.require_reload_is_equal()
    await chat.act(card["id"], answered(33))

    assert chat.answer == "Ann is 33"
    assert chat.page.items[card["id"]]["widget"]["status"]["text"] == "Answered"
    assert chat.page.items[card["id"]]["widget"]["children"][-1]["children"][1]["value"] == "33"
    await chat.require_reload_is_equal()
