"""Graphs for the tests that kill the server, resume at every position, or run concurrently on one thread."""

import asyncio
import operator
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

from threadwire.testing.scripted import ScriptedChatModel


class Race(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    count: int
    words: int
    answers: int
    file: str
    delay: float
    done: Annotated[list[int], operator.add]
    approved: Any


def append_line(path: str | None, line: str) -> None:
    if path is not None:
        with open(path, "a") as file:
            file.write(line + "\n")


# -- marathon: many fast steps, each recorded in an external file, then an answer of many words ------------------------


async def step(state: Race) -> Race:
    number = len(state.get("done", [])) + 1
    await asyncio.sleep(state.get("delay", 0))
    append_line(state.get("file"), str(number))
    get_stream_writer()({"step": number})
    return {"done": [number]}


def more_steps(state: Race) -> str:
    return "step" if len(state.get("done", [])) < state.get("count", 0) else "answer"


async def answer(state: Race) -> Race:
    words = " ".join(f"word{number}" for number in range(state.get("words", 10)))

    def reply(conversation: list[BaseMessage]) -> AIMessage:
        return AIMessage(words)

    model = ScriptedChatModel(reply=reply, delay=state.get("delay", 0))
    return {"messages": [await model.ainvoke(state["messages"])]}


marathon = (
    StateGraph(Race)
    .add_node("step", step)
    .add_node("answer", answer)
    .add_edge(START, "step")
    .add_conditional_edges("step", more_steps, ["step", "answer"])
    .compile()
    .with_config(recursion_limit=10_000)
)


# -- poison: kills the whole process -----------------------------------------------------------------------------------


async def die(state: Race) -> Race:
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


poison = StateGraph(Race).add_node("die", die).add_edge(START, "die").compile()


# -- traced: slow steps, each recorded with its process, and ways to harm that process ---------------------------------


class Traced(TypedDict, total=False):
    file: str
    count: int
    delay: float
    harm: str
    done: Annotated[list[int], operator.add]


async def traced_step(state: Traced) -> Traced:
    number = len(state.get("done", [])) + 1
    append_line(state["file"], f"{number} {os.getpid()} {time.time()}")
    get_stream_writer()({"step": number, "process": os.getpid()})
    await asyncio.sleep(state["delay"])
    match state.get("harm"):
        case "exit":
            os._exit(3)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "block":
            time.sleep(3600)  # noqa: ASYNC251 - blocks the event loop of the worker
    return {"done": [number]}


def make_traced() -> Any:
    """A factory, so that reading a state shows in which process it is read."""
    append_line(os.environ.get("OPENED_FILE"), str(os.getpid()))
    return (
        StateGraph(Traced)
        .add_node("step", traced_step)
        .add_edge(START, "step")
        .add_conditional_edges("step", lambda state: "step" if len(state["done"]) < state["count"] else END)
        .compile()
        .with_config(recursion_limit=10_000)
    )


# -- nested: the same steps inside a subgraph, which kills the process once in the middle ------------------------------


def kill_once(state: Race) -> Race:
    if "killed" not in Path(state["file"]).read_text():
        append_line(state["file"], "killed")
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


killing = (
    StateGraph(Race)
    .add_node("step", step)
    .add_node("kill_once", kill_once)
    .add_edge(START, "step")
    .add_conditional_edges("step", more_steps, {"step": "step", "answer": "kill_once"})
    .compile()
)
nested = StateGraph(Race).add_node("killing", killing).add_edge(START, "killing").compile()


# -- long: thousands of entries of every kind --------------------------------------------------------------------------


def ask(state: Race) -> Race:
    return {"approved": interrupt({"question": "publish?"})}


# Many short answers, because a mode that repeats the whole message with every token is quadratic in its length.


def answers_given(state: Race) -> float:
    return sum(message.type == "ai" for message in state["messages"]) / state.get("answers", 1)


def more_answers(state: Race) -> str:
    return "answer" if answers_given(state) < 1 else "inner"


def more_inner_answers(state: Race) -> str:
    return "answer" if answers_given(state) < 2 else END


class Answered(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


inner = (
    StateGraph(Race, output_schema=Answered)
    .add_node("answer", answer)
    .add_edge(START, "answer")
    .add_conditional_edges("answer", more_inner_answers, ["answer", END])
    .compile()
)

long = (
    StateGraph(Race)
    .add_node("step", step)
    .add_node("answer", answer)
    .add_node("inner", inner)
    .add_node("ask", ask)
    .add_edge(START, "step")
    .add_conditional_edges("step", more_steps, ["step", "answer"])
    .add_conditional_edges("answer", more_answers, ["answer", "inner"])
    .add_edge("inner", "ask")
    .compile()
    .with_config(recursion_limit=10_000)
)


# -- probe: records when it enters and leaves a node, so that an overlap shows ---------------------------------------


class Probe(TypedDict, total=False):
    name: str
    file: str
    hold: float
    log: Annotated[list[str], operator.add]


async def hold(state: Probe) -> Probe:
    append_line(state["file"], f"enter {state['name']}")
    try:
        await asyncio.sleep(state["hold"])
    finally:
        append_line(state["file"], f"leave {state['name']}")
    return {"log": [state["name"]]}


def hold_sync(state: Probe) -> Probe:
    append_line(state["file"], f"enter {state['name']}")
    time.sleep(state["hold"])
    append_line(state["file"], f"leave {state['name']}")
    return {"log": [state["name"]]}


def _twice(node: Any) -> Any:
    return (
        StateGraph(Probe)
        .add_node("first", node)
        .add_node("second", node)
        .add_edge(START, "first")
        .add_edge("first", "second")
        .add_edge("second", END)
        .compile()
    )


probe = _twice(hold)
probe_sync = _twice(hold_sync)


# -- asking: one interrupt ---------------------------------------------------------------------------------------------


class Asking(TypedDict, total=False):
    answer: str


asking = StateGraph(Asking).add_node("ask", lambda _: {"answer": interrupt("Yes?")}).add_edge(START, "ask").compile()
