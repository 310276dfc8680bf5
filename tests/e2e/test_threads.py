import uuid
from datetime import UTC, datetime, timedelta

import pytest
from clients import eventually, fresh_id, rejected, wait_for_start

pytestmark = pytest.mark.anyio


async def test_a_new_thread_is_idle_and_empty(sdk):
    thread = await sdk.threads.create(metadata={"who": "me"})
    assert uuid.UUID(thread["thread_id"]).version == 7
    timestamps = [datetime.fromisoformat(thread.pop(name)) for name in ("created_at", "updated_at", "state_updated_at")]
    assert all(datetime.now(UTC) - timestamp < timedelta(minutes=1) for timestamp in timestamps)
    assert thread == {
        "thread_id": thread["thread_id"],
        "metadata": {"who": "me"},
        "status": "idle",
        "config": {},
        "values": None,
    }
    assert (await sdk.threads.get(thread["thread_id"]))["metadata"] == {"who": "me"}


async def test_a_client_can_choose_the_id_of_a_thread(sdk):
    chosen = fresh_id()
    assert (await sdk.threads.create(thread_id=chosen))["thread_id"] == chosen
    lowercase = fresh_id()
    assert (await sdk.threads.create(thread_id=lowercase.upper()))["thread_id"] == lowercase


async def test_an_existing_thread_is_rejected_or_returned_as_requested(sdk):
    thread = await sdk.threads.create(metadata={"first": True})
    with rejected(409, f"Thread with ID {thread['thread_id']} already exists"):
        await sdk.threads.create(thread_id=thread["thread_id"])
    with rejected(409, f"Thread with ID {thread['thread_id']} already exists"):
        await sdk.threads.create(thread_id=thread["thread_id"], if_exists="raise")
    again = await sdk.threads.create(thread_id=thread["thread_id"], if_exists="do_nothing", metadata={"second": True})
    assert again == thread


async def test_metadata_is_merged_key_by_key(sdk):
    thread_id = await sdk.thread(metadata={"a": 1, "b": {"c": 2}})
    updated = await sdk.threads.update(thread_id, metadata={"b": {"d": 3}, "e": None})
    assert updated["metadata"] == {"a": 1, "b": {"d": 3}, "e": None}
    assert (await sdk.threads.get(thread_id))["metadata"] == updated["metadata"]


async def test_a_deleted_thread_is_not_found_nor_anything_it_had(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    (run,) = await sdk.runs.list(thread_id)
    await sdk.threads.delete(thread_id)
    not_found = f"Thread with ID {thread_id} not found"
    for call in (
        lambda: sdk.threads.get(thread_id),
        lambda: sdk.threads.delete(thread_id),
        lambda: sdk.threads.update(thread_id, metadata={}),
        lambda: sdk.threads.get_state(thread_id),
        lambda: sdk.threads.get_history(thread_id),
        lambda: sdk.threads.update_state(thread_id, {}),
        lambda: sdk.runs.list(thread_id),
    ):
        with rejected(404, not_found):
            await call()
    with rejected(404, "Not Found"):
        await sdk.runs.get(thread_id, run["run_id"])


async def test_deleting_a_thread_stops_its_run(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(sdk, run)
    await sdk.threads.delete(thread_id)
    # The id can be reused, and nothing of the old run appears on the new thread.
    await sdk.threads.create(thread_id=thread_id)
    assert await sdk.runs.wait(thread_id, "echo", input={"text": "new"}) == {"text": "new", "echoed": "new"}
    assert len(await sdk.runs.list(thread_id)) == 1


async def test_threads_are_found_by_metadata(sdk, mark):
    mine = await sdk.thread(metadata={"mark": mark, "tags": ["a", "b"], "nested": {"x": 1, "y": 2}})
    other = await sdk.thread(metadata={"mark": mark})

    async def ids(metadata):
        return {each["thread_id"] for each in await sdk.threads.search(metadata=metadata)}

    assert await ids({"mark": mark}) == {mine, other}
    assert await ids({"mark": mark, "tags": ["b"]}) == {mine}
    assert await ids({"mark": mark, "nested": {"y": 2}}) == {mine}
    assert await ids({"mark": mark, "nested": {"y": 3}}) == set()
    assert await ids({"mark": mark.upper()}) == set()


async def test_threads_are_found_by_id(sdk):
    first, second, _ = [await sdk.thread() for _ in range(3)]
    found = await sdk.threads.search(ids=[first, second, fresh_id()])
    assert {each["thread_id"] for each in found} == {first, second}


async def test_threads_are_found_by_their_values(sdk, mark):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": {"word": mark}})
    (found,) = await sdk.threads.search(values={"echoed": {"word": mark}})
    assert found["thread_id"] == thread_id
    assert found["values"] == {"text": {"word": mark}, "echoed": {"word": mark}}
    assert found["metadata"]["graph_id"] == "echo"
    assert await sdk.threads.search(values={"echoed": {"word": "another"}, "text": {"word": mark}}) == []


async def test_threads_are_found_by_status(sdk, mark, gate):
    created = {status: await sdk.thread(metadata={"mark": mark}) for status in ("idle", "busy", "interrupted", "error")}
    await sdk.runs.create(created["busy"], "slow", input={"until": str(gate)})
    await sdk.runs.wait(created["interrupted"], "approve", input={"topic": "x"})
    await sdk.runs.wait(created["error"], "fails", input={}, raise_error=False)
    for status, thread_id in created.items():
        found = await sdk.threads.search(metadata={"mark": mark}, status=status)
        assert [each["thread_id"] for each in found] == [thread_id]
        assert found[0]["status"] == status
        assert await sdk.threads.count(metadata={"mark": mark}, status=status) == 1


async def test_threads_are_sorted_and_paginated(sdk, http, mark):
    created = sorted([await sdk.thread(metadata={"mark": mark}) for _ in range(5)])

    async def page(**kwargs):
        return [each["thread_id"] for each in await sdk.threads.search(metadata={"mark": mark}, **kwargs)]

    assert await page(sort_by="thread_id", sort_order="asc") == created
    assert await page(sort_by="thread_id", sort_order="desc") == created[::-1]
    assert await page(sort_by="thread_id", sort_order="asc", limit=2, offset=1) == created[1:3]
    assert await page(sort_by="thread_id", sort_order="asc", offset=5) == []
    for sort_by in ("created_at", "updated_at", "state_updated_at"):
        rows = await sdk.threads.search(metadata={"mark": mark}, sort_by=sort_by, sort_order="asc")
        assert [row[sort_by] for row in rows] == sorted(row[sort_by] for row in rows)
    newest_first = [row["created_at"] for row in await sdk.threads.search(metadata={"mark": mark})]
    assert newest_first == sorted(newest_first, reverse=True)
    assert await sdk.threads.count(metadata={"mark": mark}) == 5

    raw = await http.post("/threads/search", json={"metadata": {"mark": mark}, "limit": 2, "offset": 1})
    assert raw.headers["x-pagination-total"] == "5"
    assert raw.headers["x-pagination-next"] == "3"
    last = await http.post("/threads/search", json={"metadata": {"mark": mark}, "limit": 2, "offset": 3})
    assert "x-pagination-next" not in last.headers


async def test_a_search_can_select_fields(sdk, mark):
    thread_id = await sdk.thread(metadata={"mark": mark})
    found = await sdk.threads.search(metadata={"mark": mark}, select=["thread_id", "status"])
    assert found == [{"thread_id": thread_id, "status": "idle"}]


async def test_a_thread_shows_the_result_of_its_last_run(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "echo", input={"text": "hello"})
    thread = await sdk.threads.get(thread_id)
    assert thread["values"] == {"text": "hello", "echoed": "hello"}
    assert thread["status"] == "idle"
    assert thread["config"] == {"configurable": {}}
    assert thread["interrupts"] == {}
    assert thread["error"] is None
    assert thread["metadata"] == {"graph_id": "echo", "assistant_id": "046b5dc7-2108-582c-9c6c-31d556d138f0"}


async def test_a_thread_is_busy_during_a_run(sdk, gate):
    thread_id = await sdk.thread()
    run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    await wait_for_start(sdk, run)
    assert (await sdk.threads.get(thread_id))["status"] == "busy"
    gate.touch()

    async def idle():
        return (await sdk.threads.get(thread_id))["status"] == "idle"

    await eventually(idle)


async def test_a_failed_run_leaves_its_error_on_the_thread(sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "fails", input={}, raise_error=False)
    thread = await sdk.threads.get(thread_id)
    assert (thread["status"], thread["error"]) == ("error", {"error": "ValueError", "message": "boom!"})
    state = await sdk.threads.get_state(thread_id)
    assert state["tasks"][0]["error"] == "ValueError('boom!')"
    await sdk.runs.wait(thread_id, "echo", input={"text": 1})
    recovered = await sdk.threads.get(thread_id)
    assert (recovered["status"], recovered["error"]) == ("idle", None)


async def test_a_thread_id_must_be_a_uuid(sdk):
    for call in (
        lambda: sdk.threads.get("abc"),
        lambda: sdk.threads.delete("abc"),
        lambda: sdk.threads.create(thread_id="abc"),
        lambda: sdk.threads.get_state("abc"),
        lambda: sdk.runs.wait("abc", "echo"),
        lambda: sdk.runs.list("abc"),
        lambda: sdk.threads.search(ids=["abc"]),
    ):
        with rejected(422, "Invalid thread ID: must be a UUID"):
            await call()
