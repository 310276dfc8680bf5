"""A page that connects during a run of a cron receives the current thread, then the run, then its end."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import Sdk, eventually
from pages import CopilotKitPage, Page, kinds

pytestmark = pytest.mark.anyio

EVERY_SECOND = "* * * * * *"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The file from which the agent `dictated` reads its output."""
    path = tmp_path / "script"
    path.touch()
    return path


@pytest.mark.parametrize("kind", [Page, CopilotKitPage])
async def test_connecting_attaches_to_a_run_of_a_cron(
    sdk: Sdk, http: httpx.AsyncClient, agui: AgUiChecker, script: Path, kind: type[Page]
) -> None:
    thread_id = await sdk.thread()
    earlier = {"messages": [{"role": "user", "id": "u1", "content": "before"}]}
    await sdk.runs.wait(thread_id, "dictated", input=earlier)
    run = await run_of_cron(sdk, thread_id, script)

    dictate(script, "one")
    await eventually(lambda: is_streamed(http, thread_id, "one"))
    here = kind(http, agui, "dictated", thread_id)
    async with here.open("/connect") as attached:
        await attached.until("MESSAGES_SNAPSHOT")
        dictate(script, " two")
        await attached.until('"delta":" two"')
        dictate(script, " three\n")
        seen = here.receive(await attached.rest())

    assert kinds(seen.events)[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert kinds(seen.events)[-1] == "RUN_FINISHED"
    assert {each["runId"] for each in seen.events if each["type"].startswith("RUN_")} == {run["run_id"]}
    text = "".join(each["delta"] for each in seen.events if each["type"] == "TEXT_MESSAGE_CONTENT")
    assert text == " two three", "the text of the snapshot is not sent again"
    assert [text for _, text in here.texts] == ["before", "You said: before", "tick", "one two three"]
    assert here.state["answers"] == 2

    late = here.another()
    await late.connect()
    assert (late.messages, late.state) == (here.messages, here.state)
    stored = (await sdk.threads.get_state(thread_id))["values"]["messages"]
    assert [(each["id"], each["content"]) for each in stored] == [
        (each["id"], each["content"]) for each in here.messages
    ]


async def run_of_cron(sdk: Sdk, thread_id: str, script: Path) -> dict[str, Any]:
    """Return a running run of a cron that starts no other run."""
    cron = await sdk.crons.create_for_thread(
        thread_id,
        "dictated",
        schedule=EVERY_SECOND,
        input={"messages": [{"role": "user", "id": "u2", "content": "tick"}], "dictation": str(script)},
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


async def is_streamed(http: httpx.AsyncClient, thread_id: str, text: str) -> bool:
    messages = (await http.get(f"/copilotkit/threads/{thread_id}/messages")).json()["messages"]
    return bool(messages[-1].get("content") == text)


def dictate(script: Path, text: str) -> None:
    with script.open("a") as file:
        file.write(text)
