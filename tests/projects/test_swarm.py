"""A swarm: agents hand the conversation over to each other."""

from typing import Any

from dialogue import texts, user
from langgraph_sdk.client import SyncLangGraphClient

PROJECT = "swarm"


def test_a_thread_remembers_which_agent_has_the_conversation(client: SyncLangGraphClient, thread: str) -> None:
    state: Any = client.runs.wait(thread, "swarm", input=user("Hello"))
    assert (state.get("active_agent"), texts(state)[-1]) == (None, "Welcome. I am the greeter.")
    state = client.runs.wait(thread, "swarm", input=user("I need a flight"))
    assert (state["active_agent"], texts(state)[-1]) == ("flights", "Flights here. Which one?")
    state = client.runs.wait(thread, "swarm", input=user("Book it"))
    assert texts(state)[-2:] == ["booked LH1", "Done: booked LH1."]
    assert client.threads.get_state(thread)["values"]["active_agent"] == "flights"


def test_a_handover_is_streamed_from_the_agent_that_makes_it(client: SyncLangGraphClient, thread: str) -> None:
    spoken: list[tuple[str, str]] = []
    for part in client.runs.stream(
        thread, "swarm", input=user("I need a flight"), stream_mode="messages-tuple", stream_subgraphs=True
    ):
        if part.event.startswith("messages"):
            message, metadata = part.data
            if message["type"] == "AIMessageChunk" and message["content"]:
                spoken.append((metadata["langgraph_checkpoint_ns"].split(":")[0], message["content"]))
    assert {agent for agent, _ in spoken} == {"flights"}
    assert "".join(text for _, text in spoken) == "Flights here. Which one?"
