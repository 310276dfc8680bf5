"""A project with `auth`. Each scenario has users of its own."""

from typing import Any

from exchanges import Wire
from normalization import NOWHERE

from scenarios import scenario
from scenarios.inputs import TEXT

RUN = {"assistant_id": "echo", "input": TEXT}


def of(name: str, wire: Wire) -> dict[str, Any]:
    """The options of a request of this user."""
    return {"headers": {"authorization": f"Bearer {name}.{wire.mark}"}}


async def thread_of(name: str, wire: Wire, **body: Any) -> str:
    return str((await wire.unrecorded("POST", "/threads", body, **of(name, wire)))["thread_id"])


async def thread_after_run_of(name: str, wire: Wire) -> str:
    thread = await thread_of(name, wire)
    await wire.unrecorded("POST", f"/threads/{thread}/runs/wait", RUN, **of(name, wire))
    return thread


async def record_calls(name: str, wire: Wire) -> None:
    await wire.get(f"/calls/{name}-{wire.mark}")


# -- who makes a request


@scenario
async def requests_without_a_token(wire: Wire) -> None:
    for path in ("/threads/search", "/runs/wait", "/assistants/search", "/store/items/search", "/runs/crons/search"):
        await wire.post(path, {})
    await wire.get(f"/threads/{NOWHERE}")
    await wire.get("/nowhere")
    await wire.post("/threads", {}, headers={"authorization": "Basic abc"})
    await wire.post("/threads", {}, headers={"x-api-key": "abc"})


@scenario
async def what_needs_no_token(wire: Wire) -> None:
    await wire.get("/ok")
    await wire.get("/hello")


@scenario
async def tokens_that_are_rejected(wire: Wire) -> None:
    for name in ("stranger", "banned"):
        await wire.post("/threads", {}, **of(name, wire))
        await wire.post("/threads/search", {}, **of(name, wire))


@scenario
async def an_authenticate_handler_that_fails(wire: Wire) -> None:
    for name in ("late", "crash", "assert", "nobody", "nameless"):
        await wire.post("/threads", {}, **of(name, wire))


@scenario
async def users_of_different_forms(wire: Wire) -> None:
    for name in ("text", "person", "ada"):
        thread = (await wire.post("/threads", {}, **of(name, wire)))["thread_id"]
        await wire.post(f"/threads/{thread}/runs/wait", RUN, **of(name, wire))
        await wire.get(f"/threads/{thread}/runs", **of(name, wire))


# -- whose thread is it


@scenario
async def threads_belong_to_their_users(wire: Wire) -> None:
    thread = (await wire.post("/threads", {"metadata": {"topic": "x"}}, **of("ada", wire)))["thread_id"]
    for name in ("ada", "bob"):
        await wire.get(f"/threads/{thread}", **of(name, wire))
        await wire.post("/threads/search", {}, **of(name, wire))
        await wire.post("/threads/count", {}, **of(name, wire))
    await wire.post("/threads/search", {"metadata": {"topic": "x"}}, **of("bob", wire))
    await wire.post("/threads/search", {"ids": [thread]}, **of("bob", wire))


@scenario
async def an_owner_in_the_request_is_replaced(wire: Wire) -> None:
    await wire.post("/threads", {"metadata": {"owner": f"bob-{wire.mark}"}}, **of("ada", wire))
    await wire.post("/threads/search", {}, **of("bob", wire))
    await wire.post("/threads/search", {"metadata": {"owner": f"ada-{wire.mark}"}}, **of("bob", wire))


@scenario
async def a_foreign_thread_is_unknown(wire: Wire) -> None:
    for thread in (await thread_after_run_of("ada", wire), NOWHERE):
        await wire.get(f"/threads/{thread}", **of("bob", wire))
        await wire.patch(f"/threads/{thread}", {"metadata": {"mine": True}}, **of("bob", wire))
        await wire.get(f"/threads/{thread}/state", **of("bob", wire))
        await wire.post(f"/threads/{thread}/state", {"values": {"text": "x"}}, **of("bob", wire))
        await wire.post(f"/threads/{thread}/history", {}, **of("bob", wire))
        await wire.get(f"/threads/{thread}/history", **of("bob", wire))
        await wire.post(f"/threads/{thread}/copy", **of("bob", wire))
        await wire.delete(f"/threads/{thread}", **of("bob", wire))


@scenario
async def a_foreign_thread_is_created_again(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    await wire.post("/threads", {"thread_id": thread}, **of("bob", wire))
    await wire.post("/threads", {"thread_id": thread, "if_exists": "do_nothing"}, **of("bob", wire))
    await wire.get(f"/threads/{thread}", **of("ada", wire))


@scenario
async def a_foreign_thread_is_pruned(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    await wire.post("/threads/prune", {"thread_ids": [thread], "strategy": "delete"}, **of("bob", wire))
    await wire.get(f"/threads/{thread}", **of("ada", wire))


@scenario
async def the_owner_changes_a_thread(wire: Wire) -> None:
    thread = await thread_after_run_of("ada", wire)
    await wire.patch(f"/threads/{thread}", {"metadata": {"owner": f"bob-{wire.mark}", "n": 1}}, **of("ada", wire))
    await wire.get(f"/threads/{thread}", **of("ada", wire))
    await wire.get(f"/threads/{thread}", **of("bob", wire))


@scenario
async def copies_and_deletions_by_the_owner(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    copy = (await wire.post(f"/threads/{thread}/copy", **of("ada", wire)))["thread_id"]
    await wire.get(f"/threads/{copy}", **of("bob", wire))
    await wire.delete(f"/threads/{copy}", **of("ada", wire))
    await wire.get(f"/threads/{copy}", **of("ada", wire))


# -- runs


@scenario
async def the_owner_executes_runs(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    await wire.post(f"/threads/{thread}/runs/wait", RUN, **of("ada", wire))
    await wire.post(f"/threads/{thread}/runs/stream", {**RUN, "stream_mode": "values"}, **of("ada", wire))
    await wire.get(f"/threads/{thread}/runs", **of("ada", wire))
    await wire.get(f"/threads/{thread}/state", **of("ada", wire))


@scenario
async def runs_on_a_foreign_thread(wire: Wire) -> None:
    thread = await thread_after_run_of("ada", wire)
    for path in ("runs", "runs/wait", "runs/stream"):
        await wire.post(f"/threads/{thread}/{path}", RUN, **of("bob", wire))
    await wire.post(f"/threads/{thread}/runs/wait", {**RUN, "if_not_exists": "create"}, **of("bob", wire))
    await wire.get(f"/threads/{thread}/runs", **of("bob", wire))
    await wire.get(f"/threads/{thread}/runs", **of("ada", wire))


@scenario
async def a_foreign_run_is_unknown(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    run = (await wire.unrecorded("POST", f"/threads/{thread}/runs", RUN, **of("ada", wire)))["run_id"]
    await wire.unrecorded("GET", f"/threads/{thread}/runs/{run}/join", **of("ada", wire))
    for path in (f"/threads/{thread}/runs/{run}", f"/threads/{NOWHERE}/runs/{NOWHERE}"):
        await wire.get(path, **of("bob", wire))
        await wire.post(f"{path}/cancel", **of("bob", wire))
        await wire.delete(path, **of("bob", wire))
        await wire.get(f"{path}/join", **of("bob", wire))
        await wire.get(f"{path}/stream", **of("bob", wire))
    await wire.get(f"/threads/{thread}/runs/{run}", **of("ada", wire))


@scenario
async def stateless_runs_of_a_user(wire: Wire) -> None:
    await wire.post("/runs/wait", RUN, **of("ada", wire))
    await wire.post("/runs/stream", {**RUN, "stream_mode": "values"}, **of("ada", wire))
    await wire.post("/runs/wait", RUN, **of("reader", wire))


@scenario
async def keys_about_the_user_are_not_taken_from_requests(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    forged = {"configurable": {"langgraph_auth_user_id": "root", "langgraph_auth_user": {"identity": "root"}}}
    await wire.post(f"/threads/{thread}/runs", {**RUN, "config": forged}, **of("ada", wire))


# -- assistants, crons, the store


@scenario
async def assistants_can_only_be_read(wire: Wire) -> None:
    created = {"graph_id": "echo", "metadata": {"mark": wire.mark}}
    await wire.post("/assistants", created, **of("ada", wire))
    assistant = (await wire.post("/assistants", created, **of("writer", wire)))["assistant_id"]
    await wire.get(f"/assistants/{assistant}", **of("ada", wire))
    await wire.post("/assistants/search", {"metadata": {"mark": wire.mark}}, **of("ada", wire))
    await wire.post("/assistants/count", {"metadata": {"mark": wire.mark}}, **of("ada", wire))
    await wire.patch(f"/assistants/{assistant}", {"name": "mine"}, **of("ada", wire))
    await wire.post(f"/assistants/{assistant}/latest", {"version": 1}, **of("ada", wire))
    await wire.delete(f"/assistants/{assistant}", **of("ada", wire))
    await wire.delete(f"/assistants/{assistant}", **of("writer", wire))


@scenario
async def crons_belong_to_their_users(wire: Wire) -> None:
    body = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": TEXT}
    cron = (await wire.post("/runs/crons", body, **of("ada", wire)))["cron_id"]
    for name in ("ada", "bob"):
        await wire.post("/runs/crons/search", {}, **of(name, wire))
        await wire.post("/runs/crons/count", {}, **of(name, wire))
    await wire.patch(f"/runs/crons/{cron}", {"enabled": False}, **of("bob", wire))
    await wire.delete(f"/runs/crons/{cron}", **of("bob", wire))
    await wire.delete(f"/runs/crons/{cron}", **of("ada", wire))


@scenario
async def a_cron_on_a_foreign_thread(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    body = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": TEXT}
    await wire.post(f"/threads/{thread}/runs/crons", body, **of("bob", wire))


@scenario
async def namespaces_belong_to_users(wire: Wire) -> None:
    mine = f"ada-{wire.mark}"
    item = {"namespace": [mine, "notes"], "key": "k", "value": {"n": 1}}
    await wire.put("/store/items", item, **of("ada", wire))
    for name in ("ada", "bob"):
        await wire.get("/store/items", params={"namespace": f"{mine}.notes", "key": "k"}, **of(name, wire))
        await wire.post("/store/items/search", {"namespace_prefix": [mine]}, **of(name, wire))
        await wire.post("/store/namespaces", {"prefix": [mine]}, **of(name, wire))
    await wire.put("/store/items", item, **of("bob", wire))
    await wire.delete("/store/items", {"namespace": [mine, "notes"], "key": "k"}, **of("bob", wire))
    await wire.post("/store/items/search", {"namespace_prefix": []}, **of("ada", wire))
    await wire.post("/store/namespaces", {}, **of("ada", wire))


@scenario
async def a_handler_moves_namespaces(wire: Wire) -> None:
    await wire.put("/store/items", {"namespace": ["notes"], "key": "k", "value": {"n": 1}}, **of("mover", wire))
    await wire.get("/store/items", params={"namespace": "notes", "key": "k"}, **of("mover", wire))
    await wire.post("/store/items/search", {"namespace_prefix": []}, **of("mover", wire))
    await wire.post("/store/namespaces", {}, **of("mover", wire))
    await wire.delete("/store/items", {"namespace": ["notes"], "key": "k"}, **of("mover", wire))
    await wire.post("/store/items/search", {"namespace_prefix": []}, **of("mover", wire))


# -- what handlers return, and what they see


@scenario
async def a_user_without_a_permission(wire: Wire) -> None:
    await wire.post("/threads", {}, **of("reader", wire))
    await wire.post("/threads/search", {}, **of("reader", wire))


@scenario
async def what_handlers_return(wire: Wire) -> None:
    for name in ("denied", "allowed", "unasserted", "conflict"):
        thread = await thread_of(name, wire)
        await wire.get(f"/threads/{thread}", **of(name, wire))
        await wire.post(f"/threads/{thread}/runs/wait", RUN, **of(name, wire))


@scenario
async def handlers_that_fail(wire: Wire) -> None:
    for name in ("exception", "number", "operator"):
        thread = await thread_of(name, wire)
        await wire.get(f"/threads/{thread}", **of(name, wire))
        await wire.post("/threads/search", {"metadata": {"mark": wire.mark}}, **of(name, wire))


@scenario
async def filters_with_operators(wire: Wire) -> None:
    for name in ("equal", "member", "either"):
        mine = f"{name}-{wire.mark}"
        thread = await thread_of(name, wire, metadata={"mark": wire.mark, "members": [mine, "others"]})
        other = await thread_of("ada", wire, metadata={"mark": wire.mark, "members": [mine]})
        for each in (thread, other):
            await wire.get(f"/threads/{each}", **of(name, wire))
        await wire.post("/threads/count", {"metadata": {"mark": wire.mark}}, **of(name, wire))


@scenario
async def what_handlers_of_threads_see(wire: Wire) -> None:
    body = {"metadata": {"topic": "x"}, "if_exists": "do_nothing"}
    thread = (await wire.unrecorded("POST", "/threads", body, **of("ada", wire)))["thread_id"]
    for method, path, sent in (
        ("GET", f"/threads/{thread}", None),
        ("PATCH", f"/threads/{thread}", {"metadata": {"n": 1}}),
        ("POST", "/threads/search", {"metadata": {"n": 1}, "status": "idle", "limit": 3, "offset": 1}),
        ("POST", "/threads/count", {"metadata": {"n": 1}, "status": "idle"}),
        ("GET", f"/threads/{thread}/state", None),
        ("POST", f"/threads/{thread}/history", {"limit": 2}),
        ("POST", f"/threads/{thread}/copy", None),
        ("DELETE", f"/threads/{thread}", None),
    ):
        await wire.unrecorded(method, path, sent, **of("ada", wire))
    await record_calls("ada", wire)


@scenario
async def what_handlers_of_runs_see(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    body = {**RUN, "metadata": {"m": 1}, "config": {"tags": ["t"], "configurable": {"c": 1}}}
    run = (await wire.unrecorded("POST", f"/threads/{thread}/runs", body, **of("ada", wire)))["run_id"]
    await record_calls("ada", wire)
    await wire.unrecorded("GET", f"/threads/{thread}/runs/{run}/join", **of("ada", wire))
    await wire.unrecorded("GET", f"/threads/{thread}/runs/{run}", **of("ada", wire))
    await wire.unrecorded("GET", f"/threads/{thread}/runs", **of("ada", wire))
    await wire.unrecorded("POST", f"/threads/{thread}/runs/{run}/cancel", **of("ada", wire))
    await wire.unrecorded("DELETE", f"/threads/{thread}/runs/{run}", **of("ada", wire))
    await record_calls("ada", wire)


@scenario
async def what_handlers_of_a_request_that_waits_see(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    await wire.unrecorded("POST", f"/threads/{thread}/runs/wait", RUN, **of("ada", wire))
    await record_calls("ada", wire)
    await wire.unrecorded("POST", f"/threads/{thread}/runs/stream", RUN, **of("bob", wire))
    await record_calls("bob", wire)


@scenario
async def what_handlers_of_a_stateless_run_see(wire: Wire) -> None:
    await wire.unrecorded("POST", "/runs/wait", RUN, **of("ada", wire))
    await record_calls("ada", wire)


@scenario
async def what_handlers_of_assistants_see(wire: Wire) -> None:
    body = {"graph_id": "echo", "metadata": {"mark": wire.mark}, "name": "n", "config": {"tags": ["t"]}}
    assistant = (await wire.unrecorded("POST", "/assistants", body, **of("writer", wire)))["assistant_id"]
    for method, path, sent in (
        ("GET", f"/assistants/{assistant}", None),
        ("PATCH", f"/assistants/{assistant}", {"name": "m", "metadata": {"n": 1}}),
        ("POST", f"/assistants/{assistant}/versions", {}),
        ("POST", f"/assistants/{assistant}/latest", {"version": 1}),
        ("GET", f"/assistants/{assistant}/schemas", None),
        ("GET", f"/assistants/{assistant}/graph", None),
        ("POST", "/assistants/search", {"graph_id": "echo", "metadata": {"mark": wire.mark}}),
        ("POST", "/assistants/count", {"graph_id": "echo", "metadata": {"mark": wire.mark}}),
        ("DELETE", f"/assistants/{assistant}", None),
    ):
        await wire.unrecorded(method, path, sent, **of("writer", wire))
    await record_calls("writer", wire)


@scenario
async def what_handlers_of_crons_see(wire: Wire) -> None:
    thread = await thread_of("ada", wire)
    body = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": TEXT, "metadata": {"m": 1}}
    cron = (await wire.unrecorded("POST", "/runs/crons", body, **of("ada", wire)))["cron_id"]
    await wire.unrecorded("POST", f"/threads/{thread}/runs/crons", body, **of("ada", wire))
    await wire.unrecorded("PATCH", f"/runs/crons/{cron}", {"enabled": False}, **of("ada", wire))
    await wire.unrecorded("POST", "/runs/crons/search", {"limit": 3}, **of("ada", wire))
    await wire.unrecorded("POST", "/runs/crons/count", {}, **of("ada", wire))
    await wire.unrecorded("DELETE", f"/runs/crons/{cron}", **of("ada", wire))
    await record_calls("ada", wire)


@scenario
async def what_handlers_of_the_store_see(wire: Wire) -> None:
    mine = f"ada-{wire.mark}"
    await wire.unrecorded(
        "PUT", "/store/items", {"namespace": [mine], "key": "k", "value": {"n": 1}}, **of("ada", wire)
    )
    await wire.unrecorded("GET", "/store/items", params={"namespace": mine, "key": "k"}, **of("ada", wire))
    await wire.unrecorded(
        "POST", "/store/items/search", {"namespace_prefix": [mine], "filter": {"n": 1}}, **of("ada", wire)
    )
    await wire.unrecorded("POST", "/store/namespaces", {"prefix": [mine], "max_depth": 2}, **of("ada", wire))
    await wire.unrecorded("DELETE", "/store/items", {"namespace": [mine], "key": "k"}, **of("ada", wire))
    await record_calls("ada", wire)


# -- the thread wire


@scenario
async def the_thread_wire_of_a_foreign_thread(wire: Wire) -> None:
    thread = await thread_after_run_of("ada", wire)
    command = {"id": 1, "method": "run.start", "params": {"assistant_id": "echo", "input": TEXT}}
    await wire.post(f"/threads/{thread}/commands", command, **of("bob", wire))
    await wire.post(f"/threads/{thread}/commands", command)
    await wire.get(f"/threads/{thread}/runs", **of("ada", wire))
