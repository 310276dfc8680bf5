from typing import Any

from exchanges import Wire

from scenarios import scenario


async def put(wire: Wire, namespace: list[str], key: str, value: Any) -> None:
    body = {"namespace": [wire.mark, *namespace], "key": key, "value": value}
    await wire.unrecorded("PUT", "/store/items", body)


@scenario
async def an_item_is_put_and_read(wire: Wire) -> None:
    body = {"namespace": [wire.mark, "a"], "key": "k", "value": {"n": 1, "deep": {"list": [1, None]}}}
    await wire.put("/store/items", body)
    await wire.get("/store/items", params={"namespace": f"{wire.mark}.a", "key": "k"})
    await wire.put("/store/items", {**body, "value": {"n": 2}})
    await wire.get("/store/items", params={"namespace": f"{wire.mark}.a", "key": "k"})


@scenario
async def an_item_that_does_not_exist(wire: Wire) -> None:
    await wire.get("/store/items", params={"namespace": wire.mark, "key": "nothing"})
    await wire.delete("/store/items", {"namespace": [wire.mark], "key": "nothing"})


@scenario
async def an_item_is_deleted(wire: Wire) -> None:
    await put(wire, [], "k", {"n": 1})
    await wire.delete("/store/items", {"namespace": [wire.mark], "key": "k"})
    await wire.get("/store/items", params={"namespace": wire.mark, "key": "k"})


@scenario
async def invalid_items_are_rejected(wire: Wire) -> None:
    await wire.put("/store/items", {"namespace": ["a.b"], "key": "k", "value": {}})
    await wire.put("/store/items", {"namespace": [""], "key": "k", "value": {}})
    await wire.put("/store/items", {"namespace": [], "key": "k", "value": {}})
    await wire.put("/store/items", {"namespace": [wire.mark], "key": "k", "value": "no object"})
    await wire.put("/store/items", {"namespace": [wire.mark], "value": {}})
    await wire.put("/store/items", {"namespace": wire.mark, "key": "k", "value": {}})
    await wire.get("/store/items", params={"namespace": wire.mark})


@scenario
async def store_requests_with_invalid_namespaces(wire: Wire) -> None:
    await wire.delete("/store/items", {"namespace": wire.mark, "key": "k"})
    await wire.post("/store/items/search", {"namespace_prefix": wire.mark})
    await wire.post("/store/namespaces", {"prefix": wire.mark})


@scenario
async def items_are_searched(wire: Wire) -> None:
    for number in range(3):
        await put(wire, ["a"], f"k{number}", {"n": number, "odd": bool(number % 2)})
    await put(wire, ["b"], "other", {"n": 9})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark, "b"]})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "filter": {"n": 9}})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "filter": {"odd": True}})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "filter": {"n": 77}})


@scenario
async def items_are_searched_page_by_page(wire: Wire) -> None:
    for number in range(3):
        await put(wire, [], f"k{number}", {"n": number})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "limit": 2})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "limit": 2, "offset": 2})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "limit": 0})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "offset": -1})


@scenario
async def items_are_searched_everywhere(wire: Wire) -> None:
    await put(wire, ["a"], "k", {"mark": wire.mark})
    await wire.post("/store/items/search", {"namespace_prefix": [], "filter": {"mark": wire.mark}})
    await wire.post("/store/items/search", {"filter": {"mark": wire.mark}})


@scenario
async def items_are_searched_by_comparison(wire: Wire) -> None:
    for number in range(3):
        await put(wire, [], f"k{number}", {"n": number})
    for operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"):
        body = {"namespace_prefix": [wire.mark], "filter": {"n": {operator: 1}}}
        await wire.post("/store/items/search", body)


@scenario
async def items_are_searched_by_similarity_without_an_index(wire: Wire) -> None:
    await put(wire, [], "k", {"text": "hello"})
    await wire.post("/store/items/search", {"namespace_prefix": [wire.mark], "query": "hello"})


@scenario
async def namespaces_are_listed(wire: Wire) -> None:
    for path in (["a"], ["a", "x"], ["b", "x"]):
        await put(wire, path, "k", {})
    await wire.post("/store/namespaces", {"prefix": [wire.mark]})
    await wire.post("/store/namespaces", {"prefix": [wire.mark], "suffix": ["x"]})
    await wire.post("/store/namespaces", {"prefix": [wire.mark], "max_depth": 2})
    await wire.post("/store/namespaces", {"prefix": [wire.mark], "limit": 1, "offset": 1})
