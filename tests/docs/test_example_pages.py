"""The web pages of the examples are served as soon as they are built."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples"
spec = importlib.util.spec_from_file_location("example_pages", EXAMPLES / "web.py")
assert spec is not None
assert spec.loader is not None
web = importlib.util.module_from_spec(spec)
spec.loader.exec_module(web)


async def test_a_page_is_served_once_it_is_built(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("query", ["", "?thread=my%20name&x=1"])
@pytest.mark.parametrize("page", web.PAGES)
async def test_a_page_redirects_to_the_trailing_slash(page: str, query: str) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web.app), base_url="http://localhost") as browser:
        redirect = await browser.get(f"/{page}{query}")
        assert redirect.status_code == 307
        assert str(redirect.next_request and redirect.next_request.url) == f"http://localhost/{page}/{query}"


# -- make run --------------------------------------------------------------------------------------------------------

Run = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Run `examples/run.py` with a fake build of the page."""
    started = []

    def start(build_script: str) -> "subprocess.Popen[str]":
        for name, script in {"make": f'test "$1" = --question && exit 1\n{build_script}', "npm": ""}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("THREADWIRE_")}
        own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "THREADWIRE_DATA": str(tmp_path / "data")}
        process = subprocess.Popen(
            [sys.executable, EXAMPLES / "run.py"],
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, **own, "THREADWIRE_PORT": "0", "THREADWIRE_EXAMPLE_MODEL": "scripted"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=60)


def wait_for_output(process: "subprocess.Popen[str]", *sentences: str) -> str:
    """Read the output until it contains every sentence, and return it."""
    printed = ""
    assert process.stdout is not None
    while not all(each in printed for each in sentences):
        line = process.stdout.readline()
        assert line, printed
        printed += line
    return printed


@pytest.mark.parametrize(("code", "sentence"), [(0, "are built.\n"), (2, "could not be built: see build/page.log.\n")])
def test_the_server_starts_whether_or_not_the_build_succeeds_and_hides_the_output_of_npm(
    run: Run, code: int, sentence: str
) -> None:
    process = run(f"echo many words; echo more >&2; exit {code}")
    printed = wait_for_output(
        process, f"The pages /chat, /dashboard and /timeline {sentence}", "Threadwire is listening on http://"
    )
    assert "words" not in printed
    process.terminate()
    assert process.wait(60) == 0


def test_a_shutdown_kills_the_build_of_the_page(run: Run, tmp_path: Path) -> None:
    """npm ignores Ctrl-C and SIGTERM while it unpacks."""
    process = run(f"trap '' INT TERM; echo $$ > {tmp_path}/started; mv {tmp_path}/started {tmp_path}/pid; sleep 600")
    expected = "The pages /chat, /dashboard and /timeline are being built; the output of npm is in build/page.log.\n"
    wait_for_output(process, expected, "listening on http://")
    process.terminate()
    assert process.wait(60) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
