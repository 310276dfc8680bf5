"""A project with an application of its own: routes, a lifespan, middleware."""

import httpx
from dialogue import texts, user
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "custom_routes"


def test_routes_of_the_project_are_served(url: str) -> None:
    assert httpx.get(f"{url}/shop/greeting").json() == {"word": "Hello"}
    ordered = httpx.post(f"{url}/shop/orders", json={"item": "tea"})
    assert (ordered.status_code, ordered.json()) == (201, {"item": "tea", "count": 1})
    rejected = httpx.post(f"{url}/shop/orders", json={"item": "tea", "count": 11})
    assert (rejected.status_code, rejected.json()) == (409, {"detail": "Sold out"})
    assert httpx.post(f"{url}/shop/orders", json={}).status_code == 422


def test_the_lifespan_of_the_application_precedes_the_graphs(client: SyncLangGraphClient, thread: str) -> None:
    assert texts(client.runs.wait(thread, "greeter", input=user("Ada"))) == ["Ada", "Hello, Ada"]


def test_the_middleware_of_the_application_also_sees_the_api(url: str) -> None:
    for path in ("/shop/greeting", "/ok", "/info"):
        assert httpx.get(url + path).headers["x-project"] == "custom-routes"
