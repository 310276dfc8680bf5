"""RemoteGraph: as a graph of its own, as a node of a graph in the same process, and as a node of a served graph."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from dialogue import texts, user
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "remote"


def contents(state: Any) -> list[str]:
    return [message["content"] if isinstance(message, dict) else message.content for message in state["messages"]]


def test_a_remote_graph_can_be_invoked_streamed_and_inspected(client: SyncLangGraphClient, thread: str) -> None:
    remote = RemoteGraph("clerk", sync_client=client)
    config: Any = {"configurable": {"thread_id": thread}}
    assert contents(remote.invoke(user("Open the door"), config)) == ["Open the door", "Noted: Open the door"]
    parts: list[Any] = list(remote.stream(user("Close it"), config, stream_mode=["updates", "values"]))
    assert [part.event for part in parts] == ["values", "updates", "values"]
    assert contents(remote.get_state(config).values)[-1] == "Noted: Close it"
    assert len(list(remote.get_state_history(config))) == 6
    remote.update_state(config, {"messages": [{"role": "user", "content": "Thanks"}]}, as_node="decide")
    assert contents(remote.get_state(config).values)[-1] == "Thanks"


@pytest.mark.anyio
async def test_a_remote_node_interrupts_and_resumes_its_caller(url: str) -> None:
    """With the caller in this process. It sends keys of LangGraph's runtime when it resumes."""
    async with get_client(url=url) as client:
        remote = RemoteGraph("clerk", client=client)
        builder = StateGraph(MessagesState).add_node("clerk", remote).add_edge(START, "clerk")
        caller = builder.compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": str(uuid.uuid4())}}
        paused = await caller.ainvoke(user("Pay 5"), config)
        [pending] = paused["__interrupt__"]
        assert pending.value == {"question": "Pay 5?"}
        resumed = await caller.ainvoke(Command(resume={pending.id: "yes"}), config)
        assert contents(resumed) == ["Pay 5", "Pay 5: yes"]


@pytest.fixture(params=[("stock", "threadwire"), ("threadwire", "stock")], ids=" calls ".join)
def office(request: pytest.FixtureRequest, servers: dict[str, str]) -> Iterator[tuple[SyncLangGraphClient, Any]]:
    """A client of the office, and the configuration that tells the office where its clerk is."""
    offices_at, clerks_at = (servers[name] for name in request.param)
    client = get_sync_client(url=offices_at)
    yield client, {"configurable": {"clerks_at": clerks_at}}
    client.http.client.close()


def test_a_served_graph_calls_a_graph_of_another_server(office: tuple[SyncLangGraphClient, Any]) -> None:
    client, config = office
    thread = client.threads.create()["thread_id"]
    parts = list(
        client.runs.stream(
            thread,
            "office",
            input=user("Open the door"),
            config=config,
            stream_mode=["values", "updates"],
            stream_subgraphs=True,
        )
    )
    assert "error" not in [part.event for part in parts]
    assert texts(client.threads.get_state(thread)["values"]) == [
        "Open the door",
        "Noted: Open the door",
        "The office is closed.",
    ]


def test_an_interrupt_of_a_remote_node_is_answered_by_its_id(office: tuple[SyncLangGraphClient, Any]) -> None:
    client, config = office
    thread = client.threads.create()["thread_id"]
    paused: Any = client.runs.wait(thread, "office", input=user("Pay 5"), config=config)
    [pending] = paused["__interrupt__"]
    assert pending["value"] == {"question": "Pay 5?"}
    ended = client.runs.wait(thread, "office", command={"resume": {pending["id"]: "yes"}}, config=config)
    assert texts(ended)[-2:] == ["Pay 5: yes", "The office is closed."]
