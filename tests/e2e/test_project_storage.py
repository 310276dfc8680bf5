"""The storage settings of a project: an index, a time to live, a custom checkpointer and a custom store."""

import json
from pathlib import Path

import apsw
import pytest
from clients import (
    OPENERS,
    collect,
    data_of,
    event_names,
    eventually,
    fresh_id,
    rejected,
    wait_for_start,
    wait_for_status,
)

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

GRAPHS = Path(__file__).parent.parent / "graphs"
NAMES = ("echo", "slow", "steps", "approve")


def project_with(folder: Path, **keys) -> Path:
    """Write a project with the test agents and these additional keys."""
    folder.mkdir(exist_ok=True)
    path = folder / "langgraph.json"
    graphs = {name: f"{GRAPHS}/agents.py:{name}" for name in NAMES} | {"memory": f"{GRAPHS}/memories.py:memory"}
    path.write_text(json.dumps({"dependencies": [str(GRAPHS)], "graphs": graphs, **keys}))
    return path


def rows(database: Path, sql: str) -> list:
    db = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


async def sdk_of(opener: str, server):
    async with OPENERS[opener](server.url) as sdk:
        yield sdk


# -- an index ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexed")
    index = {"dims": 4, "embed": f"{GRAPHS}/custom_storage.py:embed", "fields": ["text"]}
    ttl = {"default_ttl": 60, "refresh_on_read": True, "sweep_interval_minutes": 0.002}
    with running_server(project_with(folder, store={"index": index, "ttl": ttl}), folder / "data") as server:
        yield server


@pytest.fixture(params=OPENERS)
async def finder(request, indexed):
    async for sdk in sdk_of(request.param, indexed):
        yield sdk


async def test_items_are_found_by_similarity(finder, mark):
    for text in ("coffee in the morning", "a walk in the rain", "tea at five"):
        await finder.store.put_item([mark], text, {"text": text})
    await finder.store.put_item([mark], "unseen", {"text": "tea"}, index=False)
    await finder.store.put_item([mark], "other field", {"text": "rain", "about": "tea tea"}, index=["about"])
    found = (await finder.store.search_items([mark], query="where is my tea?", limit=2))["items"]
    assert {item["key"] for item in found} == {"tea at five", "other field"}
    assert all(item["score"] > 0.9 for item in found)
    found = (await finder.store.search_items([mark], query="tea"))["items"]
    assert (found[-1]["key"], found[-1]["score"]) == ("unseen", None)
    found = (await finder.store.search_items([mark], query="tea", filter={"text": "a walk in the rain"}))["items"]
    assert [item["key"] for item in found] == ["a walk in the rain"]


async def test_a_graph_finds_by_similarity_what_a_sync_node_stored(finder, mark):
    thread_id = await finder.thread()
    for fact in ("hates rain", "likes tea"):
        await finder.runs.wait(thread_id, "memory", input={"user": mark, "fact": fact})
    values = await finder.runs.wait(thread_id, "memory", input={"user": mark, "fact": "", "about": "rain"})
    assert values["found"][0] == [["facts", mark], "hates rain", {"text": "hates rain"}]


async def test_an_embedding_with_the_wrong_dimensions_is_reported_and_nothing_is_stored(finder, mark):
    error = "The embedding function returned a vector of 2 dimensions, but `store.index.dims` is 4."
    with rejected(502, error):
        await finder.store.put_item([mark], "k", {"text": "wrong"})
    with rejected(502, error):
        await finder.store.search_items([mark], query="wrong")
    assert await finder.store.get_item([mark], "k") is None


# -- a time to live ---------------------------------------------------------------------------------------------------


async def test_expired_items_are_not_returned_and_are_swept_from_the_disk(finder, indexed, mark):
    await finder.store.put_item([mark], "stays", {})
    await finder.store.put_item([mark], "goes", {"text": "tea"}, ttl=0.001)

    async def has_expired() -> bool:
        return await finder.store.get_item([mark], "goes", refresh_ttl=False) is None

    await eventually(has_expired)
    assert [item["key"] for item in (await finder.store.search_items([mark], refresh_ttl=False))["items"]] == ["stays"]
    database = indexed.data / "threadwire.db"

    async def is_swept() -> bool:
        return rows(database, f"SELECT key FROM items WHERE namespace = '[\"{mark}\"]'") == [("stays",)]

    await eventually(is_swept)
    assert rows(database, "SELECT count(*) FROM item_vectors WHERE item NOT IN (SELECT position FROM items)") == [(0,)]


async def test_the_default_ttl_of_the_project_applies_to_items_without_their_own(finder, indexed, mark):
    await finder.store.put_item([mark], "default", {})
    await finder.store.put_item([mark], "own", {}, ttl=5)
    await finder.http.put("/store/items", json={"namespace": [mark], "key": "for ever", "value": {}, "ttl": None})
    stored = rows(indexed.data / "threadwire.db", f"SELECT key, ttl FROM items WHERE namespace = '[\"{mark}\"]'")
    assert dict(stored) == {"default": 60 * 60_000, "own": 5 * 60_000, "for ever": None}


# -- a custom checkpointer and a custom store -------------------------------------------------------------------------

CUSTOM = {
    "checkpointer": {"path": f"{GRAPHS}/custom_storage.py:durable_saver"},
    "store": {"path": "custom_storage:make_store"},
}


@pytest.fixture
def custom_server(tmp_path):
    folder = tmp_path / "custom"
    env = {"SAVER_DATA": str(folder / "saver"), "THREADWIRE_DRAIN_SECONDS": "0", "THREADWIRE_SHOWN_ERRORS": '["*"]'}
    with running_server(project_with(folder, **CUSTOM), folder / "data", env=env) as server:
        yield server


@pytest.fixture
def saved(custom_server):
    """Returns how many checkpoints the project's checkpointer has, and how many the server's own."""

    def saved() -> tuple[int, int]:
        folder = custom_server.data.parent
        count = "SELECT count(*) FROM checkpoints"
        return rows(folder / "saver" / "threadwire.db", count)[0][0], rows(custom_server.data / "threadwire.db", count)[
            0
        ][0]

    return saved


@pytest.fixture(params=OPENERS)
async def custom(request, custom_server):
    async for sdk in sdk_of(request.param, custom_server):
        yield sdk


async def test_runs_and_state_use_the_custom_checkpointer(custom, saved):
    thread_id = await custom.thread()
    await custom.runs.wait(thread_id, "echo", input={"text": 1})
    theirs, ours = saved()
    assert (theirs, ours) == (3, 0)
    assert (await custom.threads.get_state(thread_id))["values"] == {"text": 1, "echoed": 1}
    history = await custom.threads.get_history(thread_id)
    assert [state["values"] for state in history] == [{"text": 1, "echoed": 1}, {"text": 1}, {}]
    assert (await custom.threads.get_state(thread_id, checkpoint_id=history[1]["checkpoint_id"]))["next"] == [
        "say_again"
    ]
    await custom.threads.update_state(thread_id, {"text": 2}, as_node="__start__")
    assert (await custom.threads.get_state(thread_id))["next"] == ["say_again"]
    assert (await custom.runs.wait(thread_id, "echo", input=None))["echoed"] == 2
    await custom.threads.delete(thread_id)
    assert saved() == (0, 0)


async def test_an_interrupt_is_stored_in_the_custom_checkpointer(custom, custom_server):
    thread_id = await custom.thread()
    await custom.runs.wait(thread_id, "approve", input={})
    state = await custom.threads.get_state(thread_id)
    assert state["interrupts"]
    custom_server.kill()
    custom_server.start()
    await custom.runs.wait(thread_id, "approve", command={"resume": "yes"})
    assert (await custom.threads.get_state(thread_id))["next"] == []


async def test_a_run_cut_off_by_a_crash_resumes_from_the_newest_checkpoint_of_the_custom_checkpointer(
    custom, custom_server, gate
):
    thread_id = await custom.thread()
    run = await custom.runs.create(thread_id, "slow", input={"until": str(gate), "steps": ["asked"]})
    await wait_for_start(custom, run)
    custom_server.kill()
    custom_server.start()
    gate.touch()
    await wait_for_status(custom, run, "success")
    state = await custom.threads.get_state(thread_id)
    assert state["values"]["steps"] == ["asked", "begun", "waited"]  # the input was applied once, and no step twice
    parts = await collect(custom.runs.join_stream(thread_id, run["run_id"], last_event_id="-1"))
    assert [part["attempt"] for part in data_of(parts, "metadata")] == [1, 2]
    assert event_names(parts)[-1] == "values"


async def test_each_step_of_a_killed_run_is_executed_once(custom, custom_server, tmp_path):
    """Except for the step that was interrupted."""
    lines = tmp_path / "lines"
    thread_id = await custom.thread()
    given = {"count": 60, "file": str(lines), "delay": 0.02}
    run = await custom.runs.create(thread_id, "steps", input=given)

    async def some_steps() -> bool:
        return lines.exists() and len(lines.read_text().splitlines()) > 10

    await eventually(some_steps)
    custom_server.kill()
    before = len(lines.read_text().splitlines())
    custom_server.start()
    await wait_for_status(custom, run, "success")
    done = [int(line) for line in lines.read_text().splitlines()]
    assert sorted(set(done)) == list(range(1, 61))
    assert len(done) <= 61
    assert done[before] in (before, before + 1)
    assert (await custom.threads.get_state(thread_id))["values"]["done"] == list(range(1, 61))


async def test_a_rolled_back_run_leaves_nothing_in_the_custom_checkpointer(custom, saved, gate):
    thread_id = await custom.thread()
    await custom.runs.wait(thread_id, "echo", input={"text": 1})
    before = saved()
    run = await custom.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(custom, run)
    assert saved() > before
    await custom.runs.cancel(thread_id, run["run_id"], action="rollback", wait=True)
    assert saved() == before
    again = await custom.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(custom, again)
    await custom.runs.wait(thread_id, "echo", input={"text": 2}, multitask_strategy="rollback")
    assert (await custom.threads.get_state(thread_id))["values"] == {"text": 2, "echoed": 2}


async def test_checkpoints_from_before_a_shutdown_are_rolled_back_too(custom, custom_server, saved, gate):
    thread_id = await custom.thread()
    await custom.runs.wait(thread_id, "echo", input={"text": 1})
    before = saved()
    run = await custom.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(custom, run)
    assert custom_server.terminate() == 0  # it is released, with its checkpoints
    custom_server.start()
    await wait_for_start(custom, run)
    await custom.runs.cancel(thread_id, run["run_id"], action="rollback", wait=True)
    assert saved() == before


async def test_deleting_a_thread_deletes_its_run_and_its_checkpoints(custom, saved, gate):
    thread_id = await custom.thread()
    run = await custom.runs.create(thread_id, "slow", input={"until": str(gate)})
    await wait_for_start(custom, run)
    await custom.threads.delete(thread_id)
    assert saved() == (0, 0)


async def test_graphs_and_clients_share_the_custom_store(custom, custom_server, mark):
    values = await custom.runs.wait(await custom.thread(), "memory", input={"user": mark, "fact": "likes tea"})
    assert len(values["found"]) == 3
    assert (await custom.store.get_item(["facts", mark], "likes tea"))["value"] == {"text": "likes tea"}
    await custom.store.put_item(["facts", mark], "from outside", {"n": 1})
    found = await custom.store.search_items(["facts", mark], filter={"n": 1})
    assert [item["key"] for item in found["items"]] == ["from outside"]
    assert (await custom.store.list_namespaces(prefix=["facts"], max_depth=2))["namespaces"] == [["facts", mark]]
    await custom.store.delete_item(["facts", mark], "from outside")
    assert await custom.store.get_item(["facts", mark], "from outside") is None
    assert rows(custom_server.data / "threadwire.db", "SELECT count(*) FROM items") == [(0,)]


async def test_errors_of_the_custom_store_are_reported(custom, mark):
    with rejected(
        400,
        "TTL is not supported by LoopBoundStore. Use a store implementation that supports TTL or set ttl=None.",
    ):
        await custom.store.put_item([mark], "k", {}, ttl=5)
    with rejected(502, "OSError: the store is out of order"):
        await custom.store.get_item([mark], "broken")


async def test_a_rollback_is_rejected_if_the_checkpointer_cannot_delete_runs(tmp_path):
    project = project_with(tmp_path / "forgetful", checkpointer={"path": f"{GRAPHS}/custom_storage.py:forgetful_saver"})
    error = (
        "Runs cannot be rolled back: the project's checkpointer cannot delete checkpoints, because it has no "
        "`adelete_for_runs`."
    )
    with running_server(project, tmp_path / "data") as server:
        async with OPENERS["async"](server.url) as sdk:
            thread_id = await sdk.thread()
            await sdk.runs.wait(thread_id, "echo", input={"text": 1})
            with rejected(400, error):
                await sdk.runs.wait(thread_id, "echo", input={"text": 2}, multitask_strategy="rollback")
            run = await sdk.runs.create(thread_id, "slow", input={"until": str(tmp_path / fresh_id())})
            await wait_for_start(sdk, run)
            with rejected(400, error):
                await sdk.runs.cancel(thread_id, run["run_id"], action="rollback")
            await sdk.runs.cancel(thread_id, run["run_id"], wait=True)
            assert (await sdk.threads.get_state(thread_id))["values"]["steps"] == ["begun"]
            await sdk.threads.delete(thread_id)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"checkpointer": {"path": f"{GRAPHS}/custom_storage.py:broken_saver"}},
            r"threadwire: \"checkpointer\": opening .*custom_storage.py:broken_saver failed: OSError: no such database",
        ),
        (
            {"store": {"path": f"{GRAPHS}/custom_storage.py:broken_saver"}},
            r"threadwire: \"store\": opening .*custom_storage.py:broken_saver failed: OSError: no such database",
        ),
        (
            {"store": {"path": f"{GRAPHS}/custom_storage.py:forgetful_saver"}},
            r"threadwire: \"store\": .*custom_storage.py:forgetful_saver must be a BaseStore, .* not InMemorySaver",
        ),
        ({"checkpointer": {"serde": {"pickle_fallback": True}}}, r"threadwire: .*\"pickle_fallback\" is not supported"),
    ],
)
def test_a_server_does_not_start_if_its_storage_cannot_be_opened(tmp_path, keys, message):
    with (
        pytest.raises(TimeoutError, match=message),
        running_server(project_with(tmp_path / "project", **keys), tmp_path / "data"),
    ):
        pass
