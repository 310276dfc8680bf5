"""`threadwire dev` reloads its project while it is being edited."""

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
    word: str


async def say(state: State) -> State:
    get_stream_writer()("started")
    while state.get("until") and not Path(state["until"]).exists():
        await asyncio.sleep(0.01)
    return {"word": WORD}


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


async def wait_for_log(server, pattern):
    """Wait for this line only, so that no test depends by accident on what follows it."""
    return await anyio.to_thread.run_sync(server.wait_for_log, pattern)


async def run_agent(sdk, agent="agent"):
    return (await sdk.runs.wait(await sdk.thread(), agent, input={}))["word"]


async def test_a_changed_module_is_reloaded_while_idle(project, server, sdk):
    assert await run_agent(sdk) == "old"
    project.write("words.py", 'WORD = "new"\n')
    await wait_for_log(server, r"Reloaded \(words\.py\) in \d+\.\d\d s")
    assert await run_agent(sdk) == "new"
    assert "Traceback" not in server.log()


async def test_two_edits_of_the_same_size_within_a_second_are_both_loaded(project, server, sdk):
    for word in ("one", "two", "six"):
        project.write("words.py", f'WORD = "{word}"\n')

        async def loaded(word=word):
            return await run_agent(sdk) == word

        await eventually(loaded)


async def test_a_running_run_ends_with_the_code_it_started_with_and_its_stream_stays_open(project, server, sdk, gate):
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
            if line == 'data: "started"':
                project.write("words.py", 'WORD = "new"\n')
                await wait_for_log(server, "Reloaded")
                assert await run_agent(sdk) == "new"
                gate.touch()
    data = [json.loads(line.removeprefix("data: ")) for line in seen if line.startswith("data: ")]
    assert data[-1]["word"] == "old"
    assert data[0]["attempt"] == 1
    assert [each for each in data if "attempt" in each] == data[:1]
    assert (await sdk.threads.get_state(thread_id))["values"]["word"] == "old"


@pytest.mark.parametrize(
    ("file", "broken", "error"),
    [
        ("words.py", 'WORD = "bro', r"SyntaxError: .*\(words\.py:1\)"),
        ("agent.py", "raise RuntimeError('not today')", r"RuntimeError: not today \(agent\.py:1\)"),
        ("agent.py", "graph = 3", r"\./agent\.py:graph is an object of type int"),
        ("langgraph.json", "{", "invalid JSON at line 1"),
        ("langgraph.json", '{"graphs": {}}', '"graphs" is empty'),
        ("langgraph.json", '{"graphs": {"agent": "./agent.py:graph"}, "auth": {"path": "./a.py:a"}}', '"auth"."path"'),
    ],
)
async def test_a_broken_edit_keeps_the_previous_code_until_the_next_good_one(project, server, sdk, file, broken, error):
    good = (project.folder / file).read_text()
    project.write(file, broken)
    await wait_for_log(server, rf"Reload failed \({file}\): .*{error}")
    assert await run_agent(sdk) == "old"
    project.write("words.py", 'WORD = "new"\n')
    if file != "words.py":
        project.write(file, good)
    await wait_for_log(server, r"\nReloaded")
    assert await run_agent(sdk) == "new"
    assert "Traceback" not in server.log()


async def test_a_graph_added_to_the_config_has_an_assistant_and_a_removed_one_is_reported(project, server, sdk):
    thread_id = await sdk.thread()
    await sdk.runs.wait(thread_id, "agent", input={})
    assistants = await sdk.assistants.search()
    project.write("deeper/other.py", AGENT.replace("WORD}", "WORD.upper()}"))
    project.configure({"other": "./deeper/other.py:graph"})
    await wait_for_log(server, r"graph +other\n")
    await wait_for_log(server, r"graph removed +agent: its threads remain")
    assert await run_agent(sdk, "other") == "OLD"
    names = {each["name"] for each in await sdk.assistants.search()}
    assert names == {"agent", "other"}
    with pytest.raises(httpx.HTTPStatusError) as caught:
        await sdk.runs.wait(thread_id, "agent", input={})
    assert "One of the registered graphs: other" in caught.value.response.json()["detail"]
    ended = await sdk.runs.wait(thread_id, assistants[0]["assistant_id"], input={}, raise_error=False)
    assert ended["__error__"]["message"] == "Graph 'agent' does not exist. Available graphs: other."
    assert (await sdk.threads.get(thread_id))["values"] == {"word": "old"}
    assert "Traceback" not in server.log()


async def test_a_new_broken_graph_does_not_affect_the_others(project, server, sdk):
    project.write("words.py", 'WORD = "new"\n')
    project.configure({"agent": "./agent.py:graph", "bad": "./bad.py:graph"})
    await wait_for_log(server, r"graph +bad: file not found: \./bad\.py")
    assert await run_agent(sdk) == "new"
    project.write("bad.py", AGENT)
    await wait_for_log(server, r"Reloaded \(bad\.py\)")
    assert await run_agent(sdk, "bad") == "new"


async def test_a_new_error_in_the_config_keeps_the_previous_one(project, server, sdk):
    project.configure({"agent": "./agent.py:graph"}, env={"WORD": None})
    await wait_for_log(
        server, r'Reload failed \(langgraph\.json\): langgraph\.json: "env"\."WORD" must be a string, not null'
    )
    project.configure({"agent": "./agent.py"})
    await wait_for_log(server, r"Reload failed \(langgraph\.json\): graph agent: .* does not name an object")
    assert await run_agent(sdk) == "old"


async def test_a_folder_of_a_rejected_config_is_watched_too(project, server, sdk, tmp_path):
    """The new config is not in effect, but the error will be fixed in the folders that it names."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "common.py").write_text("raise RuntimeError('not yet')")
    project.write("agent.py", AGENT.replace("from words import WORD", "from common import WORD"))
    project.write(
        "langgraph.json", json.dumps({"dependencies": [".", "../shared"], "graphs": {"agent": "./agent.py:graph"}})
    )
    await wait_for_log(server, "Reload failed .* not yet")
    assert await run_agent(sdk) == "old"
    (shared / "common.py").write_text('WORD = "shared"\n')
    await wait_for_log(server, r"\nReloaded")
    assert await run_agent(sdk) == "shared"


async def test_environment_variables_of_the_config_are_reloaded(project, server, sdk):
    project.write("words.py", 'import os\nWORD = os.environ.get("SPOKEN", "nothing")\n')
    await wait_for_log(server, r"Reloaded \(words\.py\)")
    assert await run_agent(sdk) == "nothing"
    project.write(".env", "SPOKEN=from a file\n")
    project.configure({"agent": "./agent.py:graph"}, env=".env")
    await wait_for_log(server, r"Reloaded \(.*langgraph\.json\)")
    assert await run_agent(sdk) == "from a file"
    project.write(".env", "SPOKEN=another\n")
    await wait_for_log(server, r"Reloaded \(\.env\)")
    assert await run_agent(sdk) == "another"


async def test_other_files_do_not_trigger_a_reload(project, server, sdk):
    """Nor do files of a virtual environment inside the project."""
    project.write("notes.md", "a note")
    project.write("venv/pyvenv.cfg", "home = somewhere")
    project.write("venv/words.py", "raise RuntimeError")
    project.write("node_modules/words.py", "raise RuntimeError")
    project.write(".hidden/words.py", "raise RuntimeError")
    project.write("words.py", 'WORD = "new"\n')
    await wait_for_log(server, r"Reloaded \(words\.py\)")
    assert server.log().count("Reloaded") == 1


async def test_without_reload_nothing_is_watched(project, server, tmp_path):
    """The watching server shows when the other one would have noticed."""
    with running_server(
        project.folder / "langgraph.json", tmp_path / "other", command="dev", env={"THREADWIRE_RELOAD": "false"}
    ) as other:
        project.write("words.py", 'WORD = "new"\n')
        await wait_for_log(server, "Reloaded")
        async with open_async(other.url) as sdk:
            assert await run_agent(sdk) == "old"
        assert "eloaded" not in other.log()


async def test_custom_routes_are_reloaded_with_the_graphs(project, server):
    project.write("routes.py", ROUTES)
    project.configure({"agent": "./agent.py:graph"}, http={"app": "./routes.py:app"})
    await wait_for_log(server, "lifespan of old started")
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        assert (await http.get("/word")).json() == ["old", "old"]
        project.write("words.py", 'WORD = "new"\n')
        await wait_for_log(server, "lifespan of old ended")
        assert (await http.get("/word")).json() == ["new", "new"]
        project.write("routes.py", ROUTES.replace("yield", "raise RuntimeError('no database')\n    yield", 1))
        await wait_for_log(server, r"Reload failed \(routes\.py\): RuntimeError: no database")
        assert (await http.get("/word")).json() == ["new", "new"]
        assert (await http.get("/ok")).json()["ok"] is True
        project.configure({"agent": "./agent.py:graph"})
        await wait_for_log(server, "lifespan of new ended")
        assert (await http.get("/word")).status_code == 404


ROUTES = """
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from words import WORD


@asynccontextmanager
async def lifespan(app):
    print(f"lifespan of {WORD} started", flush=True)
    yield {"word": WORD}
    print(f"lifespan of {WORD} ended", flush=True)


app = FastAPI(lifespan=lifespan)


@app.get("/word")
async def word(request: Request):
    return [WORD, request.state.word]
"""


async def test_the_default_agent_follows_the_project_file(project, server):
    async with httpx.AsyncClient(base_url=f"{server.url}/copilotkit", timeout=30) as http:
        project.configure({"renamed": "./agent.py:graph"})
        await wait_for_log(server, r"graph removed +agent")
        assert set((await http.get("/info")).json()["agents"]) >= {"default", "renamed"}


async def test_a_project_that_a_setting_no_longer_fits_is_not_loaded(project, tmp_path):
    env = {"THREADWIRE_DEFAULT_AGENT": "agent"}
    config = project.folder / "langgraph.json"
    with running_server(config, tmp_path / "data", command="dev", env=env) as server:
        project.configure({"renamed": "./agent.py:graph"})
        await wait_for_log(server, r"Reload failed \(langgraph\.json\): Invalid value for default_agent: 'agent'")
        async with open_async(server.url) as sdk:
            assert await run_agent(sdk) == "old"
