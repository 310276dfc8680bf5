"""A fork hides the blocks of the branch that it leaves, on every device, and a fork from the end of a branch shows them
again."""

from typing import Any

import httpx
import pytest
from clients import Sdk, human
from test_timeline import TimelineClient, following, timeline_of

pytestmark = pytest.mark.anyio


async def newest_checkpoint(sdk: Sdk, thread_id: str) -> str:
    checkpoint: str = (await sdk.threads.get_state(thread_id))["checkpoint"]["checkpoint_id"]
    return checkpoint


async def say(sdk: Sdk, thread_id: str, number: int, **options: Any) -> str:
    """Send a message; returns the checkpoint that its run ends with."""
    await sdk.runs.wait(thread_id, "chat", input=human(f"{number}", f"h{number}"), **options)
    return await newest_checkpoint(sdk, thread_id)


def path_of(blocks: list[Any]) -> list[Any]:
    return [block["message"]["content"] for block in blocks if "branchId" not in block]


def branch_of(blocks: list[Any], branch_id: str) -> list[Any]:
    return [block["message"]["content"] for block in blocks if block.get("branchId") == branch_id]


async def blocks_of(http: httpx.AsyncClient, thread_id: str, client: TimelineClient) -> list[Any]:
    """The blocks of a fresh request, which are those of a client that was present."""
    page = await timeline_of(http, thread_id)
    await client.until(lambda it: it.seq >= page["seq"] or it.blocks == page["blocks"])
    assert client.blocks == page["blocks"]
    blocks: list[Any] = page["blocks"]
    return blocks


def turn(*numbers: int) -> list[str]:
    return [text for number in numbers for text in (f"{number}", f"You said: {number}")]


FORKED = ["3", "or rather", "You said: or rather"]


async def fork(sdk: Sdk, thread_id: str, checkpoint_id: str) -> str:
    """Fork, and return the checkpoint at the end. Sends two messages, because the ids of responses count messages."""
    messages = [*human("3", "h3")["messages"], *human("or rather", "rather")["messages"]]
    await sdk.runs.wait(thread_id, "chat", input={"messages": messages}, checkpoint_id=checkpoint_id)
    return await newest_checkpoint(sdk, thread_id)


async def test_a_fork_hides_the_branch_that_it_leaves_until_it_is_selected(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    async with following(http, thread_id) as client:
        first = await say(sdk, thread_id, 1)
        second = await say(sdk, thread_id, 2)
        third = await fork(sdk, thread_id, first)
        blocks = await blocks_of(http, thread_id, client)
        assert path_of(blocks) == [*turn(1), *FORKED]
        assert branch_of(blocks, second) == turn(2)

        await sdk.runs.wait(thread_id, "chat", input=None, checkpoint_id=second)
        blocks = await blocks_of(http, thread_id, client)
        assert path_of(blocks) == turn(1, 2)
        assert branch_of(blocks, third) == FORKED

        fourth = await say(sdk, thread_id, 4)
        await sdk.runs.wait(thread_id, "chat", input=None, checkpoint_id=third)
        blocks = await blocks_of(http, thread_id, client)
        assert path_of(blocks) == [*turn(1), *FORKED]
        assert branch_of(blocks, fourth) == turn(2, 4)


async def test_branches_may_have_messages_with_the_same_ids(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    async with following(http, thread_id) as client:
        first = await say(sdk, thread_id, 1)
        second = await say(sdk, thread_id, 2)
        await say(sdk, thread_id, 3, checkpoint_id=first)
        assert path_of(await blocks_of(http, thread_id, client)) == turn(1, 3)
        await sdk.runs.wait(thread_id, "chat", input=None, checkpoint_id=second)
        assert path_of(await blocks_of(http, thread_id, client)) == turn(1, 2)


async def test_an_update_of_an_earlier_state_is_a_fork(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    first = await say(sdk, thread_id, 1)
    second = await say(sdk, thread_id, 2)
    async with following(http, thread_id) as client:
        await sdk.threads.update_state(thread_id, human("noted", "note"), as_node="model", checkpoint_id=first)
        blocks = await blocks_of(http, thread_id, client)
        assert path_of(blocks) == [*turn(1), "noted"]
        assert branch_of(blocks, second) == turn(2)

        await sdk.threads.update_state(thread_id, None, as_node="__copy__", checkpoint_id=second)
        blocks = await blocks_of(http, thread_id, client)
        assert path_of(blocks) == turn(1, 2)


async def test_a_run_from_the_newest_checkpoint_hides_nothing(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    first = await say(sdk, thread_id, 1)
    await say(sdk, thread_id, 2, checkpoint_id=first)
    page = await timeline_of(http, thread_id)
    assert path_of(page["blocks"]) == turn(1, 2)


async def test_a_fork_that_is_rolled_back_returns_to_the_branch_that_it_left(
    sdk: Sdk, http: httpx.AsyncClient, gate: Any
) -> None:
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    [asked] = (await timeline_of(http, thread_id))["interrupts"]
    base = (await sdk.threads.get_history(thread_id))[-1]["checkpoint"]["checkpoint_id"]
    async with following(http, thread_id) as client:
        forked = {"input": {"until": str(gate)}, "checkpoint_id": base}
        run = await sdk.runs.create(thread_id, "slow", **forked)
        await client.until(lambda it: any("branchId" in block for block in it.blocks))
        assert (await timeline_of(http, thread_id))["interrupts"] == []
        await sdk.runs.cancel(thread_id, run["run_id"], wait=True, action="rollback")
        await client.until(lambda it: not any("branchId" in block for block in it.blocks))
    [again] = (await timeline_of(http, thread_id))["interrupts"]
    assert again["id"] == asked["id"]


async def test_interrupts_after_the_fork_are_hidden_and_asked_again(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    [asked] = (await timeline_of(http, thread_id))["interrupts"]
    base = await newest_checkpoint(sdk, thread_id)
    await sdk.runs.wait(thread_id, "approve", command={"resume": {asked["interruptId"]: "no"}})
    end = await newest_checkpoint(sdk, thread_id)
    await sdk.runs.wait(thread_id, "approve", input=None, checkpoint_id=base)
    page = await timeline_of(http, thread_id)
    hidden = [block for block in page["blocks"] if "branchId" in block]
    assert [(block["id"], block["branchId"], block["response"]) for block in hidden] == [(asked["id"], end, "no")]
    [again] = page["interrupts"]
    assert (again["value"], again["completed"]) == (asked["value"], False)

    await sdk.runs.wait(thread_id, "approve", input=None, checkpoint_id=end)
    page = await timeline_of(http, thread_id)
    shown = [block for block in page["blocks"] if "branchId" not in block]
    assert [(block["id"], block["response"]) for block in shown] == [(asked["id"], "no")]
