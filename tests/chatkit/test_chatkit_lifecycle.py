"""Reloads, retries, stops, several messages at the same time, and other protocols on the same thread."""

import asyncio
import json
import uuid
from pathlib import Path

import httpx
import pytest
from chatkit_checker import StrictClient, events_of
from chatkit_client import PROJECT, Chat, OpenChat, first_token, message, release
from langgraph_sdk import get_client

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples" / "langgraph.json"


async def idle(server: RunningServer, thread_id: str) -> None:
    async with get_client(url=server.url) as sdk:
        for run in await sdk.runs.list(thread_id):
            await sdk.runs.join(thread_id, run["run_id"])


async def test_a_reload_in_the_middle_of_a_run_shows_the_response_so_far(
    open_chat: OpenChat, server: RunningServer, gate: Path
) -> None:
    chat = open_chat("bot")
    await first_token(chat, "threads.create", input=message(f"wait partly {gate}"))

    running = await chat.stored()
    release(gate)
    await idle(server, str(chat.thread_id))
    finished = await chat.stored()

    assert [item["type"] for item in running] == ["user_message", "assistant_message"]
    assert running[1]["content"][0]["text"] == "partly"
    assert finished[1]["content"][0]["text"] == "partly and the rest of a long answer"
    assert finished[1]["id"] == running[1]["id"]


async def test_disconnecting_cancels_the_run_if_the_agent_is_configured_so(
    open_chat: OpenChat, server: RunningServer, gate: Path
) -> None:
    chat = open_chat("stoppable")
    await first_token(chat, "threads.create", input=message(f"wait partly {gate}"))
    await idle(server, str(chat.thread_id))

    stored = await chat.stored()

    assert [item["type"] for item in stored] == ["user_message", "assistant_message"]
    assert stored[1]["content"][0]["text"] == "partly"
    chat.page = StrictClient(stored)
    events = await chat.send("recall")
    assert events[1] == {"type": "stream_options", "stream_options": {"allow_cancel": True}}
    assert json.loads(chat.answer) == [f"wait partly {gate}", "partly", "recall"]
    await chat.require_reload_is_equal()


async def test_a_retry_replaces_the_response_that_is_still_streamed(
    open_chat: OpenChat, server: RunningServer, gate: Path
) -> None:
    chat = open_chat("bot")
    await first_token(chat, "threads.create", input=message(f"wait partly {gate}"))
    chat.page = StrictClient(await chat.stored())
    retry = {"thread_id": chat.thread_id, "item_id": chat.last("user_message")["id"]}
    async with chat.streaming("threads.retry_after_item", **retry) as events:
        async for event in events:
            if event.get("update", {}).get("type", "").endswith("text_delta"):
                break
    release(gate)
    await idle(server, str(chat.thread_id))

    stored = await chat.stored()
    assert [item["type"] for item in stored] == ["user_message", "assistant_message", "end_of_turn"]
    assert stored[1]["content"][0]["text"] == "partly and the rest of a long answer"


async def test_a_retry_answers_the_same_message_again(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    await chat.send("recall")
    await chat.send("say three")
    second = [item for item in chat.page.items.values() if item["type"] == "user_message"][1]

    events = await chat.stream("threads.retry_after_item", thread_id=chat.thread_id, item_id=second["id"])

    assert events[0]["type"] == "stream_options"
    assert json.loads(chat.answer) == ["say one", "one", "recall"]
    assert chat.types == ["user_message", "assistant_message", "end_of_turn"] * 2
    assert second["id"] in chat.page.items
    await chat.require_reload_is_equal()


async def test_a_retry_of_the_first_message_starts_from_an_empty_state(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("events one")
    first = chat.last("user_message")

    await chat.stream("threads.retry_after_item", thread_id=chat.thread_id, item_id=first["id"])

    assert chat.answer == "one"
    assert chat.types.count("user_message") == 1
    assert chat.types.count("end_of_turn") == 1
    await chat.require_reload_is_equal()


async def test_a_retry_uses_the_same_model_and_tool(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("options", inference_options={"model": "m2", "tool_choice": {"id": "search"}})
    first = chat.last("user_message")

    await chat.stream("threads.retry_after_item", thread_id=chat.thread_id, item_id=first["id"])

    assert json.loads(chat.answer) == {"model": "m2", "tool_choice": "search"}


async def test_a_retry_keeps_the_text_of_a_failed_run_before_its_message(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("half of an answer")
    await chat.send("recall")
    second = chat.last("user_message")

    await chat.stream("threads.retry_after_item", thread_id=chat.thread_id, item_id=second["id"])

    assert json.loads(chat.answer) == ["half of an answer", "of an answer", "recall"]
    assert chat.types == ["user_message", "assistant_message"] * 2 + ["end_of_turn"]
    await chat.require_reload_is_equal()


@pytest.mark.parametrize("text", ["half of an answer", "fail", "ask Why?"])
async def test_a_retry_removes_what_a_failed_or_waiting_run_has_shown(open_chat: OpenChat, text: str) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    await chat.send(text)
    before = chat.types

    await chat.stream("threads.retry_after_item", thread_id=chat.thread_id, item_id=chat.last("user_message")["id"])

    assert chat.types == before
    await chat.require_reload_is_equal()


async def test_a_retry_removes_a_typed_answer_after_its_message(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("ask Why?")
    await chat.send("because")
    first = next(item for item in chat.page.items.values() if item["type"] == "user_message")

    await chat.stream("threads.retry_after_item", thread_id=chat.thread_id, item_id=first["id"])

    assert chat.types == ["user_message", "widget"]
    assert "status" not in chat.last("widget")["widget"]
    await chat.send("therefore")
    assert chat.answer == "You said therefore"
    await chat.require_reload_is_equal()


async def test_a_message_that_answered_a_question_cannot_be_retried(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("ask Why?")
    await chat.send("because")

    retried = await chat.post(
        "threads.retry_after_item", thread_id=chat.thread_id, item_id=chat.last("user_message")["id"]
    )

    assert (retried.status_code, retried.json()["detail"]) == (
        409,
        "This message answered a question, so it cannot be retried",
    )
    await chat.require_reload_is_equal()


async def test_two_messages_at_the_same_time_keep_both_turns(
    open_chat: OpenChat, server: RunningServer, gate: Path
) -> None:
    chat, other = open_chat("bot"), None
    await first_token(chat, "threads.create", input=message(f"wait partly {gate}"))
    other = open_chat("bot", chat.thread_id)
    other.page = StrictClient(await other.stored())
    sending = asyncio.create_task(other.send("recall"))
    while len(queued := await chat.stored()) < 3:
        pass
    assert queued[-1]["content"] == [{"type": "input_text", "text": "recall"}]

    release(gate)
    await sending

    assert json.loads(other.answer) == [f"wait partly {gate}", "partly and the rest of a long answer", "recall"]
    stored = await chat.stored()
    assert [item["type"] for item in stored] == ["user_message", "assistant_message", "end_of_turn"] * 2


async def test_another_protocol_continues_the_thread(open_chat: OpenChat, server: RunningServer) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    async with get_client(url=server.url) as sdk:
        content = {"messages": [{"role": "user", "content": "say two"}]}
        await sdk.runs.wait(chat.thread_id, "bot", input=content)
        thread = await sdk.threads.create()
        await sdk.runs.wait(thread["thread_id"], "bot", input=content)

    stored = await chat.stored()
    texts = [item["content"][0]["text"] for item in stored if "content" in item]
    assert texts == ["say one", "one", "say two", "two"]
    elsewhere = open_chat("bot", thread["thread_id"])
    elsewhere.page = StrictClient(await elsewhere.stored())
    await elsewhere.send("recall")
    assert json.loads(elsewhere.answer) == ["say two", "two", "recall"]


async def test_a_thread_moves_between_chatkit_copilotkit_and_the_timeline(
    open_chat: OpenChat, http: httpx.AsyncClient
) -> None:
    async def run_with_copilotkit(thread_id: str, text: str) -> None:
        sent = {"id": str(uuid.uuid4()), "role": "user", "content": text}
        fields = {"messages": [sent], "state": {}, "tools": [], "context": [], "forwardedProps": {}}
        body = {"threadId": thread_id, "runId": str(uuid.uuid4()), **fields}
        response = await http.post("/copilotkit/agent/bot/run", json=body, headers={"accept": "text/event-stream"})
        assert "RUN_FINISHED" in response.text, response.text

    chat = open_chat("bot")
    await chat.send("say one")
    await run_with_copilotkit(str(chat.thread_id), "say two")
    elsewhere = open_chat("bot", str(uuid.uuid4()))
    await run_with_copilotkit(str(elsewhere.thread_id), "say three")

    shown = [item["content"][0]["text"] for item in await chat.stored() if "content" in item]
    assert shown == ["say one", "one", "say two", "two"]
    blocks = (await http.get(f"/threads/{chat.thread_id}/timeline")).json()["blocks"]
    assert [block["message"]["content"] for block in blocks if block["kind"] == "message"] == shown
    elsewhere.page = StrictClient(await elsewhere.stored())
    await elsewhere.send("recall")
    assert json.loads(elsewhere.answer) == ["say three", "three", "recall"]
    await elsewhere.require_reload_is_equal()


async def test_a_thread_belongs_to_its_agent(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("say one")

    stranger = open_chat("tools", chat.thread_id)

    for operation in ("threads.get_by_id", "items.list", "threads.delete"):
        assert (await stranger.post(operation, thread_id=chat.thread_id)).status_code == 404
    listed = await stranger.call("threads.list", limit=1000)
    assert chat.thread_id not in [thread["id"] for thread in listed["data"]]


async def test_threads_are_listed_renamed_and_deleted(open_chat: OpenChat) -> None:
    chats = [open_chat("listed") for _ in range(3)]
    for chat in chats:
        await chat.send("say x")
    ids = [chat.thread_id for chat in chats]

    first = await chats[0].call("threads.list", limit=2)
    second = await chats[0].call("threads.list", limit=2, after=first["after"])
    oldest_first = await chats[0].call("threads.list", order="asc")

    assert [thread["id"] for thread in first["data"] + second["data"]] == ids[::-1]
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert first["data"][0]["items"] == {"data": [], "has_more": False}
    assert [thread["id"] for thread in oldest_first["data"]] == ids
    assert await chats[0].call("threads.delete", thread_id=ids[0]) == {}
    assert (await chats[0].post("threads.get_by_id", thread_id=ids[0])).status_code == 404
    assert (await chats[0].post("threads.delete", thread_id=ids[0])).status_code == 404


async def test_a_thread_returns_its_first_items(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    for number in range(8):
        await chat.send(f"say {number}")

    thread = await chat.thread()
    newest = await chat.call("items.list", thread_id=chat.thread_id, limit=2)

    shown = list(chat.page.items.values())
    assert thread["items"] == {"data": shown[:20], "has_more": True, "after": shown[19]["id"]}
    assert newest == {"data": shown[:-3:-1], "has_more": True, "after": shown[-2]["id"]}
    await chat.require_reload_is_equal()


async def test_feedback_can_be_read_and_searched(open_chat: OpenChat, http: httpx.AsyncClient) -> None:
    chat = open_chat("bot")
    await chat.send("say one")
    first = chat.last("assistant_message")
    await chat.send("say two")
    second = chat.last("assistant_message")
    address = f"/chatkit/bot/threads/{chat.thread_id}/feedback"
    assert (await http.get(address)).json() == {"feedback": []}

    for item, kind in ((second, "negative"), (first, "positive"), (second, "positive"), (first, "negative")):
        assert await chat.call("items.feedback", thread_id=chat.thread_id, item_ids=[item["id"]], kind=kind) == {}

    expected = [{"item": first, "kind": "negative"}, {"item": second, "kind": "positive"}]
    assert (await http.get(address)).json() == {"feedback": expected}
    found = await http.post("/threads/search", json={"metadata": {"chatkit_feedback": "negative"}})
    assert [thread["thread_id"] for thread in found.json()] == [chat.thread_id]
    assert (await http.get(address.replace("/bot/", "/direct/"))).status_code == 404
    rejected = await chat.post("items.feedback", thread_id=chat.thread_id, item_ids=["msg_none"], kind="positive")
    assert rejected.status_code == 404
    await chat.require_reload_is_equal()


async def test_items_survive_a_killed_server(tmp_path: Path) -> None:
    with running_server(PROJECT, tmp_path / "data") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            chat = Chat(http, "tools")
            await chat.send("weather")
        server.kill()
        server.start()
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            chat.http = http
            await chat.require_reload_is_equal()
            await chat.send("facts")
            await chat.require_reload_is_equal()


@pytest.mark.parametrize("operation", ["threads.create", "threads.add_user_message"])
async def test_a_repeated_request_starts_one_run(open_chat: OpenChat, http: httpx.AsyncClient, operation: str) -> None:
    chat = open_chat("bot")
    params: dict[str, object] = {"input": message("say hi")}
    if operation == "threads.add_user_message":
        await chat.send("say one")
        params["thread_id"] = chat.thread_id
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"type": operation, "params": params}

    first, second = [await http.post("/chatkit/bot", json=body, headers=headers) for _ in range(2)]
    other = await http.post(
        "/chatkit/bot", json={"type": "threads.create", "params": {"input": message("say ho")}}, headers=headers
    )

    assert first.content == second.content
    assert other.status_code == 400
    events = events_of(second.content)
    thread_id = events[0]["thread"]["id"] if operation == "threads.create" else str(chat.thread_id)
    stored = await open_chat("bot", thread_id).stored()
    assert [item["type"] for item in stored][-3:] == ["user_message", "assistant_message", "end_of_turn"]
    assert len(stored) == (3 if operation == "threads.create" else 6)


async def test_the_scheduling_example_is_formatted(tmp_path: Path) -> None:
    """As Markdown in the task of each tool, and as cards."""
    with running_server(EXAMPLES, tmp_path / "data", env={"THREADWIRE_EXAMPLE_MODEL": "scripted"}) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            options = (await http.get("/chatkit/scheduling/options")).json()
            chat = Chat(http, "scheduling")
            for prompt in options["startScreen"]["prompts"]:
                await chat.send(prompt["prompt"])
            await chat.require_reload_is_equal()

    assert options["startScreen"]["greeting"] == "Welcome to Academic Scheduling Assistant"
    tasks = [task for item in chat.page.items.values() for task in item.get("workflow", {}).get("tasks", ())]
    assert [task["title"] for task in tasks] == [
        "Schedule overview",
        "Load distribution",
        "Conflicts",
        "Assign s_geometry to t_dan",
    ]
    assert "**Teacher Workloads:**\n- **Alice**: 8.0h/12.0 (66.7%)" in tasks[0]["content"]
    widgets = [item["widget"]["type"] for item in chat.page.items.values() if item["type"] == "widget"]
    assert widgets == ["Card", "ListView", "Card", "Card"]
