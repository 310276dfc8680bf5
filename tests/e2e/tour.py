"""Call every method of the Python SDK once against a server, for docs/reference/conformance.md.

The other tests of this folder cover the details. Here each method only has to do what its name says.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import wraps
from inspect import isawaitable
from typing import Any

import pytest
from anyio import to_thread
from clients import ThreadedClient, collect, eventually, fresh_id, wait_for_start
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient
from langgraph_sdk.errors import NotFoundError

NEVER = "0 0 29 2 *"
SUBJECTS = ("assistants", "threads", "runs", "crons", "store", "http")
SDK = {"async": get_client, "sync": get_sync_client}


def methods(kind: str) -> set[str]:
    """Return the methods of the client as `subject.method`."""
    client = SDK[kind](url="http://127.0.0.1:1")
    return {f"{subject}.{name}" for subject in SUBJECTS for name in _public(getattr(client, subject))}


def _public(client: Any) -> list[str]:
    return [name for name, value in vars(type(client)).items() if callable(value) and not name.startswith("_")]


async def tour(kind: str, url: str) -> set[str]:
    """Call every method, and return the methods that worked."""
    used: set[str] = set()
    if kind == "async":
        async with get_client(url=url) as client:
            await _everything(Recorded(client, used))
            await _thread_wire(client)
    else:
        with get_sync_client(url=url) as client:
            await _everything(Recorded(ThreadedClient(client), used))
            await to_thread.run_sync(_sync_thread_wire, client)
    return used | {"threads.stream"}


class Recorded:
    """A client that records each method once it has worked."""

    def __init__(self, client: Any, used: set[str], subject: str | None = None) -> None:
        self._client = client
        self._used = used
        self._subject = subject

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        if self._subject is None:
            return Recorded(attribute, self._used, name)
        return _recording(attribute, lambda: self._used.add(f"{self._subject}.{name}"))


def _recording(method: Callable[..., Any], record: Callable[[], None]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        return _streamed(result, record) if hasattr(result, "__aiter__") else _awaited(result, record)

    return call


async def _awaited(result: Awaitable[Any], record: Callable[[], None]) -> Any:
    value = await result
    record()
    return value


async def _streamed(result: Any, record: Callable[[], None]) -> AsyncIterator[Any]:
    try:
        async for part in result:
            record()
            yield part
    finally:
        await result.aclose()


async def _everything(sdk: Any) -> None:
    for part in (_assistants, _threads, _thread_stream, _runs, _cancelled_runs, _crons, _store, _http):
        await part(sdk)


async def _thread_wire(client: LangGraphClient) -> None:
    async with client.threads.stream(assistant_id="echo") as thread:
        await thread.run.start(input={"text": "hi"})
        assert (await thread.output)["echoed"] == "hi"


def _sync_thread_wire(client: SyncLangGraphClient) -> None:
    with client.threads.stream(assistant_id="echo") as thread:
        thread.run.start(input={"text": "hi"})
        assert thread.output["echoed"] == "hi"


async def _assistants(sdk: Any) -> None:
    metadata = {"tour": fresh_id()}
    created = await sdk.assistants.create("echo", name="first", metadata=metadata)
    assistant_id = created["assistant_id"]
    assert await sdk.assistants.get(assistant_id) == created
    assert (await sdk.assistants.update(assistant_id, name="second"))["version"] == 2
    assert [each["version"] for each in await sdk.assistants.get_versions(assistant_id)] == [2, 1]
    assert (await sdk.assistants.set_latest(assistant_id, 1))["name"] == "first"
    assert len(await sdk.assistants.search(metadata=metadata)) == 1
    assert await sdk.assistants.count(metadata=metadata) == 1
    assert (await sdk.assistants.get_graph(assistant_id))["nodes"]
    assert (await sdk.assistants.get_schemas(assistant_id))["graph_id"] == "echo"
    assert await sdk.assistants.get_subgraphs(assistant_id) == {}
    await sdk.assistants.delete(assistant_id)
    with pytest.raises(NotFoundError):
        await sdk.assistants.get(assistant_id)


async def _threads(sdk: Any) -> None:
    metadata = {"tour": fresh_id()}
    thread_id = (await sdk.threads.create(metadata=metadata))["thread_id"]
    await sdk.runs.wait(thread_id, "echo", input={"text": "hi"})
    assert (await sdk.threads.get(thread_id))["status"] == "idle"
    assert (await sdk.threads.update(thread_id, metadata={"more": 1}))["metadata"]["more"] == 1
    assert len(await sdk.threads.search(metadata=metadata)) == 1
    assert await sdk.threads.count(metadata=metadata) == 1
    await sdk.threads.update_state(thread_id, {"text": "updated"})
    assert (await sdk.threads.get_state(thread_id))["values"]["text"] == "updated"
    assert len(await sdk.threads.get_history(thread_id, limit=2)) == 2
    await sdk.threads.copy(thread_id)
    [copy] = [each for each in await sdk.threads.search(metadata=metadata) if each["thread_id"] != thread_id]
    assert (await sdk.threads.prune([copy["thread_id"]]))["pruned_count"] == 1
    await sdk.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread_id)


async def _thread_stream(sdk: Any) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    await sdk.runs.wait(thread_id, "echo", input={"text": "hi"})
    stream = sdk.threads.join_stream(thread_id, last_event_id="-")
    if isawaitable(stream):  # only this stream, and only in the async client
        stream = await stream
    async with aclosing(stream):
        async for part in stream:
            if part.event == "metadata" and part.data.get("status") == "run_done":
                break


async def _runs(sdk: Any) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    run_id = (await sdk.runs.create(thread_id, "echo", input={"text": "hi"}))["run_id"]
    assert (await sdk.runs.join(thread_id, run_id))["echoed"] == "hi"
    assert (await sdk.runs.get(thread_id, run_id))["status"] == "success"
    assert len(await sdk.runs.list(thread_id)) == 1
    assert (await collect(sdk.runs.stream(thread_id, "echo", input={"text": "hi"})))[0].event == "metadata"
    replayed = await collect(sdk.runs.join_stream(thread_id, run_id, last_event_id="-1"))
    assert replayed[0].data["run_id"] == run_id
    await sdk.runs.delete(thread_id, run_id)
    assert len(await sdk.runs.list(thread_id)) == 1
    batch = [{"assistant_id": "echo", "input": {"text": text}} for text in "ab"]
    assert len(await sdk.runs.create_batch(batch)) == 2


async def _cancelled_runs(sdk: Any) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    first = await sdk.runs.create(thread_id, "slow", input={"seconds": 600})
    await wait_for_start(sdk, first)
    await sdk.runs.cancel(thread_id, first["run_id"], wait=True)
    second = await sdk.runs.create(thread_id, "slow", input={"seconds": 600})
    await wait_for_start(sdk, second)
    await sdk.runs.cancel_many(thread_id=thread_id, run_ids=[second["run_id"]])

    async def cancelled() -> bool:
        return [each["status"] for each in await sdk.runs.list(thread_id)] == ["interrupted"] * 2

    await eventually(cancelled)


async def _crons(sdk: Any) -> None:
    assistant_id = (await sdk.assistants.create("echo"))["assistant_id"]
    thread_id = (await sdk.threads.create())["thread_id"]
    created = await sdk.crons.create(assistant_id, schedule=NEVER, input={"text": "hi"})
    await sdk.crons.create_for_thread(thread_id, assistant_id, schedule=NEVER, input={"text": "hi"})
    assert (await sdk.crons.update(created["cron_id"], enabled=False))["enabled"] is False
    assert len(await sdk.crons.search(assistant_id=assistant_id)) == 2
    assert await sdk.crons.count(assistant_id=assistant_id) == 2
    await sdk.crons.delete(created["cron_id"])
    assert await sdk.crons.count(assistant_id=assistant_id) == 1


async def _store(sdk: Any) -> None:
    namespace = [fresh_id(), "b"]
    await sdk.store.put_item(namespace, "k", {"n": 1})
    assert (await sdk.store.get_item(namespace, "k"))["value"] == {"n": 1}
    assert len((await sdk.store.search_items(namespace))["items"]) == 1
    assert (await sdk.store.list_namespaces(prefix=namespace[:1]))["namespaces"] == [namespace]
    await sdk.store.delete_item(namespace, "k")
    assert (await sdk.store.search_items(namespace))["items"] == []


async def _http(sdk: Any) -> None:
    """The low-level client, for custom routes."""
    thread_id = (await sdk.http.post("/threads", json={}))["thread_id"]
    path = f"/threads/{thread_id}"
    assert (await sdk.http.get(path))["thread_id"] == thread_id
    assert (await sdk.http.patch(path, json={"metadata": {"n": 1}}))["metadata"] == {"n": 1}
    await sdk.http.put("/store/items", json={"namespace": [thread_id], "key": "k", "value": {}})
    body = {"assistant_id": "echo", "input": {"text": "hi"}}
    assert (await sdk.http.request_reconnect(f"{path}/runs/wait", "POST", json=body))["echoed"] == "hi"
    assert (await collect(sdk.http.stream(f"{path}/runs/stream", "POST", json=body)))[0].event == "metadata"
    await sdk.http.delete(path)
