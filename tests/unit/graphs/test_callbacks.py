"""Who listens to a run hears the same whether it is told quickly or in LangChain's way."""

import asyncio
import logging
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager, BaseCallbackHandler, manager
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import _messages, main

from threadwire.graphs.callbacks import Callbacks, ChainCallbacks
from threadwire.graphs.langgraph_private import patch_langgraph

pytestmark = pytest.mark.anyio

MODES = ["values", "updates", "messages", "tools", "tasks"]


class State(TypedDict, total=False):
    said: list[AIMessage]


async def speak(state: State) -> State:
    return {"said": [AIMessage("hello", id="m")]}


def again(state: State) -> str:
    return END


def a_graph() -> Any:
    inner = StateGraph(State).add_node("speak", speak).add_edge(START, "speak").add_conditional_edges("speak", again)
    outer = StateGraph(State).add_node("inner", inner.compile()).add_edge(START, "inner")
    return outer.compile()


def usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain's, as without the patch."""
    patched = main.get_async_callback_manager_for_config
    monkeypatch.setattr(main, "get_async_callback_manager_for_config", patched.args[0])


async def parts(*listening: BaseCallbackHandler) -> list[Any]:
    config: RunnableConfig = {"callbacks": list(listening)}
    streamed = a_graph().astream({}, config, stream_mode=MODES, subgraphs=True)
    return [(len(ns), mode, _told(mode, part)) for ns, mode, part in [part async for part in streamed]]


def _told(mode: str, part: Any) -> Any:
    """What of it is the same in every run."""
    if mode == "messages":
        return part[0].content
    return part.get("name") if mode == "tasks" else sorted(part)


async def test_the_installed_version_tells_its_own_handlers_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_langgraph()
    in_turn: list[str] = []
    usual = manager.ahandle_event

    async def noted(handlers: list[BaseCallbackHandler], event: str, *args: Any, **about: Any) -> None:
        in_turn.append(event)
        await usual(handlers, event, *args, **about)

    monkeypatch.setattr(manager, "ahandle_event", noted)
    await parts()
    assert in_turn == []
    usual_way(monkeypatch)
    await parts()
    assert {"on_chain_start", "on_chain_end"} <= set(in_turn)


async def test_what_is_streamed_does_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_langgraph()
    quick = await parts()
    assert ("messages", "hello") in [(mode, told) for _, mode, told in quick]
    usual_way(monkeypatch)
    assert quick == await parts()


async def test_an_error_is_told_quickly_too() -> None:
    told: list[tuple[str, Any]] = []

    class Notes(_messages.StreamMessagesHandler):
        def on_chain_error(self, error: BaseException, **about: Any) -> None:
            told.append((str(error), about["run_id"]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Callbacks, "at_once", frozenset({Notes}))
        handler = Notes(lambda part: None, True)
        chain = await Callbacks.instead_of(AsyncCallbackManager([handler], [handler])).on_chain_start(None, {})
        await chain.on_chain_error(ValueError("no"))
    assert told == [("no", chain.run_id)]


class Hears(AsyncCallbackHandler):
    """A handler that takes its time."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self._names: dict[Any, str] = {}

    async def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **about: Any) -> None:
        await asyncio.sleep(0)
        self._names[run_id] = about["name"]
        self.heard.append((f"start {about['name']}", self._names.get(about["parent_run_id"])))

    async def on_chain_end(self, outputs: Any, *, run_id: Any, **about: Any) -> None:
        await asyncio.sleep(0)
        self.heard.append((f"end {self._names[run_id]}", tuple(about["tags"])))

    async def on_chain_error(self, error: BaseException, *, run_id: Any, **about: Any) -> None:
        self.heard.append((f"error {self._names[run_id]}", str(error)))


async def test_a_handler_of_the_projects_own_hears_all(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_langgraph()
    one, other = Hears(), Hears()
    streamed = await parts(one)
    assert ("start speak", "LangGraph") in one.heard
    usual_way(monkeypatch)
    assert streamed == await parts(other)
    assert one.heard == other.heard


async def test_a_handler_that_is_named_twice_hears_of_a_node_once() -> None:
    patch_langgraph()
    hears = Hears()
    await a_graph().with_config(callbacks=[hears]).ainvoke({}, {"callbacks": [hears]})
    assert [what for what, _ in hears.heard].count("start speak") == 1


async def test_it_hears_of_errors() -> None:
    patch_langgraph()
    hears = Hears()

    async def fail(state: State) -> State:
        raise ValueError("no")

    graph = StateGraph(State).add_node("fail", fail).add_edge(START, "fail").compile()
    with pytest.raises(ValueError, match="no"):
        await graph.ainvoke({}, {"callbacks": [hears]})
    assert [what for what, _ in hears.heard] == ["start LangGraph", "start fail", "error fail", "error LangGraph"]


class Fails(_messages.StreamMessagesHandler):
    def on_chain_start(self, *args: Any, **about: Any) -> None:
        raise ValueError("cannot be shown")

    def on_chain_end(self, *args: Any, **about: Any) -> None:
        raise ValueError("nor this")


@pytest.mark.parametrize("fatal", [False, True])
async def test_a_handler_that_fails_is_logged_or_raised_as_it_wishes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fatal: bool
) -> None:
    monkeypatch.setattr(Callbacks, "at_once", frozenset({Fails}))
    handler = Fails(lambda part: None, True)
    handler.raise_error = fatal
    callbacks = Callbacks.instead_of(AsyncCallbackManager([handler], [handler]))
    with caplog.at_level(logging.WARNING):
        if fatal:
            with pytest.raises(ValueError, match="cannot be shown"):
                await callbacks.on_chain_start(None, {})
        else:
            chain = await callbacks.on_chain_start(None, {})
            await chain.on_chain_end({})
            assert "nor this" in caplog.text
    assert "Error in Fails.on_chain_start callback: ValueError('cannot be shown')" in caplog.text


async def test_a_child_has_what_is_handed_down_and_shares_nothing() -> None:
    usual = AsyncCallbackManager([], [], tags=["own"], inheritable_tags=["all"], inheritable_metadata={"a": 1})
    chain = await Callbacks.instead_of(usual).on_chain_start(None, {})
    assert isinstance(chain, ChainCallbacks)
    child, other = chain.get_child("seq:step:1"), chain.get_child()
    assert (child.tags, child.inheritable_tags, child.parent_run_id) == (["all", "seq:step:1"], ["all"], chain.run_id)
    child.add_tags(["more"])
    child.add_metadata({"b": 2})
    child.add_handler(Hears())
    assert (other.tags, other.metadata, other.handlers) == (["all"], {"a": 1}, [])
    assert (chain.inheritable_tags, chain.inheritable_handlers) == (["all"], [])
