from exchanges import Wire
from normalization import NOWHERE

from scenarios import scenario
from scenarios.inputs import TEXT


@scenario
async def health_check(wire: Wire) -> None:
    await wire.get("/ok")
    await wire.get("/")


@scenario
async def head_requests(wire: Wire) -> None:
    for path in ("/", "/ok", "/info", "/docs", "/openapi.json", f"/threads/{NOWHERE}", "/threads", "/nowhere"):
        await wire.request("HEAD", path)
    thread = await wire.thread_after_run("echo", TEXT)
    for path in ("", "/state", "/history", "/runs"):
        await wire.request("HEAD", f"/threads/{thread}{path}")


@scenario
async def server_info(wire: Wire) -> None:
    await wire.get("/info")


@scenario
async def an_unknown_route(wire: Wire) -> None:
    await wire.get("/nowhere")
    await wire.post("/threads/", {})


@scenario
async def a_wrong_method(wire: Wire) -> None:
    await wire.put("/threads", {})
    await wire.get("/assistants/search")


@scenario
async def a_body_that_is_not_json(wire: Wire) -> None:
    await wire.post("/threads", content=b"{not json", headers={"content-type": "application/json"})


@scenario
async def a_body_without_a_json_content_type(wire: Wire) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/octet-stream", ""):
        headers = {"content-type": kind}
        await wire.post("/threads/search", content=b'{"ids":["%s"]}' % NOWHERE.encode(), headers=headers)
        await wire.post("/runs/wait", content=b'{"assistant_id":"echo","input":{"text":"hi"}}', headers=headers)
        await wire.post("/threads", content=b"a=b", headers=headers)


@scenario
async def a_body_that_is_not_an_object(wire: Wire) -> None:
    await wire.post("/threads/search", ["a", "list"])


@scenario
async def an_empty_body(wire: Wire) -> None:
    await wire.post("/threads/search", content=b"", headers={"content-type": "application/json"})
