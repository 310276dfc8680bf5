"""Where runs begin for pages that come back with a cursor: each once, at once, and in no other run.

What is made for a page that has just come has no id; a run that follows the cursor begins with a frame of the log.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agui import AgUi, Seen
from clients import PROJECT, Sdk, has_begun, open_async, run_is
from pages import OpenStream, Page, kinds

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio

AN_HOUR = 3600


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One on which a page's run waits for the others."""
    data = tmp_path_factory.mktemp("server") / "data"
    with running_server(PROJECT, data, env={"THREADWIRE_WHEN_BUSY": "enqueue"}) as running:
        yield running


@pytest.fixture
async def sdk(server: RunningServer) -> AsyncIterator[Sdk]:
    async with open_async(server.url) as opened:
        yield opened


@pytest.fixture
async def here(sdk: Sdk, http: httpx.AsyncClient, agui: AgUi) -> Page:
    """A page on a thread where one run has ended."""
    page = Page(http, agui, "slow", await sdk.thread())
    await page.run(state={})
    return page


def end_of(page: Page) -> int:
    """The position of the last entry that the page has seen."""
    assert page.cursor is not None
    return int(page.cursor)


def beginnings(seen: Seen) -> list[tuple[str, str | None]]:
    """The runs that are begun in a stream, each with the id of the frame that says so."""
    told = zip(seen.events, seen.ids, strict=True)
    return [(event["runId"], position) for event, position in told if event["type"] == "RUN_STARTED"]


def ends(seen: Seen) -> list[str]:
    return [each for each in kinds(seen.events) if each in ("RUN_FINISHED", "RUN_ERROR")]


async def first_frame(stream: OpenStream) -> str:
    """What is sent before anything happens."""
    return (await stream.until("RUN_STARTED")).decode().partition("\n\n")[0]


async def queue(sdk: Sdk, page: Page, gate: Path | None = None, **more: Any) -> dict[str, Any]:
    given = {} if gate is None else {"until": str(gate)}
    return await sdk.runs.create(page.thread_id, "slow", input=given, **more)


async def dropped(page: Page) -> str:
    """Watch the run under way until it has done something, and lose the connection. The position that was reached."""
    async with page.open("/connect", cursor=page.cursor) as stream:
        await stream.until('"op":"add"')
        had = page._agui.until_dropped(stream.sent[: stream.sent.rindex(b"\n\n") + 2])
    page.state = had.state
    return [each for each in had.ids if each][-1]


async def resumed(page: Page, cursor: str, gate: Path) -> tuple[str, Seen]:
    """What a page that comes back is sent before the runs may go on, and in all."""
    async with page.open("/connect", cursor=cursor) as stream:
        first = await first_frame(stream)
        gate.touch()  # noqa: ASYNC240 - one file
        return first, page.take(await stream.rest())


async def opened(gate: Path, sdk: Sdk, last: dict[str, Any]) -> None:
    """Let the runs go on, and wait for the last."""
    gate.touch()  # noqa: ASYNC240 - one file
    await run_is(sdk, last, "success")


# -- a run alone -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before it was queued", "at its queueing", "at its start"])
@pytest.mark.parametrize("over", [False, True])
async def test_a_run_begins_once(here: Page, sdk: Sdk, gate: Path, place: str, over: bool) -> None:
    before = end_of(here)
    cursor = before + ["before it was queued", "at its queueing", "at its start"].index(place)
    run = await queue(sdk, here, gate)
    await has_begun(sdk, run)
    if over:
        await opened(gate, sdk, run)

    late = here.another()
    first, seen = await resumed(late, str(cursor), gate)

    assert run["run_id"] in first
    [(run_id, position)] = beginnings(seen)
    assert run_id == run["run_id"]
    assert (position is None) == (cursor > before)
    assert ends(seen) == ["RUN_FINISHED"]
    assert late.state["steps"][-2:] == ["begun", "waited"]


async def test_one_who_saw_a_run_begin_gets_the_rest_as_its_own_page_got_it(here: Page) -> None:
    own = await here.run(state={})
    assert kinds(own.events)[0] == "RUN_STARTED"
    first = own.ids[0]
    assert first is not None

    for cursor in (first, str(int(first) + 1)):
        seen = await here.another().connect(cursor)
        assert seen.ids == [None, *own.ids[1:]]
        assert kinds(seen.events) == kinds(own.events)


@pytest.mark.parametrize("place", ["before it was queued", "at its queueing"])
async def test_a_delayed_run_begins_for_pages_before_it_starts(here: Page, sdk: Sdk, place: str) -> None:
    queued = end_of(here) + 1
    run = await queue(sdk, here, after_seconds=AN_HOUR)
    cursor = queued if place == "at its queueing" else queued - 1

    async with here.another().open("/connect", cursor=str(cursor)) as stream:
        first = await first_frame(stream)
    await sdk.runs.cancel(here.thread_id, run["run_id"], wait=True)

    assert run["run_id"] in first
    assert (f"id: {queued}" in first) == (place == "before it was queued")


@pytest.mark.parametrize("place", ["before it was queued", "at its queueing"])
async def test_a_delayed_run_does_not_begin_again_when_it_starts(here: Page, sdk: Sdk, place: str) -> None:
    queued = end_of(here) + 1
    run = await queue(sdk, here, after_seconds=1)
    late = here.another()
    seen = await late.connect(str(queued if place == "at its queueing" else queued - 1))

    assert beginnings(seen) == [(run["run_id"], None if place == "at its queueing" else str(queued))]
    assert ends(seen) == ["RUN_FINISHED"]
    assert late.state["steps"][-2:] == ["begun", "waited"]


# -- several runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", [False, True])
async def test_a_run_that_waits_behind_another_is_the_one_of_its_own_page(
    here: Page, sdk: Sdk, gate: Path, over: bool
) -> None:
    """Which comes back with what it saw first, and has seen nothing of the other."""
    first = await queue(sdk, here, gate)
    await has_begun(sdk, first)
    async with here.open() as own:
        cursor = (await first_frame(own)).rpartition("id: ")[2]
    second = (await sdk.runs.list(here.thread_id))[0]
    assert second["status"] == "pending"
    if over:
        await opened(gate, sdk, second)

    shown, seen = await resumed(here, cursor, gate)

    assert second["run_id"] in shown
    assert beginnings(seen) == [(second["run_id"], None)]
    assert ends(seen) == ["RUN_FINISHED"]
    assert here.state["steps"] == ["begun", "waited"] * 3


@pytest.mark.parametrize("over", [False, True])
async def test_a_run_that_waited_behind_another_begins_after_it(here: Page, sdk: Sdk, gate: Path, over: bool) -> None:
    """For a page that watched the first."""
    first = await queue(sdk, here, gate)
    await has_begun(sdk, first)
    cursor = await dropped(here)
    second = await queue(sdk, here)
    if over:
        await opened(gate, sdk, second)

    shown, seen = await resumed(here, cursor, gate)

    assert first["run_id"] in shown
    assert beginnings(seen)[0] == (first["run_id"], None)
    if over:  # while the first was active, the stream ended with it
        [_, (run_id, numbered)] = beginnings(seen)
        assert run_id == second["run_id"]
        assert beginnings(await here.another().connect(numbered)) == [(second["run_id"], None)]
    assert ends(seen) == ["RUN_FINISHED"] * len(beginnings(seen))


async def test_a_delayed_run_begins_when_it_starts_if_another_came_in_between(here: Page, sdk: Sdk) -> None:
    """Runs do not overlap on this wire."""
    before = end_of(here)
    delayed = await queue(sdk, here, after_seconds=2)
    between = await queue(sdk, here)
    await run_is(sdk, between, "success")
    seen = await here.connect(str(before))

    (one, numbered), (other, at_its_start) = beginnings(seen)
    assert (one, other) == (between["run_id"], delayed["run_id"])
    assert numbered is not None
    assert at_its_start is not None
    assert ends(seen) == ["RUN_FINISHED", "RUN_FINISHED"]


async def test_a_run_that_was_given_up_before_its_turn_is_told_of_to_those_who_saw_it_queued(
    here: Page, sdk: Sdk
) -> None:
    """To the others, that nothing has happened; an empty stream would be none."""
    run = await queue(sdk, here, after_seconds=AN_HOUR)
    await sdk.runs.cancel(here.thread_id, run["run_id"], wait=True)
    for cursor, told in ((end_of(here), False), (end_of(here) + 1, True)):
        seen = await here.another().connect(str(cursor))
        assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]
        assert (seen.events[0]["runId"] == run["run_id"]) == told


async def test_what_is_pruned_is_not_told_of(here: Page, sdk: Sdk) -> None:
    await sdk.threads.prune([here.thread_id], strategy="keep_latest")
    seen = await here.connect(here.cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "RUN_FINISHED"]


async def test_a_state_that_was_moved_after_the_cursor_is_told(here: Page, sdk: Sdk) -> None:
    await sdk.threads.update_state(here.thread_id, {"steps": ["moved"]})
    seen = await here.connect(here.cursor)
    assert kinds(seen.events) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert here.state["steps"][-1] == "moved"


async def test_a_run_that_was_rolled_back_comes_to_its_end_and_the_next_begins(
    here: Page, sdk: Sdk, gate: Path
) -> None:
    """Its row is gone; its entries are not."""
    taken_back = await queue(sdk, here, gate)
    await has_begun(sdk, taken_back)
    cursor = await dropped(here)
    next_run = await queue(sdk, here, multitask_strategy="rollback")
    await run_is(sdk, next_run, "success")
    seen = await here.connect(cursor)

    (one, unnumbered), (other, numbered) = beginnings(seen)
    assert (one, unnumbered) == (taken_back["run_id"], None)
    assert other == next_run["run_id"]
    assert numbered is not None
    assert ends(seen) == ["RUN_ERROR", "RUN_FINISHED"]
    assert here.state["steps"] == ["begun", "waited"] * 2
