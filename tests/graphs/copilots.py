"""Graphs in the style of CopilotKit's documentation.

They have the page's tools and context in their state, and dispatch the same events as CopilotKit's helpers.
"""

import asyncio
import operator
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, adispatch_custom_event, dispatch_custom_event
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Send, interrupt

from threadwire.testing.scripted import ScriptedChatModel


def call(name: str, call_id: str, **args: Any) -> ToolCall:
    return ToolCall(name=name, args=args, id=call_id, type="tool_call")


def arrived(path: str | None) -> bool:
    return path is None or Path(path).exists()


async def wait_for(path: str | None) -> None:
    while not arrived(path):  # noqa: ASYNC110 - a file has no event to wait on
        await asyncio.sleep(0.01)


# -- by_hand: what `copilotkit_emit_message`, `_tool_call`, `_state` and `copilotkit_exit` dispatch --------------------


class Working(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    progress: float
    until: str


async def work(state: Working) -> Working:
    await adispatch_custom_event(
        "copilotkit_manually_emit_message", {"message": "On it.", "message_id": "ahead", "role": "assistant"}
    )
    await adispatch_custom_event("manually_emit_tool_call", {"id": "search-1", "name": "search", "args": {"for": "it"}})
    await adispatch_custom_event("copilotkit_manually_emit_intermediate_state", {"progress": 0.5})
    await wait_for(state.get("until"))
    await adispatch_custom_event("weather", {"is": "fine"})
    return {"messages": [AIMessage("On it.", id="kept"), AIMessage("Found.", id="after")], "progress": 1.0}


def leave(state: Working) -> Working:
    """A sync node, which runs in a thread."""
    dispatch_custom_event("copilotkit_exit", {})
    return {}


by_hand = (
    StateGraph(Working)
    .add_node("work", work)
    .add_node("leave", leave)
    .add_edge(START, "work")
    .add_edge("work", "leave")
    .compile()
)

by_hand_below = StateGraph(Working).add_node("inner", by_hand).add_edge(START, "inner").compile()


# -- selective: {"metadata": what `copilotkit_customize_config` puts there} --------------------------------------------


class Selective(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    metadata: dict[str, Any]


def two_calls(conversation: list[BaseMessage]) -> AIMessage:
    calls = [call("write", "call-write", text="a draft"), call("read", "call-read", line=1)]
    return AIMessage("Thinking aloud.", id=f"ai-{len(conversation)}", tool_calls=calls)


async def speak_selectively(state: Selective) -> Selective:
    scripted = ScriptedChatModel(reply=two_calls).with_config(metadata=state.get("metadata", {}))
    await scripted.ainvoke(state["messages"])
    return {}


selective = StateGraph(Selective).add_node("speak", speak_selectively).add_edge(START, "speak").compile()


# -- slow_tool: a tool that waits for a file. Like real models, this one rejects a tool call without a result ----------


class Tooled(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    until: str


@tool
async def fetch(until: str) -> str:
    """Fetch something slowly."""
    await wait_for(until)
    return "fetched"


def strict_reply(until: str | None) -> Any:
    def reply(conversation: list[BaseMessage]) -> AIMessage:
        for at, message in enumerate(conversation):
            called = [each["id"] for each in message.tool_calls] if isinstance(message, AIMessage) else []
            results = conversation[at + 1 : at + 1 + len(called)]
            if sorted(called) != sorted(each.tool_call_id for each in results if isinstance(each, ToolMessage)):
                raise ValueError(f"tool calls {called} are not followed by their results")
        message_id = f"ai-{len(conversation)}"
        if until is None:
            return AIMessage("Nothing to fetch.", id=message_id)
        if isinstance(conversation[-1], ToolMessage):
            return AIMessage(f"It says {conversation[-1].text}.", id=message_id)
        return AIMessage("", id=message_id, tool_calls=[call("fetch", f"call-{len(conversation)}", until=until)])

    return reply


async def model_that_fetches(state: Tooled) -> Tooled:
    return {"messages": [await ScriptedChatModel(reply=strict_reply(state.get("until"))).ainvoke(state["messages"])]}


def wants_fetching(state: Tooled) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


slow_tool = (
    StateGraph(Tooled)
    .add_node("model", model_that_fetches)
    .add_node("tools", ToolNode([fetch]))
    .add_edge(START, "model")
    .add_conditional_edges("model", wants_fetching, ["tools", END])
    .add_edge("tools", "model")
    .compile()
)


slow_tool_below = StateGraph(Tooled).add_node("inner", slow_tool).add_edge(START, "inner").compile()


# -- copilot: the state of `CopilotKitState`. It calls the page's first tool, then repeats the result ------------------


class Properties(TypedDict, total=False):
    actions: list[Any]
    context: list[Any]


class Copilot(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    copilotkit: Properties
    mood: str


async def model_with_actions(state: Copilot, config: RunnableConfig) -> Copilot:
    properties = state.get("copilotkit", {})
    actions = properties.get("actions", [])
    user = config["configurable"]["ag_ui"]["forwarded_props"].get("user", "nobody")

    def reply(conversation: list[BaseMessage]) -> AIMessage:
        last, message_id = conversation[-1], f"ai-{len(conversation)}"
        if isinstance(last, ToolMessage):
            return AIMessage(f"{last.text}, {user}!", id=message_id)
        if not actions:
            context = "; ".join(f"{each['description']}: {each['value']}" for each in properties.get("context", []))
            return AIMessage(f"I know {context or 'nothing'}, {user}.", id=message_id)
        args = {"title": "a title", "message": "a message"}
        if actions[0]["name"] == "copilotkitSuggest":
            args = {"suggestions": [{"title": "Go on", "message": "Go on, please."}]}
        return AIMessage("", id=message_id, tool_calls=[call(actions[0]["name"], f"call-{len(conversation)}", **args)])

    model = ScriptedChatModel(reply=reply).bind_tools(actions)
    return {"messages": [await model.ainvoke(state["messages"])]}


copilot = StateGraph(Copilot).add_node("model", model_with_actions).add_edge(START, "model").compile()


# -- dictated: the model streams the first line of a file while the file is written. It counts its answers -------------


class Dictated(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    dictation: str
    answers: int


class DictatedModel(ScriptedChatModel):
    file: Path

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        message_id, sent, ended = f"ai-{len(messages)}", 0, False
        while not ended:
            await asyncio.sleep(0.01)
            text, end, _ = self.file.read_text().partition("\n")
            ended = bool(end)
            if text[sent:]:
                yield ChatGenerationChunk(message=AIMessageChunk(text[sent:], id=message_id))
            sent = len(text)
        yield ChatGenerationChunk(message=AIMessageChunk("", id=message_id, chunk_position="last"))


def echo(conversation: list[BaseMessage]) -> AIMessage:
    return AIMessage(f"You said: {conversation[-1].text}", id=f"ai-{len(conversation)}")


async def take_dictation(state: Dictated) -> Dictated:
    file = state.get("dictation")
    model = ScriptedChatModel(reply=echo) if file is None else DictatedModel(reply=echo, file=Path(file))
    return {"messages": [await model.ainvoke(state["messages"])], "answers": state.get("answers", 0) + 1}


dictated = StateGraph(Dictated).add_node("model", take_dictation).add_edge(START, "model").compile()


# -- asks: interrupts with every question in the user's message, in parallel; then repeats the answers ----------------


class Asking(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    answers: Annotated[list[str], operator.add]


def each_question(state: Asking) -> list[Send]:
    questions = [f"{each.strip()}?" for each in state["messages"][-1].text.split("?") if each.strip()]
    return [Send("ask", {"question": question}) for question in questions]


def ask(state: dict[str, Any]) -> Asking:
    answer = interrupt({"question": state["question"], "choices": ["yes", "no"]})
    return {"answers": [f"{state['question']} {answer}"]}


def tell_answers(state: Asking) -> Asking:
    answers = " ".join(sorted(state["answers"]))
    return {"messages": [AIMessage(f"So: {answers}", id=f"ai-{len(state['messages'])}")]}


asks = (
    StateGraph(Asking)
    .add_node("ask", ask)
    .add_node("tell", tell_answers)
    .add_conditional_edges(START, each_question, ["ask"])
    .add_edge("ask", "tell")
    .compile()
)


# -- stumbles: fails in the middle of an answer ------------------------------------------------------------------------


class Stumbling(ScriptedChatModel):
    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk("Well, I", id="ai-1"))
        raise ValueError("kaboom from the graph")


async def stumble(state: Tooled) -> Tooled:
    return {"messages": [await Stumbling(reply=echo).ainvoke(state["messages"])]}


stumbles = StateGraph(Tooled).add_node("model", stumble).add_edge(START, "model").compile()
