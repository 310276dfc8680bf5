"""A ChatKit page uploads files and displays previews without headers, even if the server authenticates."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from threadwire.testing.server import RunningServer

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 8
INVALID = "The ticket is not valid. Each ticket can be used once, within seconds."


def call(client: httpx.Client, operation: str, **params: Any) -> httpx.Response:
    return client.post("/chatkit/agent", json={"type": operation, "params": params}).raise_for_status()


def created(client: httpx.Client, name: str = "a.png") -> dict[str, Any]:
    attachment: dict[str, Any] = call(
        client, "attachments.create", name=name, size=len(PNG), mime_type="image/png"
    ).json()
    return attachment


@pytest.fixture
def page(server: RunningServer) -> Iterator[httpx.Client]:
    """A browser that sends no credential."""
    with httpx.Client(headers={"origin": server.url}) as client:
        yield client


def rejected(response: httpx.Response) -> bool:
    return (response.status_code, response.json()) == (401, {"detail": INVALID})


def test_a_page_uploads_and_displays_a_file_without_headers(ada: httpx.Client, page: httpx.Client) -> None:
    attachment = created(ada)
    uploaded = page.put(attachment["upload_descriptor"]["url"], content=PNG)
    assert uploaded.status_code == 200
    for url in (attachment["preview_url"], uploaded.json()["preview_url"]):
        assert page.get(url).content == PNG
        assert rejected(page.get(url))


def test_an_upload_address_is_for_one_upload_of_one_file(ada: httpx.Client, page: httpx.Client) -> None:
    one, other = created(ada), created(ada, "b.png")
    address, _, ticket = one["upload_descriptor"]["url"].partition("?")
    assert rejected(page.put(f"{other['upload_descriptor']['url'].partition('?')[0]}?{ticket}", content=PNG))
    assert rejected(page.put(f"{address}?{ticket}", content=PNG)), "it was used for the other file"
    assert page.put(other["upload_descriptor"]["url"], content=PNG).status_code == 200
    assert rejected(page.put(other["upload_descriptor"]["url"], content=PNG))


def test_a_ticket_for_any_path_is_only_for_reading(ada: httpx.Client, page: httpx.Client) -> None:
    address = created(ada)["upload_descriptor"]["url"].partition("?")[0]
    ticket = ada.post("/tickets").json()["ticket"]
    assert rejected(page.put(f"{address}?ticket={ticket}", content=PNG))


def test_previews_in_a_history_can_be_displayed(ada: httpx.Client, bob: httpx.Client, page: httpx.Client) -> None:
    attachment = created(ada)
    page.put(attachment["upload_descriptor"]["url"], content=PNG).raise_for_status()
    message = {"content": [{"type": "input_text", "text": "Look"}], "attachments": [attachment["id"]]}
    call(ada, "threads.create", input={**message, "inference_options": {}})
    thread = call(ada, "threads.list", limit=1, order="desc").json()["data"][0]["id"]
    for operation in ("threads.get_by_id", "items.list"):
        found = call(ada, operation, thread_id=thread).json()
        items = (found if operation == "items.list" else found["items"])["data"]
        [shown] = next(item for item in items if item["type"] == "user_message")["attachments"]
        assert page.get(shown["preview_url"]).content == PNG
    assert bob.get(shown["preview_url"].partition("?")[0]).status_code == 404


def events(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line]


def sent_attachments(response: httpx.Response) -> list[dict[str, Any]]:
    """The attachments of the user message in a stream, from every event that contains it."""
    items = [event["item"] for event in events(response) if event.get("item", {}).get("type") == "user_message"]
    return [each for item in items for each in item["attachments"]]


def test_previews_in_a_live_stream_can_be_displayed(ada: httpx.Client, bob: httpx.Client, page: httpx.Client) -> None:
    attachment = created(ada)
    page.put(attachment["upload_descriptor"]["url"], content=PNG).raise_for_status()
    message = {"content": [{"type": "input_text", "text": "Look"}], "attachments": [attachment["id"]]}
    stream = call(ada, "threads.create", input={**message, "inference_options": {}})
    thread = next(event["thread"]["id"] for event in events(stream) if event["type"] == "thread.created")
    other = created(ada, "b.png")
    page.put(other["upload_descriptor"]["url"], content=PNG).raise_for_status()
    message["attachments"] = [other["id"]]
    later = call(ada, "threads.add_user_message", thread_id=thread, input={**message, "inference_options": {}})
    for response in (stream, later):
        shown = sent_attachments(response)
        assert shown
        for each in shown:
            assert page.get(each["preview_url"]).content == PNG
            assert rejected(page.get(each["preview_url"]))
            assert bob.get(each["preview_url"].partition("?")[0]).status_code == 404


def test_a_ticket_is_never_sent_to_an_address_that_a_client_has_written(
    ada: httpx.Client, server: RunningServer
) -> None:
    thread = ada.post("/threads", json={"metadata": {"graph_id": "agent"}}).json()["thread_id"]
    image = {"type": "image", "name": "a.png", "mime_type": "image/png", "preview_url": "https://elsewhere.example/a"}
    known = {"attachments": [{"id": f"atc_{'0' * 32}", **image}, {"id": "atc_1/../x", **image}]}
    message = {"type": "human", "id": "m1", "content": "Look", "additional_kwargs": {"chatkit": known}}
    run = {"assistant_id": "agent", "input": {"messages": [message]}}
    ada.post(f"/threads/{thread}/runs/wait", json=run).raise_for_status()
    found = call(ada, "threads.get_by_id", thread_id=thread).json()
    [item] = [each for each in found["items"]["data"] if each["type"] == "user_message"]
    one, other = (each["preview_url"] for each in item["attachments"])
    assert one.startswith(f"{server.url}/chatkit/agent/attachments/atc_0000")
    assert other == "https://elsewhere.example/a"


def test_a_preview_without_a_ticket_needs_a_credential(ada: httpx.Client, page: httpx.Client) -> None:
    attachment = created(ada)
    page.put(attachment["upload_descriptor"]["url"], content=PNG).raise_for_status()
    assert page.get(attachment["preview_url"].partition("?")[0]).status_code == 401
