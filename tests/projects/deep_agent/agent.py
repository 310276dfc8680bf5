"""An agent in the shape of `deepagents`, which cannot be installed next to our versions of its dependencies: a plan,
files in the state, and subagents that a tool runs with a context of their own."""

from typing import Annotated, Any, NotRequired

from langchain.agents import create_agent
from langchain.agents.middleware import AgentState, TodoListMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

from threadwire.testing.scripted import ScriptedChatModel


def merge_files(before: dict[str, str] | None, more: dict[str, str]) -> dict[str, str]:
    return {**(before or {}), **more}


class DeepState(AgentState[Any]):
    files: NotRequired[Annotated[dict[str, str], merge_files]]


@tool
def write_file(path: str, text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write a file."""
    return Command(update={"files": {path: text}, "messages": [ToolMessage(f"wrote {path}", tool_call_id=call_id)]})


@tool
def read_file(path: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Read a file."""
    return str((state.get("files") or {}).get(path, "not found"))


def call(name: str, **args: object) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=args, id=f"call-{name}", type="tool_call")])


def research(conversation: list[BaseMessage]) -> AIMessage:
    if isinstance(conversation[-1], HumanMessage):
        return call("write_file", path="notes.md", text="Tea has 2 grams.")
    return AIMessage("I wrote notes.md.")


researcher = create_agent(ScriptedChatModel(reply=research), [write_file], state_schema=DeepState, name="researcher")


@tool
async def task(description: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Have a subagent do a task. It sees only the description."""
    result = await researcher.ainvoke({"messages": [HumanMessage(description)]})
    report = ToolMessage(result["messages"][-1].content, tool_call_id=call_id)
    return Command(update={"files": result.get("files", {}), "messages": [report]})


STEPS = [
    call(
        "write_todos",
        todos=[{"content": "Research", "status": "in_progress"}, {"content": "Report", "status": "pending"}],
    ),
    call("task", description="Research tea"),
    call("read_file", path="notes.md"),
    call(
        "write_todos",
        todos=[{"content": "Research", "status": "completed"}, {"content": "Report", "status": "completed"}],
    ),
]


def plan(conversation: list[BaseMessage]) -> AIMessage:
    done = sum(isinstance(each, ToolMessage) for each in conversation)
    return STEPS[done].model_copy(deep=True) if done < len(STEPS) else AIMessage("Report: Tea has 2 grams.")


graph = create_agent(
    ScriptedChatModel(reply=plan),
    [task, read_file, write_file],
    middleware=[TodoListMiddleware()],
    state_schema=DeepState,
    name="deep",
)
