"""Staged puts are visible to reads, and writing them later has the same result as writing them directly."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph import channels
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

from threadwire.core.records import CheckpointPut
from threadwire.graphs.staging_saver import StagingSaver

pytestmark = [pytest.mark.anyio, pytest.mark.every_version]

AT: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def in_place(before: list[str], more: list[str]) -> list[str]:
    before.extend(more)
    return before


def delta_channel() -> Any:
    """LangGraph has had this channel since 1.2."""
    if not hasattr(channels, "DeltaChannel"):
        return operator.add
    return channels.DeltaChannel(lambda base, writes: base + [one for each in writes for one in each])


class State(TypedDict, total=False):
    added: Annotated[list[str], operator.add]
    changed: Annotated[list[str], in_place]
    delta: Annotated[list[str], delta_channel()]
    plain: str


class Inner(TypedDict, total=False):
    answer: str


def ask(state: Inner) -> Inner:
    return {"answer": interrupt("well?")}


def node(state: State) -> State:
    return {"added": ["node"], "changed": ["node"], "delta": ["node"], "plain": "x" * 100}


inner = StateGraph(Inner).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=True)
builder = StateGraph(State).add_node("node", node).add_node("inner", inner).add_node("each", node)
builder.add_edge(START, "node").add_conditional_edges("node", lambda state: ["inner", Send("each", state)])

MORE = {"added": ["update"], "changed": ["update"], "delta": ["update"]}


def bound(saver: Any) -> Any:
    return builder.compile(checkpointer=saver)


async def run(saver: InMemorySaver) -> None:
    """Run until the interrupt in the subgraph."""
    await bound(saver).ainvoke({"added": ["input"], "changed": ["input"]}, AT)


async def put(saver: InMemorySaver, staging: StagingSaver) -> None:
    for each in staging.puts:
        if isinstance(each, CheckpointPut):
            await saver.aput(each.config, each.checkpoint, each.metadata, each.new_versions)
        else:
            await saver.aput_writes(each.config, each.writes, each.task_id, each.task_path)


async def observed(saver: Any, config: RunnableConfig = AT) -> Any:
    state = await bound(saver).aget_state(config, subgraphs=True)
    metadata = {key: (state.metadata or {}).get(key) for key in ("source", "step")}
    nested = [task.state and (task.state.values, task.state.next) for task in state.tasks]
    return state.values, state.next, metadata, nested, [task.name for task in state.tasks]


async def subgraph_config(saver: Any) -> RunnableConfig:
    """The config of the interrupted subgraph."""
    state = await bound(saver).aget_state(AT)
    return next(task.state for task in state.tasks if task.name == "inner")


UPDATES: dict[str, tuple[Any, str | None]] = {
    "values": (MORE, "each"),
    "with a push": (MORE, "node"),
    "as input": (MORE, "__input__"),
    "nothing left to do": (None, END),
    "nothing": (None, None),
    "a copy": (None, "__copy__"),
    "a copy with other values": ([(MORE, "each")], "__copy__"),
}


@pytest.mark.parametrize(("values", "as_node"), UPDATES.values(), ids=UPDATES)
async def test_update_can_be_staged_and_written_later(values: Any, as_node: str | None) -> None:
    direct, later = InMemorySaver(), InMemorySaver()
    for saver in (direct, later):
        await run(saver)
    before = await observed(later)
    await bound(direct).aupdate_state(AT, values, as_node=as_node)
    staging = StagingSaver(later)
    updated = await bound(staging).aupdate_state(AT, values, as_node=as_node)
    for _ in range(2):  # reading changes nothing, even if a reducer mutates its arguments
        assert await observed(staging) == await observed(direct)
    assert await observed(later) == before
    await put(later, staging)
    assert await observed(later) == await observed(direct)
    newest = await later.aget_tuple(AT)
    assert newest is not None
    assert newest.config["configurable"]["checkpoint_id"] == updated["configurable"]["checkpoint_id"]
    assert len([each async for each in later.alist(AT)]) == len([each async for each in direct.alist(AT)])


@pytest.mark.needs("langgraph", "1.2.16")
async def test_update_inside_a_subgraph_can_be_staged() -> None:
    saver = InMemorySaver()
    await run(saver)
    staging = StagingSaver(saver)
    await bound(staging).aupdate_state(await subgraph_config(saver), {"answer": "updated"}, as_node="ask")
    before, after = await observed(saver), await observed(staging)
    assert ({}, ("ask",)) in before[3]
    assert ({"answer": "updated"}, ()) in after[3]
    assert before[0] == after[0]
    await put(saver, staging)
    assert await observed(saver) == after


async def test_first_update_of_a_thread_can_be_staged() -> None:
    saver = InMemorySaver()
    staging = StagingSaver(saver)
    await bound(staging).aupdate_state(AT, MORE, as_node="each")
    assert (await observed(staging))[0]["added"] == ["update"]
    assert await saver.aget_tuple(AT) is None
    await put(saver, staging)
    assert await observed(saver) == await observed(staging)
