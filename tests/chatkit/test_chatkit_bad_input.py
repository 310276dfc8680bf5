"""Bad input: every request gets its documented response, and nothing is lost."""

from typing import Any

import httpx
import pytest
from chatkit_client import OpenChat, message

pytestmark = pytest.mark.anyio

UNKNOWN = "00000000-0000-7000-8000-000000000000"
INVALID: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{", "Invalid JSON in request body"),
    "not an object": (b"[1]", "body: Input should be a valid dictionary"),
    "empty": (b"", "A request body is required"),
    "no type": ({"params": {}}, '"type" is a required property'),
    "no params": ({"type": "threads.list"}, '"params" is a required property'),
    "an unknown operation": ({"type": "threads.fly", "params": {}}, "does not match any of the expected tags"),
    "a missing thread": ({"type": "threads.get_by_id", "params": {}}, '"thread_id" is a required property'),
    "missing keys of a message": (
        {"type": "threads.create", "params": {"input": {"content": []}}},
        '"attachments" is a required property\n"inference_options" is a required property',
    ),
    "an unknown content": (
        {"type": "threads.create", "params": {"input": {**message(""), "content": [{"type": "video"}]}}},
        "params.input.content.0",
    ),
    "an empty message": ({"type": "threads.create", "params": {"input": message("")}}, "input.content: must contain"),
    "a model that is not offered": (
        {"type": "threads.create", "params": {"input": message("x", inference_options={"model": "gpt"})}},
        "input.inference_options.model: 'gpt' is not offered",
    ),
    "a tool that is not offered": (
        {"type": "threads.create", "params": {"input": message("x", inference_options={"tool_choice": {"id": "y"}})}},
        "input.inference_options.tool_choice.id: 'y' is not offered",
    ),
    "a limit of zero": ({"type": "threads.list", "params": {"limit": 0}}, "limit: "),
    "an unknown order": ({"type": "threads.list", "params": {"order": "up"}}, "order: "),
    "audio that is not Base64": (
        {"type": "input.transcribe", "params": {"audio_base64": "%", "mime_type": "audio/webm"}},
        "audio_base64: must be Base64",
    ),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_request_is_400_and_names_the_field(http: httpx.AsyncClient, name: str) -> None:
    body, expected = INVALID[name]
    content = {"content": body} if isinstance(body, bytes) else {"json": body}

    response = await http.post("/chatkit/bot", **content)

    assert response.status_code == 400, response.text
    assert expected in response.json()["detail"]


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("threads.get_by_id", {}),
        ("threads.update", {"title": "x"}),
        ("threads.delete", {}),
        ("items.list", {}),
        ("items.feedback", {"item_ids": [], "kind": "positive"}),
        ("threads.add_user_message", {"input": message("x")}),
        ("threads.add_client_tool_output", {"result": 1}),
        ("threads.add_structured_input", {"item_id": "x", "input": {}}),
        ("threads.retry_after_item", {"item_id": "x"}),
        ("threads.custom_action", {"action": {"type": "x"}}),
        ("threads.sync_custom_action", {"action": {"type": "x"}}),
    ],
)
@pytest.mark.parametrize("thread_id", [UNKNOWN, "thr_12345678", "../etc"])
async def test_an_unknown_thread_is_404_before_anything_is_sent(
    open_chat: OpenChat, operation: str, params: dict[str, Any], thread_id: str
) -> None:
    response = await open_chat("bot").post(operation, thread_id=thread_id, **params)

    assert response.status_code == 404
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("operation", "params", "status"),
    [
        ("threads.retry_after_item", {"item_id": "msg_none"}, 404),
        ("threads.add_structured_input", {"item_id": "msg_none", "input": {}}, 404),
        ("threads.custom_action", {"item_id": "msg_none", "action": {"type": "x"}}, 404),
        ("threads.sync_custom_action", {"item_id": "msg_none", "action": {"type": "x"}}, 404),
        ("items.list", {"after": "msg_none"}, 404),
        ("attachments.delete", {"attachment_id": "atc_" + "0" * 32}, 404),
        ("attachments.delete", {"attachment_id": "../../etc/passwd"}, 404),
        ("threads.add_client_tool_output", {"result": None}, 409),
    ],
)
async def test_an_unknown_item_or_attachment_changes_nothing(
    open_chat: OpenChat, operation: str, params: dict[str, Any], status: int
) -> None:
    chat = open_chat("bot")
    await chat.send("say one")

    response = await chat.post(operation, thread_id=chat.thread_id, **params)

    assert response.status_code == status, response.text
    await chat.require_reload_is_equal()


async def test_items_that_cannot_be_retried_or_answered_are_rejected(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    answer = chat.last("assistant_message")["id"]

    retried = await chat.post("threads.retry_after_item", thread_id=chat.thread_id, item_id=answer)
    submitted = await chat.post(
        "threads.add_structured_input", thread_id=chat.thread_id, item_id=answer, input={"answers": {}}
    )
    events = await chat.act(answer, {"type": "x"})

    assert (retried.status_code, retried.json()["detail"]) == (400, "item_id: must be a user message")
    assert (submitted.status_code, submitted.json()["detail"]) == (400, "item_id: must be a structured input")
    assert events[-1] == {"type": "error", "code": "stream.error", "allow_retry": False}
    await chat.require_reload_is_equal()


async def test_an_unknown_attachment_creates_no_thread(open_chat: OpenChat) -> None:
    chat = open_chat("locking")
    before = await chat.call("threads.list", limit=1000)

    response = await chat.post("threads.create", input=message("x", attachments=["atc_none"]))

    assert response.status_code == 404
    assert await chat.call("threads.list", limit=1000) == before


async def test_an_unknown_agent_is_404(http: httpx.AsyncClient) -> None:
    for path in ("/chatkit/nobody", f"/chatkit/{UNKNOWN}"):
        response = await http.post(path, json={"type": "threads.list", "params": {}})
        assert response.status_code == 404
    assert (await http.get("/chatkit/nobody/options")).status_code == 404


async def test_a_locked_thread_rejects_messages(open_chat: OpenChat, http: httpx.AsyncClient) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    status = {"type": "closed", "reason": "The case is closed."}
    await http.patch(f"/threads/{chat.thread_id}", json={"metadata": {"chatkit_status": status}})

    sent = await chat.post("threads.add_user_message", thread_id=chat.thread_id, input=message("more"))

    assert (sent.status_code, sent.json()["detail"]) == (409, "The case is closed.")
    assert (await chat.thread())["status"] == status
    await chat.require_reload_is_equal()


async def test_what_other_clients_write_into_messages_is_checked(open_chat: OpenChat, http: httpx.AsyncClient) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    hostile = {"content": [{"type": "video"}], "attachments": [{"id": 1}], "created_at": -5, "inference_options": 3}
    sent = {"type": "human", "content": "say two", "additional_kwargs": {"chatkit": hostile}}

    await http.post(f"/threads/{chat.thread_id}/runs/wait", json={"assistant_id": "bot", "input": {"messages": [sent]}})

    item = (await chat.stored())[3]
    assert item["content"] == [{"type": "input_text", "text": "say two"}]
    assert (item["attachments"], item["inference_options"]) == ([], {})
