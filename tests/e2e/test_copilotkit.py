"""CopilotKit's runtime over HTTP: what it offers, and every way in which it rejects a request."""

from itertools import product
from pathlib import Path

import httpx
import pytest
from agui_checker import AgUiChecker
from clients import Sdk
from pages import COPILOTKIT, CopilotKitPage, OpenCopilotKitPage, hello

from threadwire.core.ids import assistant_id_of
from threadwire.testing.server import running_server

pytestmark = pytest.mark.anyio

# -- info --------------------------------------------------------------------------------------------------------------


async def test_the_runtime_describes_its_features(http: httpx.AsyncClient) -> None:
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
    assert agents["default"]["description"] == "Echoes its input."
    assert agents["chat"]["capabilities"]["transport"]["resumable"] is True


async def test_a_user_created_assistant_is_an_agent_too(
    sdk: Sdk, http: httpx.AsyncClient, copilotkit: OpenCopilotKitPage
) -> None:
    created = await sdk.assistants.create("chat", name="mine", description="My own.")
    agent = (await http.get(f"{COPILOTKIT}/info")).json()["agents"][created["assistant_id"]]
    here = copilotkit(created["assistant_id"])
    await here.send("hello")

    assert agent["description"] == "My own."
    assert here.texts[-1] == ("assistant", "You said: hello")


async def test_the_first_graph_is_the_default_agent(copilotkit: OpenCopilotKitPage) -> None:
    here = copilotkit("default")
    await here.run(state={"text": "hello"})
    assert here.state == {"text": "hello", "echoed": "hello"}


@pytest.mark.parametrize("name", ["chat", assistant_id_of("chat")])
async def test_another_default_agent_can_be_set(project: Path, tmp_path: Path, agui: AgUiChecker, name: str) -> None:
    env = {"THREADWIRE_DEFAULT_AGENT": name, "THREADWIRE_STORAGE": "memory"}
    with running_server(project, tmp_path / "data", env=env) as server:
        async with httpx.AsyncClient(base_url=server.url) as http:
            here = CopilotKitPage(http, agui, "default")
            await here.send("hello")
    assert here.texts[-1] == ("assistant", "You said: hello")


def test_an_unknown_default_agent_is_rejected_at_startup(project: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(TimeoutError, match="Invalid value for default_agent: 'nope'"),
        running_server(project, tmp_path / "data", env={"THREADWIRE_DEFAULT_AGENT": "nope"}),
    ):
        pass


# -- rejections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["run", "connect", "suggest", "stop/x"])
async def test_an_unknown_agent_is_not_found(http: httpx.AsyncClient, operation: str) -> None:
    body = {} if operation == "stop/x" else hello()
    response = await http.post(f"{COPILOTKIT}/agent/no%20such/{operation}", json=body)
    assert response.status_code == 404
    assert response.json() == {"error": "Agent not found", "message": "Agent 'no such' does not exist"}


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        *product(["run", "connect", "suggest"], [b"", b"{", b"[]", b'{"threadId": 1, "runId": "x"}']),
        *product(["run", "suggest"], [b'{"runId": "x"}']),
    ],
)
async def test_an_invalid_body_is_rejected(http: httpx.AsyncClient, operation: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    response = await http.post(f"{COPILOTKIT}/agent/chat/{operation}", content=body, headers=headers)
    assert (response.status_code, response.json()["error"]) == (400, "Invalid request body")
    assert response.json()["details"]


async def test_an_invalid_message_is_rejected(http: httpx.AsyncClient) -> None:
    response = await http.post(f"{COPILOTKIT}/agent/chat/run", json=hello(messages=[{"role": "user"}]))
    assert (response.status_code, response.json()["error"]) == (400, "Invalid request body")


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
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
async def test_another_method_is_rejected_with_the_allowed_ones(
    http: httpx.AsyncClient, path: str, method: str, allowed: str
) -> None:
    response = await http.request(method, COPILOTKIT + path)
    assert (response.status_code, response.json()) == (405, {"error": "Method not allowed"})
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/nothing", "/a%0Ab", "/agent/chat", "/memories", "/annotate", "/inspector-metadata"])
@pytest.mark.parametrize("method", ["GET", "POST", "PROPFIND"])
async def test_an_unknown_path_is_not_found(http: httpx.AsyncClient, path: str, method: str) -> None:
    response = await http.request(method, COPILOTKIT + path)
    assert (response.status_code, response.json()) == (404, {"error": "Not found"})


@pytest.mark.parametrize("path", ["/info/", "//info", "/threads/", "/agent/chat/stop/x/"])
async def test_extra_slashes_are_ignored(http: httpx.AsyncClient, path: str) -> None:
    method = "POST" if "stop" in path else "GET"
    assert (await http.request(method, COPILOTKIT + path)).status_code == 200
