"""`sys.exit` in a run ends only that run; a failed event loop or storage ends the server process."""

import json

import anyio
import httpx
import pytest
from clients import TIMEOUT, eventually, open_async, rejected, wait_for_status

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

AGENTS = """
import asyncio
import os
import pathlib
import time
from typing import TypedDict

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from threadwire.storage.sqlite import write_ahead_log


class State(TypedDict, total=False):
    exits: str
    path: str
    text: str


class Stop(BaseException):
    pass


EXITS = (SystemExit, KeyboardInterrupt, GeneratorExit, Stop, asyncio.CancelledError)
EXITS = {each.__name__: each for each in EXITS}


def chain(schema, *nodes):
    return StateGraph(schema).add_sequence(nodes).add_edge(START, nodes[0][0]).compile()


def one(node):
    return chain(State, ("node", node))


def leave(state):
    raise EXITS[state["exits"]](3)


async def leave_async(state):
    await asyncio.sleep(0)
    raise EXITS[state["exits"]](3)


def make(config):
    if "exits" in config["configurable"]:
        raise EXITS[config["configurable"]["exits"]](3)
    return echo


@tool
def quit_by_tool(exits: str):
    "Leave."
    raise EXITS[exits](3)


def ask(state):
    call = {"name": "quit_by_tool", "args": {"exits": state["messages"][-1].content}, "id": "call-1"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def nest(state):
    deep = []
    for _ in range(2000):
        deep = [deep]
    raise ValueError(deep)


def wait_for(state):
    until = time.monotonic() + 60
    while not pathlib.Path(state["path"]).exists() and time.monotonic() < until:
        time.sleep(0.01)
    return {"text": "waited"}


def kill_the_loop():
    loop = asyncio.get_running_loop()
    loop.run_forever = loop.close
    loop.stop()


async def called_before(path):
    "Whether this is not the first call. The first call waits until the test knows that the run was accepted."
    if path.exists():
        return True
    path.touch()
    while not path.with_suffix(".accepted").exists():
        await asyncio.sleep(0.01)
    return False


async def kill_once(state):
    if await called_before(pathlib.Path(state["path"])):
        return {"text": "resumed"}
    kill_the_loop()
    await asyncio.Event().wait()


async def break_the_disk(state):
    if await called_before(pathlib.Path(state["path"])):
        return {"text": "resumed"}
    pipe, _ = os.pipe()
    write_ahead_log.sync = lambda file: os.fsync(pipe)  # a pipe cannot be synced
    get_stream_writer()("something to store")
    await asyncio.Event().wait()


async def kill_when_read(config, runtime):
    if runtime.access_context == "threads.read":
        kill_the_loop()
        await asyncio.Event().wait()
    return echo


echo = one(lambda state: {"text": "hello"})
in_sync_node = one(leave)
in_async_node = one(leave_async)
in_tool = chain(MessagesState, ("ask", ask), ("tools", ToolNode([quit_by_tool])))
nests = one(nest)
waits = one(wait_for)
kills_once = one(kill_once)
breaks_the_disk = one(break_the_disk)
"""

GRAPHS = ("echo", "in_sync_node", "in_async_node", "in_tool", "nests", "waits", "kills_once", "make", "kill_when_read")
GRAPHS += ("breaks_the_disk",)


@pytest.fixture(scope="module")
def exits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exits")
    (folder / "exiting_agents.py").write_text(AGENTS)
    graphs = {name: f"./exiting_agents.py:{name}" for name in GRAPHS}
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    return folder / "langgraph.json"


@pytest.fixture(scope="module")
def server(exits, tmp_path_factory):
    env = {"THREADWIRE_SHOWN_ERRORS": '["*"]'}
    with running_server(exits, tmp_path_factory.mktemp("data") / "data", env=env) as running:
        yield running


@pytest.mark.with_workers
@pytest.mark.parametrize("raised", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "Stop"])
@pytest.mark.parametrize("where", ["in_sync_node", "in_async_node", "in_tool", "make"])
async def test_a_run_that_would_exit_the_process_ends_in_error_and_affects_no_other(sdk, where, raised, gate):
    other = await sdk.runs.create(await sdk.thread(), "waits", input={"path": str(gate)})
    await wait_for_status(sdk, other, "running")
    thread_id = await sdk.thread()
    given = {"messages": [{"role": "user", "content": raised}]} if where == "in_tool" else {"exits": raised}
    config = {"configurable": {"exits": raised}} if where == "make" else {}
    with anyio.fail_after(TIMEOUT):
        values = await sdk.runs.wait(thread_id, where, input=given, config=config, raise_error=False)
    # LangGraph may turn a GeneratorExit, with which Python closes coroutines, into another exception.
    assert values["__error__"]["error"] in ({raised, "RuntimeError"} if raised == "GeneratorExit" else {raised})
    assert [run["status"] for run in await sdk.runs.list(thread_id)] == ["error"]
    assert (await sdk.threads.get(thread_id))["status"] == "error"

    gate.touch()
    assert await sdk.runs.join(other["thread_id"], other["run_id"]) == {"path": str(gate), "text": "waited"}
    assert await sdk.runs.wait(await sdk.thread(), "echo", input={}) == {"text": "hello"}


@pytest.mark.with_workers
async def test_an_error_that_cannot_be_rendered_ends_only_its_run(sdk):
    with anyio.fail_after(TIMEOUT):
        values = await sdk.runs.wait(await sdk.thread(), "nests", input={}, raise_error=False)
        assert values["__error__"] == {
            "error": "ValueError",
            "message": "The error message could not be rendered: RecursionError",
        }
        assert await sdk.runs.wait(await sdk.thread(), "echo", input={}) == {"text": "hello"}


@pytest.mark.with_workers
@pytest.mark.parametrize(
    ("raised", "detail"),
    [
        ("SystemExit", "SystemExit: 3"),
        ("Stop", "Stop: 3"),
        ("CancelledError", "CancelledError: The graph cancelled itself."),
    ],
)
async def test_a_factory_that_would_exit_the_process_fails_only_the_read(sdk, raised, detail):
    thread_id = await sdk.thread()
    config = {"configurable": {"exits": raised}}
    ended = await sdk.runs.wait(thread_id, "make", input={}, config=config, raise_error=False)
    assert "{error}: {message}".format(**ended["__error__"]) == detail
    for _ in range(2):
        with rejected(502, detail):
            await sdk.threads.get_state(thread_id)


async def test_a_failed_worker_ends_the_process_and_its_runs_resume_after_the_restart(exits, tmp_path):
    with running_server(exits, tmp_path / "data") as server:
        async with open_async(server.url) as sdk:
            run = await sdk.runs.create(await sdk.thread(), "kills_once", input={"path": str(tmp_path / "killed")})
        (tmp_path / "killed.accepted").touch()
        assert await anyio.to_thread.run_sync(server.wait) == 1
        assert "The event loop that runs graphs has failed." in server.log()
        await anyio.to_thread.run_sync(server.start)
        assert "run_recovered" in server.log()
        async with open_async(server.url) as sdk:
            await wait_for_status(sdk, run, "success")
            assert (await sdk.threads.get_state(run["thread_id"]))["values"]["text"] == "resumed"


async def test_a_server_whose_engine_failed_is_not_ok_while_it_stops(exits, tmp_path, gate):
    """The reads loop has failed; the run on the worker loop is given time to end."""
    with running_server(exits, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "600"}) as server:
        async with open_async(server.url) as sdk, httpx.AsyncClient(base_url=server.url, timeout=TIMEOUT) as http:
            run = await sdk.runs.create(await sdk.thread(), "waits", input={"path": str(gate)})
            await wait_for_status(sdk, run, "running")
            read = await sdk.thread(graph_id="kill_when_read")
            assert (await http.get(f"/threads/{read}/state")).status_code == 503

            async def not_ok():
                response = await http.get("/ok")
                return response.status_code == 503 and response

            assert "has failed" in (await eventually(not_ok)).json()["detail"]
            gate.touch()
        assert await anyio.to_thread.run_sync(server.wait) == 1
        await anyio.to_thread.run_sync(server.start)
        async with open_async(server.url) as sdk:
            assert (await sdk.runs.get(run["thread_id"], run["run_id"]))["status"] == "success"


async def test_a_disk_that_cannot_be_synced_ends_the_process_and_its_runs_resume_after_the_restart(exits, tmp_path):
    """The process ends immediately, because nothing can be stored anymore."""
    with running_server(exits, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "600"}) as server:
        async with open_async(server.url) as sdk:
            given = {"path": str(tmp_path / "broken")}
            run = await sdk.runs.create(await sdk.thread(), "breaks_the_disk", input=given)
        (tmp_path / "broken.accepted").touch()
        assert await anyio.to_thread.run_sync(server.wait) == 1
        assert "The write-ahead log could not be synced" in server.log()
        await anyio.to_thread.run_sync(server.start)
        async with open_async(server.url) as sdk:
            await wait_for_status(sdk, run, "success")
            assert (await sdk.threads.get_state(run["thread_id"]))["values"]["text"] == "resumed"
