"""A page that connects while a cron's run is under way: it is shown the thread as it is, then the run, then its end."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from agui import AgUi
from clients import Sdk, eventually
from pages import CopilotKitPage, Page, kinds

pytestmark = pytest.mark.anyio

EVERY_SECOND = "* * * * * *"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """The file in which the agent `dictated` finds what to say."""
    path = tmp_path / "words"
    path.touch()
    return path


@pytest.mark.parametrize("kind", [Page, CopilotKitPage])
async def test_a_run_of_a_cron_is_attached_to(
    sdk: Sdk, http: httpx.AsyncClient, agui: AgUi, words: Path, kind: type[Page]
) -> None:
    thread_id = await sdk.thread()
    earlier = {"messages": [{"role": "user", "id": "u1", "content": "before"}]}
    await sdk.runs.wait(thread_id, "dictated", input=earlier)
    run = await run_of_cron(sdk, thread_id, words)

    say(words, "one")
    await eventually(lambda: is_said(http, thread_id, "one"))
    here = kind(http, agui, "dictated", thread_id)
    async with here.open("/connect") as attached:
        await attached.until("MESSAGES_SNAPSHOT")
        say(words, " two")
        await attached.until('"delta":" two"')
        say(words, " three\n")
        seen = here.take(await attached.rest())

    assert kinds(seen.events)[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert kinds(seen.events)[-1] == "RUN_FINISHED"
    assert {each["runId"] for each in seen.events if each["type"].startswith("RUN_")} == {run["run_id"]}
    said = "".join(each["delta"] for each in seen.events if each["type"] == "TEXT_MESSAGE_CONTENT")
    assert said == " two three", "what the snapshot had is not said again"
    assert [text for _, text in here.texts] == ["before", "You said: before", "tick", "one two three"]
    assert here.state["answers"] == 2

    late = here.another()
    await late.connect()
    assert (late.messages, late.state) == (here.messages, here.state)
    kept = (await sdk.threads.get_state(thread_id))["values"]["messages"]
    assert [(each["id"], each["content"]) for each in kept] == [(each["id"], each["content"]) for each in here.messages]


async def run_of_cron(sdk: Sdk, thread_id: str, words: Path) -> dict[str, Any]:
    """A run under way, of a cron that makes no other."""
    cron = await sdk.crons.create_for_thread(
        thread_id,
        "dictated",
        schedule=EVERY_SECOND,
        input={"messages": [{"role": "user", "id": "u2", "content": "tick"}], "dictation": str(words)},
        multitask_strategy="reject",
    )

    async def check() -> Any:
        runs = await sdk.runs.list(thread_id)
        return next((each for each in runs if each["status"] == "running"), None)

    try:
        found: dict[str, Any] = await eventually(check)
    finally:
        await sdk.crons.delete(cron["cron_id"])
    return found


async def is_said(http: httpx.AsyncClient, thread_id: str, text: str) -> bool:
    messages = (await http.get(f"/copilotkit/threads/{thread_id}/messages")).json()["messages"]
    return bool(messages[-1].get("content") == text)


def say(words: Path, text: str) -> None:
    with words.open("a") as file:
        file.write(text)
