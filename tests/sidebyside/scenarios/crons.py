"""Crons with a schedule that does not come due during the tests: the 29th of February."""

from typing import Any

from exchanges import Wire
from normalization import NOWHERE

from scenarios import scenario
from scenarios.inputs import TEXT

SCHEDULE = "0 0 29 2 *"


def cron(wire: Wire, **body: Any) -> dict[str, Any]:
    return {"assistant_id": "echo", "schedule": SCHEDULE, "input": TEXT, "metadata": {"mark": wire.mark}, **body}


async def create(wire: Wire, **body: Any) -> str:
    return str((await wire.unrecorded("POST", "/runs/crons", cron(wire, **body))).get("cron_id"))


@scenario
async def a_cron_is_created(wire: Wire) -> None:
    created = await wire.post("/runs/crons", cron(wire))
    await wire.get(f"/runs/crons/{created['cron_id']}")


@scenario
async def a_cron_is_created_for_a_thread(wire: Wire) -> None:
    await wire.post(f"/threads/{await wire.thread()}/runs/crons", cron(wire))


@scenario
async def a_cron_is_created_with_every_option(wire: Wire) -> None:
    body = cron(
        wire,
        timezone="Europe/Berlin",
        end_time="2099-01-01T00:00:00+00:00",
        enabled=False,
        config={"configurable": {"mine": 1}},
        interrupt_before=["nowhere"],
        on_run_completed="keep",
        multitask_strategy="reject",
        stream_mode=["values"],
        stream_subgraphs=True,
        durability="sync",
    )
    await wire.post("/runs/crons", body)


@scenario
async def invalid_crons_are_rejected(wire: Wire) -> None:
    await wire.post("/runs/crons", cron(wire, schedule="bogus"))
    await wire.post("/runs/crons", cron(wire, timezone="Moon/Crater"))
    await wire.post("/runs/crons", cron(wire, assistant_id="nope"))
    await wire.post("/runs/crons", cron(wire, assistant_id=NOWHERE))
    await wire.post("/runs/crons", {"assistant_id": "echo"})
    await wire.post("/runs/crons", {"schedule": SCHEDULE})
    await wire.post(f"/threads/{NOWHERE}/runs/crons", cron(wire))


@scenario
async def a_cron_is_created_with_context_and_configurable(wire: Wire) -> None:
    both = {"context": {"x": 1}, "config": {"configurable": {"y": 2}}}
    await wire.post("/runs/crons", cron(wire, **both))
    await wire.post(f"/threads/{await wire.thread()}/runs/crons", cron(wire, **both))


@scenario
async def cron_requests_with_invalid_arguments(wire: Wire) -> None:
    await wire.post("/threads/nobody/runs/crons", cron(wire))
    await wire.patch("/runs/crons/nobody", {"enabled": False})
    await wire.delete("/runs/crons/nobody")
    await wire.post("/runs/crons/search", {"limit": -1})
    await wire.post("/runs/crons/count", {"assistant_id": "nobody"})
    await wire.patch(f"/runs/crons/{await create(wire)}", {})


@scenario
async def a_cron_is_updated(wire: Wire) -> None:
    cron_id = await create(wire)
    await wire.patch(f"/runs/crons/{cron_id}", {"schedule": "0 12 29 2 *", "enabled": False})
    await wire.patch(f"/runs/crons/{cron_id}", {"schedule": "bogus"})
    await wire.get(f"/runs/crons/{cron_id}")


@scenario
async def a_cron_is_deleted(wire: Wire) -> None:
    cron_id = await create(wire)
    await wire.delete(f"/runs/crons/{cron_id}")
    await wire.get(f"/runs/crons/{cron_id}")
    await wire.delete(f"/runs/crons/{cron_id}")


@scenario
async def a_cron_that_does_not_exist(wire: Wire) -> None:
    await wire.get(f"/runs/crons/{NOWHERE}")
    await wire.patch(f"/runs/crons/{NOWHERE}", {"enabled": False})
    await wire.delete(f"/runs/crons/{NOWHERE}")
    await wire.get("/runs/crons/nobody")


@scenario
async def crons_are_searched(wire: Wire) -> None:
    assistant = await wire.unrecorded("POST", "/assistants", {"graph_id": "echo"})
    mine = {"assistant_id": assistant["assistant_id"]}
    await create(wire, **mine)
    await create(wire, **mine, enabled=False)
    await wire.post("/runs/crons/search", {**mine, "enabled": False})
    await wire.post("/runs/crons/search", {**mine, "limit": 1, "sort_by": "created_at", "sort_order": "asc"})
    await wire.post("/runs/crons/search", {**mine, "select": ["schedule"]})
    await wire.post("/runs/crons/search", {"assistant_id": NOWHERE})


@scenario
async def crons_are_counted(wire: Wire) -> None:
    assistant = await wire.unrecorded("POST", "/assistants", {"graph_id": "echo"})
    mine = {"assistant_id": assistant["assistant_id"]}
    await create(wire, **mine)
    await wire.post("/runs/crons/count", mine)
    await wire.post("/runs/crons/count", {"assistant_id": NOWHERE})
