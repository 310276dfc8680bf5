"""One user cannot read or change another's thread, items or attachments: they look like unknown ones."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from chatkit_client import PROJECT, Chat, message
from starlette.types import Receive, Scope, Send

from threadwire import create_app
from threadwire.core.access_filter import AccessFilter, parse_access_filter
from threadwire.core.users import User
from threadwire.engine.access import Action, Resource, acting_as

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Owners:
    """Users own what they create, and see nothing else."""

    async def filter_for(self, user: User, resource: Resource, action: Action, value: dict[str, Any]) -> AccessFilter:
        mine = {"owner": user.owner}
        if action in ("create", "create_run"):
            value["metadata"] = {**value["metadata"], **mine}
        return parse_access_filter({} if resource == "assistants" else mine)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server where the header `user` says who the caller is."""
    app = create_app(PROJECT, storage="memory")

    async def as_user(scope: Scope, receive: Receive, send: Send) -> None:
        user = User(identity=dict(scope["headers"])[b"user"].decode(), permissions=[])
        with acting_as(user, Owners()):
            await app(scope, receive, send)

    async with (
        app.lifespan(),
        httpx.AsyncClient(transport=httpx.ASGITransport(as_user), base_url="http://localhost") as client,
    ):
        yield client


def act_as(user: str, http: httpx.AsyncClient) -> None:
    http.headers["user"] = user


async def test_a_foreign_thread_and_its_attachments_do_not_exist(http: httpx.AsyncClient) -> None:
    act_as("alice", http)
    chat = Chat(http, "bot")
    uploaded = (await http.post("/chatkit/bot/attachments", files={"file": ("a.png", PNG, "image/png")})).json()
    unsent = (await http.post("/chatkit/bot/attachments", files={"file": ("b.png", PNG, "image/png")})).json()
    await chat.send("ask Why?", attachments=[uploaded["id"]])
    card, sent = chat.last("widget"), chat.last("user_message")
    operations: dict[str, dict[str, Any]] = {
        "threads.get_by_id": {},
        "threads.update": {"title": "Mine"},
        "threads.delete": {},
        "items.list": {},
        "items.feedback": {"item_ids": [sent["id"]], "kind": "negative"},
        "threads.add_user_message": {"input": message("because")},
        "threads.add_client_tool_output": {"result": 1},
        "threads.add_structured_input": {"item_id": card["id"], "input": {}},
        "threads.retry_after_item": {"item_id": sent["id"]},
        "threads.custom_action": {"item_id": card["id"], "action": card["widget"]["confirm"]["action"]},
        "threads.sync_custom_action": {"item_id": card["id"], "action": {"type": "count"}},
    }

    act_as("bob", http)
    rejected = {name: (await chat.post(name, thread_id=chat.thread_id, **each)) for name, each in operations.items()}
    listed = await chat.call("threads.list")
    on_files = [
        response
        for file in (uploaded, unsent)
        for response in (
            await chat.post("threads.create", input=message("blocks", attachments=[file["id"]])),
            await chat.post("attachments.delete", attachment_id=file["id"]),
            await http.get(file["preview_url"]),
            await http.put(file["preview_url"].replace("/preview", "/content"), content=PNG),
        )
    ]
    feedback = await http.get(f"/chatkit/bot/threads/{chat.thread_id}/feedback")

    assert {name: response.status_code for name, response in rejected.items()} == dict.fromkeys(operations, 404)
    assert listed["data"] == []
    assert {each.status_code for each in (*on_files, feedback)} == {404}

    act_as("alice", http)
    for file in (uploaded, unsent):
        assert (await http.get(file["preview_url"])).content == PNG
    assert (await chat.thread())["title"] == "ask Why?"
    await chat.require_reload_is_equal()
