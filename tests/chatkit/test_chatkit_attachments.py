"""Attachments: two ways to upload, limits, ownership, previews, and what models receive."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from chatkit_client import Chat, OpenChat, message

from threadwire.testing.server import RunningServer

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def upload(chat: Chat, name: str, mime_type: str, content: bytes) -> dict[str, Any]:
    created = await chat.call("attachments.create", name=name, size=len(content), mime_type=mime_type)
    descriptor = created["upload_descriptor"]
    assert descriptor["method"] == "PUT"
    uploaded = await chat.http.put(descriptor["url"], content=content, headers=descriptor["headers"])
    assert uploaded.status_code == 200, uploaded.text
    return dict(uploaded.json())


async def test_a_file_is_uploaded_in_two_phases_and_sent_to_the_model(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    image = await upload(chat, "a.png", "image/png", PNG)
    text = await upload(chat, "notes.txt", "text/plain", b"hello")

    await chat.send("blocks", attachments=[image["id"], text["id"]])

    assert json.loads(chat.answer) == ["text", "image", "text-plain"]
    shown = chat.last("user_message")["attachments"]
    assert shown == [image, text]
    assert not any("upload_descriptor" in each for each in shown)
    preview = await chat.http.get(image["preview_url"])
    assert (preview.content, preview.headers["content-type"]) == (PNG, "image/png")
    assert preview.headers["x-content-type-options"] == "nosniff"
    await chat.require_reload_is_equal()


async def test_a_file_is_uploaded_directly(open_chat: OpenChat, http: httpx.AsyncClient) -> None:
    response = await http.post("/chatkit/direct/attachments", files={"file": ("a.png", PNG, "image/png")})
    assert response.status_code == 200, response.text
    chat = open_chat("direct")

    await chat.send("blocks", attachments=[response.json()["id"]])

    assert json.loads(chat.answer) == ["text", "image"]


@pytest.mark.parametrize(
    ("name", "mime_type", "size", "status", "detail"),
    [
        ("a.exe", "application/x-msdownload", 10, 400, "mime_type: application/x-msdownload is not accepted"),
        ("a.png", "image", 10, 400, "mime_type: must be a media type"),
        ("a.png", "image/png", 1001, 413, "The file is larger than 1000 bytes"),
        ("a.png", "image/png", -1, 400, "size: "),
        ("", "image/png", 1, 400, "name: "),
    ],
)
async def test_a_file_that_is_not_accepted_is_rejected_before_it_is_sent(
    open_chat: OpenChat, name: str, mime_type: str, size: int, status: int, detail: str
) -> None:
    response = await open_chat("bot").post("attachments.create", name=name, size=size, mime_type=mime_type)

    assert response.status_code == status
    assert detail in response.json()["detail"]


@pytest.mark.parametrize(
    ("content", "status", "detail"),
    [
        (b"GIF89a" + b"\0" * 10, 400, "The content of the file is not image/png"),
        (PNG + b"\0" * 1000, 413, "The file is larger than 1000 bytes"),
        (b"", 400, "The file is empty"),
    ],
)
async def test_content_other_than_declared_is_rejected(
    open_chat: OpenChat, content: bytes, status: int, detail: str
) -> None:
    chat = open_chat("bot")
    created = await chat.call("attachments.create", name="a.png", size=10, mime_type="image/png")

    response = await chat.http.put(created["upload_descriptor"]["url"], content=content)

    assert (response.status_code, response.json()["detail"]) == (status, detail)
    sent = await chat.post("threads.create", input=message("x", attachments=[created["id"]]))
    assert (sent.status_code, sent.json()["detail"]) == (
        400,
        f"input.attachments: {created['id']} has not been uploaded yet",
    )


@pytest.mark.parametrize(
    ("mime_type", "content", "status"),
    [
        ("image/webp", b"RIFF\x24\0\0\0WAVEfmt ", 400),
        ("image/webp", b"RIFF\x24\0\0\0WEBPVP8 ", 200),
        ("image/bmp", b"%PDF-1.7", 400),
        ("image/apng", PNG, 200),
        ("text/csv", b"%PDF-1.7", 400),
        ("text/plain", b"\xff\xfe", 400),
        ("text/plain", b"hello", 200),
        ("application/pdf", PNG, 400),
    ],
)
async def test_the_type_of_the_content_is_checked(
    http: httpx.AsyncClient, mime_type: str, content: bytes, status: int
) -> None:
    response = await http.post("/chatkit/bot/attachments", files={"file": ("a", content, mime_type)})

    assert response.status_code == status, response.text


async def test_direct_uploads_have_the_same_limits(http: httpx.AsyncClient) -> None:
    rejected = await http.post("/chatkit/bot/attachments", files={"file": ("a.png", b"text", "image/png")})
    large = await http.post("/chatkit/bot/attachments", files={"file": ("a.png", PNG + b"\0" * 1000, "image/png")})
    missing = await http.post("/chatkit/bot/attachments", data={"file": "text"})
    disabled = await http.post("/chatkit/tools/attachments", files={"file": ("a.png", PNG, "image/png")})
    not_a_form = await http.post("/chatkit/bot/attachments", content=b"{}")

    assert [each.status_code for each in (rejected, large, missing, disabled, not_a_form)] == [400, 413, 400, 400, 400]


@pytest.mark.parametrize("name", ["../../etc/passwd", "C:\\temp\\passwd", "/etc/passwd", "a/b/passwd"])
async def test_a_path_in_a_file_name_is_dropped(open_chat: OpenChat, name: str) -> None:
    created = await open_chat("bot").call("attachments.create", name=name, size=1, mime_type="text/plain")

    assert created["name"] == "passwd"


async def test_an_attachment_belongs_to_its_agent_and_its_thread(open_chat: OpenChat, http: httpx.AsyncClient) -> None:
    chat, other = open_chat("bot"), open_chat("bot")
    image = await upload(chat, "a.png", "image/png", PNG)
    await chat.send("blocks", attachments=[image["id"]])

    stolen = await other.post("threads.create", input=message("x", attachments=[image["id"]]))
    foreign = await open_chat("direct").post("threads.create", input=message("x", attachments=[image["id"]]))
    preview = await http.get(image["preview_url"].replace("/bot/", "/direct/"))
    deleted = await chat.post("attachments.delete", attachment_id=image["id"])
    again = await http.put(image["preview_url"].replace("/preview", "/content"), content=PNG)

    assert [each.status_code for each in (stolen, foreign, preview, deleted, again)] == [404, 404, 404, 400, 409]


async def test_deleting_removes_the_files(open_chat: OpenChat, server: RunningServer) -> None:
    chat = open_chat("bot")
    unsent, sent = [await upload(chat, "a.png", "image/png", PNG) for _ in range(2)]
    folder = Path(server.data) / "attachments"
    await chat.send("blocks", attachments=[sent["id"]])
    assert len(list(folder.glob(f"{unsent['id']}.*"))) == 2

    assert await chat.call("attachments.delete", attachment_id=unsent["id"]) == {}
    await chat.call("threads.delete", thread_id=chat.thread_id)

    assert not [each for name in (unsent["id"], sent["id"]) for each in folder.glob(f"{name}*")]
    assert (await chat.http.get(sent["preview_url"])).status_code == 404


@pytest.mark.parametrize("path", ["/threads/{}", "/copilotkit/threads/{}"])
async def test_a_thread_that_another_protocol_deletes_takes_its_files_with_it(
    open_chat: OpenChat, server: RunningServer, path: str
) -> None:
    chat = open_chat("bot")
    sent, of_another = [await upload(chat, "a.png", "image/png", PNG) for _ in range(2)]
    folder = Path(server.data) / "attachments"
    await chat.send("blocks", attachments=[sent["id"]])
    other = open_chat("bot")
    await other.send("blocks", attachments=[of_another["id"]])

    body = {"agentId": "bot"} if path.startswith("/copilotkit") else None
    deleted = await chat.http.request("DELETE", path.format(chat.thread_id), json=body)

    assert deleted.is_success, deleted.text
    assert not list(folder.glob(f"**/{sent['id']}*"))
    assert not (folder / "threads" / chat.thread_id).exists()
    assert len(list(folder.glob(f"{of_another['id']}.*"))) == 2


async def test_too_many_attachments_are_rejected(open_chat: OpenChat) -> None:
    chat = open_chat("bot")
    response = await chat.post("threads.create", input=message("x", attachments=["a", "b", "c"]))

    assert (response.status_code, response.json()["detail"]) == (400, "input.attachments: must have at most 2 entries")


async def test_audio_is_transcribed_by_the_project(open_chat: OpenChat) -> None:
    audio = {"audio_base64": "aGVsbG8=", "mime_type": "audio/webm;codecs=opus"}

    assert await open_chat("bot").call("input.transcribe", **audio) == {"text": "5 bytes of audio/webm;codecs=opus"}
    missing = await open_chat("direct").post("input.transcribe", **audio)
    assert (missing.status_code, "names no `transcribe` function" in missing.json()["detail"]) == (400, True)


async def test_a_page_gets_its_options(http: httpx.AsyncClient) -> None:
    options = (await http.get("/chatkit/bot/options")).json()

    url = f"{str(http.base_url).rstrip('/')}/chatkit/bot"
    assert options["api"] == {"url": url, "domainKey": "threadwire-local", "uploadStrategy": {"type": "two_phase"}}
    assert options["startScreen"] == {
        "greeting": "Hello",
        "prompts": [
            {"label": "say hi", "prompt": "say hi"},
            {"label": "Think", "prompt": "think about it", "icon": "lightbulb"},
        ],
    }
    assert options["theme"] == {"colorScheme": "dark", "radius": "round"}
    assert [model["id"] for model in options["composer"]["models"]] == ["m1", "m2"]
    assert options["composer"]["tools"] == [{"id": "search", "label": "Search", "icon": "search", "pinned": False}]
    assert options["composer"]["attachments"]["maxSize"] == 1000
    direct = (await http.get("/chatkit/direct/options")).json()
    assert direct["api"]["uploadStrategy"] == {
        "type": "direct",
        "uploadUrl": f"{str(http.base_url).rstrip('/')}/chatkit/direct/attachments",
    }
    disabled = (await http.get("/chatkit/tools/options")).json()
    assert disabled["composer"]["attachments"] == {"enabled": False}
    assert "uploadStrategy" not in disabled["api"]
