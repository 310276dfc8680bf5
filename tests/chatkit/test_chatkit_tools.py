"""Tools: progress, tasks, and results as text, widgets and sources."""

import json

import pytest
from chatkit_client import OpenChat, message

pytestmark = pytest.mark.anyio


async def test_a_tool_call_is_a_task_with_progress_and_a_formatted_result(open_chat: OpenChat) -> None:
    chat = open_chat("tools")

    events = await chat.send("weather please")

    assert {"type": "progress_update", "text": "Asking the sky…", "icon": "compass"} in events
    assert chat.types == [
        "user_message",
        "assistant_message",
        "workflow",
        "widget",
        "assistant_message",
        "end_of_turn",
    ]
    workflow = chat.last("workflow")["workflow"]
    (task,) = workflow["tasks"]
    assert task == {
        "type": "custom",
        "title": "Weather in Paris",
        "icon": "compass",
        "status_indicator": "complete",
        "content": "**21** degrees in Paris",
    }
    assert workflow["summary"] == {"title": "Weather in Paris", "icon": "compass"}
    card = chat.last("widget")["widget"]
    assert card["children"][1] == {"type": "Text", "value": "21C", "scrollable": True}
    assert card["children"][2] == {"type": "Icon", "name": "empty-circle"}
    (annotation,) = chat.last("assistant_message")["content"][0]["annotations"]
    assert annotation["source"]["url"] == "https://weather.example"
    await chat.require_reload_is_equal()


async def test_several_calls_are_one_workflow(open_chat: OpenChat) -> None:
    chat = open_chat("tools")

    await chat.send("weather search whisper facts break")

    workflow = chat.last("workflow")["workflow"]
    assert [task["title"] for task in workflow["tasks"]] == ["Weather in Paris", "Searching", "List facts", "Risky"]
    assert workflow["summary"] == {"title": "4 steps", "icon": "bolt"}
    search = workflow["tasks"][1]
    assert (search["type"], search["queries"], search["title_query"]) == ("web_search", ["tea"], "tea")
    assert search["sources"] == [{"type": "url", "url": "https://example.org/a", "title": "A"}]
    texts = [item["content"][0]["text"] for item in chat.page.items.values() if item["type"] == "assistant_message"]
    assert "- one\n- two" in texts
    await chat.require_reload_is_equal()


async def test_a_failed_tool_shows_no_exception(open_chat: OpenChat) -> None:
    chat = open_chat("tools")

    await chat.send("break")

    (task,) = chat.last("workflow")["workflow"]["tasks"]
    assert (task["icon"], task["content"]) == ("lucide:triangle-alert", "The tool failed.")
    shown = [item for item in chat.page.items.values() if item["type"] == "workflow"]
    assert "secret" not in json.dumps(shown)


async def test_an_action_of_a_widget_is_reported_to_the_agent(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("ui over")
    widget = chat.last("widget")

    events = await chat.act(widget["id"], {"type": "refresh", "payload": {"now": True}})

    assert events[0]["type"] == "stream_options"
    assert chat.answer == "Noticed refresh"
    assert chat.types.count("user_message") == 1
    await chat.require_reload_is_equal()


async def test_the_project_describes_tags_to_the_model(open_chat: OpenChat) -> None:
    chat = open_chat("tools")
    tags = [
        {"type": "input_tag", "id": tag_id, "text": text, "data": data, "interactive": False}
        for tag_id, text, data in (("p1", "Ann", {"role": "boss"}), ("unknown", "Bob", {}))
    ]

    await chat.send("", content=[{"type": "input_text", "text": "Ask "}, *tags])
    failed = await chat.post(
        "threads.add_user_message", thread_id=chat.thread_id, input=message("", content=[{**tags[0], "data": {}}])
    )

    state = (await chat.http.get(f"/threads/{chat.thread_id}/state")).json()["values"]
    assert state["messages"][0]["content"] == "Ask @Ann@Bob\n\nAnn is the boss."
    assert failed.status_code == 502
    await chat.require_reload_is_equal()


async def test_a_sync_action_replaces_its_widget(open_chat: OpenChat) -> None:
    chat = open_chat("tools")
    await chat.send("counter")
    widget = chat.last("widget")
    action = widget["widget"]["children"][1]["onClickAction"]

    result = await chat.call(
        "threads.sync_custom_action", thread_id=chat.thread_id, item_id=widget["id"], action=action
    )

    assert result["updated_item"]["widget"]["children"][0]["value"] == "1"
    stored = {item["id"]: item for item in await chat.stored()}
    assert stored[widget["id"]] == result["updated_item"]


@pytest.mark.parametrize(
    ("action", "detail"),
    [
        ("nonsense", "The action returned an invalid widget: a widget is an object whose type is one of"),
        ("unknown", "action.type: no sync action 'unknown' is registered"),
    ],
)
async def test_a_sync_action_that_fails_changes_nothing(open_chat: OpenChat, action: str, detail: str) -> None:
    chat = open_chat("tools")
    await chat.send("counter")
    widget = chat.last("widget")

    response = await chat.post(
        "threads.sync_custom_action", thread_id=chat.thread_id, item_id=widget["id"], action={"type": action}
    )

    assert response.status_code == 400
    assert response.json()["detail"].startswith(detail)
    await chat.require_reload_is_equal()
