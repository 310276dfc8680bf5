"""An agent whose tool calls a person has to approve, with LangChain's own middleware."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.tools import tool

from threadwire.testing.scripted import ScriptedChatModel


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool
def look_up(name: str) -> str:
    """Look up an account. Needs no approval."""
    return f"account of {name}"


def reply(conversation: list[BaseMessage]) -> AIMessage:
    last = conversation[-1]
    if isinstance(last, ToolMessage):
        return AIMessage(f"Result: {last.content}")
    calls = [
        ToolCall(name="look_up", args={"name": "Ada"}, id="call-look", type="tool_call"),
        ToolCall(name="pay", args={"amount": 100}, id="call-pay", type="tool_call"),
    ]
    return AIMessage("I will pay.", id=f"ai-{len(conversation)}", tool_calls=calls)


graph = create_agent(
    ScriptedChatModel(reply=reply),
    [pay, look_up],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True, "look_up": False})],
)
