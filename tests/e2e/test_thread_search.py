"""Searching threads: by their contents, with extracted values, and with hostile keys."""

import uuid

import pytest
from clients import fresh_id, human, rejected

pytestmark = pytest.mark.anyio

HOSTILE = [
    "'",
    '"',
    '\\"',
    "a.b",
    "$",
    "$.mark",
    "$[0]",
    "%",
    "' OR 1=1 --",
    "'; DROP TABLE threads; --",
    "ключ \U0001f511",
    "\u202e\u0000",
    "[*]",
    "?",
    "x" * 10_000,
]


@pytest.fixture
async def conversation(sdk, mark):
    """A thread with a conversation."""
    thread_id = await sdk.thread(metadata={"mark": mark, "deep": {"list": [1, [2, 3]]}})
    await sdk.runs.wait(thread_id, "chat", input=human("hello"), config={"tags": ["t"]})
    return thread_id


async def test_values_of_a_thread_are_extracted_by_path(sdk, mark, conversation):
    extract = {
        "first": "values.messages[0].content",
        "last": "values.messages[-1].content",
        "mark": "metadata.mark",
        "deep": "metadata.deep.list[1][0]",
        "whole": "metadata.deep",
        "tags": "config.tags",
        "interrupts": "interrupts",
    }
    (row,) = await sdk.threads.search(metadata={"mark": mark}, extract=extract)
    assert row["extracted"] == {
        "first": "hello",
        "last": "You said: hello",
        "mark": mark,
        "deep": 2,
        "whole": {"list": [1, [2, 3]]},
        "tags": ["t"],
        "interrupts": {},
    }
    assert row["thread_id"] == conversation
    assert row["values"]["messages"][0]["content"] == "hello"


async def test_missing_values_are_extracted_as_null(sdk, mark, conversation):
    extract = {
        "key": "values.nothing.deeper",
        "index": "values.messages[99]",
        "negative": "values.messages[-99].content",
        "no_list": "metadata.mark[0]",
        "no_object": "values.messages.content",
    }
    (row,) = await sdk.threads.search(metadata={"mark": mark}, extract=extract, select=["thread_id"])
    assert row == {"thread_id": conversation, "extracted": dict.fromkeys(extract)}


async def test_values_can_be_extracted_without_being_selected(sdk, mark, conversation):
    for path, value in (("values.messages[0].type", "human"), ("metadata.mark", mark)):
        (row,) = await sdk.threads.search(metadata={"mark": mark}, select=["status"], extract={"it": path})
        assert row == {"status": "idle", "extracted": {"it": value}}


@pytest.mark.parametrize(
    ("extract", "detail"),
    [
        ({"a": ""}, "Extract path for 'a' must be a non-empty string"),
        ({"a": "status"}, "Extract path 'status' must start with one of: config, interrupts, metadata, values"),
        ({"a": "$.values"}, "Extract path '$.values' must start with one of: config, interrupts, metadata, values"),
        ({"a b": "values"}, "Extract key 'a b' must be a valid identifier (letters, digits, underscores)"),
        ({"a": "values."}, "Extract path 'values.' is not a path like values.messages[-1].content"),
        ({"a": "values..x"}, "Extract path 'values..x' is not a path like values.messages[-1].content"),
        ({"a": "values.x["}, "Extract path 'values.x[' is not a path like values.messages[-1].content"),
        ({"a": "values.x[*]"}, "Extract path 'values.x[*]' is not a path like values.messages[-1].content"),
        ({"a": "values" + ".a" * 500}, "Extract path for 'a' is longer than 1000 characters"),
        ({f"a{at}": "values.x" for at in range(11)}, "extract: must have at most 10 paths"),
    ],
)
async def test_invalid_paths_are_rejected(sdk, extract, detail):
    with rejected(422, detail):
        await sdk.threads.search(extract=extract)


async def test_an_unknown_field_cannot_be_selected(sdk, http):
    response = await http.post("/threads/search", json={"select": ["thread_id", "nope"]})
    assert response.status_code == 422
    assert "select" in response.json()["detail"]
    for name in ("ids", "select", "extract", "status", "sort_by", "sort_order", "metadata", "values", "limit"):
        response = await http.post("/threads/search", json={name: 5.5})
        assert response.status_code == 422, name


async def test_a_search_accepts_at_most_ten_thousand_ids(http):
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    ids = [*(str(uuid.uuid4()) for _ in range(9_999)), thread]
    assert [row["thread_id"] for row in (await http.post("/threads/search", json={"ids": ids})).json()] == [thread]
    assert (await http.post("/threads/count", json={"ids": ids})).json() == 1
    for path in ("/threads/search", "/threads/count"):
        response = await http.post(path, json={"ids": [*ids, thread]})
        assert (response.status_code, response.json()["detail"]) == (422, TOO_MANY_IDS)


TOO_MANY_IDS = "ids: List should have at most 10000 items after validation, not 10001"


async def test_selecting_nothing_returns_everything(http, mark):
    await http.post("/threads", json={"metadata": {"mark": mark}})
    (row,) = (await http.post("/threads/search", json={"metadata": {"mark": mark}, "select": []})).json()
    assert {"thread_id", "status", "values", "metadata"} <= row.keys()


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
async def test_hostile_keys_and_values_are_only_data(sdk, mark, text):
    others = [
        await sdk.thread(metadata={"mark": mark, "a": {"b": 1}}),
        await sdk.thread(metadata={"mark": mark}),
    ]
    for query in ({text: 1}, {text: {text: 1}}, {"mark": text}, {"a": {text: [text]}}):
        assert await sdk.threads.search(metadata={**query}) == []
        assert await sdk.threads.search(values={**query}) == []
        assert await sdk.threads.count(metadata={**query}) == 0
    mine = await sdk.thread(metadata={"mark": mark, text: {text: text}})
    (found,) = await sdk.threads.search(metadata={"mark": mark, text: {text: text}})
    assert found["thread_id"] == mine
    assert await sdk.threads.count(metadata={text: {text: text}, "mark": mark}) == 1
    assert await sdk.threads.count(metadata={"mark": mark}) == len(others) + 1
    await sdk.threads.delete(mine)


async def test_counting_supports_the_same_filters(sdk, mark, conversation, http):
    assert await sdk.threads.count(metadata={"mark": mark}, status="idle") == 1
    assert await sdk.threads.count(metadata={"mark": mark}, status="error") == 0
    assert await sdk.threads.count(metadata={"mark": mark}, values={"messages": [{"content": "hello"}]}) == 1
    assert await sdk.threads.count(values={"messages": [{"content": mark}]}) == 0
    counted = await http.post("/threads/count", json={"ids": [conversation, fresh_id()]})
    assert counted.json() == 1
    assert (await http.post("/threads/count", json={"status": "nope"})).status_code == 422


async def test_totals_are_correct_on_every_page(http, mark):
    for _ in range(5):
        await http.post("/threads", json={"metadata": {"mark": mark}})

    async def page(**body):
        response = await http.post("/threads/search", json={"metadata": {"mark": mark}, **body})
        return len(response.json()), response.headers["x-pagination-total"], response.headers.get("x-pagination-next")

    assert await page(limit=2) == (2, "5", "2")
    assert await page(limit=2, offset=2) == (2, "5", "4")
    assert await page(limit=2, offset=4) == (1, "5", None)
    assert await page(limit=5) == (5, "5", None)
    assert await page(limit=10) == (5, "5", None)
    assert await page(limit=2, offset=9) == (0, "5", None)


async def test_a_search_for_a_malformed_id_is_rejected(sdk):
    with rejected(422, "Invalid thread ID: must be a UUID"):
        await sdk.threads.search(ids=["nope"])
