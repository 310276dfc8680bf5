"""The pages of the examples are there as soon as they are built."""

import importlib.util
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

pytestmark = pytest.mark.anyio

spec = importlib.util.spec_from_file_location("example_pages", Path(__file__).parents[2] / "examples" / "web.py")
assert spec is not None
assert spec.loader is not None
web = importlib.util.module_from_spec(spec)
spec.loader.exec_module(web)


async def test_a_page_shows_itself_once_it_is_built(tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    app = Starlette(routes=[Mount("/page", web.BuiltPage(folder))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as browser:
        early = await browser.get("/page/")
        assert (early.status_code, early.headers["refresh"]) == (503, "2")
        assert "`make run`" in early.text

        folder.mkdir()
        (folder / "main.js").write_text("run()")
        assert (await browser.get("/page/main.js")).status_code == 503
        (folder / "index.html").write_text("<p>hello")
        assert [(await browser.get(f"/page/{name}")).text for name in ("", "main.js")] == ["<p>hello", "run()"]


async def test_the_dashboard_is_found_without_the_slash_too() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web.app), base_url="http://localhost") as browser:
        led = await browser.get("/dashboard")
        assert led.status_code == 307
        assert led.next_request is not None
        assert led.next_request.url.path == "/dashboard/"
