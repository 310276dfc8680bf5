"""Crons with the official clients: stored, updated, found and fired. Those that fire do so every second."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from clients import eventually, fresh_id, rejected

pytestmark = pytest.mark.anyio

ECHO = "046b5dc7-2108-582c-9c6c-31d556d138f0"
EVERY_SECOND = "* * * * * *"
TOO_EARLY = "0001-01-01T00:00:00+14:00"
FIELDS = {
    "cron_id", "assistant_id", "thread_id", "user_id", "end_time", "schedule", "timezone", "payload", "next_run_date",
    "metadata", "on_run_completed", "enabled", "created_at", "updated_at",
}  # fmt: skip


@pytest.fixture
async def crons(sdk):
    """The SDK's client for crons. Deletes the crons that were created with it."""
    created = []

    class Recording:
        def __getattr__(self, name):
            async def call(*args, **kwargs):
                response = await getattr(sdk.crons, name)(*args, **kwargs)
                if name.startswith("create"):
                    created.append(response["cron_id"])
                return response

            return call

    yield Recording()
    for cron_id in created:
        response = await sdk.crons.search(limit=1000, select=["cron_id"])
        if {"cron_id": cron_id} in response:
            await sdk.crons.delete(cron_id)


async def fired(sdk, thread_id, count=1):
    async def check():
        runs = await sdk.runs.list(thread_id, limit=100)
        return runs if len(runs) >= count and runs[-1]["status"] == "success" else None

    return await eventually(check)


# -- storing ----------------------------------------------------------------------------------------------------------


async def test_a_cron_has_the_shape_clients_expect(crons, sdk):
    cron = await crons.create("echo", schedule="0 9 * * *", input={"text": 1}, metadata={"m": 1})
    assert set(cron) == FIELDS
    cron_id = cron["cron_id"]
    assert (cron["assistant_id"], cron["thread_id"], cron["on_run_completed"]) == (ECHO, None, "delete")
    assert (cron["schedule"], cron["timezone"], cron["end_time"]) == ("0 9 * * *", None, None)
    assert (cron["enabled"], cron["user_id"], cron["metadata"]) == (True, "", {"m": 1})
    assert cron["payload"] == {
        "assistant_id": ECHO,
        "schedule": "0 9 * * *",
        "input": {"text": 1},
        "metadata": {"m": 1},
        "config": {"configurable": {"cron_id": cron_id}},
    }
    tomorrow = datetime.fromisoformat(cron["next_run_date"])
    assert (tomorrow.hour, tomorrow.minute, tomorrow.utcoffset()) == (9, 0, timedelta(0))
    assert datetime.now(UTC) < tomorrow <= datetime.now(UTC) + timedelta(days=1)
    assert await sdk.http.get(f"/runs/crons/{cron_id}") == cron


async def test_a_cron_of_a_thread_has_its_id(crons, sdk):
    thread_id = await sdk.thread()
    cron = await crons.create_for_thread(thread_id, "echo", schedule="@daily")
    assert (cron["thread_id"], cron["on_run_completed"]) == (thread_id, None)


async def test_every_option_is_stored(crons):
    options = {
        "input": {"text": 1},
        "metadata": {"m": 1},
        "config": {"tags": ["t"]},
        "context": {"greeting": "hi"},
        "interrupt_before": ["a"],
        "interrupt_after": "*",
        "multitask_strategy": "reject",
        "enabled": False,
        "stream_mode": ["values", "updates"],
        "stream_subgraphs": True,
        "stream_resumable": True,
        "durability": "sync",
    }
    end = datetime(2090, 1, 1, tzinfo=UTC)
    cron = await crons.create(
        "echo",
        schedule="30 8 * * mon-fri",
        timezone=ZoneInfo("Europe/Berlin"),
        end_time=end,
        on_run_completed="keep",
        **options,
    )
    assert (cron["timezone"], cron["on_run_completed"], cron["enabled"]) == ("Europe/Berlin", "keep", False)
    assert datetime.fromisoformat(cron["end_time"]) == end
    payload = cron["payload"]
    assert payload["config"] == {"configurable": {"cron_id": cron["cron_id"]}, "tags": ["t"]}
    assert {key: payload[key] for key in options if key != "config"} == {
        key: value for key, value in options.items() if key != "config"
    }
    local = datetime.fromisoformat(cron["next_run_date"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert (local.hour, local.minute) == (8, 30)
    assert local.isoweekday() < 6


async def test_a_cron_that_has_ended_has_no_next_slot(crons):
    cron = await crons.create("echo", schedule=EVERY_SECOND, end_time=datetime(2020, 1, 1))
    assert (cron["end_time"], cron["next_run_date"]) == ("2020-01-01T00:00:00+00:00", None)


async def test_a_cron_is_updated(crons):
    cron = await crons.create("echo", schedule="0 9 * * *", input={"text": 1}, metadata={"m": 1})
    cron_id = cron["cron_id"]
    moved = await crons.update(cron_id, schedule="0 10 * * *", timezone="Asia/Kolkata")
    assert (moved["schedule"], moved["timezone"]) == ("0 10 * * *", "Asia/Kolkata")
    assert datetime.fromisoformat(moved["next_run_date"]).strftime("%H:%M") == "04:30"
    changed = await crons.update(
        cron_id,
        input={"text": 2},
        metadata={"n": 2},
        config={"tags": ["t"]},
        context={"c": 2},
        on_run_completed="keep",
        interrupt_before="*",
        interrupt_after=["a"],
        stream_mode="updates",
        stream_subgraphs=True,
        stream_resumable=True,
        durability="exit",
    )
    assert changed["metadata"] == {"m": 1, "n": 2}
    assert changed["on_run_completed"] == "keep"
    assert changed["next_run_date"] == moved["next_run_date"]
    assert changed["payload"] == {
        "assistant_id": ECHO,
        "schedule": "0 10 * * *",
        "timezone": "Asia/Kolkata",
        "input": {"text": 2},
        "metadata": {"n": 2},
        "config": {"tags": ["t"], "configurable": {"cron_id": cron_id}},
        "context": {"c": 2},
        "on_run_completed": "keep",
        "interrupt_before": "*",
        "interrupt_after": ["a"],
        "stream_mode": "updates",
        "stream_subgraphs": True,
        "stream_resumable": True,
        "durability": "exit",
    }


async def test_an_end_time_is_set_and_removed(crons):
    cron = await crons.create("echo", schedule="0 9 * * *")
    ended = await crons.update(cron["cron_id"], end_time=datetime(2020, 1, 1, tzinfo=UTC))
    assert ended["next_run_date"] is None
    again = await crons.update(cron["cron_id"], end_time=None)
    assert (again["end_time"], again["next_run_date"]) == (None, cron["next_run_date"])


async def test_a_cron_is_disabled_and_enabled(crons):
    cron = await crons.create("echo", schedule="0 9 * * *")
    assert (await crons.update(cron["cron_id"], enabled=False))["enabled"] is False
    assert (await crons.update(cron["cron_id"], enabled=True))["enabled"] is True


async def test_a_deleted_cron_is_not_found(crons, sdk):
    cron = await crons.create("echo", schedule="0 9 * * *")
    await crons.delete(cron["cron_id"])
    with rejected(404, "Not Found"):
        await sdk.http.get(f"/runs/crons/{cron['cron_id']}")
    with rejected(404, "Not Found"):
        await crons.delete(cron["cron_id"])


async def test_crons_are_found(crons, sdk, mark):
    thread_id = await sdk.thread()
    first = await crons.create("echo", schedule="0 9 * * *", metadata={"mark": mark})
    second = await crons.create_for_thread(thread_id, "chat", schedule="0 8 * * *", metadata={"mark": mark})
    third = await crons.create("echo", schedule="0 7 * * *", metadata={"mark": mark, "n": 3}, enabled=False)

    async def found(**query):
        rows = await crons.search(metadata={"mark": mark, **query.pop("metadata", {})}, **query)
        return [row["cron_id"] for row in rows]

    assert await found() == [third["cron_id"], second["cron_id"], first["cron_id"]]
    assert await found(sort_by="created_at", sort_order="asc", limit=2) == [first["cron_id"], second["cron_id"]]
    assert await found(sort_by="created_at", sort_order="asc", offset=2) == [third["cron_id"]]
    assert await found(assistant_id=ECHO) == [third["cron_id"], first["cron_id"]]
    assert await found(assistant_id="chat") == [second["cron_id"]]
    assert await found(thread_id=thread_id) == [second["cron_id"]]
    assert await found(enabled=False) == [third["cron_id"]]
    assert await found(metadata={"n": 3}) == [third["cron_id"]]
    for sort_by in ("cron_id", "assistant_id", "thread_id", "updated_at", "next_run_date", "end_time"):
        assert len(await found(sort_by=sort_by, sort_order="desc")) == 3
    assert await crons.search(thread_id=thread_id, select=["cron_id", "schedule"]) == [
        {"cron_id": second["cron_id"], "schedule": "0 8 * * *"}
    ]
    assert await crons.count(metadata={"mark": mark}) == 3
    assert await crons.count(metadata={"mark": mark}, assistant_id="echo") == 2
    assert await crons.count(thread_id=thread_id) == 1
    await sdk.threads.delete(thread_id)
    assert await crons.count(metadata={"mark": mark}) == 2


async def test_a_search_returns_the_total(crons, http, mark):
    for _ in range(3):
        await crons.create("echo", schedule="0 9 * * *", metadata={"mark": mark})
    response = await http.post("/runs/crons/search", json={"metadata": {"mark": mark}, "limit": 2})
    assert (response.headers["x-pagination-total"], response.headers["x-pagination-next"]) == ("3", "2")


# -- rejecting --------------------------------------------------------------------------------------------------------


async def test_invalid_crons_are_rejected(crons, sdk):
    with pytest.raises(Exception, match=r"Invalid cron schedule: 'bogus'\. Reason: expected 5 or 6 fields .*, got 1"):
        await crons.create("echo", schedule="bogus")
    with rejected(422, "Invalid timezone: 'nope'. Use IANA timezone format (e.g. 'America/New_York')."):
        await crons.create("echo", schedule="@daily", timezone="nope")
    for name in ("nobody", fresh_id()):
        with rejected(404, f"Assistant '{name}' not found"):
            await crons.create(name, schedule="@daily")
    missing = fresh_id()
    with rejected(
        404,
        f"Thread with ID '{missing}' not found. Please verify the ID is correct and the thread hasn't been deleted or"
        " expired.",
    ):
        await crons.create_for_thread(missing, "echo", schedule="@daily")
    with rejected(422, "Invalid thread ID: must be a UUID"):
        await crons.create_for_thread("abc", "echo", schedule="@daily")
    both = {"config": {"configurable": {"greeting": "hi"}}, "context": {"greeting": "hi"}}
    with pytest.raises(Exception, match="Cannot specify both configurable and context"):
        await crons.create("echo", schedule="@daily", **both)
    for invalid in (
        {"on_run_completed": "burn"},
        {"multitask_strategy": "fight"},
        {"stream_mode": "smoke"},
    ):
        with pytest.raises(Exception, match=next(iter(invalid))):
            await crons.create("echo", schedule="@daily", **invalid)


async def test_an_invalid_update_is_rejected_and_changes_nothing(crons, sdk, http):
    cron = await crons.create("echo", schedule="@daily")
    cron_id = cron["cron_id"]
    with pytest.raises(Exception, match="Invalid cron schedule: 'bogus'"):
        await crons.update(cron_id, schedule="bogus")
    with pytest.raises(Exception, match="Invalid timezone: 'nope'"):
        await crons.update(cron_id, timezone="nope")
    await crons.update(cron_id, context={"greeting": "hi"})
    with pytest.raises(Exception, match="Cannot specify both configurable and context"):
        await crons.update(cron_id, config={"configurable": {"greeting": "hi"}})
    cron = await crons.update(cron_id, context={})
    with rejected(400, "Request body cannot be empty"):
        await crons.update(cron_id)
    for invalid in ({"schedule": None}, {"enabled": "maybe"}, {"end_time": "whenever"}, {"end_time": TOO_EARLY}):
        assert (await http.patch(f"/runs/crons/{cron_id}", json=invalid)).status_code == 422
    assert await sdk.http.get(f"/runs/crons/{cron_id}") == cron
    missing = fresh_id()
    with rejected(404, f"Cron '{missing}' not found"):
        await crons.update(missing, enabled=False)


async def test_a_cron_id_must_be_a_uuid(crons, http):
    for method in ("GET", "DELETE", "PATCH"):
        response = await http.request(method, "/runs/crons/abc", json={"enabled": True} if method == "PATCH" else None)
        assert (response.status_code, response.json()) == (422, {"detail": "Invalid cron ID: must be a UUID"})


async def test_an_invalid_search_is_rejected(crons):
    with rejected(422, "Invalid assistant ID: must be a UUID"):
        await crons.search(assistant_id="nobody")
    with rejected(422, "Invalid thread ID: must be a UUID"):
        await crons.count(thread_id="abc")
    for invalid in ({"limit": 0}, {"sort_by": "luck"}, {"select": ["luck"]}, {"sort_order": "up"}):
        with pytest.raises(Exception, match=next(iter(invalid))):
            await crons.search(**invalid)


async def test_a_cron_needs_an_assistant_and_a_schedule(http):
    for body in ({"assistant_id": "echo"}, {"schedule": "@daily"}, {"assistant_id": "echo", "schedule": 5}):
        assert (await http.post("/runs/crons", json=body)).status_code == 422


# -- firing -----------------------------------------------------------------------------------------------------------


async def test_a_cron_of_a_thread_starts_its_runs_there(crons, sdk):
    thread_id = await sdk.thread()
    cron = await crons.create_for_thread(
        thread_id,
        "factory",
        schedule=EVERY_SECOND,
        input={"text": "you"},
        metadata={"mine": 1},
        config={"configurable": {"greeting": "good day"}},
        stream_mode=["updates"],
    )
    runs = await fired(sdk, thread_id, count=2)
    first = runs[-1]
    assert (first["status"], first["metadata"]["mine"]) == ("success", 1)
    assert first["kwargs"]["config"]["configurable"]["cron_id"] == cron["cron_id"]
    assert first["kwargs"]["stream_mode"] == ["updates"]
    assert first["kwargs"]["temporary"] is False
    assert (await sdk.threads.get(thread_id))["values"]["echoed"] == "good day you"
    assert await sdk.runs.join(thread_id, first["run_id"]) == {"text": "you", "echoed": "good day you"}
    assert len({run["created_at"][:19] for run in runs}) == len(runs), "one run for each second"


async def test_the_runs_of_a_cron_receive_its_context(crons, sdk):
    thread_id = await sdk.thread()
    await crons.create_for_thread(
        thread_id, "factory", schedule=EVERY_SECOND, input={"text": "you"}, context={"greeting": "good night"}
    )
    await fired(sdk, thread_id)
    assert (await sdk.threads.get(thread_id))["values"]["echoed"] == "good night you"


async def test_a_stateless_cron_keeps_its_threads_on_request(crons, sdk, mark):
    await crons.create(
        "echo", schedule=EVERY_SECOND, input={"text": 1}, on_run_completed="keep", metadata={"mark": mark}
    )

    async def threads_kept():
        threads = await sdk.threads.search(metadata={"mark": mark})
        return len(threads) >= 2 and threads[-1]["values"] == {"text": 1, "echoed": 1}

    assert await eventually(threads_kept)


async def test_a_stateless_cron_leaves_no_threads(crons, sdk, mark, tmp_path):
    line = tmp_path / "lines"
    await crons.create("steps", schedule=EVERY_SECOND, input={"count": 1, "file": str(line)}, metadata={"mark": mark})

    async def has_run():
        return line.exists() and len(line.read_text().split()) >= 2

    await eventually(has_run)

    async def discarded():
        return await sdk.threads.search(metadata={"mark": mark}) == []

    assert await eventually(discarded)


async def test_a_disabled_cron_does_not_fire(crons, sdk):
    thread_id = await sdk.thread()
    cron = await crons.create_for_thread(thread_id, "echo", schedule=EVERY_SECOND, input={"text": 1})
    await fired(sdk, thread_id)
    await crons.update(cron["cron_id"], enabled=False)
    before = await sdk.runs.list(thread_id, limit=100)
    other = await sdk.thread()
    await crons.create_for_thread(other, "echo", schedule=EVERY_SECOND, input={"text": 1})
    await fired(sdk, other, count=2)
    assert len(await sdk.runs.list(thread_id, limit=100)) == len(before)


async def test_the_next_run_receives_updated_input(crons, sdk):
    thread_id = await sdk.thread()
    cron = await crons.create_for_thread(thread_id, "echo", schedule="@yearly", input={"text": 1})
    await crons.update(cron["cron_id"], input={"text": 2}, schedule=EVERY_SECOND)
    runs = await fired(sdk, thread_id)
    assert runs[-1]["kwargs"]["input"] == {"text": 2}
