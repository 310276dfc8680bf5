"""Deterministic graphs for the end-to-end and kill tests. No API keys, no network, fixed message ids."""

import asyncio
import datetime
import operator
import re
import time
from collections import ChainMap, deque
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.ui import AnyUIMessage, push_ui_message, ui_message_reducer
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from threadwire.testing.scripted import ScriptedChatModel

# -- echo: one step ---------------------------------------------------------------------------------------------------


class Echo(TypedDict, total=False):
    text: Any
    echoed: Any


def say_again(state: Echo) -> Echo:
    return {"echoed": state.get("text")}


echo = StateGraph(Echo).add_node("say_again", say_again).add_edge(START, "say_again").compile()


# -- chat: streams tokens. {"messages": [...], "delay"?: seconds before each token} -----------------------------------


class Talk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    delay: float


def answer(conversation: list[BaseMessage]) -> AIMessage:
    return AIMessage(f"You said: {conversation[-1].text}", id=f"ai-{len(conversation)}")


async def model(state: Talk) -> Talk:
    scripted = ScriptedChatModel(reply=answer, delay=state.get("delay", 0))
    return {"messages": [await scripted.ainvoke(state["messages"])]}


chat = StateGraph(Talk).add_node("model", model).add_edge(START, "model").compile()


# -- tools: a model calls a tool, with streamed arguments, and answers from its result --------------------------------


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def answer_with_tool(conversation: list[BaseMessage]) -> AIMessage:
    last, message_id = conversation[-1], f"ai-{len(conversation)}"
    if isinstance(last, ToolMessage):
        return AIMessage(f"The sum is {last.text}.", id=message_id)
    call = ToolCall(name="add", args={"a": 20, "b": 22}, id=f"call-{len(conversation)}", type="tool_call")
    return AIMessage("Let me add that.", id=message_id, tool_calls=[call])


async def model_with_tool(state: Talk) -> Talk:
    scripted = ScriptedChatModel(reply=answer_with_tool, delay=state.get("delay", 0)).bind_tools([add])
    return {"messages": [await scripted.ainvoke(state["messages"])]}


def wants_tool(state: Talk) -> str:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else END


tools = (
    StateGraph(Talk)
    .add_node("model", model_with_tool)
    .add_node("tools", ToolNode([add]))
    .add_edge(START, "model")
    .add_conditional_edges("model", wants_tool, ["tools", END])
    .add_edge("tools", "model")
    .compile()
)


# -- asks_page: a model that calls a tool of the page and ends its turn ------------------------------------------------


def ask_page(conversation: list[BaseMessage]) -> AIMessage:
    last, message_id = conversation[-1], f"ai-{len(conversation)}"
    if isinstance(last, ToolMessage):
        return AIMessage(f"It is {last.text}.", id=message_id)
    call = ToolCall(name="colour", args={}, id=f"call-{len(conversation)}", type="tool_call")
    return AIMessage("", id=message_id, tool_calls=[call])


async def model_with_page(state: Talk) -> Talk:
    return {"messages": [await ScriptedChatModel(reply=ask_page).ainvoke(state["messages"])]}


asks_page = StateGraph(Talk).add_node("model", model_with_page).add_edge(START, "model").compile()


# -- showcase: reasoning before text, UI messages, nested state changes, and a removed message ------------------------


class Showcase(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    ui: Annotated[list[AnyUIMessage], ui_message_reducer]
    metrics: dict[str, Any]
    log: Annotated[list[str], operator.add]
    delay: float


def think_aloud(conversation: list[BaseMessage]) -> AIMessage:
    message_id = f"ai-{len(conversation)}"
    calls = [
        ToolCall(name="add", args={"a": number, "b": 1}, id=f"{message_id}-{number}", type="tool_call")
        for number in (1, 2)
    ]
    reasoning = {"type": "reasoning", "reasoning": "Two sums are wanted, so two calls."}
    text = {"type": "text", "text": "I add them one by one."}
    return AIMessage([reasoning, text], id=message_id, tool_calls=calls, name="thinker")


async def think_first(state: Showcase) -> Showcase:
    scripted = ScriptedChatModel(reply=think_aloud, delay=state.get("delay", 0)).bind_tools([add])
    push_ui_message("chart", {"points": [1]}, id=f"chart-{len(state['messages'])}", metadata={"source": "test"})
    return {"messages": [await scripted.ainvoke(state["messages"])], "metrics": {"sums": 0, "of": {"a": 1, "b": 1}}}


async def conclude_aloud(state: Showcase) -> Showcase:
    chart = f"chart-{len(state['messages']) - 3}"
    push_ui_message("chart", {"more": [2]}, id=chart, merge=True)
    metrics = {**state["metrics"], "sums": 2, "of": {"a": 1, "b": 2}}
    note = HumanMessage("(checked)", id=f"note-{len(state['messages'])}")
    return {"metrics": metrics, "log": ["a long line " * 20], "messages": [note]}


async def take_back(state: Showcase) -> Showcase:
    return {"log": ["taken back"], "messages": [RemoveMessage(id=str(state["messages"][-1].id))]}


showcase = (
    StateGraph(Showcase)
    .add_node("think", think_first)
    .add_node("tools", ToolNode([add]))
    .add_node("conclude", conclude_aloud)
    .add_node("take_back", take_back)
    .add_edge(START, "think")
    .add_edge("think", "tools")
    .add_edge("tools", "conclude")
    .add_edge("conclude", "take_back")
    .compile()
)


# -- nested: a subgraph with tokens and custom events -----------------------------------------------------------------


class Notes(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]


async def note_before(state: Notes) -> Notes:
    get_stream_writer()({"at": "before"})
    return {"notes": ["before"]}


async def note_after(state: Notes) -> Notes:
    get_stream_writer()({"at": "after"})
    return {"notes": ["after"]}


class Inner(TypedDict, total=False):
    """`mood` is private to the subgraph; only its messages are returned."""

    messages: Annotated[list[AnyMessage], add_messages]
    mood: str


async def feel(state: Inner) -> Inner:
    get_stream_writer()({"at": "inside"})
    return {"mood": "calm"}


inner = (
    StateGraph(Inner)
    .add_node("feel", feel)
    .add_node("speak", model)
    .add_edge(START, "feel")
    .add_edge("feel", "speak")
    .compile()
)

nested = (
    StateGraph(Notes)
    .add_node("before", note_before)
    .add_node("inner", inner)
    .add_node("after", note_after)
    .add_edge(START, "before")
    .add_edge("before", "inner")
    .add_edge("inner", "after")
    .compile()
)


# -- approve: one interrupt -------------------------------------------------------------------------------------------


class Approval(TypedDict, total=False):
    topic: str
    answer: Any
    done: bool


def ask(state: Approval) -> Approval:
    return {"answer": interrupt({"question": "ok?", "topic": state.get("topic")})}


def act(state: Approval) -> Approval:
    return {"done": True}


approve = (
    StateGraph(Approval)
    .add_node("ask", ask)
    .add_node("act", act)
    .add_edge(START, "ask")
    .add_edge("ask", "act")
    .compile()
)


# -- approve_many: three parallel interrupts, one of them in a subgraph; then one node with two in sequence -----------


class Approvals(TypedDict, total=False):
    answers: Annotated[list[str], operator.add]


def ask_left(state: Approvals) -> Approvals:
    return {"answers": [f"left={interrupt('left?')}"]}


def ask_right(state: Approvals) -> Approvals:
    return {"answers": [f"right={interrupt('right?')}"]}


def ask_deep(state: Approvals) -> Approvals:
    return {"answers": [f"deep={interrupt('deep?')}"]}


def ask_twice(state: Approvals) -> Approvals:
    first = interrupt("first?")
    second = interrupt("second?")
    return {"answers": [f"first={first}", f"second={second}"]}


deep = StateGraph(Approvals).add_node("ask_deep", ask_deep).add_edge(START, "ask_deep").compile()

approve_many = (
    StateGraph(Approvals)
    .add_node("left", ask_left)
    .add_node("right", ask_right)
    .add_node("deep", deep)
    .add_node("twice", ask_twice)
    .add_edge(START, "left")
    .add_edge(START, "right")
    .add_edge(START, "deep")
    .add_edge(["left", "right", "deep"], "twice")
    .compile()
)


# -- fails ------------------------------------------------------------------------------------------------------------


def boom(state: Echo) -> Echo:
    raise ValueError("boom!")


fails = StateGraph(Echo).add_node("boom", boom).add_edge(START, "boom").compile()


# -- slow, slow_sync, slow_below, slow_approval, stubborn, blocking: {"seconds"?: how long, "until"?: a file to wait
# for, "spin"?: use the CPU} -------------------------------------------------------------------------------------------


class Delay(TypedDict, total=False):
    seconds: float
    until: str
    spin: bool
    steps: Annotated[list[str], operator.add]


def arrived(path: str | None) -> bool:
    return path is None or Path(path).exists()


def begin(state: Delay) -> Delay:
    return {"steps": ["begun"]}


async def wait(state: Delay) -> Delay:
    await asyncio.sleep(state.get("seconds", 0))
    while not arrived(state.get("until")):  # noqa: ASYNC110 - a file has no event to wait on
        await asyncio.sleep(0.01)
    return {"steps": ["waited"]}


def wait_in_thread(state: Delay) -> Delay:
    time.sleep(state.get("seconds", 0))
    while not arrived(state.get("until")):
        time.sleep(0.01)
    return {"steps": ["waited"]}


async def block(state: Delay) -> Delay:
    deadline = time.monotonic() + state.get("seconds", 0)
    while time.monotonic() < deadline or not arrived(state.get("until")):
        if not state.get("spin"):
            time.sleep(0.01)  # noqa: ASYNC251 - this graph blocks the loop on purpose
    return {"steps": ["waited"]}


async def wait_stubbornly(state: Delay) -> Delay:
    while not arrived(state.get("until")):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    return {"steps": ["waited"]}


def wait_below(state: Delay) -> Delay:
    """Wait in a thread pool, which LangGraph creates for every synchronous graph call."""
    below = StateGraph(Delay).add_node("one", wait_in_thread).add_node("other", wait_in_thread)
    below.add_edge(START, "one").add_edge(START, "other").compile().invoke(state)
    return {"steps": ["waited"]}


async def ask_and_wait(state: Delay) -> Delay:
    """Wait after the answer, and create a file next to the one that is waited for."""
    answer = interrupt("ok?")
    Path(state["until"]).with_suffix(".answered").touch()
    await wait(state)
    return {"steps": [answer]}


def _delayed(node: Any) -> Any:
    return (
        StateGraph(Delay)
        .add_node("begin", begin)
        .add_node("wait", node)
        .add_edge(START, "begin")
        .add_edge("begin", "wait")
        .compile()
    )


slow = _delayed(wait)
slow_sync = _delayed(wait_in_thread)
slow_below = _delayed(wait_below)
slow_approval = _delayed(ask_and_wait)
stubborn = _delayed(wait_stubbornly)
blocking = _delayed(block)


# -- steps: {"count": N, "file"?: each step appends a line to it, "delay"?: seconds in each step} ---------------------


class Steps(TypedDict, total=False):
    count: int
    file: str
    delay: float
    done: Annotated[list[int], operator.add]


async def step(state: Steps) -> Steps:
    number = len(state.get("done", [])) + 1
    await asyncio.sleep(state.get("delay", 0))
    append_line(state.get("file"), number)
    return {"done": [number]}


def append_line(path: str | None, number: int) -> None:
    if path is not None:
        with open(path, "a") as file:
            file.write(f"{number}\n")


def more_steps(state: Steps) -> str:
    return "step" if len(state["done"]) < state["count"] else END


steps = (
    StateGraph(Steps)
    .add_node("step", step)
    .add_edge(START, "step")
    .add_conditional_edges("step", more_steps, ["step", END])
    .compile()
    .with_config(recursion_limit=100_000)
)


# -- everything: a tool call, a subgraph with tokens and custom events, an interrupt, an answer -----------------------


class Everything(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]
    review: Any


def call_tool(state: Everything) -> Everything:
    get_stream_writer()({"at": "call"})
    return {"notes": ["called"]}


def review(state: Everything) -> Everything:
    return {"review": interrupt({"question": "publish?", "draft": state["messages"][-1].text})}


everything = (
    StateGraph(Everything)
    .add_node("start", call_tool)
    .add_node("model", model_with_tool)
    .add_node("tools", ToolNode([add]))
    .add_node("inner", inner)
    .add_node("review", review)
    .add_node("final", model)
    .add_edge(START, "start")
    .add_edge("start", "model")
    .add_conditional_edges(
        "model", lambda state: "tools" if wants_tool(state) == "tools" else "inner", ["tools", "inner"]
    )
    .add_edge("tools", "model")
    .add_edge("inner", "review")
    .add_edge("review", "final")
    .compile()
)


# -- private: different schemas for input, state and output -----------------------------------------------------------


class Question(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str


class Whole(Question, Answer, total=False):
    secret: str


def think(state: Question) -> Whole:
    return {"secret": f"thinking about {state['question']}"}


def conclude(state: Whole) -> Answer:
    return {"answer": f"concluded after {state['secret']}"}


private = (
    StateGraph(Whole, input_schema=Question, output_schema=Answer)
    .add_node("think", think)
    .add_node("conclude", conclude)
    .add_edge(START, "think")
    .add_edge("think", "conclude")
    .compile()
)


# -- functional: an entrypoint with a task, which gets its previous result --------------------------------------------


@task
async def double(number: int) -> int:
    return number * 2


@entrypoint()
async def functional(values: dict[str, Any], *, previous: Any = None) -> dict[str, Any]:
    get_stream_writer()({"doubling": values["number"]})
    return {"doubled": await double(values["number"]), "previous": previous}


# -- curious: values that JSON does not support, and some that LangGraph rejects ---------------------------------------


class Curious(TypedDict, total=False):
    refused: bool
    found: dict[str, Any]


CURIOUS: dict[str, Any] = {
    "bytes": b"\x00\xff",
    "class": int,
    "complex": 1 + 2j,
    "date": datetime.date(2026, 1, 2),
    "decimal": Decimal("1.10"),
    "deque": deque([1, 2]),
    "duration": datetime.timedelta(days=1, seconds=5),
    "error": ValueError("no"),
    "fraction": Fraction(1, 3),
    "keys": {1: "a", 1.5: "b", None: "c"},
    "mapping": ChainMap({"a": 1}),
    "moment": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "not a number": float("nan"),
    "path": Path("a/b"),
    "pattern": re.compile("a+"),
    "range": range(3),
    "set": {1},
    "text": "a\ud800b",
    "time": datetime.time(3, 4),
}
REFUSED: dict[str, Any] = {"wide": 10**30, "keys": {1j: "a", "\ud800": "b"}}


def find(state: Curious) -> Curious:
    return {"found": REFUSED if state.get("refused") else CURIOUS}


curious = StateGraph(Curious).add_node("find", find).add_edge(START, "find").compile()


# -- factory: a graph that is created for every run, from the config --------------------------------------------------


async def factory(config: RunnableConfig) -> Any:
    await asyncio.sleep(0)
    greeting = config.get("configurable", {}).get("greeting", "hello")

    def greet(state: Echo) -> Echo:
        return {"echoed": f"{greeting} {state.get('text')}"}

    return StateGraph(Echo).add_node("greet", greet).add_edge(START, "greet").compile()
