"""The graph input or command that results from a client's request.

A client sends its whole conversation and its whole state every time. New messages are found by the ids of messages and
calls, never by counting: a second device may be behind, and must not undo what it has not seen.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import loads_exactly
from threadwire.core.message_content import conversation_of
from threadwire.core.records import Thread
from threadwire.errors import UnknownInterrupt
from threadwire.protocols.ag_ui.decode import ResumeEntry, RunInput
from threadwire.protocols.ag_ui.messages import Message, stopped_result, to_langchain, user_content
from threadwire.protocols.ag_ui.state import shown_state

CANCELLED = "__agui_cancelled__"
"""The answer that a node receives to an interrupt the user dismissed: `{CANCELLED: true, "interrupt_id": …}`."""

_SERVER_PROPERTIES = frozenset({"command", "rawEvents", "streamSubgraphs", "stream_subgraphs"})


@dataclass(frozen=True, slots=True)
class RunPlan:
    input: Json = None
    command: Json = None
    before: str | None = None
    """The run starts before this message, which was edited or is to be answered again."""
    out_of_order: frozenset[str] = frozenset()
    """The client's new messages, if it has not seen everything before them."""


def plan_run(run_input: RunInput, thread: Thread | None, accepted: frozenset[str] | None) -> RunPlan:
    """`accepted` are the input keys of the graph; None if they are unknown, in which case no key is filtered out."""
    fresh = _fresh_messages(run_input.messages, thread)
    if (answer := _answer(run_input, thread)) is not None:
        added = [each for each in fresh.messages if each["type"] != "tool"]
        return RunPlan(command={"resume": answer, **({"update": {"messages": added}} if added else {})})
    changed = _changed_state(run_input.state, thread, accepted)
    if not changed and not fresh.messages and thread is not None and thread.status == "interrupted":
        return RunPlan()  # nothing new: continue where the graph paused
    graph_input = changed | _client_extras(run_input, accepted)
    stopped = _stopped_results(run_input, thread, fresh)
    if stopped or fresh.messages:
        graph_input["messages"] = stopped + fresh.messages
    return RunPlan(
        input=graph_input or {"messages": []},
        before=fresh.before,
        out_of_order=_ids(fresh) if stopped else _out_of_order(run_input, thread, fresh),
    )


# -- answers ---------------------------------------------------------------------------------------------------------


def _answer(run_input: RunInput, thread: Thread | None) -> Json | None:
    if run_input.resume:
        waiting = {str(each["id"]) for of_task in (thread.interrupts if thread else {}).values() for each in of_task}
        return {entry.interrupt_id: _payload(entry, waiting) for entry in run_input.resume}
    command = run_input.forwarded.get("command")
    return _parsed(command.get("resume")) if isinstance(command, dict) else None


def _parsed(answer: Json) -> Json:
    """Older hooks send strings unchanged and other values as JSON text; graphs expect the value itself."""
    if not isinstance(answer, str):
        return answer
    try:
        return loads_exactly(answer)
    except ValueError:
        return answer


def _payload(entry: ResumeEntry, waiting: set[str]) -> Json:
    if entry.interrupt_id not in waiting:
        raise UnknownInterrupt(f"No interrupt {entry.interrupt_id[:100]!r} is waiting for an answer")
    if entry.status == "cancelled":
        return {CANCELLED: True, "interrupt_id": entry.interrupt_id}
    return entry.payload


# -- messages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fresh:
    messages: list[Json]
    before: str | None = None


def _fresh_messages(messages: list[Message], thread: Thread | None) -> _Fresh:
    held = conversation_of(thread.values) if thread is not None else []
    known = {str(each.get("id")): each for each in held}
    answered = {each.get("tool_call_id") for each in held if each.get("type") == "tool"}
    sent = [each for each in messages if each["role"] not in ("activity", "reasoning")]
    for at, message in enumerate(sent):
        if _is_edited(message, known):
            return _Fresh(list(_new(sent[at:], {}, answered)), before=message["id"])
    fresh = list(_new(_without_instructions(sent), known, answered))
    if not fresh and sent and sent[-1]["role"] == "user" and held and held[-1].get("id") != sent[-1]["id"]:
        return _Fresh(list(_new(sent[-1:], {}, answered)), before=sent[-1]["id"])
    return _Fresh(fresh)


def _out_of_order(run_input: RunInput, thread: Thread | None, fresh: _Fresh) -> frozenset[str]:
    held = conversation_of(thread.values) if thread is not None else []
    seen = {message["id"] for message in run_input.messages}
    if fresh.before is not None or all(each.get("id") in seen for each in held):
        return frozenset()
    return _ids(fresh)


def _ids(fresh: _Fresh) -> frozenset[str]:
    return frozenset(each["id"] for each in fresh.messages)


def _is_edited(message: Message, known: dict[str, Json]) -> bool:
    held = known.get(message["id"])
    if held is None or message["role"] != "user" or held.get("type") != "human":
        return False
    return bool(user_content(held.get("content")) != message.get("content"))


def _without_instructions(messages: list[Message]) -> list[Message]:
    """Clients put their own instructions first in every request; a graph has its own."""
    return messages[1:] if messages and messages[0]["role"] in ("system", "developer") else messages


def _new(messages: Iterable[Message], known: dict[str, Json], answered: set[Json]) -> Iterable[Json]:
    for message in messages:
        if message["id"] in known or (message["role"] == "tool" and message.get("toolCallId") in answered):
            continue
        if (converted := to_langchain(message)) is not None:
            yield converted


def _stopped_results(run_input: RunInput, thread: Thread | None, fresh: _Fresh) -> list[Json]:
    """Results for the tool calls that a run left open when it was stopped or failed, because models reject a
    conversation with a call that has no result. Calls to the client's own tools are left to the client."""
    if thread is None or fresh.before is not None:
        return []
    held = conversation_of(thread.values)
    answered = {each.get("tool_call_id") for each in (*held, *fresh.messages) if each.get("type") == "tool"}
    last: Json = next((each for each in reversed(held) if each.get("type") != "tool"), {})
    client_tools = _names(run_input.tools) | _names(_at(thread.values, "copilotkit", "actions"))
    return [
        converted
        for call in last.get("tool_calls") or ()
        if call.get("id") and call["id"] not in answered and call.get("name") not in client_tools
        if (converted := to_langchain(stopped_result(call["id"]))) is not None
    ]


def _names(tools: Json) -> set[str]:
    listed = tools if isinstance(tools, list) else ()
    return {str(tool.get("name")) for tool in listed if isinstance(tool, dict)}


def _at(values: Json, *path: str) -> Json:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


# -- state -----------------------------------------------------------------------------------------------------------


def _changed_state(state: Json, thread: Thread | None, accepted: frozenset[str] | None) -> dict[str, Json]:
    """The keys in which the client's state differs from the thread's, as far as the graph accepts them."""
    shown = shown_state(state)
    if not isinstance(shown, dict):
        return {}
    held = thread.values if thread is not None and isinstance(thread.values, dict) else {}
    return {
        key: value
        for key, value in shown.items()
        if (key not in held or held[key] != value) and (accepted is None or key in accepted)
    }


def _client_extras(run_input: RunInput, accepted: frozenset[str] | None) -> dict[str, Json]:
    """The client's own tools, context and properties, for graphs whose input has keys for them."""
    tools, context = run_input.tools or [], run_input.context or []
    offered: dict[str, Any] = {
        **{key: value for key, value in run_input.forwarded.items() if key not in _SERVER_PROPERTIES},
        "tools": tools,
        "ag-ui": {"tools": tools, "context": context},
        "copilotkit": {"actions": tools, "context": context},
    }
    return {key: value for key, value in offered.items() if accepted is not None and key in accepted}
