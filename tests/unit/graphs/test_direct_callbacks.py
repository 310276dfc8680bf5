"""Callback handlers get the same events on the fast path as through LangChain."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager, BaseCallbackHandler, manager
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import _messages

from threadwire.graphs.langgraph_private.direct_callbacks import (
    DIRECT_CALLBACKS,
    DIRECT_TOKENS,
    Callbacks,
    ChainCallbacks,
)
from threadwire.testing.scripted import ScriptedChatModel

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

MODES = ["values", "updates", "messages", "tools", "tasks"]


class State(TypedDict, total=False):
    said: list[AIMessage]


async def speak(state: State) -> State:
    return {"said": [AIMessage("hello", id="m")]}


def route(state: State) -> str:
    return END


def build_graph() -> Any:
    inner = StateGraph(State).add_node("speak", speak).add_edge(START, "speak").add_conditional_edges("speak", route)
    outer = StateGraph(State).add_node("inner", inner.compile()).add_edge(START, "inner")
    return outer.compile()


@pytest.fixture
def undo_patch() -> Iterator[Callable[[], None]]:
    """Use LangChain's own callback managers for the rest of the test."""
    patches = (DIRECT_CALLBACKS, DIRECT_TOKENS)

    def undo() -> None:
        for patch in patches:
            patch.undo()

    yield undo
    for patch in patches:
        patch.apply()


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The events that LangChain passes to handlers itself."""
    events: list[str] = []
    original = manager.ahandle_event

    async def recording(handlers: list[BaseCallbackHandler], event: str, *args: Any, **kwargs: Any) -> None:
        events.append(event)
        await original(handlers, event, *args, **kwargs)

    monkeypatch.setattr(manager, "ahandle_event", recording)
    return events


async def parts(*handlers: BaseCallbackHandler) -> list[Any]:
    config: RunnableConfig = {"callbacks": list(handlers)}
    streamed = build_graph().astream({}, config, stream_mode=MODES, subgraphs=True)
    return [(len(ns), mode, _stable(mode, part)) for ns, mode, part in [part async for part in streamed]]


def _stable(mode: str, part: Any) -> Any:
    """What is the same in every run."""
    if mode == "messages":
        return part[0].content
    return part.get("name") if mode == "tasks" else sorted(part)


async def test_langgraph_handlers_are_called_directly(handled: list[str], undo_patch: Callable[[], None]) -> None:
    await parts()
    assert handled == []
    undo_patch()
    await parts()
    assert {"on_chain_start", "on_chain_end"} <= set(handled)


async def test_stream_is_the_same_on_the_fast_path(undo_patch: Callable[[], None]) -> None:
    fast = await parts()
    assert ("messages", "hello") in [(mode, content) for _, mode, content in fast]
    undo_patch()
    assert fast == await parts()


async def test_errors_are_reported_on_the_fast_path() -> None:
    errors: list[tuple[str, Any]] = []

    class ErrorHandler(_messages.StreamMessagesHandler):
        def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
            errors.append((str(error), kwargs["run_id"]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Callbacks, "direct_handlers", frozenset({ErrorHandler}))
        handler = ErrorHandler(lambda part: None, True)
        chain = await Callbacks.from_manager(AsyncCallbackManager([handler], [handler])).on_chain_start(None, {})
        await chain.on_chain_error(ValueError("no"))
    assert errors == [("no", chain.run_id)]


class RecordingHandler(AsyncCallbackHandler):
    """An asynchronous handler."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self._names: dict[Any, str] = {}

    async def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        await asyncio.sleep(0)
        self._names[run_id] = kwargs["name"]
        self.events.append((f"start {kwargs['name']}", self._names.get(kwargs["parent_run_id"])))

    async def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        await asyncio.sleep(0)
        self.events.append((f"end {self._names[run_id]}", tuple(kwargs["tags"])))

    async def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        self.events.append((f"error {self._names[run_id]}", str(error)))


async def test_project_handler_gets_every_event(undo_patch: Callable[[], None]) -> None:
    one, other = RecordingHandler(), RecordingHandler()
    streamed = await parts(one)
    assert ("start speak", "LangGraph") in one.events
    undo_patch()
    assert streamed == await parts(other)
    assert one.events == other.events


async def test_handler_added_twice_gets_each_event_once() -> None:
    handler = RecordingHandler()
    await build_graph().with_config(callbacks=[handler]).ainvoke({}, {"callbacks": [handler]})
    assert [event for event, _ in handler.events].count("start speak") == 1


async def test_project_handler_gets_errors() -> None:
    handler = RecordingHandler()

    async def fail(state: State) -> State:
        raise ValueError("no")

    graph = StateGraph(State).add_node("fail", fail).add_edge(START, "fail").compile()
    with pytest.raises(ValueError, match="no"):
        await graph.ainvoke({}, {"callbacks": [handler]})
    assert [event for event, _ in handler.events] == ["start LangGraph", "start fail", "error fail", "error LangGraph"]


class FailingHandler(_messages.StreamMessagesHandler):
    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError("failed on start")

    def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError("failed on end")


@pytest.mark.parametrize("fatal", [False, True])
async def test_handler_error_is_logged_and_raised_only_if_raise_error_is_set(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fatal: bool
) -> None:
    monkeypatch.setattr(Callbacks, "direct_handlers", frozenset({FailingHandler}))
    handler = FailingHandler(lambda part: None, True)
    handler.raise_error = fatal
    callbacks = Callbacks.from_manager(AsyncCallbackManager([handler], [handler]))
    with caplog.at_level(logging.WARNING):
        if fatal:
            with pytest.raises(ValueError, match="failed on start"):
                await callbacks.on_chain_start(None, {})
        else:
            chain = await callbacks.on_chain_start(None, {})
            await chain.on_chain_end({})
            assert "failed on end" in caplog.text
    assert "Error in FailingHandler.on_chain_start callback: ValueError('failed on start')" in caplog.text


async def test_child_copies_what_it_inherits() -> None:
    parent = AsyncCallbackManager([], [], tags=["own"], inheritable_tags=["all"], inheritable_metadata={"a": 1})
    chain = await Callbacks.from_manager(parent).on_chain_start(None, {})
    assert isinstance(chain, ChainCallbacks)
    child, other = chain.get_child("seq:step:1"), chain.get_child()
    assert (child.tags, child.inheritable_tags, child.parent_run_id) == (["all", "seq:step:1"], ["all"], chain.run_id)
    child.add_tags(["more"])
    child.add_metadata({"b": 2})
    child.add_handler(RecordingHandler())
    assert (other.tags, other.metadata, other.handlers) == (["all"], {"a": 1}, [])
    assert (chain.inheritable_tags, chain.inheritable_handlers) == (["all"], [])


class TokenHandler(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        await asyncio.sleep(0)
        self.tokens.append(token)


async def streamed_tokens(*handlers: BaseCallbackHandler) -> list[Any]:
    async def model(state: State) -> State:
        return {"said": [await ScriptedChatModel(reply=lambda conversation: AIMessage("one two three")).ainvoke("go")]}

    graph = StateGraph(State).add_node("model", model).add_edge(START, "model").compile()
    config: RunnableConfig = {"callbacks": list(handlers)}
    return [message.content async for message, _ in graph.astream({}, config, stream_mode="messages")]


async def test_tokens_go_to_the_stream_handlers_directly(handled: list[str], undo_patch: Callable[[], None]) -> None:
    directly = await streamed_tokens()
    assert "".join(directly) == "one two three"
    assert "on_llm_new_token" not in handled
    undo_patch()
    assert await streamed_tokens() == directly
    assert "on_llm_new_token" in handled


async def test_project_handler_gets_every_token(undo_patch: Callable[[], None]) -> None:
    one, other = TokenHandler(), TokenHandler()
    streamed = await streamed_tokens(one)
    assert "".join(one.tokens) == "one two three"
    undo_patch()
    assert streamed == await streamed_tokens(other)
    assert one.tokens == other.tokens
