"""CopilotKit's runtime over HTTP: what it says it offers, and every way in which it refuses."""

from pathlib import Path

import httpx
import pytest
from agui import AgUi
from clients import Sdk
from pages import COPILOTKIT, CopilotKitPage, MakePage, hello

from threadwire.core.ids import assistant_id_of
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

# -- info --------------------------------------------------------------------------------------------------------------


async def test_the_runtime_says_what_it_offers(http: httpx.AsyncClient) -> None:
    info = (await http.get(f"{COPILOTKIT}/info")).json()
    agents = info.pop("agents")

    assert info == {
        "version": "1.75.0",
        "audioFileTranscriptionEnabled": False,
        "mode": "sse",
        "threadEndpoints": {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False},
        "singleRoute": {
            "resourceOperations": True,
            "threadEndpoints": {"list": True, "inspect": True, "mutations": True, "realtimeMetadata": False},
        },
        "suggestions": True,
        "a2uiEnabled": False,
        "openGenerativeUIEnabled": False,
        "telemetryDisabled": True,
    }
    assert list(agents)[:3] == ["default", "echo", "chat"]
    assert (agents["chat"]["name"], agents["chat"]["className"]) == ("chat", "LangGraphAgent")
    assert agents["default"]["description"] == "Says what it was told."
    assert agents["chat"]["capabilities"]["transport"]["resumable"] is True


async def test_an_assistant_of_ones_own_is_an_agent_too(
    sdk: Sdk, http: httpx.AsyncClient, copilotkit: MakePage
) -> None:
    made = await sdk.assistants.create("chat", name="mine", description="My own.")
    agent = (await http.get(f"{COPILOTKIT}/info")).json()["agents"][made["assistant_id"]]
    here = copilotkit(made["assistant_id"])
    await here.say("hello")

    assert agent["description"] == "My own."
    assert here.texts[-1] == ("assistant", "You said: hello")


async def test_the_first_graph_is_the_default_agent(copilotkit: MakePage) -> None:
    here = copilotkit("default")
    await here.run(state={"text": "hello"})
    assert here.state == {"text": "hello", "echoed": "hello"}


@pytest.mark.parametrize("name", ["chat", assistant_id_of("chat")])
async def test_another_default_agent_can_be_set(project: Path, tmp_path: Path, agui: AgUi, name: str) -> None:
    env = {"THREADWIRE_DEFAULT_AGENT": name, "THREADWIRE_STORAGE": "memory"}
    with running_server(project, tmp_path / "data", env=env) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            here = CopilotKitPage(http, agui, "default")
            await here.say("hello")
    assert here.texts[-1] == ("assistant", "You said: hello")


def test_a_default_agent_that_does_not_exist_is_refused_at_start(project: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(TimeoutError, match="Invalid value for default_agent: 'nope'"),
        running_server(project, tmp_path / "data", env={"THREADWIRE_DEFAULT_AGENT": "nope"}),
    ):
        pass


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["run", "connect", "suggest", "stop/x"])
async def test_an_unknown_agent_is_not_found(http: httpx.AsyncClient, operation: str) -> None:
    body = {} if operation == "stop/x" else hello()
    refused = await http.post(f"{COPILOTKIT}/agent/no%20such/{operation}", json=body)
    assert refused.status_code == 404
    assert refused.json() == {"error": "Agent not found", "message": "Agent 'no such' does not exist"}


@pytest.mark.parametrize("operation", ["run", "connect", "suggest"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"runId": "x"}', b'{"threadId": 1, "runId": "x"}'])
async def test_a_body_that_is_not_understood_is_refused(http: httpx.AsyncClient, operation: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    refused = await http.post(f"{COPILOTKIT}/agent/chat/{operation}", content=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]) == (400, "Invalid request body")
    assert refused.json()["details"]


async def test_a_message_that_makes_no_sense_is_refused(http: httpx.AsyncClient) -> None:
    refused = await http.post(f"{COPILOTKIT}/agent/chat/run", json=hello(messages=[{"role": "user"}]))
    assert (refused.status_code, refused.json()["error"]) == (400, "Invalid request body")


@pytest.mark.parametrize(
    ("path", "verb", "allowed"),
    [
        ("", "GET", "POST"),
        ("/", "PUT", "POST"),
        ("", "PROPFIND", "POST"),
        ("/info", "POST", "GET"),
        ("/agent/chat/run", "GET", "POST"),
        ("/agent/chat/connect/", "GET", "POST"),
        ("/agent/chat/stop/x", "DELETE", "POST"),
        ("/threads", "POST", "GET"),
        ("/threads/x", "GET", "DELETE, PATCH"),
        ("/threads/a%0Ab", "TRACE", "DELETE, PATCH"),
        ("/threads/", "PATCH", "GET"),
        ("/threads/x/archive", "GET", "DELETE, PATCH, POST"),
    ],
)
async def test_another_verb_is_refused_with_those_that_are_allowed(
    http: httpx.AsyncClient, path: str, verb: str, allowed: str
) -> None:
    refused = await http.request(verb, COPILOTKIT + path)
    assert (refused.status_code, refused.json()) == (405, {"error": "Method not allowed"})
    assert refused.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/nothing", "/a%0Ab", "/agent/chat", "/memories", "/annotate", "/inspector-metadata"])
@pytest.mark.parametrize("verb", ["GET", "POST", "PROPFIND"])
async def test_what_there_is_not_is_not_found(http: httpx.AsyncClient, path: str, verb: str) -> None:
    refused = await http.request(verb, COPILOTKIT + path)
    assert (refused.status_code, refused.json()) == (404, {"error": "Not found"})


@pytest.mark.parametrize("path", ["/info/", "//info", "/threads/", "/agent/chat/stop/x/"])
async def test_slashes_too_many_do_no_harm(http: httpx.AsyncClient, path: str) -> None:
    verb = "POST" if "stop" in path else "GET"
    assert (await http.request(verb, COPILOTKIT + path)).status_code == 200
