"""AG-UI pages through crashes, restarts and many concurrent threads."""

import asyncio
from pathlib import Path

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import PROJECT
from pages import Page

from threadwire.testing.server import RunningServer, running_server

pytestmark = pytest.mark.anyio

LONG = "one two three four five six seven eight nine ten eleven twelve"
MESSAGES = [{"id": "u1", "role": "user", "content": LONG}]


async def run_until_crash(page: Page, server: RunningServer, agui: AgUiChecker) -> None:
    """Start a run, kill the server in the middle of its message, and leave the page with what it received."""
    try:
        async with page.open(messages=MESSAGES, state={"delay": 0.1}) as own:
            await own.until('"delta":" four"')
            server.kill()
            await own.rest()
    except httpx.HTTPError:
        pass
    seen = agui.until_dropped(own.sent[: own.sent.rindex(b"\n\n") + 2], messages=MESSAGES)
    assert "four" in seen.messages[-1]["content"]
    assert "twelve" not in seen.messages[-1]["content"]
    page.messages, page.state = seen.messages, seen.state
    page.cursor = [each for each in seen.ids if each][-1]


@pytest.mark.parametrize("resumes_from", ["its cursor", "the start"])
async def test_a_message_cut_off_by_a_crash_is_shown_once(tmp_path: Path, agui: AgUiChecker, resumes_from: str) -> None:
    with running_server(PROJECT, tmp_path / "data") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            page = Page(http, agui, "chat")
            await run_until_crash(page, server, agui)
        server.start()
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            page._http = http
            seen = await page.connect(page.cursor if resumes_from == "its cursor" else None)

            assert page.texts == [("user", LONG), ("assistant", f"You said: {LONG}")]
            assert seen.events[-1]["type"] == "RUN_FINISHED"

            late = page.another()
            await late.connect()
            assert late.messages == page.messages


async def test_an_idle_thread_is_the_same_after_a_restart(tmp_path: Path, agui: AgUiChecker) -> None:
    with running_server(PROJECT, tmp_path / "data") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            page = Page(http, agui, "approve")
            await page.run(state={"topic": "tests"})
        server.kill()
        server.start()
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            late = Page(http, agui, "approve", page.thread_id)
            await late.connect()
            assert (late.state, late.interrupts) == (page.state, page.interrupts)

            [interrupt] = late.interrupts
            await late.run(resume=[{"interruptId": interrupt["id"], "status": "resolved", "payload": "yes"}])
            assert late.state["done"] is True


async def test_a_shutdown_aborts_a_stream(tmp_path: Path, agui: AgUiChecker) -> None:
    """Pages treat a response that ends cleanly as a run that ended, whatever its last event is."""
    with running_server(PROJECT, tmp_path / "data", env={"THREADWIRE_DRAIN_SECONDS": "0"}) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            page = Page(http, agui, "chat")
            async with page.open(messages=MESSAGES, state={"delay": 0.1}) as own:
                await own.until('"delta":" four"')
                stopping = asyncio.create_task(asyncio.to_thread(server.terminate))
                with pytest.raises(httpx.RemoteProtocolError):
                    await own.rest()
            assert await stopping == 0
        seen = agui.until_dropped(own.sent, messages=MESSAGES)
        page.messages, page.state = seen.messages, seen.state
        server.start()
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
            page._http = http
            await page.connect([each for each in seen.ids if each][-1])
            assert page.texts == [("user", LONG), ("assistant", f"You said: {LONG}")]


async def test_two_hundred_concurrent_threads_never_mix(server: RunningServer, agui: AgUiChecker) -> None:
    limits = httpx.Limits(max_connections=400)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as http:

        async def one(number: int) -> tuple[Page, bytes, bytes]:
            page = Page(http, agui, "chat", f"crowd {number} {server.url}")
            messages = [{"id": f"u{number}", "role": "user", "content": f"thread {number} only {number}"}]
            async with page.open(messages=messages, state={"delay": 0.05}) as own:
                await own.until("RUN_STARTED")
                async with page.another().open("/connect") as follower:
                    followed = await follower.rest()
                return page, await own.rest(), followed

        pages = await asyncio.gather(*(one(number) for number in range(200)))
    for number, (page, own, followed) in enumerate(pages):
        for sent in (own, followed):
            seen = agui.check(sent)
            assert {each.get("threadId", page.thread_id) for each in seen.events} == {page.thread_id}
            text = f"thread {number} only {number}"
            assert [each["content"] for each in seen.messages] == [text, f"You said: {text}"]
