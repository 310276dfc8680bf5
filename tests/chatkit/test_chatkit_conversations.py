"""Messages and answers: the order of events, and items that are the same for every page."""

import json

import pytest
from chatkit_checker import events_of
from chatkit_client import OpenChat

pytestmark = pytest.mark.anyio


def kinds(events: list[dict]) -> list[str]:
    return [event["update"]["type"] if "update" in event else event["type"] for event in events]


async def test_a_new_thread_streams_its_response(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    events = await chat.send("say hello to you")

    assert kinds(events) == [
        "thread.created",
        "thread.item.done",
        "stream_options",
        "thread.item.added",
        "assistant_message.content_part.added",
        *["assistant_message.content_part.text_delta"] * 3,
        "assistant_message.content_part.done",
        "thread.item.done",
        "thread.item.done",
    ]
    assert chat.types == ["user_message", "assistant_message", "end_of_turn"]
    assert chat.answer == "hello to you"
    assert events[2] == {"type": "stream_options", "stream_options": {"allow_cancel": False}}
    await chat.require_reload_is_equal()


async def test_a_second_message_continues_the_thread(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    await chat.send("say one")

    events = await chat.send("recall")

    assert kinds(events)[:3] == ["thread.item.done", "stream_options", "thread.item.added"]
    assert json.loads(chat.answer) == ["say one", "one", "recall"]
    await chat.require_reload_is_equal()


async def test_the_first_message_names_the_thread(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    events = await chat.send("say " + "a long story " * 10)

    assert events[0]["thread"]["title"] == "say a long story a long story a long story a long story a lo…"
    assert (await chat.thread())["title"] == events[0]["thread"]["title"]


async def test_a_graph_names_the_thread(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    events = await chat.send("title About tea")

    assert events[-1]["type"] == "thread.updated"
    assert events[-1]["thread"]["title"] == "About tea"
    assert (await chat.thread())["title"] == "About tea"
    renamed = await chat.call("threads.update", thread_id=chat.thread_id, title="Mine")
    assert renamed["title"] == "Mine"
    assert (await chat.thread())["title"] == "Mine"


async def test_quoted_text_tags_and_options_are_part_of_the_message(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    tag = {"type": "input_tag", "id": "t1", "text": "Ann", "data": {"role": "boss"}, "interactive": True}
    content = [{"type": "input_text", "text": "options "}, tag, {"type": "input_text", "text": "!"}]
    options = {"model": "m2", "tool_choice": {"id": "search"}}

    await chat.send("", content=content, quoted_text="as you said", inference_options=options)

    item = chat.last("user_message")
    assert (item["content"], item["quoted_text"], item["inference_options"]) == (content, "as you said", options)
    assert "> as you said" in chat.answer or json.loads(chat.answer) == {"model": "m2", "tool_choice": "search"}
    await chat.require_reload_is_equal()
    await chat.send("recall")
    assert json.loads(chat.answer)[0] == '> as you said\n\noptions @Ann!\n\n@Ann (id t1): {"role":"boss"}'


async def test_reasoning_precedes_the_text(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    await chat.send("think about it")

    assert chat.types == ["user_message", "workflow", "assistant_message", "end_of_turn"]
    workflow = chat.last("workflow")["workflow"]
    assert workflow["type"] == "reasoning"
    assert workflow["tasks"] == [
        {"type": "thought", "content": "First this, then that.", "status_indicator": "complete"}
    ]
    assert workflow["summary"] == {"duration": 0}
    await chat.require_reload_is_equal()


async def test_citations_are_annotations(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    await chat.send("cite this and that")

    (content,) = chat.last("assistant_message")["content"]
    source = {"type": "url", "url": "https://example.org", "title": "Example"}
    assert content["annotations"] == [{"type": "annotation", "source": source, "index": 4}]
    await chat.require_reload_is_equal()


async def test_an_image_of_the_model_is_shown(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    await chat.send("image")

    assert chat.last("generated_image")["image"]["url"] == "data:image/png;base64,aGk="
    await chat.require_reload_is_equal()


async def test_a_message_that_is_not_streamed_is_shown_whole(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    events = await chat.send("quiet please")

    assert kinds(events)[3:] == ["thread.item.done", "thread.item.done"]
    assert chat.answer == "please"


async def test_a_graph_sends_progress_notices_effects_widgets_tasks_and_images(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    events = await chat.send("events over")

    others = [event for event in chat.page.others if event["type"] not in ("thread.created", "stream_options")]
    assert others[:4] == [
        {"type": "progress_update", "text": "Looking…", "icon": "search"},
        {"type": "progress_update", "text": "Nobody knows this icon"},
        {"type": "notice", "level": "warning", "message": "Take **care**", "title": "Careful"},
        {"type": "client_effect", "name": "update_map", "data": {"zoom": 3}},
    ]
    assert others[4]["type"] == "notice"
    assert "could not be shown" in others[4]["message"]
    deltas = [event["update"] for event in events if event.get("update", {}).get("type", "").startswith("widget")]
    assert [each["type"] for each in deltas] == [
        "widget.streaming_text.value_delta",
        "widget.streaming_text.value_delta",
        "widget.root.updated",
    ]
    later = chat.page.items["wdg_later"]["widget"]
    assert later == {"type": "Card", "children": [{"type": "Text", "value": "new"}]}
    assert chat.page.items["img_i1"]["image"]["url"] == "https://example.org/whole.png"
    (task,) = chat.last("workflow")["workflow"]["tasks"]
    assert (task["title"], task["content"], task["status_indicator"]) == ("Indexed", "12 pages", "complete")
    (annotation,) = chat.last("assistant_message")["content"][0]["annotations"]
    entity = {
        "type": "entity",
        "id": "e1",
        "title": "An entity",
        "icon": "empty-circle",
        "interactive": False,
        "data": {},
    }
    assert annotation["source"] == entity
    await chat.require_reload_is_equal()


async def test_a_graph_sends_a_batch_of_events(open_chat: OpenChat) -> None:
    events = await open_chat("bot").send("batch one two three")

    assert [event["text"] for event in events if event["type"] == "progress_update"] == ["one", "two", "three"]


async def test_ui_messages_are_widgets_that_merge_and_disappear(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    events = await chat.send("ui over")

    (widget,) = [item for item in chat.page.items.values() if item["type"] == "widget"]
    assert widget["widget"]["border"] == {"size": 1}
    assert [each["value"] for each in widget["widget"]["children"]] == ["Paris", "21C"]
    assert {"thread.item.replaced", "thread.item.removed"} <= set(kinds(events))
    await chat.require_reload_is_equal()


async def test_a_failed_run_keeps_the_text_that_was_shown(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    events = await chat.send("half of an answer")

    assert chat.answer == "of an answer"
    assert events[-1] == {"type": "error", "code": "stream.error", "allow_retry": True}
    assert "secret" not in json.dumps(events)
    await chat.require_reload_is_equal()
    await chat.send("recall")
    assert json.loads(chat.answer) == ["half of an answer", "of an answer", "recall"]


@pytest.mark.parametrize(
    ("text", "message", "allow_retry"),
    [
        ("refuse", "Your **quota** is used up.", False),
        ("loop", "The agent reached its step limit before it finished.", True),
    ],
)
async def test_user_errors_show_their_message(open_chat: OpenChat, text: str, message: str, allow_retry: bool) -> None:
    chat = open_chat("bot")

    events = await chat.send(text)

    assert events[-1] == {"type": "error", "code": "custom", "message": message, "allow_retry": allow_retry}


async def test_the_default_agent_is_the_first_one(open_chat: OpenChat) -> None:
    chat = open_chat("")

    await chat.send("say hi")

    assert chat.answer == "hi"
    assert (await open_chat("bot", chat.thread_id).thread())["id"] == chat.thread_id


async def test_the_framing_is_data_only(open_chat: OpenChat) -> None:
    chat = open_chat("bot")

    response = await chat.post(
        "threads.create",
        input={"content": [{"type": "input_text", "text": "say x"}], "attachments": [], "inference_options": {}},
    )

    events_of(response.content)  # raises for anything but `data:` lines
    assert b'"metadata":{}' in response.content
    assert b"null" not in response.content
