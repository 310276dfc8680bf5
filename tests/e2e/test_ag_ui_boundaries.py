"""Where runs start for pages that reconnect with a cursor: each run once, immediately, and not inside another run.

A frame created for a page that has just connected has no id. A run after the cursor starts with a frame of the log.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker, StreamResult
from clients import PROJECT, Sdk, open_async, wait_for_start, wait_for_status
from pages import OpenStream, Page, kinds

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio

AN_HOUR = 3600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that enqueues a page's run while the thread is busy."""
    data = tmp_path_factory.mktemp("server") / "data"
    with running_server(PROJECT, data, env={"THREADWIRE_WHEN_BUSY": "enqueue"}) as running:
        yield running


@pytest.fixture
async def sdk(server: RunningServer) -> AsyncIterator[Sdk]:
    async with open_async(server.url) as opened:
        yield opened


@pytest.fixture
async def here(sdk: Sdk, http: httpx.AsyncClient, agui: AgUiChecker) -> Page:
    """A page on a thread where one run has ended."""
    page = Page(http, agui, "slow", await sdk.thread())
    await page.run(state={})
    return page


def last_seq(page: Page) -> int:
    """Return the position of the last entry that the page has received."""
    assert page.cursor is not None
    return int(page.cursor)


def starts(seen: StreamResult) -> list[tuple[str, str | None]]:
    """Return the runs that start in a stream, each with the id of its `RUN_STARTED` frame."""
    pairs = zip(seen.events, seen.ids, strict=True)
    return [(event["runId"], position) for event, position in pairs if event["type"] == "RUN_STARTED"]


def ends(seen: StreamResult) -> list[str]:
    return [each for each in kinds(seen.events) if each in ("RUN_FINISHED", "RUN_ERROR")]


async def first_frame(stream: OpenStream) -> str:
    """Return the first frame, which is sent immediately."""
    return (await stream.until("RUN_STARTED")).decode().partition("\n\n")[0]


async def queue(sdk: Sdk, page: Page, gate: Path | None = None, **fields: Any) -> dict[str, Any]:
    given = {} if gate is None else {"until": str(gate)}
    return await sdk.runs.create(page.thread_id, "slow", input=given, **fields)


async def drop(page: Page) -> str:
    """Follow the running run until it has changed the state, then drop the connection. Return the last position."""
    async with page.open("/connect", cursor=page.cursor) as stream:
        await stream.until('"op":"add"')
        had = page._agui.until_dropped(stream.sent[: stream.sent.rindex(b"\n\n") + 2])
    page.state = had.state
    return [each for each in had.ids if each][-1]


async def resume(page: Page, cursor: str, gate: Path) -> tuple[str, StreamResult]:
    """Reconnect a page. Return the first frame, sent before the runs can continue, and the whole stream."""
    async with page.open("/connect", cursor=cursor) as stream:
        first = await first_frame(stream)
        gate.touch()  # noqa: ASYNC240 - one file
        return first, page.receive(await stream.rest())


async def open_gate(gate: Path, sdk: Sdk, last: dict[str, Any]) -> None:
    """Let the runs continue, and wait for the last one."""
    gate.touch()  # noqa: ASYNC240 - one file
    await wait_for_status(sdk, last, "success")


# -- a single run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before it was queued", "when it was queued", "when it started"])
@pytest.mark.parametrize("over", [False, True])
async def test_a_run_starts_once(here: Page, sdk: Sdk, gate: Path, place: str, over: bool) -> None:
    before = last_seq(here)
    cursor = before + ["before it was queued", "when it was queued", "when it started"].index(place)
    run = await queue(sdk, here, gate)
    await wait_for_start(sdk, run)
    if over:
        await open_gate(gate, sdk, run)

    late = here.another()
    first, seen = await resume(late, str(cursor), gate)

    assert run["run_id"] in first
    [(run_id, position)] = starts(seen)
    assert run_id == run["run_id"]
    assert (position is None) == (cursor > before)
    assert ends(seen) == ["RUN_FINISHED"]
    assert late.state["steps"][-2:] == ["begun", "waited"]


async def test_a_client_that_saw_a_run_start_receives_the_rest_unchanged(here: Page) -> None:
    own = await here.run(state={})
    assert kinds(own.events)[0] == "RUN_STARTED"
    first = own.ids[0]
    assert first is not None

    for cursor in (first, str(int(first) + 1)):
        seen = await here.another().connect(cursor)
        assert seen.ids == [None, *own.ids[1:]]
        assert kinds(seen.events) == kinds(own.events)


@pytest.mark.parametrize("place", ["before it was queued", "when it was queued"])
async def test_a_delayed_run_is_announced_before_it_starts(here: Page, sdk: Sdk, place: str) -> None:
    queued = last_seq(here) + 1
    run = await queue(sdk, here, after_seconds=AN_HOUR)
    cursor = queued if place == "when it was queued" else queued - 1

    async with here.another().open("/connect", cursor=str(cursor)) as stream:
        first = await first_frame(stream)
    await sdk.runs.cancel(here.thread_id, run["run_id"], wait=True)

    assert run["run_id"] in first
    assert (f"id: {queued}" in first) == (place == "before it was queued")


@pytest.mark.parametrize("place", ["before it was queued", "when it was queued"])
async def test_a_delayed_run_is_announced_only_once(here: Page, sdk: Sdk, place: str) -> None:
    queued = last_seq(here) + 1
    run = await queue(sdk, here, after_seconds=1)
    late = here.another()
    seen = await late.connect(str(queued if place == "when it was queued" else queued - 1))

    assert starts(seen) == [(run["run_id"], None if place == "when it was queued" else str(queued))]
    assert ends(seen) == ["RUN_FINISHED"]
    assert late.state["steps"][-2:] == ["begun", "waited"]


# -- several runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [False, True])
async def test_a_queued_run_is_the_one_that_its_own_client_resumes(
    here: Page, sdk: Sdk, gate: Path, over: bool
) -> None:
    """The client reconnects with the first cursor it received and has seen nothing of the other run."""
    first = await queue(sdk, here, gate)
    await wait_for_start(sdk, first)
    async with here.open() as own:
        cursor = (await first_frame(own)).rpartition("id: ")[2]
    second = (await sdk.runs.list(here.thread_id))[0]
    assert second["status"] == "pending"
    if over:
        await open_gate(gate, sdk, second)

    first_sent, seen = await resume(here, cursor, gate)

    assert second["run_id"] in first_sent
    assert starts(seen) == [(second["run_id"], None)]
    assert ends(seen) == ["RUN_FINISHED"]
    assert here.state["steps"] == ["begun", "waited"] * 3


@pytest.mark.parametrize("over", [False, True])
async def test_a_queued_run_starts_after_the_one_before_it(here: Page, sdk: Sdk, gate: Path, over: bool) -> None:
    """The client followed the first run."""
    first = await queue(sdk, here, gate)
    await wait_for_start(sdk, first)
    cursor = await drop(here)
    second = await queue(sdk, here)
    if over:
        await open_gate(gate, sdk, second)

    first_sent, seen = await resume(here, cursor, gate)

    assert first["run_id"] in first_sent
    assert starts(seen)[0] == (first["run_id"], None)
    if over:  # while the first was active, the stream ended with it
        [_, (run_id, numbered)] = starts(seen)
        assert run_id == second["run_id"]
        assert starts(await here.another().connect(numbered)) == [(second["run_id"], None)]
    assert ends(seen) == ["RUN_FINISHED"] * len(starts(seen))


async def test_a_delayed_run_is_announced_at_its_start_if_another_ran_before_it(here: Page, sdk: Sdk) -> None:
    """Runs do not overlap in this protocol."""
    before = last_seq(here)
    delayed = await queue(sdk, here, after_seconds=2)
    between = await queue(sdk, here)
    await wait_for_status(sdk, between, "success")
    seen = await here.connect(str(before))

    (one, numbered), (other, at_start) = starts(seen)
    assert (one, other) == (between["run_id"], delayed["run_id"])
    assert numbered is not None
    assert at_start is not None
    assert ends(seen) == ["RUN_FINISHED", "RUN_FINISHED"]


async def test_a_run_cancelled_in_the_queue_is_sent_only_to_clients_that_saw_it_queued(here: Page, sdk: Sdk) -> None:
    """The others receive a stream in which nothing happens, because an empty stream would be invalid."""
    run = await queue(sdk, here, after_seconds=AN_HOUR)
    await sdk.runs.cancel(here.thread_id, run["run_id"], wait=True)
    for cursor, sent in ((last_seq(here), False), (last_seq(here) + 1, True)):
        seen = await here.another().connect(str(cursor))
        assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]
        assert (seen.events[0]["runId"] == run["run_id"]) == sent


async def test_pruned_entries_are_not_sent(here: Page, sdk: Sdk) -> None:
    await sdk.threads.prune([here.thread_id], strategy="keep_latest")
    seen = await here.connect(here.cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_state_updated_after_the_cursor_is_sent(here: Page, sdk: Sdk) -> None:
    await sdk.threads.update_state(here.thread_id, {"steps": ["moved"]})
    seen = await here.connect(here.cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert here.state["steps"][-1] == "moved"


async def test_a_rolled_back_run_ends_and_the_next_one_starts(here: Page, sdk: Sdk, gate: Path) -> None:
    """Its row is deleted; its entries are not."""
    rolled_back = await queue(sdk, here, gate)
    await wait_for_start(sdk, rolled_back)
    cursor = await drop(here)
    next_run = await queue(sdk, here, multitask_strategy="rollback")
    await wait_for_status(sdk, next_run, "success")
    seen = await here.connect(cursor)

    (one, unnumbered), (other, numbered) = starts(seen)
    assert (one, unnumbered) == (rolled_back["run_id"], None)
    assert other == next_run["run_id"]
    assert numbered is not None
    assert ends(seen) == ["RUN_ERROR", "RUN_FINISHED"]
    assert here.state["steps"] == ["begun", "waited"] * 2
