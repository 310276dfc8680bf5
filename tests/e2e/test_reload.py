"""`threadwire dev` while its project is being edited."""

import json

import anyio
import httpx
import pytest
from clients import eventually, open_async

from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

AGENT = """
import asyncio
from pathlib import Path
from typing import TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph

from words import WORD


class State(TypedDict, total=False):
    until: str
    said: str


async def say(state: State) -> State:
    get_stream_writer()("begun")
    while state.get("until") and not Path(state["until"]).exists():
        await asyncio.sleep(0.01)
    return {"said": WORD}


graph = StateGraph(State).add_node("say", say).add_edge(START, "say").compile()
"""


class Project:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.write("agent.py", AGENT)
        self.write("words.py", 'WORD = "old"\n')
        self.configure({"agent": "./agent.py:graph"})

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def configure(self, graphs, **rest):
        self.write("langgraph.json", json.dumps({"dependencies": ["."], "graphs": graphs, **rest}))


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


@pytest.fixture
def server(project, tmp_path):
    with running_server(project.folder / "langgraph.json", tmp_path / "data", command="dev") as running:
        yield running


@pytest.fixture
async def sdk(server):
    async with open_async(server.url) as opened:
        yield opened


async def told(server, pattern):
    """Wait for the line, and for nothing else: what comes after it is not awaited by chance."""
    return await anyio.to_thread.run_sync(server.wait_for_log, pattern)


async def said(sdk, agent="agent"):
    return (await sdk.runs.wait(await sdk.thread(), agent, input={}))["said"]


async def test_a_changed_module_is_loaded_while_idle(project, server, sdk):
    assert await said(sdk) == "old"
    project.write("words.py", 'WORD = "new"\n')
    await told(server, r"Reloaded \(words\.py\) in \d+\.\d\d s")
    assert await said(sdk) == "new"
    assert "Traceback" not in server.log()


async def test_two_edits_within_a_second_that_keep_the_size_are_both_loaded(project, server, sdk):
    for word in ("one", "two", "six"):
        project.write("words.py", f'WORD = "{word}"\n')

        async def loaded(word=word):
            return await said(sdk) == word

        await eventually(loaded)


async def test_a_running_run_ends_with_the_code_it_began_with_and_its_stream_stays_open(project, server, sdk, gate):
    thread_id = await sdk.thread()
    seen = []
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=30) as http,
        http.stream(
            "POST",
            f"/threads/{thread_id}/runs/stream",
            json={"assistant_id": "agent", "input": {"until": str(gate)}, "stream_mode": ["custom", "values"]},
        ) as response,
    ):
        async for line in response.aiter_lines():
            seen.append(line)
            if line == 'data: "begun"':
                project.write("words.py", 'WORD = "new"\n')
                await told(server, "Reloaded")
                assert await said(sdk) == "new"
                gate.touch()
    data = [json.loads(line.removeprefix("data: ")) for line in seen if line.startswith("data: ")]
    assert data[-1]["said"] == "old"
    assert data[0]["attempt"] == 1
    assert [each for each in data if "attempt" in each] == data[:1]
    assert (await sdk.threads.get_state(thread_id))["values"]["said"] == "old"


@pytest.mark.parametrize(
    ("file", "broken", "complaint"),
    [
        ("words.py", 'WORD = "bro', r"SyntaxError: .*\(words\.py:1\)"),
        ("agent.py", "raise RuntimeError('not today')", r"RuntimeError: not today \(agent\.py:1\)"),
        ("agent.py", "graph = 3", r"\./agent\.py:graph is an object of type int"),
        ("langgraph.json", "{", "not JSON at line 1"),
        ("langgraph.json", '{"graphs": {}}', '"graphs" is empty'),
        ("langgraph.json", '{"graphs": {"agent": "./agent.py:graph"}, "auth": {"path": "./a.py:a"}}', 'uses "auth"'),
    ],
)
async def test_a_broken_edit_keeps_what_was_served_and_the_next_good_one_recovers(
    project, server, sdk, file, broken, complaint
):
    good = (project.folder / file).read_text()
    project.write(file, broken)
    await told(server, rf"Reload failed \({file}\): .*{complaint}")
    assert await said(sdk) == "old"
    project.write("words.py", 'WORD = "new"\n')
    if file != "words.py":
        project.write(file, good)
    await told(server, r"\nReloaded")
    assert await said(sdk) == "new"
    assert "Traceback" not in server.log()


async def test_a_graph_added_to_the_config_has_an_assistant_and_a_removed_one_is_told(project, server, sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "agent", input={})
    assistants = await sdk.assistants.search()
    project.write("deeper/other.py", AGENT.replace("WORD}", "WORD.upper()}"))
    project.configure({"other": "./deeper/other.py:graph"})
    await told(server, r"graph +other\n")
    await told(server, r"graph removed +agent: its threads remain")
    assert await said(sdk, "other") == "OLD"
    names = {each["name"] for each in await sdk.assistants.search()}
    assert names == {"agent", "other"}
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await sdk.runs.wait(thread_id, "agent", input={})
    assert "One of the registered graphs: other" in refused.value.response.json()["detail"]
    ended = await sdk.runs.wait(thread_id, assistants[0]["assistant_id"], input={}, raise_error=False)
    assert ended["__error__"]["message"] == "Graph 'agent' does not exist. Available graphs: other."
    assert (await sdk.threads.get(thread_id))["values"] == {"said": "old"}
    assert "Traceback" not in server.log()


async def test_a_broken_graph_that_is_new_does_not_hold_up_the_others(project, server, sdk):
    project.write("words.py", 'WORD = "new"\n')
    project.configure({"agent": "./agent.py:graph", "bad": "./bad.py:graph"})
    await told(server, r"graph +bad: file not found: \./bad\.py")
    assert await said(sdk) == "new"
    project.write("bad.py", AGENT)
    await told(server, r"Reloaded \(bad\.py\)")
    assert await said(sdk, "bad") == "new"


async def test_a_new_mistake_in_the_config_keeps_what_was_served(project, server, sdk):
    project.configure({"agent": "./agent.py:graph"}, env={"WORD": None})
    await told(server, r'Reload failed \(langgraph\.json\): langgraph\.json: "env"\."WORD" must be a string, not null')
    project.configure({"agent": "./agent.py"})
    await told(server, r"Reload failed \(langgraph\.json\): graph agent: .* does not name an object\.")
    assert await said(sdk) == "old"


async def test_a_file_of_a_folder_that_was_refused_is_watched_too(project, server, sdk, tmp_path):
    """The new config is not in force, but what it names is where the mistake will be mended."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "common.py").write_text("raise RuntimeError('not yet')")
    project.write("agent.py", AGENT.replace("from words import WORD", "from common import WORD"))
    project.write(
        "langgraph.json", json.dumps({"dependencies": [".", "../shared"], "graphs": {"agent": "./agent.py:graph"}})
    )
    await told(server, "Reload failed .* not yet")
    assert await said(sdk) == "old"
    (shared / "common.py").write_text('WORD = "shared"\n')
    await told(server, r"\nReloaded")
    assert await said(sdk) == "shared"


async def test_variables_of_the_config_are_set_anew(project, server, sdk):
    project.write("words.py", 'import os\nWORD = os.environ.get("SPOKEN", "nothing")\n')
    await told(server, r"Reloaded \(words\.py\)")
    assert await said(sdk) == "nothing"
    project.write(".env", "SPOKEN=from a file\n")
    project.configure({"agent": "./agent.py:graph"}, env=".env")
    await told(server, r"Reloaded \(.*langgraph\.json\)")
    assert await said(sdk) == "from a file"
    project.write(".env", "SPOKEN=another\n")
    await told(server, r"Reloaded \(\.env\)")
    assert await said(sdk) == "another"


async def test_other_files_do_not_make_it_reload(project, server, sdk):
    """Also not those of a virtual environment that lies in the project."""
    project.write("notes.md", "a note")
    project.write("venv/pyvenv.cfg", "home = somewhere")
    project.write("venv/words.py", "raise RuntimeError")
    project.write("node_modules/words.py", "raise RuntimeError")
    project.write(".hidden/words.py", "raise RuntimeError")
    project.write("words.py", 'WORD = "new"\n')
    await told(server, r"Reloaded \(words\.py\)")
    assert server.log().count("Reloaded") == 1


async def test_without_reload_nothing_is_watched(project, server, tmp_path):
    """The server that does watch says when the other would have noticed."""
    with running_server(
        project.folder / "langgraph.json", tmp_path / "other", command="dev", env={"THREADWIRE_RELOAD": "false"}
    ) as other:
        project.write("words.py", 'WORD = "new"\n')
        await told(server, "Reloaded")
        async with open_async(other.url) as sdk:
            assert await said(sdk) == "old"
        assert "eloaded" not in other.log()


async def test_the_users_own_routes_are_loaded_anew_with_the_graphs(project, server):
    project.write("routes.py", ROUTES)
    project.configure({"agent": "./agent.py:graph"}, http={"app": "./routes.py:app"})
    await told(server, "lifespan of old begun")
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        assert (await http.get("/word")).json() == ["old", "old"]
        project.write("words.py", 'WORD = "new"\n')
        await told(server, "lifespan of old over")
        assert (await http.get("/word")).json() == ["new", "new"]
        project.write("routes.py", ROUTES.replace("yield", "raise RuntimeError('no database')\n    yield", 1))
        await told(server, r"Reload failed \(routes\.py\): RuntimeError: no database")
        assert (await http.get("/word")).json() == ["new", "new"]
        assert (await http.get("/ok")).json()["ok"] is True
        project.configure({"agent": "./agent.py:graph"})
        await told(server, "lifespan of new over")
        assert (await http.get("/word")).status_code == 404


ROUTES = """
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from words import WORD


@asynccontextmanager
async def lifespan(app):
    print(f"lifespan of {WORD} begun", flush=True)
    yield {"word": WORD}
    print(f"lifespan of {WORD} over", flush=True)


app = FastAPI(lifespan=lifespan)


@app.get("/word")
async def word(request: Request):
    return [WORD, request.state.word]
"""
