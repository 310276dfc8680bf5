"""The benchmark graphs: the same ones run bare, on Threadwire and on the stock server.

They do almost nothing, so the benchmark measures the overhead around them. Their input sets the amount of work.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph

WORDS = [" the", " quick", " brown", " fox", " jumps", " over", " a", " lazy", " dog", ",", " then", " rests", "."]


class LeanModel(BaseChatModel):
    """Streams `count` tokens at `rate` per second (0: unthrottled), after `delay` seconds.

    With `stamp`, each token is the time at which it was created, in nanoseconds.
    """

    count: int
    rate: float = 0
    delay: float = 0
    stamp: bool = False

    @property
    def _llm_type(self) -> str:
        return "lean"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(WORDS)))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        if self.delay:
            await asyncio.sleep(self.delay)
        start = time.perf_counter()
        for number in range(self.count):
            if self.rate:
                await asyncio.sleep(max(0.0, start + number / self.rate - time.perf_counter()))
            text = f"@{time.time_ns()}@" if self.stamp else WORDS[number % len(WORDS)]
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))


class Talk(MessagesState):
    count: int
    rate: float
    delay: float
    stamp: bool
    forget: bool
    """Stream the message but do not store it in the state: a long log without a large state."""


async def talk(state: Talk) -> dict[str, Any]:
    model = LeanModel(
        count=state["count"],
        rate=state.get("rate", 0),
        delay=state.get("delay", 0),
        stamp=state.get("stamp", False),
    )
    answer = await model.ainvoke(state["messages"])
    return {} if state.get("forget") else {"messages": [answer]}


class Plain(TypedDict, total=False):
    text: str


async def echo(state: Plain) -> Plain:
    return {"text": state.get("text", "") + "!"}


class Counting(MessagesState):
    """The state of an agent loop: a conversation that grows by one message per step. About 1 ms per step, bare."""

    done: int
    goal: int


async def count_one(state: Counting) -> dict[str, Any]:
    return {"done": state["done"] + 1, "messages": [AIMessage(f"step {state['done']}")]}


def _again(state: Any) -> str:
    return "step" if state["done"] < state["goal"] else END


def _append(before: list[Any], more: list[Any]) -> list[Any]:
    return before + more


class Heavy(TypedDict):
    """A document that stays the same and a conversation that grows."""

    done: int
    goal: int
    document: str
    conversation: Annotated[list[Any], _append]


async def load(state: Heavy) -> dict[str, Any]:
    # Incompressible text: the benchmark measures whether it is written again at all.
    document = "".join(f"{number * 2654435761 % 2**64:016x}" for number in range(65_536))
    return {"document": document, "conversation": [HumanMessage(f"message {n}: " + "x" * 200) for n in range(400)]}


async def heavy_step(state: Heavy) -> dict[str, Any]:
    return {"done": state["done"] + 1, "conversation": [AIMessage(f"step {state['done']}: " + "y" * 200)]}


async def sleep(state: Plain) -> Plain:
    await asyncio.sleep(3600)
    return {}


def _one(schema: type, node: Any) -> Any:
    return StateGraph(schema).add_node("node", node).add_edge(START, "node").add_edge("node", END)


tokens = _one(Talk, talk).compile()
trivial = _one(Plain, echo).compile()
sleeper = _one(Plain, sleep).compile()
steps = (
    StateGraph(Counting)
    .add_node("step", count_one)
    .add_edge(START, "step")
    .add_conditional_edges("step", _again, ["step", END])
    .compile()
)
heavy = (
    StateGraph(Heavy)
    .add_node("load", load)
    .add_node("step", heavy_step)
    .add_edge(START, "load")
    .add_edge("load", "step")
    .add_conditional_edges("step", _again, ["step", END])
    .compile()
)
