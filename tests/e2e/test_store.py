"""The store, used by clients and by graphs."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from clients import OPENERS, human, rejected

from threadwire.testing.conformance.hostile_metadata import HOSTILE_KEYS
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio


def keys(found: dict) -> list[str]:
    return [item["key"] for item in found["items"]]


# -- one item ---------------------------------------------------------------------------------------------------------


async def test_an_item_is_put_read_and_deleted(sdk, mark):
    assert await sdk.store.put_item(["users", mark], "k", {"likes": ["tea"], "none": None}) is None
    item = await sdk.store.get_item(["users", mark], "k")
    timestamps = [datetime.fromisoformat(item.pop(name)) for name in ("created_at", "updated_at")]
    assert all(datetime.now(UTC) - timestamp < timedelta(minutes=1) for timestamp in timestamps)
    assert item == {"namespace": ["users", mark], "key": "k", "value": {"likes": ["tea"], "none": None}}
    assert await sdk.store.delete_item(["users", mark], "k") is None
    assert await sdk.store.get_item(["users", mark], "k") is None


async def test_a_missing_item_is_null_and_deleting_it_is_a_no_op(sdk, mark):
    assert await sdk.store.get_item([mark], "nothing") is None
    assert await sdk.store.delete_item([mark], "nothing") is None


async def test_putting_an_existing_item_replaces_its_value_and_keeps_created_at(sdk, mark):
    await sdk.store.put_item([mark], "k", {"a": 1, "b": 2})
    first = await sdk.store.get_item([mark], "k")
    await sdk.store.put_item([mark], "k", {"a": 3})
    second = await sdk.store.get_item([mark], "k")
    assert second["value"] == {"a": 3}
    assert second["created_at"] == first["created_at"]
    assert second["updated_at"] >= first["updated_at"]


async def test_hostile_keys_round_trip(sdk, mark):
    for number, key in enumerate(HOSTILE_KEYS):
        await sdk.store.put_item([mark], key, {key: number})
    for number, key in enumerate(HOSTILE_KEYS):
        assert (await sdk.store.get_item([mark], key))["value"] == {key: number}
        assert keys(await sdk.store.search_items([mark], filter={key: number})) == [key]
    assert len((await sdk.store.search_items([mark], limit=1000))["items"]) == len(HOSTILE_KEYS)


async def test_hostile_labels_round_trip(sdk, mark):
    labels = [label for label in HOSTILE_KEYS if label and "." not in label and "\0" not in label]
    for label in labels:
        await sdk.store.put_item([mark, label], "k", {})
        assert (await sdk.store.get_item([mark, label], "k"))["namespace"] == [mark, label]
    listed = await sdk.store.list_namespaces(prefix=[mark])
    assert sorted(listed["namespaces"]) == sorted([mark, label] for label in labels)


# -- searching --------------------------------------------------------------------------------------------------------


async def test_a_search_filters_paginates_and_returns_the_newest_first(sdk, mark):
    for number in range(5):
        await sdk.store.put_item(
            [mark, "a" if number < 3 else "b"], f"k{number}", {"n": number, "even": number % 2 == 0}
        )
    assert keys(await sdk.store.search_items([mark])) == ["k4", "k3", "k2", "k1", "k0"]
    assert keys(await sdk.store.search_items([mark, "b"])) == ["k4", "k3"]
    assert keys(await sdk.store.search_items([mark], limit=2, offset=1)) == ["k3", "k2"]
    assert keys(await sdk.store.search_items([mark], filter={"even": True})) == ["k4", "k2", "k0"]
    assert keys(await sdk.store.search_items([mark], filter={"n": {"$gte": 2, "$lt": 4}})) == ["k3", "k2"]
    assert keys(await sdk.store.search_items([mark], filter={"n": {"$ne": 4}, "even": {"$eq": True}})) == ["k2", "k0"]
    assert keys(await sdk.store.search_items([mark, "nowhere"])) == []


async def test_the_score_is_null_without_an_index(sdk, mark):
    await sdk.store.put_item([mark], "k", {"text": "tea"}, index=["text"])
    (item,) = (await sdk.store.search_items([mark], query="coffee"))["items"]
    assert set(item) == {"namespace", "key", "value", "created_at", "updated_at", "score"}
    assert item["score"] is None


async def test_a_search_without_a_prefix_covers_everything(sdk, mark):
    await sdk.store.put_item([mark], "k", {"mark": mark})
    assert keys(await sdk.store.search_items([], filter={"mark": mark})) == ["k"]


# -- namespaces -------------------------------------------------------------------------------------------------------


async def test_namespaces_are_listed_by_prefix_suffix_and_depth(sdk, mark):
    namespaces = [[mark, "a", "x"], [mark, "a", "y", "x"], [mark, "b", "x"], [mark, "c"]]
    for namespace in namespaces:
        await sdk.store.put_item(namespace, "k", {})

    async def listed(**query):
        return (await sdk.store.list_namespaces(**query))["namespaces"]

    assert await listed(prefix=[mark]) == namespaces
    assert await listed(prefix=[mark, "a"]) == namespaces[:2]
    assert await listed(prefix=[mark], suffix=["x"]) == namespaces[:3]
    assert await listed(prefix=[mark, "*", "x"]) == [namespaces[0], namespaces[2]]
    assert await listed(prefix=[mark], max_depth=2) == [[mark, "a"], [mark, "b"], [mark, "c"]]
    assert await listed(prefix=[mark], limit=1, offset=2) == [namespaces[2]]
    assert await listed(prefix=[mark, "nowhere"]) == []
    await sdk.store.delete_item(namespaces[3], "k")
    assert await listed(prefix=[mark]) == namespaces[:3]


# -- what is rejected -------------------------------------------------------------------------------------------------

INVALID_LABEL = "Namespace label '{}' must be a non-empty string without periods"


async def test_an_empty_label_or_one_with_a_period_is_rejected(sdk, http, mark):
    for invalid in ("a.b", ""):
        with rejected(422, INVALID_LABEL.format(invalid)):
            await sdk.store.search_items([mark, invalid])
        with rejected(422, INVALID_LABEL.format(invalid)):
            await sdk.store.delete_item([mark, invalid], "k")
        with rejected(422, INVALID_LABEL.format(invalid)):
            await sdk.store.list_namespaces(prefix=[invalid])
        with rejected(422, INVALID_LABEL.format(invalid)):
            await sdk.store.list_namespaces(suffix=[invalid])
        response = await http.put("/store/items", json={"namespace": [invalid], "key": "k", "value": {}})
        assert (response.status_code, response.json()) == (422, {"detail": INVALID_LABEL.format(invalid)})
    with rejected(422, INVALID_LABEL.format("")):
        await sdk.store.put_item([""], "k", {})
    with rejected(422, INVALID_LABEL.format("")):
        await sdk.store.get_item(["a", ""], "k")
    with rejected(422, INVALID_LABEL.format("")):
        await sdk.store.get_item([], "k")


async def test_an_invalid_namespace_is_rejected(sdk):
    with rejected(400, "Namespace cannot be empty."):
        await sdk.store.put_item([], "k", {})
    with rejected(400, "Root label for namespace cannot be \"langgraph\". Got: ('langgraph',)"):
        await sdk.store.put_item(["langgraph"], "k", {})


async def test_an_invalid_condition_is_rejected(sdk, mark):
    with rejected(400, "Unsupported operator: $in"):
        await sdk.store.search_items([mark], filter={"n": {"$in": [1]}})
    with rejected(400, "$gt requires a number or a string"):
        await sdk.store.search_items([mark], filter={"n": {"$gt": None}})


async def test_limit_and_offset_have_bounds(sdk, mark):
    for invalid in ({"limit": 0}, {"limit": 1001}, {"offset": -1}):
        for call in (sdk.store.search_items([mark], **invalid), sdk.store.list_namespaces(**invalid)):
            with pytest.raises(httpx.HTTPStatusError) as caught:
                await call
            assert caught.value.response.status_code == 422


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"key": "k", "value": {}}, '"namespace" is a required property'),
        ({"namespace": ["a"], "value": {}}, '"key" is a required property'),
        ({"namespace": ["a"], "key": "k"}, '"value" is a required property'),
        ({"namespace": ["a"], "key": "k", "value": None}, "value: Input should be a valid dictionary"),
        ({"namespace": "a", "key": "k", "value": {}}, "namespace: Input should be a valid list"),
        ({"namespace": ["a"], "key": 3, "value": {}}, "key: Input should be a valid string"),
        ({"namespace": ["a"], "key": "k", "value": {}, "ttl": 0}, "ttl: Input should be greater than 0"),
        ({"namespace": ["a"], "key": "k", "value": {}, "ttl": "x"}, "ttl: Input should be a number"),
        ({"namespace": ["a"], "key": "k", "value": {}, "index": True}, "index: Input should be False"),
    ],
)
async def test_an_invalid_item_is_rejected(http, body, detail):
    response = await http.put("/store/items", json=body)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(detail)


async def test_a_query_needs_one_namespace_and_one_key(http):
    for query, detail in (
        ("namespace=a", '"key" is a required property'),
        ("key=k", '"namespace" is a required property'),
        ("namespace=a&namespace=b&key=k", "namespace must be given once, with its labels joined by dots"),
        ("namespace=a&key=k&refresh_ttl=banana", "refresh_ttl: Input should be a valid boolean"),
    ):
        response = await http.get(f"/store/items?{query}")
        assert response.status_code == 422
        assert response.json()["detail"].startswith(detail)


# -- graphs -----------------------------------------------------------------------------------------------------------


async def test_clients_see_the_items_of_graphs_and_graphs_those_of_clients(sdk, mark):
    values = await sdk.runs.wait(await sdk.thread(), "memory", input={"user": mark, "fact": "likes tea"})
    assert values["found"] == [
        [["facts", mark, "length"], "last", {"length": 9}],
        [["facts", mark, "length"], "likes tea", {"length": 9}],
        [["facts", mark], "likes tea", {"text": "likes tea"}],
    ]
    assert (await sdk.store.get_item(["facts", mark], "likes tea"))["value"] == {"text": "likes tea"}
    await sdk.store.put_item(["facts", mark], "from outside", {"text": "hates rain"})
    values = await sdk.runs.wait(await sdk.thread(), "memory", input={"user": mark})
    assert values["found"][0] == [["facts", mark], "from outside", {"text": "hates rain"}]


async def test_a_tool_and_a_factory_have_the_store(sdk, mark):
    values = await sdk.runs.wait(await sdk.thread(), "remembering", input=human(mark))
    assert values["messages"][-1]["content"] == f"found ['{mark}']"
    assert (await sdk.store.get_item(["notes"], mark))["value"] == {"text": mark}


async def test_the_checkpointer_and_store_of_a_graph_are_not_used_which_is_logged(sdk, server, mark):
    await sdk.runs.wait(await sdk.thread(), "memory", input={"user": mark})
    server.wait_for_log(r"graph_store_ignored\s.*graph_id=memory")
    server.wait_for_log(r"graph_checkpointer_ignored\s.*graph_id=memory")


async def test_items_survive_a_crash_and_a_restart(project, tmp_path, mark):
    with running_server(project, tmp_path / "data") as server:
        async with OPENERS["async"](server.url) as sdk:
            await sdk.store.put_item(["a", "b"], "k", {"n": 1})
            await sdk.runs.wait(await sdk.thread(), "memory", input={"user": mark, "fact": "likes tea"})
        server.kill()
        server.start()
        async with OPENERS["async"](server.url) as sdk:
            assert (await sdk.store.get_item(["a", "b"], "k"))["value"] == {"n": 1}
            values = await sdk.runs.wait(await sdk.thread(), "memory", input={"user": mark})
            assert len(values["found"]) == 3
        assert server.terminate() == 0
        server.start()
        async with OPENERS["async"](server.url) as sdk:
            assert (await sdk.store.get_item(["a", "b"], "k"))["value"] == {"n": 1}
