"""`threads.stream` of the Python SDK, over server-sent events and over a WebSocket."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from clients import PROJECT, TIMEOUT, collect, eventually, fresh_id, human
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from relay import cutting_relay_to, relay_to
from wire import CHANNELS

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio

Transport = Literal["sse", "websocket"]


@pytest.fixture(params=["sse", "websocket"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=server.url) as opened:
        yield opened


async def interrupted(thread: Any) -> list[Any]:
    """Wait for interrupts, and return them."""

    async def check() -> list[Any]:
        return list(thread.interrupts)

    return await eventually(check)


async def test_messages_and_output_of_a_new_thread(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="chat", transport=transport) as thread:
        await thread.run.start(input=human("hello"))
        with anyio.fail_after(TIMEOUT):
            (message,) = await collect(thread.messages)
            assert await message.text == "You said: hello"
            assert message.message_id == "ai-1"
            assert (await message.output).content_blocks[0]["text"] == "You said: hello"
            assert (await thread.output)["messages"][-1]["id"] == "ai-1"


async def test_tool_calls_arrive_with_their_results(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="tools", transport=transport) as thread:
        await thread.run.start(input=human("What is 20 + 22?"))
        with anyio.fail_after(TIMEOUT):
            (call,) = await collect(thread.tool_calls)
            assert (call.name, call.input) == ("add", {"a": 20, "b": 22})
            assert (await call.output)["content"] == "42"


async def test_streamed_tool_calls_are_complete(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="tools", transport=transport) as thread:
        await thread.run.start(input=human("What is 20 + 22?"))
        with anyio.fail_after(TIMEOUT):
            first, *_ = await collect(thread.messages)
            calls = (await first.output).tool_calls
            assert [(call["name"], call["args"]) for call in calls] == [("add", {"a": 20, "b": 22})]


async def test_a_subgraph_is_found_with_its_messages(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="nested", transport=transport) as thread:
        await thread.run.start(input=human("hello"))
        with anyio.fail_after(TIMEOUT):
            (subgraph,) = await collect(thread.subgraphs)
            assert subgraph.status == "completed"
            (message,) = await collect(subgraph.messages)
            assert await message.text == "You said: hello"


async def test_values_follow_each_step(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="echo", transport=transport) as thread:
        await thread.run.start(input={"text": "hello"})
        with anyio.fail_after(TIMEOUT):
            assert await thread.output == {"text": "hello", "echoed": "hello"}


async def test_an_interrupt_is_answered(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="approve", transport=transport) as thread:
        await thread.run.start(input={"topic": "x"})
        (interrupt,) = await interrupted(thread)
        assert interrupt["value"] == {"question": "ok?", "topic": "x"}
        await thread.run.respond({"ok": True})
        with anyio.fail_after(TIMEOUT):
            assert (await thread.output)["topic"] == "x"


async def test_a_failed_run_raises_its_error(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="fails", transport=transport) as thread:
        await thread.run.start(input={"text": "x"})
        with anyio.fail_after(TIMEOUT), pytest.raises(RuntimeError, match="boom!"):
            await thread.output


async def test_a_run_of_the_classic_api_is_followed(client: LangGraphClient, transport: Transport) -> None:
    thread_id = fresh_id()
    async with client.threads.stream(thread_id, assistant_id="chat", transport=transport) as thread:
        events = thread.subscribe(["messages", "lifecycle"])
        with anyio.fail_after(TIMEOUT):
            await client.runs.wait(thread_id, "chat", input=human("hello"), if_not_exists="create")
            async for event in events:
                if event["params"]["data"].get("event") == "completed":
                    break


async def test_a_command_that_fails_raises_its_code(client: LangGraphClient, transport: Transport) -> None:
    async with client.threads.stream(assistant_id="nope", transport=transport) as thread:
        with pytest.raises(RuntimeError, match=r"Protocol error \[unknown_error\]: 422: Invalid assistant"):
            await thread.run.start(input={})


async def test_a_stream_survives_a_server_restart(tmp_path: Path, transport: Transport) -> None:
    gate = tmp_path / "gate"
    with running_server(PROJECT, tmp_path / "data") as server, relay_to(server.url) as url:
        async with get_client(url=url) as client:
            async with client.threads.stream(assistant_id="slow", transport=transport) as thread:
                await thread.run.start(input={"until": str(gate)})
                await eventually(lambda: started(client, thread.thread_id))
                server.kill()
                server.start()
                gate.touch()
                with anyio.fail_after(TIMEOUT):
                    assert "until" in await thread.output


@pytest.mark.parametrize("graph", ["tools", "nested"])
async def test_a_stream_cut_at_any_event_and_resumed_equals_an_uninterrupted_one(
    server: RunningServer, client: LangGraphClient, transport: Transport, graph: str
) -> None:
    """Without interrupts: a subscription of the SDK ends as soon as another connection of the SDK learns of one."""
    thread_id = fresh_id()
    await client.runs.wait(thread_id, graph, input=human("What is 20 + 22?"), if_not_exists="create")
    expected = await received(server.url, thread_id, transport)
    assert len(expected) > 20
    with cutting_relay_to(server.url) as (url, cuts):
        for at in range(len(expected)):
            resumed = await received(f"{url}/cut/{graph}/{at}", thread_id, transport)
            assert resumed == expected, f"cut after {at} events"
            assert cuts[f"{graph}/{at}"] == 1


async def received(url: str, thread_id: str, transport: Transport) -> list[Any]:
    """The events of the thread's run, as a subscription of the SDK returns them."""
    async with get_client(url=url) as client:
        stream = client.threads.stream(thread_id, assistant_id="any", transport=transport)
        async with stream as thread:
            with anyio.fail_after(TIMEOUT):
                return await collect(thread.subscribe(CHANNELS))


async def started(client: LangGraphClient, thread_id: str) -> bool:
    return (await client.threads.get_state(thread_id))["next"] == ["wait"]
