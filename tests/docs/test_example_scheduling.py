import json
from pathlib import Path
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from threadwire.graphs.config import load_config, prepare_environment
from threadwire.graphs.registry import load_registry

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
async def graph(monkeypatch):
    # The tests need the script, even on a machine with an API key.
    monkeypatch.setenv("THREADWIRE_EXAMPLE_MODEL", "scripted")
    monkeypatch.setenv("THREADWIRE_EXAMPLE_DELAY", "0")
    config = load_config(EXAMPLES / "langgraph.json")
    prepare_environment(config)
    async with load_registry(config).open("scheduling", {}) as graph:
        yield graph.copy(update={"checkpointer": InMemorySaver()})


class Thread:
    def __init__(self, graph):
        self.graph = graph
        self.config = {"configurable": {"thread_id": str(uuid4())}}

    async def ask(self, text: str) -> str:
        state = await self.graph.ainvoke({"messages": [{"role": "user", "content": text}]}, self.config)
        return state["messages"][-1].text

    async def assignments(self) -> dict[str, str]:
        return (await self.graph.aget_state(self.config)).values.get("assignments", {})

    async def last_tool_message(self) -> ToolMessage:
        messages = (await self.graph.aget_state(self.config)).values["messages"]
        return next(message for message in reversed(messages) if isinstance(message, ToolMessage))


async def test_the_overview_lists_every_workload(graph):
    thread = Thread(graph)
    answer = await thread.ask("Show schedule overview")
    assert "- **Alice**: 8.0h/12.0 (66.7%)" in answer
    result = json.loads((await thread.last_tool_message()).text)
    assert result["message"] == "Schedule overview retrieved"
    assert result["teachers"]["t_alice"] == {
        "name": "Alice",
        "current_load": 8.0,
        "max_load": 12.0,
        "utilization": "66.7%",
    }
    assert result["sections"]["s_algebra"]["teacher"] == "t_alice"


async def test_the_load_distribution_names_the_highest_and_lowest_load(graph):
    answer = await Thread(graph).ask("Show load distribution")
    assert "- **Dan**: 2.0h/6.0 (33.3%)" in answer
    assert "Alice has most, Dan least." in answer


async def test_conflicts_and_gaps_are_found(graph):
    answer = await Thread(graph).ask("Find conflicts")
    assert "- **Bob**, Mon 09:00: Biology and History" in answer
    assert "- **Nobody** teaches Ethics, Geometry" in answer


async def test_an_assignment_changes_only_its_own_thread(graph):
    thread, other = Thread(graph), Thread(graph)
    assert "- **Bob**: 10.0h/10.0 (100.0%)" in await thread.ask("Assign s_geometry to t_bob")
    assert await thread.assignments() == {"s_geometry": "t_bob"}
    assert "- **Bob**: 10.0h/10.0 (100.0%)" in await thread.ask("Show schedule overview")
    assert "- **Bob**: 6.0h/10.0 (60.0%)" in await other.ask("Show schedule overview")
    assert await other.assignments() == {}


async def test_a_section_can_move_from_one_teacher_to_another(graph):
    thread = Thread(graph)
    await thread.ask("Move history to Dan")
    answer = await thread.ask("Find conflicts")
    assert answer.startswith("Conflicts: 0, unassigned sections: 2.")


async def test_an_unknown_section_is_rejected(graph):
    thread = Thread(graph)
    assert (await thread.ask("Assign s_magic to t_bob")).startswith("There is no section s_magic.")
    assert (await thread.last_tool_message()).status == "error"
    assert await thread.assignments() == {}


async def test_an_unknown_teacher_is_rejected(graph):
    assert (await Thread(graph).ask("Assign s_ethics to t_zoe")).startswith("There is no teacher t_zoe.")


async def test_an_overload_is_rejected(graph):
    thread = Thread(graph)
    answer = await thread.ask("Assign s_french to t_dan")
    assert answer == "French would bring Dan to 7.0h, over the maximum of 6.0h. Nothing was changed."
    assert await thread.assignments() == {}


async def test_two_assignments_in_one_turn_cannot_overload_a_teacher_together(graph):
    thread = Thread(graph)
    answer = await thread.ask("Assign s_geometry to t_dan and assign s_ethics to t_dan")
    assert "Geometry is assigned to Dan." in answer
    assert "Ethics would bring Dan to 9.0h" in answer
    assert await thread.assignments() == {"s_geometry": "t_dan"}


async def test_any_other_message_is_answered_with_help(graph):
    assert "- **show schedule overview**" in await Thread(graph).ask("Hello!")


def called(name: str, args: dict) -> dict:
    call = {"name": name, "args": args, "id": "call_1", "type": "tool_call"}
    return {"messages": [("user", "hi"), AIMessage("", tool_calls=[call])]}


@pytest.mark.parametrize(("name", "args"), [("no_such_tool", {}), ("assign_section", {"section_id": "s_ethics"})])
async def test_an_invalid_tool_call_of_a_real_model_does_not_fail_the_run(graph, name, args):
    """Calls only the tools node, with a message that the script would never produce."""
    update = await graph.nodes["tools"].bound.ainvoke(called(name, args))
    assert [message.status for message in update["messages"]] == ["error"]
    assert update["messages"][0].tool_call_id == "call_1"


async def test_text_and_tool_calls_are_streamed(graph):
    question = {"messages": [{"role": "user", "content": "Assign s_geometry to t_bob"}]}
    config = {"configurable": {"thread_id": str(uuid4())}}
    parts = [part async for part, _ in graph.astream(question, config, stream_mode="messages")]
    chunks = [part for part in parts if isinstance(part, AIMessageChunk)]
    assert sum(bool(chunk.tool_call_chunks) for chunk in chunks) > 3
    assert sum(bool(chunk.text) for chunk in chunks) > 10
