"""Agents for the tests of ChatKit. What they do depends on the user's message: `<command> <text>`."""

import asyncio
import json
import os
from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.ui import AnyUIMessage, delete_ui_message, push_ui_message, ui_message_reducer
from langgraph.types import interrupt
from pydantic import BaseModel, Field

from threadwire import chatkit
from threadwire.chatkit import Formats, Sources, Text
from threadwire.testing.scripted import ScriptedChatModel


class Talk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    ui: Annotated[list[AnyUIMessage], ui_message_reducer]
    until: str


class PatientChatModel(ScriptedChatModel):
    """If the last message ends with the path of a file, it waits for the file after its first chunk."""

    async def _astream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        path, is_first = messages[-1].text.split()[-1], True
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk
            while is_first and path.startswith("/") and not os.path.exists(path):  # noqa: ASYNC110, ASYNC240 - a file has no event
                await asyncio.sleep(0.01)
            is_first = False


async def say(conversation: list[BaseMessage], content: Any, **fields: Any) -> AIMessage:
    """Stream a message."""
    reply = AIMessage(content, **fields)
    return await ScriptedChatModel(reply=lambda _: reply).ainvoke(conversation)


def texts_of(conversation: list[BaseMessage]) -> list[str]:
    return [message.text for message in conversation]


# -- bot --------------------------------------------------------------------------------------------------------------


class Order(BaseModel):
    size: Literal["small", "large"]
    note: str = ""


class Person(BaseModel):
    name: str
    age: int = Field(ge=18)


class Booking(BaseModel):
    nights: int
    breakfast: bool
    room: Literal["single", "double"] = "single"
    comment: str | None = None


async def bot(state: Talk, config: RunnableConfig) -> Talk:
    conversation = state["messages"]
    last = conversation[-1]
    command, _, rest = last.text.partition(" ")
    match command:
        case "say":
            answer = await say(conversation, rest)
        case "recall":
            answer = await say(conversation, json.dumps(texts_of(conversation)))
        case "types":
            answer = await say(conversation, json.dumps([message.type for message in conversation]))
        case "blocks":
            kinds = [block["type"] for block in last.content] if isinstance(last.content, list) else ["plain"]
            answer = await say(conversation, json.dumps(kinds))
        case "options":
            chosen = {key: config["configurable"].get(key) for key in ("model", "tool_choice")}
            answer = await say(conversation, json.dumps(chosen))
        case "think":
            reasoning = {"type": "reasoning", "reasoning": "First this, then that."}
            answer = await say(conversation, [reasoning, {"type": "text", "text": rest}])
        case "cite":
            citation = {"type": "citation", "url": "https://example.org", "title": "Example", "end_index": 4}
            answer = AIMessage([{"type": "text", "text": rest, "annotations": [citation]}])
        case "image":
            answer = AIMessage([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}])
        case "events":
            send_everything()
            answer = await say(conversation, rest)
        case "batch":
            get_stream_writer()([{"type": "progress", "text": text} for text in rest.split()])
            answer = await say(conversation, rest)
        case "ui":
            push_ui_message("weather", {"city": "Paris"}, id=f"ui-{len(conversation)}")
            push_ui_message("weather", {"degrees": 21}, id=f"ui-{len(conversation)}", merge=True)
            push_ui_message("gone", {"a": 1}, id=f"gone-{len(conversation)}")
            delete_ui_message(f"gone-{len(conversation)}")
            answer = await say(conversation, rest)
        case "half":
            await say(conversation, rest)
            raise RuntimeError("a secret")
        case "fail":
            raise RuntimeError("a secret")
        case "refuse":
            raise chatkit.UserError("Your **quota** is used up.")
        case "loop":
            raise RecursionLimit("again and again")
        case "wait":
            reply = AIMessage(f"{rest.split()[0]} and the rest of a long answer")
            answer = await PatientChatModel(reply=lambda _: reply).ainvoke(conversation)
        case "ask":
            answer = await say(conversation, f"You said {interrupt(rest)}")
        case "choose":
            chosen = interrupt({"question": "Which one?", "options": ["red", "green"]})
            answer = await say(conversation, f"You chose {chosen}")
        case "order":
            order = interrupt({"question": "What do you want?"}, response_schema=Order)
            answer = await say(conversation, f"Ordered {order.size} {order.note}".strip())
        case "book":
            booking = interrupt({"question": "Your booking", "hotel": "Ritz"}, response_schema=Booking)
            answer = await say(conversation, f"Booked {booking.model_dump_json()}")
        case "age":
            person = interrupt({"question": "Who are you?"}, response_schema=Person)
            answer = await say(conversation, f"{person.name} is {person.age}")
        case "card":
            action = {"type": "threadwire.answer", "payload": {"picked": 7}}
            button = {"type": "Button", "label": "Pick", "onClickAction": action}
            picked = interrupt({"widget": {"type": "Card", "children": [button], "border": {"size": 1}}})
            answer = await say(conversation, f"Picked {json.dumps(picked)}")
        case "client":
            result = chatkit.call_client_tool("get_selection", {"of": rest})
            answer = await say(conversation, f"The page says {json.dumps(result)}")
        case "title":
            chatkit.send_title(rest)
            answer = await say(conversation, "Named.")
        case "quiet":
            answer = AIMessage(rest)
        case _ if "action" in last.additional_kwargs.get("chatkit", {}):
            answer = await say(conversation, f"Noticed {last.additional_kwargs['chatkit']['action']['type']}")
        case _:
            answer = await say(conversation, f"You said: {last.text}")
    return {"messages": [answer]}


class RecursionLimit(RuntimeError):
    pass


RecursionLimit.__name__ = "GraphRecursionError"


def send_everything() -> None:
    chatkit.send_progress("Looking…", icon="search")
    chatkit.send_progress("Nobody knows this icon", icon="🙂")
    chatkit.send_notice("Take **care**", "warning", "Careful")
    chatkit.send_effect("update_map", {"zoom": 3})
    chatkit.send_annotation({"type": "entity", "id": "e1", "title": "An entity", "icon": "nothing at all"})
    card = {"type": "Card", "children": [{"type": "Markdown", "id": "md", "value": "", "streaming": True}]}
    for value in ("", "Hel", "Hello"):
        card = {**card, "children": [{**card["children"][0], "value": value}]}
        chatkit.send_widget(card, id="streamed", streaming=True)
    done = {**card, "children": [{"type": "Markdown", "id": "md", "value": "Hello", "streaming": False}]}
    chatkit.send_widget(done, id="streamed")
    chatkit.send_widget({"type": "Card", "children": [], "border": {"size": 2}}, id="later")
    chatkit.send_widget({"type": "Card", "children": [{"type": "Text", "value": "new"}]}, id="later")
    chatkit.send_widget({"type": "Nonsense"}, id="broken")
    chatkit.send_task("t1", "Indexing", icon="book-open")
    chatkit.send_task("t1", "Indexed", icon="book-open", content="12 pages", done=True)
    chatkit.send_image("i1", progress=0.5, url="https://example.org/half.png", done=False)
    chatkit.send_image("i1", url="https://example.org/whole.png")


graph = StateGraph(Talk).add_node("bot", bot).add_edge(START, "bot").compile()


# -- tools: every kind of result --------------------------------------------------------------------------------------

formats = Formats()


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Get the weather."""
    return {"city": city, "degrees": 21}


@tool
def search_web(query: str) -> list[dict[str, str]]:
    """Search."""
    return [{"url": "https://example.org/a", "title": "A"}]


@tool
def list_facts(about: str) -> dict[str, Any]:
    """List facts."""
    return {"message": f"Facts about {about}", "facts": ["one", "two"]}


@tool
def break_down() -> str:
    """Fail."""
    raise ValueError("a secret")


@tool
def whisper() -> str:
    """A tool that nobody sees."""
    return "psst"


@formats.tool("get_weather", title="Weather in {city}", icon="compass", progress="Asking the sky…")
def weather_card(result: dict[str, Any], args: dict[str, Any]) -> list[Any]:
    title = {"type": "Title", "value": result["city"]}
    degrees = {"type": "Text", "value": f"{result['degrees']}C", "scrollable": True}
    return [
        {"type": "Card", "children": [title, degrees, {"type": "Icon", "name": "no such icon!"}]},
        f"**{result['degrees']}** degrees in {args['city']}",
        Sources([{"type": "url", "url": "https://weather.example", "title": "Weather"}]),
    ]


@formats.tool("list_facts")
def facts_text(result: dict[str, Any]) -> Text:
    return Text("\n".join(f"- {fact}" for fact in result["facts"]))


@formats.tag
async def describe(tag: Any) -> str | None:
    return None if tag["id"] == "unknown" else f"{tag['text']} is the {tag['data']['role']}."


formats.tool("search_web", title="Searching", task="web_search")
formats.tool("whisper", hidden=True)


@formats.widget("counter")
def counter(props: Any) -> dict[str, Any]:
    return counter_widget(props["count"])


def counter_widget(count: int) -> dict[str, Any]:
    action = {"type": "count", "payload": {"count": count + 1}, "streaming": False}
    button = {"type": "Button", "label": "More", "onClickAction": action}
    return {"type": "Card", "children": [{"type": "Text", "value": str(count)}, button]}


@formats.sync_action("count")
async def count(payload: Any, item: dict[str, Any] | None) -> dict[str, Any]:
    return counter_widget(payload["count"])


@formats.sync_action("nonsense")
def nonsense(payload: Any, item: dict[str, Any] | None) -> dict[str, Any]:
    return {"type": "Nonsense"}


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "weather": ("get_weather", {"city": "Paris"}),
    "search": ("search_web", {"query": "tea"}),
    "facts": ("list_facts", {"about": "tea"}),
    "break": ("break_down", {}),
    "whisper": ("whisper", {}),
}


def use_tools(conversation: list[BaseMessage]) -> AIMessage:
    if isinstance(conversation[-1], ToolMessage):
        return AIMessage(f"The tool said: {conversation[-1].text}")
    wanted = conversation[-1].text.split()
    calls = [CALLS[word] for word in wanted if word in CALLS]
    if not calls:
        return AIMessage("Nothing to do.")
    numbered = enumerate(calls)
    return AIMessage(
        "Let me see.",
        tool_calls=[
            {"name": name, "args": args, "id": f"call-{len(conversation)}-{at}", "type": "tool_call"}
            for at, (name, args) in numbered
        ],
    )


async def model(state: Talk) -> Talk:
    if state["messages"][-1].text == "counter":
        push_ui_message("counter", {"count": 0}, id="counter-1")
        return {"messages": [AIMessage("Count!")]}
    return {"messages": [await ScriptedChatModel(reply=use_tools).ainvoke(state["messages"])]}


def after_model(state: Talk) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else "__end__"


def tools_node() -> Any:
    from langgraph.prebuilt import ToolNode

    return ToolNode([get_weather, search_web, list_facts, break_down, whisper], handle_tool_errors=True)


tools = (
    StateGraph(Talk)
    .add_node("model", model)
    .add_node("tools", tools_node())
    .add_edge(START, "model")
    .add_conditional_edges("model", after_model, ["tools", "__end__"])
    .add_edge("tools", "model")
    .compile()
)


# -- careful: the human-in-the-loop middleware ------------------------------------------------------------------------


@tool
def delete_file(name: str, force: bool = False) -> str:
    """Delete a file."""
    return f"deleted {name}" + (" by force" if force else "")


@tool
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def careful_reply(conversation: list[BaseMessage]) -> AIMessage:
    last = conversation[-1]
    if isinstance(last, ToolMessage):
        results = [each.text for each in conversation if isinstance(each, ToolMessage)]
        return AIMessage(f"Done: {'; '.join(results)}")
    if isinstance(last, HumanMessage) and last.text.startswith("types"):
        return AIMessage(json.dumps([message.type for message in conversation]))
    calls = []
    if "delete" in last.text:
        calls.append(("delete_file", {"name": "notes.txt", "force": False}))
    if "mail" in last.text:
        calls.append(("send_mail", {"to": "ann"}))
    return AIMessage(
        "I would do this." if calls else f"Heard: {last.text}",
        tool_calls=[
            {"name": name, "args": args, "id": f"call-{len(conversation)}-{at}", "type": "tool_call"}
            for at, (name, args) in enumerate(calls)
        ],
    )


def careful_agent(mode: str) -> Any:
    return create_agent(
        PatientChatModel(reply=careful_reply),
        tools=[delete_file, send_mail],
        middleware=[
            HumanInTheLoopMiddleware(
                interrupt_on={
                    "delete_file": {"allowed_decisions": ["approve", "edit", "reject"]},
                    "send_mail": {"allowed_decisions": ["approve", "respond"]},
                },
                interrupt_mode=mode,
            )
        ],
    )


careful = careful_agent("batched")
careful_per_call = careful_agent("per_call")


async def transcribe(audio: bytes, mime_type: str) -> str:
    return f"{len(audio)} bytes of {mime_type}"
