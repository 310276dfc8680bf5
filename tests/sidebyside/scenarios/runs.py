from typing import Any

from exchanges import Wire
from normalization import NOWHERE

from scenarios import scenario
from scenarios.inputs import HELLO, TEXT, run


@scenario
async def a_run_in_the_background(wire: Wire) -> None:
    thread = await wire.thread()
    created = await wire.post(f"/threads/{thread}/runs", run("echo", TEXT))
    await wire.wait_for_end(thread, created["run_id"])
    await wire.get(f"/threads/{thread}/runs/{created['run_id']}")


@scenario
async def a_run_with_every_option(wire: Wire) -> None:
    thread = await wire.thread()
    body = run(
        "echo",
        TEXT,
        config={"tags": ["t"], "recursion_limit": 7, "configurable": {"mine": 1}, "metadata": {"from": "config"}},
        metadata={"from": "run"},
        stream_mode=["values", "updates"],
        stream_subgraphs=True,
        stream_resumable=True,
        interrupt_before=["nowhere"],
        interrupt_after="*",
        multitask_strategy="reject",
        durability="sync",
    )
    created = await wire.post(f"/threads/{thread}/runs", body)
    await wire.wait_for_end(thread, created["run_id"])
    await wire.get(f"/threads/{thread}/runs/{created['run_id']}")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_run_with_feedback_keys(wire: Wire) -> None:
    thread = await wire.thread()
    created = await wire.post(f"/threads/{thread}/runs", run("echo", TEXT, feedback_keys=["good"]))
    await wire.wait_for_end(thread, created["run_id"])
    await wire.get(f"/threads/{thread}/runs?select=status")


@scenario
async def a_run_with_a_context(wire: Wire) -> None:
    thread = await wire.thread()
    created = await wire.post(f"/threads/{thread}/runs", run("echo", TEXT, context={"who": "me"}))
    await wire.wait_for_end(thread, created["run_id"])
    await wire.get(f"/threads/{thread}/runs/{created['run_id']}")


@scenario
async def a_run_with_context_and_configurable(wire: Wire) -> None:
    body = run("echo", TEXT, context={"who": "me"}, config={"configurable": {"a": 1}})
    for ending in ("", "/stream", "/wait"):
        await wire.post(f"/threads/{await wire.thread()}/runs{ending}", body)


@scenario
async def a_run_with_unknown_keys(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("echo", TEXT, colour="green"))


@scenario
async def a_run_by_assistant_id(wire: Wire) -> None:
    [assistant] = await wire.unrecorded("POST", "/assistants/search", {"graph_id": "private"})
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run(assistant["assistant_id"], {"question": "why?"}))


@scenario
async def a_run_is_waited_for(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs/wait", run("chat", HELLO))


@scenario
async def a_run_that_fails_is_waited_for(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", run("fails", TEXT))
    await wire.get(f"/threads/{thread}/runs?select=status")


@scenario
async def a_run_is_joined(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_run(thread, run("echo", TEXT))
    await wire.get(f"/threads/{thread}/runs/{run_id}/join")
    await wire.get(f"/threads/{thread}/runs/{run_id}/join")


@scenario
async def a_run_that_fails_is_joined(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_run(thread, run("fails", TEXT))
    await wire.get(f"/threads/{thread}/runs/{run_id}/join")
    await wire.wait_for_end(thread, run_id)
    await wire.get(f"/threads/{thread}/runs/{run_id}/join")


@scenario
async def a_run_that_does_not_exist(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.get(f"/threads/{thread}/runs/{NOWHERE}")
    await wire.delete(f"/threads/{thread}/runs/{NOWHERE}")
    await wire.get(f"/threads/{thread}/runs/{NOWHERE}/join")
    await wire.get(f"/threads/{thread}/runs/{NOWHERE}/stream")


@scenario
async def a_malformed_run_id(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.get(f"/threads/{thread}/runs/nobody")
    await wire.get(f"/threads/{thread}/runs/nobody/join")
    await wire.delete(f"/threads/{thread}/runs/nobody")
    await wire.post(f"/threads/{thread}/runs/nobody/cancel")


@scenario
async def a_run_of_another_thread(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_run(thread, run("echo", TEXT))
    await wire.wait_for_end(thread, run_id)
    await wire.get(f"/threads/{await wire.thread()}/runs/{run_id}")


@scenario
async def runs_are_listed(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.thread_after_run("fails", TEXT, thread=thread)
    await wire.get(f"/threads/{thread}/runs")
    await wire.get(f"/threads/{thread}/runs?status=error&select=status")
    await wire.get(f"/threads/{thread}/runs?limit=1&select=status")
    await wire.get(f"/threads/{thread}/runs?limit=1&offset=1&select=status")
    await wire.get(f"/threads/{thread}/runs?select=run_id&select=status")
    await wire.get(f"/threads/{thread}/runs?status=sleepy")


@scenario
async def runs_with_fields_selected_as_one_array(wire: Wire) -> None:
    thread = await wire.thread_after_run("echo", TEXT)
    await wire.get(f"/threads/{thread}/runs", params={"select": '["run_id","status"]'})


@scenario
async def a_run_is_deleted(wire: Wire) -> None:
    thread = await wire.thread()
    run_id = await wire.start_run(thread, run("echo", TEXT))
    await wire.wait_for_end(thread, run_id)
    await wire.delete(f"/threads/{thread}/runs/{run_id}")
    await wire.get(f"/threads/{thread}/runs/{run_id}")
    await wire.get(f"/threads/{thread}/state")


@scenario
async def a_run_that_creates_its_thread(wire: Wire) -> None:
    thread = "6f1d2c4e-1111-4000-8000-" + wire.mark[:12]
    await wire.post(f"/threads/{thread}/runs/wait", run("echo", TEXT, if_not_exists="create"))
    await wire.get(f"/threads/{thread}")


@scenario
async def a_delayed_run_is_cancelled(wire: Wire) -> None:
    thread = await wire.thread()
    created = await wire.post(f"/threads/{thread}/runs", run("echo", TEXT, after_seconds=3600))
    await wire.get(f"/threads/{thread}")
    await wire.post(f"/threads/{thread}/runs/{created['run_id']}/cancel?wait=1")
    await wire.get(f"/threads/{thread}/runs?select=status")
    await wire.get(f"/threads/{thread}")


@scenario
async def a_delayed_run_is_waited_for(wire: Wire) -> None:
    thread = await wire.thread()
    await wire.post(f"/threads/{thread}/runs/wait", run("echo", TEXT, after_seconds=1))


@scenario
async def a_run_that_changes_the_metadata_of_its_thread(wire: Wire) -> None:
    thread = await wire.thread_after_run(
        "echo", TEXT, thread=await wire.thread(metadata={"mine": 1}), metadata={"runs": 1}
    )
    await wire.get(f"/threads/{thread}")
    await wire.thread_after_run("chat", HELLO, thread=thread)
    await wire.get(f"/threads/{thread}")


@scenario
async def a_run_for_a_user(wire: Wire) -> None:
    body = {"graph_id": "echo", "config": {"configurable": {"user_id": "eve"}}}
    eves = (await wire.unrecorded("POST", "/assistants", body))["assistant_id"]
    ways: list[dict[str, Any]] = [{"config": {"configurable": {"user_id": "ada"}}}, {"context": {"user_id": "ada"}}, {}]
    for assistant in ("echo", eves):
        for given in ways:
            thread = await wire.thread_after_run(assistant, TEXT, **given)
            await wire.get(f"/threads/{thread}/state")
    for nobody in ("", None):
        body = run("echo", TEXT, config={"configurable": {"user_id": nobody}})
        await wire.post(f"/threads/{await wire.thread()}/runs", body)


@scenario
async def metadata_of_a_thread_and_its_runs(wire: Wire) -> None:
    thread = await wire.thread(metadata={"topic": "x"})
    await wire.post(f"/threads/{thread}/runs", {"assistant_id": "echo", "input": TEXT, "metadata": {"m": 1}})
