"""What a project says about keeping: an index, a time to live, a saver and a store of its own."""

import json
from pathlib import Path

import apsw
import pytest
from clients import OPENERS, collect, eventually, fresh_id, has_begun, names, of, refused, run_is

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

GRAPHS = Path(__file__).parent.parent / "graphs"
NAMES = ("echo", "slow", "steps", "approve")


def project_with(folder: Path, **keys) -> Path:
    """A project with the test agents that says this besides."""
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
    index = {"dims": 4, "embed": f"{GRAPHS}/keeping.py:embed", "fields": ["text"]}
    ttl = {"default_ttl": 60, "refresh_on_read": True, "sweep_interval_minutes": 0.002}
    with running_server(project_with(folder, store={"index": index, "ttl": ttl}), folder / "data") as server:
        yield server


@pytest.fixture(params=OPENERS)
async def finder(request, indexed):
    async for sdk in sdk_of(request.param, indexed):
        yield sdk


async def test_items_are_found_by_their_meaning(finder, mark):
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


async def test_a_graph_finds_by_meaning_what_a_sync_node_kept(finder, mark):
    thread_id = await finder.thread()
    for fact in ("hates rain", "likes tea"):
        await finder.runs.wait(thread_id, "memory", input={"user": mark, "fact": fact})
    values = await finder.runs.wait(thread_id, "memory", input={"user": mark, "fact": "", "about": "rain"})
    assert values["found"][0] == [["facts", mark], "hates rain", {"text": "hates rain"}]


async def test_an_embedding_of_the_wrong_shape_is_told_and_nothing_is_kept(finder, mark):
    wrong = "The embedding function returned a vector of 2 dimensions, but `store.index.dims` is 4."
    with refused(502, wrong):
        await finder.store.put_item([mark], "k", {"text": "wrong"})
    with refused(502, wrong):
        await finder.store.search_items([mark], query="wrong")
    assert await finder.store.get_item([mark], "k") is None


# -- a time to live ---------------------------------------------------------------------------------------------------


async def test_what_has_expired_is_gone_and_swept_from_the_disk(finder, indexed, mark):
    await finder.store.put_item([mark], "stays", {})
    await finder.store.put_item([mark], "goes", {"text": "tea"}, ttl=0.001)

    async def is_gone() -> bool:
        return await finder.store.get_item([mark], "goes", refresh_ttl=False) is None

    await eventually(is_gone)
    assert [item["key"] for item in (await finder.store.search_items([mark], refresh_ttl=False))["items"]] == ["stays"]
    database = indexed.data / "threadwire.db"

    async def is_swept() -> bool:
        return rows(database, f"SELECT key FROM items WHERE namespace = '[\"{mark}\"]'") == [("stays",)]

    await eventually(is_swept)
    assert rows(database, "SELECT count(*) FROM item_vectors WHERE item NOT IN (SELECT position FROM items)") == [(0,)]


async def test_the_projects_time_is_given_to_what_has_none_of_its_own(finder, indexed, mark):
    await finder.store.put_item([mark], "default", {})
    await finder.store.put_item([mark], "own", {}, ttl=5)
    await finder.http.put("/store/items", json={"namespace": [mark], "key": "for ever", "value": {}, "ttl": None})
    kept = rows(indexed.data / "threadwire.db", f"SELECT key, ttl FROM items WHERE namespace = '[\"{mark}\"]'")
    assert dict(kept) == {"default": 60 * 60_000, "own": 5 * 60_000, "for ever": None}


# -- a saver and a store that the project brings ----------------------------------------------------------------------

BROUGHT = {"checkpointer": {"path": f"{GRAPHS}/keeping.py:durable_saver"}, "store": {"path": "keeping:make_store"}}


@pytest.fixture
def brought(tmp_path):
    folder = tmp_path / "brought"
    env = {"SAVER_DATA": str(folder / "saver"), "THREADWIRE_DRAIN_SECONDS": "0"}
    with running_server(project_with(folder, **BROUGHT), folder / "data", env=env) as server:
        yield server


@pytest.fixture
def saved(brought):
    """How many checkpoints the project's saver has, of a thread or of all; and the server's own."""

    def saved() -> tuple[int, int]:
        folder = brought.data.parent
        count = "SELECT count(*) FROM checkpoints"
        return rows(folder / "saver" / "threadwire.db", count)[0][0], rows(brought.data / "threadwire.db", count)[0][0]

    return saved


@pytest.fixture(params=OPENERS)
async def bringer(request, brought):
    async for sdk in sdk_of(request.param, brought):
        yield sdk


async def test_runs_and_state_go_through_the_projects_saver(bringer, saved):
    thread_id = await bringer.thread()
    await bringer.runs.wait(thread_id, "echo", input={"text": 1})
    theirs, ours = saved()
    assert (theirs, ours) == (3, 0)
    assert (await bringer.threads.get_state(thread_id))["values"] == {"text": 1, "echoed": 1}
    history = await bringer.threads.get_history(thread_id)
    assert [state["values"] for state in history] == [{"text": 1, "echoed": 1}, {"text": 1}, {}]
    assert (await bringer.threads.get_state(thread_id, checkpoint_id=history[1]["checkpoint_id"]))["next"] == [
        "say_again"
    ]
    await bringer.threads.update_state(thread_id, {"text": 2}, as_node="__start__")
    assert (await bringer.threads.get_state(thread_id))["next"] == ["say_again"]
    assert (await bringer.runs.wait(thread_id, "echo", input=None))["echoed"] == 2
    await bringer.threads.delete(thread_id)
    assert saved() == (0, 0)


async def test_an_interrupt_waits_in_the_projects_saver(bringer, brought):
    thread_id = await bringer.thread()
    await bringer.runs.wait(thread_id, "approve", input={})
    state = await bringer.threads.get_state(thread_id)
    assert state["interrupts"]
    brought.kill()
    brought.start()
    await bringer.runs.wait(thread_id, "approve", command={"resume": "yes"})
    assert (await bringer.threads.get_state(thread_id))["next"] == []


async def test_a_run_that_a_crash_broke_off_goes_on_from_the_savers_newest_checkpoint(bringer, brought, gate):
    thread_id = await bringer.thread()
    run = await bringer.runs.create(thread_id, "slow", input={"until": str(gate), "steps": ["asked"]})
    await has_begun(bringer, run)
    brought.kill()
    brought.start()
    gate.touch()
    await run_is(bringer, run, "success")
    state = await bringer.threads.get_state(thread_id)
    assert state["values"]["steps"] == ["asked", "begun", "waited"]  # the input was applied once, no step twice
    parts = await collect(bringer.runs.join_stream(thread_id, run["run_id"], last_event_id="-1"))
    assert [part["attempt"] for part in of(parts, "metadata")] == [1, 2]
    assert names(parts)[-1] == "values"


async def test_each_step_of_a_killed_run_is_done_once(bringer, brought, tmp_path):
    """But for the one that was interrupted."""
    lines = tmp_path / "lines"
    thread_id = await bringer.thread()
    given = {"count": 60, "file": str(lines), "delay": 0.02}
    run = await bringer.runs.create(thread_id, "steps", input=given)

    async def some_steps() -> bool:
        return lines.exists() and len(lines.read_text().splitlines()) > 10

    await eventually(some_steps)
    brought.kill()
    before = len(lines.read_text().splitlines())
    brought.start()
    await run_is(bringer, run, "success")
    done = [int(line) for line in lines.read_text().splitlines()]
    assert sorted(set(done)) == list(range(1, 61))
    assert len(done) <= 61
    assert done[before] in (before, before + 1)
    assert (await bringer.threads.get_state(thread_id))["values"]["done"] == list(range(1, 61))


async def test_a_rolled_back_run_leaves_nothing_in_the_projects_saver(bringer, saved, gate):
    thread_id = await bringer.thread()
    await bringer.runs.wait(thread_id, "echo", input={"text": 1})
    before = saved()
    run = await bringer.runs.create(thread_id, "slow", input={"until": str(gate)})
    await has_begun(bringer, run)
    assert saved() > before
    await bringer.runs.cancel(thread_id, run["run_id"], action="rollback", wait=True)
    assert saved() == before
    again = await bringer.runs.create(thread_id, "slow", input={"until": str(gate)})
    await has_begun(bringer, again)
    await bringer.runs.wait(thread_id, "echo", input={"text": 2}, multitask_strategy="rollback")
    assert (await bringer.threads.get_state(thread_id))["values"] == {"text": 2, "echoed": 2}


async def test_what_a_run_saved_before_a_shutdown_is_rolled_back_too(bringer, brought, saved, gate):
    thread_id = await bringer.thread()
    await bringer.runs.wait(thread_id, "echo", input={"text": 1})
    before = saved()
    run = await bringer.runs.create(thread_id, "slow", input={"until": str(gate)})
    await has_begun(bringer, run)
    assert brought.terminate() == 0  # it is released, with its checkpoints
    brought.start()
    await has_begun(bringer, run)
    await bringer.runs.cancel(thread_id, run["run_id"], action="rollback", wait=True)
    assert saved() == before


async def test_a_deleted_thread_takes_its_run_and_its_checkpoints_along(bringer, saved, gate):
    thread_id = await bringer.thread()
    run = await bringer.runs.create(thread_id, "slow", input={"until": str(gate)})
    await has_begun(bringer, run)
    await bringer.threads.delete(thread_id)
    assert saved() == (0, 0)


async def test_graphs_and_clients_share_the_projects_store(bringer, brought, mark):
    values = await bringer.runs.wait(await bringer.thread(), "memory", input={"user": mark, "fact": "likes tea"})
    assert len(values["found"]) == 3
    assert (await bringer.store.get_item(["facts", mark], "likes tea"))["value"] == {"text": "likes tea"}
    await bringer.store.put_item(["facts", mark], "from outside", {"n": 1})
    found = await bringer.store.search_items(["facts", mark], filter={"n": 1})
    assert [item["key"] for item in found["items"]] == ["from outside"]
    assert (await bringer.store.list_namespaces(prefix=["facts"], max_depth=2))["namespaces"] == [["facts", mark]]
    await bringer.store.delete_item(["facts", mark], "from outside")
    assert await bringer.store.get_item(["facts", mark], "from outside") is None
    assert rows(brought.data / "threadwire.db", "SELECT count(*) FROM items") == [(0,)]


async def test_what_the_projects_store_does_not_take_is_refused(bringer, mark):
    with refused(
        400,
        "TTL is not supported by LoopBoundStore. Use a store implementation that supports TTL or set ttl=None.",
    ):
        await bringer.store.put_item([mark], "k", {}, ttl=5)
    with refused(502, "OSError: the store is out of order"):
        await bringer.store.get_item([mark], "broken")


async def test_a_saver_that_cannot_take_a_run_back_is_not_asked_to(tmp_path):
    project = project_with(tmp_path / "forgetful", checkpointer={"path": f"{GRAPHS}/keeping.py:forgetful_saver"})
    cannot = (
        "Runs cannot be rolled back: the project's checkpointer cannot delete checkpoints, because it has no "
        "`adelete_for_runs`."
    )
    with running_server(project, tmp_path / "data") as server:
        async with OPENERS["async"](server.url) as sdk:
            thread_id = await sdk.thread()
            await sdk.runs.wait(thread_id, "echo", input={"text": 1})
            with refused(400, cannot):
                await sdk.runs.wait(thread_id, "echo", input={"text": 2}, multitask_strategy="rollback")
            run = await sdk.runs.create(thread_id, "slow", input={"until": str(tmp_path / fresh_id())})
            await has_begun(sdk, run)
            with refused(400, cannot):
                await sdk.runs.cancel(thread_id, run["run_id"], action="rollback")
            await sdk.runs.cancel(thread_id, run["run_id"], wait=True)
            assert (await sdk.threads.get_state(thread_id))["values"]["steps"] == ["begun"]
            await sdk.threads.delete(thread_id)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"checkpointer": {"path": f"{GRAPHS}/keeping.py:broken_saver"}},
            r"threadwire: \"checkpointer\": opening .*keeping.py:broken_saver failed: OSError: no such database",
        ),
        (
            {"store": {"path": f"{GRAPHS}/keeping.py:broken_saver"}},
            r"threadwire: \"store\": opening .*keeping.py:broken_saver failed: OSError: no such database",
        ),
        (
            {"store": {"path": f"{GRAPHS}/keeping.py:forgetful_saver"}},
            r"threadwire: \"store\": .*keeping.py:forgetful_saver must be a BaseStore, .* not InMemorySaver",
        ),
        ({"checkpointer": {"serde": {"pickle_fallback": True}}}, r"threadwire: .*\"pickle_fallback\" is not supported"),
    ],
)
def test_a_server_does_not_start_without_what_it_is_to_keep_things_in(tmp_path, keys, sentence):
    with (
        pytest.raises(TimeoutError, match=sentence),
        running_server(project_with(tmp_path / "project", **keys), tmp_path / "data"),
    ):
        pass
