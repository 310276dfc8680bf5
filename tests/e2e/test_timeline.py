"""The timeline: every client shows the same blocks, whenever it connects and however interrupts are answered."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import anyio
import httpx
import pytest
from clients import OPENERS, TIMEOUT, Sdk, eventually, fresh_id, human
from pages import OpenPage
from test_dashboard_page import EXAMPLES, SCRIPTED

from threadwire.core.ids import thread_id_from_name
from threadwire.core.timeline.chunks import merge_chunk
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

INPUTS: dict[str, Any] = {
    "echo": {"text": "hello"},
    "chat": human("Hi"),
    "tools": human("What is 20 + 22?"),
    "showcase": human("Hi"),
    "nested": human("Hi"),
    "approve": {"topic": "x"},
    "approve_many": {"answers": []},
    "everything": human("What is 20 + 22?"),
    "fails": {"text": 1},
    "by_hand": human("Hi"),
    "asks": human("Red? Green?"),
    "selective": human("Hi"),
    "asks_page": human("Hi"),
    "private": {"question": "why?"},
    "functional": {"number": 21},
    "curious": {"refused": True},
    "factory": {"text": "world"},
    "steps": {"count": 5},
}

EXAMPLE_INPUTS = {
    "approvals": human("Buy 12 laptops"),
    "dashboard": human("Show the dashboard"),
    "report": human("Report on tea"),
    "scheduling": human("Hi"),
}
EXAMPLE_ANSWERS = {"choice": "Research", "text": "on Friday", "sign_off": {"approved": True}}
"""Answers to the interrupts of the examples, by their type."""


class TimelineClient:
    """The blocks of one client, kept from what its stream sends."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        self.values: Any = {}
        self.run: Any = None
        self.frames: list[tuple[str, Any, int]] = []
        self._grew = asyncio.Event()

    def feed(self, event: str, received: Any, seq: int) -> None:
        self.frames.append((event, received, seq))
        data = deepcopy(received)
        self._grew.set()
        if event == "snapshot":
            self.blocks, self.values, self.run = data["blocks"], data["values"], data["run"]
            return
        if event == "append":
            block_id, text, rev, updated_at = data
            self._apply({"change": "append", "id": block_id, "text": text, "rev": rev, "updatedAt": updated_at})
            return
        assert event == "changes"
        self.run = data.get("run", self.run)
        for change in data["changes"]:
            self._apply(change)

    def _apply(self, change: dict[str, Any]) -> None:
        match change["change"]:
            case "insert":
                at = 0 if change["after"] is None else self._index(change["after"]) + 1
                self.blocks.insert(at, change["block"])
            case "remove":
                del self.blocks[self._index(change["id"])]
            case "update":
                block = self.blocks[self._index(change["id"])]
                block.update(change["set"])
                for field in change.get("unset", ()):
                    del block[field]
            case "append":
                block = self.blocks[self._index(change["id"])]
                block["message"] = {**block["message"], "content": block["message"]["content"] + change["text"]}
                block |= {"rev": change["rev"], "updatedAt": change["updatedAt"]}
            case "merge":
                block = self.blocks[self._index(change["id"])]
                block["message"] = merge_chunk(block["message"], change["chunk"])
                block |= {"rev": change["rev"], "updatedAt": change["updatedAt"]}
            case "values" if "values" in change:
                self.values = change["values"]
            case "values":
                for key in change.get("unset", ()):
                    del self.values[key]
                self.values |= change.get("set", {})
                for key, (at, drop, items) in change.get("splice", {}).items():
                    self.values[key][at : at + drop] = items
            case unknown:
                raise AssertionError(unknown)

    def _index(self, block_id: str) -> int:
        return next(at for at, block in enumerate(self.blocks) if block["id"] == block_id)

    @property
    def seq(self) -> int:
        return self.frames[-1][2] if self.frames else 0

    @property
    def ended(self) -> list[Any]:
        """The runs that had ended in a snapshot, and those that ended since."""
        return [data["ended"] for _, data, _ in self.frames if "ended" in data]

    async def until(self, enough: Any) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not enough(self):
                self._grew.clear()
                await self._grew.wait()


@asynccontextmanager
async def following(
    http: httpx.AsyncClient, thread_id: str, client: TimelineClient | None = None, **options: Any
) -> AsyncIterator[TimelineClient]:
    client = client or TimelineClient()
    path = f"/threads/{thread_id}/timeline/stream"

    async def read(response: httpx.Response) -> None:
        frame: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                frame[name] = value
            elif frame:
                client.feed(frame["event"], json.loads(frame["data"]), int(frame["id"]))
                frame = {}

    async with http.stream("GET", path, **options) as response:
        assert response.status_code == 200, await response.aread()
        reading = asyncio.create_task(read(response))
        try:
            yield client
        finally:
            reading.cancel()


async def timeline_of(http: httpx.AsyncClient, thread_id: str, **query: Any) -> Any:
    response = await http.get(f"/threads/{thread_id}/timeline", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def put(http: httpx.AsyncClient, thread_id: str, interrupt_id: str, **body: Any) -> httpx.Response:
    return await http.put(f"/threads/{thread_id}/timeline/interrupts/{interrupt_id}", json=body)


async def asked(sdk: Sdk, http: httpx.AsyncClient) -> tuple[str, str]:
    """A thread with one open interrupt, and its id."""
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve", input={"topic": "x"})
    [block] = (await timeline_of(http, thread_id))["interrupts"]
    return thread_id, block["interruptId"]


@pytest.mark.parametrize("graph", INPUTS)
async def test_every_client_shows_the_same_blocks(sdk: Sdk, http: httpx.AsyncClient, graph: str) -> None:
    blocks = await blocks_of_every_client(sdk, http, graph, INPUTS[graph])
    if graph not in ("echo", "fails", "private", "functional", "curious", "factory", "steps"):
        assert blocks


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(EXAMPLES / "langgraph.json", tmp_path_factory.mktemp("data"), env=SCRIPTED) as server:
        yield server.url


@pytest.mark.parametrize("graph", EXAMPLE_INPUTS)
async def test_every_client_of_an_example_shows_the_same_blocks(examples: str, graph: str) -> None:
    async with OPENERS["async"](examples) as sdk, httpx.AsyncClient(base_url=examples, timeout=TIMEOUT) as http:
        assert await blocks_of_every_client(sdk, http, graph, EXAMPLE_INPUTS[graph])


async def blocks_of_every_client(sdk: Sdk, http: httpx.AsyncClient, graph: str, graph_input: Any) -> list[Any]:
    """The blocks of a client that is present from the start, of one that joins in the middle, of one that reloads at
    every entry, and of one that comes after the end. They are the same."""
    thread_id = await sdk.thread()
    async with following(http, thread_id) as present:
        await sdk.runs.wait(thread_id, graph, input=graph_input, raise_error=False)
        await present.until(lambda it: len(it.ended) == 1)
        async with following(http, thread_id) as second:
            runs = 1
            while interrupts := (await timeline_of(http, thread_id))["interrupts"]:
                asked = interrupts[0]["value"]
                response = EXAMPLE_ANSWERS[asked["type"]] if "type" in asked else "yes"
                answer = {interrupts[0]["interruptId"]: response}
                await sdk.runs.wait(thread_id, graph, command={"resume": answer}, raise_error=False)
                runs += 1
            await present.until(lambda it: len(it.ended) == runs)
            await second.until(lambda it: it.seq == present.seq)

    final = await timeline_of(http, thread_id, limit=1000)
    for client in (present, second):
        assert client.blocks == final["blocks"]
        assert (client.values, client.run) == (final["values"], final["run"])

    reloading = TimelineClient()
    for _, _, position in [("", None, 0), *present.frames[1:-1]]:
        async with following(http, thread_id, reloading, headers={"Last-Event-ID": str(position)}) as reloaded:
            expected = next(seq for _, _, seq in present.frames if seq > position)
            await reloaded.until(lambda it, seq=expected: any(seen == seq for _, _, seen in it.frames))
        reloading = rewound(reloaded, expected)
    assert reloading.blocks == final["blocks"]
    assert reloading.frames == present.frames[1:]
    return final["blocks"]


def rewound(client: TimelineClient, upto: int) -> TimelineClient:
    """The client as it was when it received the frame `upto`."""
    rewound = TimelineClient()
    for event, data, seq in client.frames:
        if seq <= upto:
            rewound.feed(event, data, seq)
    return rewound


async def test_a_long_timeline_is_paged_backwards(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    for number in range(3):
        await sdk.runs.wait(thread_id, "chat", input=human("Hi", f"human-{number}"))
    whole = await timeline_of(http, thread_id)
    assert "before" not in whole
    assert len(whole["blocks"]) == 6

    pages: list[Any] = [await timeline_of(http, thread_id, limit=4)]
    while "before" in pages[0]:
        pages.insert(0, await timeline_of(http, thread_id, limit=4, before=pages[0]["before"]))

    assert [len(each["blocks"]) for each in pages] == [2, 4]
    assert [block for each in pages for block in each["blocks"]] == whole["blocks"]


async def test_the_page_and_the_stream_name_the_active_run(sdk: Sdk, http: httpx.AsyncClient, gate: Any) -> None:
    thread_id = await sdk.thread()
    async with following(http, thread_id) as client:
        run = await sdk.runs.create(thread_id, "slow", input={"until": str(gate)})
        await client.until(lambda it: it.run == {"id": run["run_id"], "status": "running"})
        assert (await timeline_of(http, thread_id))["run"] == client.run
        waiting = await sdk.runs.create(thread_id, "echo", input={"text": 1})
        await sdk.runs.cancel(thread_id, waiting["run_id"])
        gate.touch()
        await client.until(lambda it: len(it.ended) == 2)
    assert [each["status"] for each in client.ended] == ["interrupted", "success"]
    assert client.run is None


async def test_a_failed_run_is_reported_with_its_error(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    async with following(http, thread_id) as client:
        await sdk.runs.wait(thread_id, "fails", input={"text": 1}, raise_error=False)
        await client.until(lambda it: it.ended)
    [ended] = client.ended
    assert (ended["status"], ended["error"]["message"]) == ("error", "boom!")


@pytest.mark.parametrize("name", ["after", "lastEventId"])
async def test_an_event_source_passes_its_position_in_the_url(sdk: Sdk, http: httpx.AsyncClient, name: str) -> None:
    """And when it reconnects, it repeats the URL and sends a newer position as a header."""
    thread_id, _ = await asked(sdk, http)
    async with following(http, thread_id, params={name: "0"}) as client:
        await client.until(lambda it: it.ended)
    first = client.frames[0][2]
    async with following(http, thread_id, params={name: "0"}, headers={"Last-Event-ID": str(first)}) as reconnected:
        await reconnected.until(lambda it: it.ended)
    assert reconnected.frames == client.frames[1:]


async def test_the_stream_ends_when_the_thread_is_deleted(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    async with http.stream("GET", f"/threads/{thread_id}/timeline/stream") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "event: snapshot"
        await sdk.threads.delete(thread_id)
        async with asyncio.timeout(TIMEOUT):
            assert [line async for line in lines][-2:] == ["id: 0", ""]


# -- answers ---------------------------------------------------------------------------------------------------------


async def test_an_answer_through_the_langgraph_api_completes_the_block(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id, _ = await asked(sdk, http)
    await sdk.runs.wait(thread_id, "approve", command={"resume": "yes"})
    [block] = (await timeline_of(http, thread_id))["blocks"]
    assert (block["completed"], block["outcome"], block["response"]) == (True, "answered", "yes")
    assert block["respondedVia"] == "langgraph"


async def test_an_answer_through_ag_ui_completes_the_block(page: OpenPage, http: httpx.AsyncClient) -> None:
    here = page("approve")
    await here.run(state={"topic": "tests"})
    [interrupt] = here.interrupts
    await here.run(resume=[{"interruptId": interrupt["id"], "status": "resolved", "payload": {"ok": True}}])
    response = await http.get(f"/threads/{thread_id_from_name(here.thread_id)}/timeline")
    [block] = [each for each in response.json()["blocks"] if each["kind"] == "interrupt"]
    assert (block["completed"], block["response"], block["respondedVia"]) == (True, {"ok": True}, "ag-ui")


async def test_a_widget_is_frozen_without_answering(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id, interrupt_id = await asked(sdk, http)
    async with following(http, thread_id) as client:
        response = await put(http, thread_id, interrupt_id, frozenValue={"picked": 1})
        assert response.status_code == 200
        await client.until(lambda it: it.seq == response.json()["seq"])

    block = response.json()["interrupt"]
    assert (block["completed"], block["frozenValue"]) == (True, {"picked": 1})
    assert "response" not in block
    assert "runId" not in response.json()
    assert client.blocks == [block]
    assert (await sdk.threads.get(thread_id))["status"] == "interrupted"


async def test_freezing_again_changes_nothing_and_another_value_is_rejected(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id, interrupt_id = await asked(sdk, http)
    first = await put(http, thread_id, interrupt_id, frozenValue=1)
    again = await put(http, thread_id, interrupt_id, frozenValue=1)
    assert (again.status_code, again.json()) == (200, first.json())

    other = await put(http, thread_id, interrupt_id, frozenValue=True)
    assert other.status_code == 409
    assert other.json() == {
        "detail": "This interrupt was submitted with another frozen value",
        "interrupt": first.json()["interrupt"],
    }
    assert (await timeline_of(http, thread_id))["seq"] == first.json()["seq"]


async def test_a_widget_is_frozen_and_answered(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id, interrupt_id = await asked(sdk, http)
    async with following(http, thread_id) as client:
        response = await put(http, thread_id, interrupt_id, frozenValue="view", response={"ok": True}, resume=True)
        assert response.status_code == 200
        await client.until(lambda it: it.ended[-1]["id"] == response.json()["runId"])

    run = await sdk.runs.get(thread_id, response.json()["runId"])
    assert run["status"] == "success"
    assert (await sdk.threads.get(thread_id))["values"]["answer"] == {"ok": True}
    changed = [data for event, data, _ in client.frames if event == "changes"]
    [[frozen]] = [each["changes"] for each in changed[:1]]
    assert (frozen["change"], frozen["set"]["frozenValue"]) == ("update", "view")
    assert changed[1]["run"]["id"] == response.json()["runId"]
    [block] = (await timeline_of(http, thread_id))["blocks"]
    assert client.blocks == [block]
    assert (block["frozenValue"], block["response"], block["respondedVia"]) == ("view", {"ok": True}, "timeline")


async def test_only_the_first_of_two_answers_wins(sdk: Sdk, http: httpx.AsyncClient) -> None:
    """Even if they arrive at the same time. The losers receive the answer that won."""
    thread_id, interrupt_id = await asked(sdk, http)
    answers = [
        put(http, thread_id, interrupt_id, frozenValue=name, response=name, resume=True) for name in ("a", "b", "c")
    ]
    responses = await asyncio.gather(*answers)

    [winner] = [each for each in responses if each.status_code == 200]
    losers = [each for each in responses if each is not winner]
    assert [each.status_code for each in losers] == [409, 409]
    won = winner.json()["interrupt"]["frozenValue"]
    assert {each.json()["interrupt"]["frozenValue"] for each in losers} == {won}
    await sdk.runs.join(thread_id, winner.json()["runId"])
    assert len(await sdk.runs.list(thread_id)) == 2

    other = await put(http, thread_id, interrupt_id, response="late", resume=True)
    assert other.status_code == 409
    assert (other.json()["detail"], other.json()["interrupt"]["response"]) == (
        "This interrupt was already answered",
        won,
    )


async def test_repeating_an_answer_starts_no_second_run(sdk: Sdk, http: httpx.AsyncClient) -> None:
    """Whether or not the run has started or ended."""
    thread_id, interrupt_id = await asked(sdk, http)
    body = {"frozenValue": "view", "response": "yes", "resume": True}
    responses = [await put(http, thread_id, interrupt_id, **body) for _ in range(3)]
    await sdk.runs.join(thread_id, responses[0].json()["runId"])
    responses.append(await put(http, thread_id, interrupt_id, **body))
    assert [each.status_code for each in responses] == [200] * 4
    assert len({each.json()["runId"] for each in responses}) == 1
    assert len(await sdk.runs.list(thread_id)) == 2


async def test_a_frozen_widget_can_still_be_answered(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id, interrupt_id = await asked(sdk, http)
    await put(http, thread_id, interrupt_id, frozenValue="view")
    response = await put(http, thread_id, interrupt_id, response="yes", resume=True)
    assert response.status_code == 200
    await sdk.runs.join(thread_id, response.json()["runId"])
    [block] = (await timeline_of(http, thread_id))["blocks"]
    assert (block["frozenValue"], block["response"]) == ("view", "yes")


async def test_parallel_interrupts_are_answered_one_after_the_other(sdk: Sdk, http: httpx.AsyncClient) -> None:
    """Without waiting for the run of the previous answer."""
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "approve_many", input={"answers": []})
    for block in (await timeline_of(http, thread_id))["interrupts"]:
        response = await put(http, thread_id, block["interruptId"], frozenValue=1, response=block["value"], resume=True)
        assert response.status_code == 200
    await sdk.runs.join(thread_id, response.json()["runId"])
    blocks = (await timeline_of(http, thread_id))["blocks"]
    assert sorted(block["value"] for block in blocks) == ["deep?", "first?", "left?", "right?"]
    assert all(block["response"] == block["value"] for block in blocks if block["completed"])
    assert [block["value"] for block in blocks if not block["completed"]] == ["first?"]


async def test_an_answer_is_kept_when_its_run_is_cancelled(sdk: Sdk, http: httpx.AsyncClient, gate: Any) -> None:
    """The graph keeps it, too: the next run continues with it."""
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "slow_approval", input={"until": str(gate)})
    [asked] = (await timeline_of(http, thread_id))["interrupts"]
    run_id = (await put(http, thread_id, asked["interruptId"], response="yes", resume=True)).json()["runId"]
    await eventually(anyio.Path(gate.with_suffix(".answered")).exists)
    await sdk.runs.cancel(thread_id, run_id, wait=True)
    [block] = (await timeline_of(http, thread_id))["blocks"]
    assert (block["outcome"], block["response"]) == ("answered", "yes")

    gate.touch()
    await sdk.runs.wait(thread_id, "slow_approval", input=None)
    assert (await sdk.threads.get(thread_id))["values"]["steps"] == ["begun", "yes"]


async def test_an_abandoned_interrupt_cannot_be_answered(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id, interrupt_id = await asked(sdk, http)
    await sdk.runs.wait(thread_id, "echo", input={"text": "something else"})
    response = await put(http, thread_id, interrupt_id, response="yes", resume=True)
    assert response.status_code == 409
    assert response.json()["interrupt"]["outcome"] == "abandoned"


async def test_a_breakpoint_is_continued(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "chat", input=human("Hi"), interrupt_before=["model"])
    [block] = (await timeline_of(http, thread_id))["interrupts"]
    assert block["breakpoint"]
    responses = [await put(http, thread_id, block["interruptId"], resume=True) for _ in range(2)]
    assert [each.status_code for each in responses] == [200, 200]
    await sdk.runs.join(thread_id, responses[0].json()["runId"])
    assert len(await sdk.runs.list(thread_id)) == 2
    assert (await timeline_of(http, thread_id))["interrupts"] == []


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", ["abc", "1.5", "-2", "", "9" * 19, "1000000"])
async def test_a_position_that_was_never_issued_is_rejected(sdk: Sdk, http: httpx.AsyncClient, position: str) -> None:
    thread_id = await sdk.thread()
    path = f"/threads/{thread_id}/timeline/stream"
    for options in ({"headers": {"Last-Event-ID": position}}, {"params": {"after": position}}):
        response = await http.get(path, **options)  # type: ignore[arg-type]
        assert response.status_code == 400
        assert response.json()["detail"].startswith("Invalid Last-Event-ID: ")


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1.5"])
async def test_a_limit_outside_its_range_is_rejected(sdk: Sdk, http: httpx.AsyncClient, limit: str) -> None:
    thread_id = await sdk.thread()
    for path in ("timeline", "timeline/stream"):
        response = await http.get(f"/threads/{thread_id}/{path}", params={"limit": limit})
        assert response.status_code == 422
        assert response.json()["detail"].startswith("limit: ")


async def test_what_does_not_exist_is_not_found(sdk: Sdk, http: httpx.AsyncClient) -> None:
    unknown, thread_id = fresh_id(), await sdk.thread()
    missing = f"Thread with ID {unknown} not found"
    for path in ("timeline", "timeline/stream", "timeline/stream?after=0"):
        response = await http.get(f"/threads/{unknown}/{path}")
        assert (response.status_code, response.json()) == (404, {"detail": missing})
    response = await put(http, unknown, "i", frozenValue=1)
    assert (response.status_code, response.json()) == (404, {"detail": missing})
    response = await put(http, thread_id, "i", frozenValue=1)
    assert (response.status_code, response.json()) == (404, {"detail": "Interrupt 'i' is not in this timeline"})
    response = await http.get(f"/threads/{thread_id}/timeline", params={"before": "m:1"})
    assert (response.status_code, response.json()) == (404, {"detail": "Block 'm:1' is not in this timeline"})


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"response": 1}, "body: response: requires `resume: true`; without it, the graph receives no answer"),
        ({"resume": True}, "response: required with `resume: true`"),
        ({"resume": "yes", "response": 1}, "resume: Input should be a valid boolean"),
        ([], "body: Input should be a valid dictionary or object to extract fields from"),
    ],
)
async def test_an_invalid_submission_is_rejected(sdk: Sdk, http: httpx.AsyncClient, body: Any, detail: str) -> None:
    thread_id, interrupt_id = await asked(sdk, http)
    before = (await timeline_of(http, thread_id))["seq"]
    response = await http.put(f"/threads/{thread_id}/timeline/interrupts/{interrupt_id}", json=body)
    assert (response.status_code, response.json()) == (422, {"detail": detail})
    assert (await timeline_of(http, thread_id))["seq"] == before


async def test_a_frozen_value_that_is_too_large_or_too_deep_is_rejected(sdk: Sdk, http: httpx.AsyncClient) -> None:
    thread_id, interrupt_id = await asked(sdk, http)
    response = await put(http, thread_id, interrupt_id, frozenValue="x" * (1024 * 1024))
    assert (response.status_code, response.json()) == (
        413,
        {"detail": "frozenValue: must be at most 1048576 bytes of JSON"},
    )
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    response = await put(http, thread_id, interrupt_id, frozenValue=deep)
    assert (response.status_code, response.json()) == (
        422,
        {"detail": "The request body is nested more than 100 levels deep"},
    )
