"""What a page means by what it sends.

A page sends its whole conversation and its whole state every time. What is new in it is found by the ids of messages
and calls, never by counting: a second device may be behind, and must not undo what it has not seen.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from threadwire.core.entries import Json
from threadwire.core.json import loads
from threadwire.core.records import Thread
from threadwire.errors import UnknownInterrupt
from threadwire.protocols.ag_ui.decode import ResumeEntry, RunInput
from threadwire.protocols.ag_ui.messages import Message, stopped_answer, to_langchain, user_content
from threadwire.protocols.ag_ui.state import conversation_of, shown_state

CANCELLED = "__agui_cancelled__"
"""What a node gets for an interrupt that was dismissed: `{CANCELLED: true, "interrupt_id": …}`."""

_OURS = frozenset({"command", "rawEvents", "streamSubgraphs", "stream_subgraphs"})


@dataclass(frozen=True, slots=True)
class Intent:
    input: Json = None
    command: Json = None
    before: str | None = None
    """The message before which the thread is to be taken up again: it was edited, or is to be answered anew."""
    out_of_order: frozenset[str] = frozenset()
    """The page's new messages, if it has not seen all that comes before them."""


def intent_of(asked: RunInput, thread: Thread | None, accepted: frozenset[str] | None) -> Intent:
    """`accepted` are the keys the graph takes as input; None if that is not known, and then nothing is held back."""
    fresh = _fresh_messages(asked.messages, thread)
    if (answer := _answer(asked, thread)) is not None:
        spoken = [each for each in fresh.messages if each["type"] != "tool"]
        return Intent(command={"resume": answer, **({"update": {"messages": spoken}} if spoken else {})})
    changed = _changed_state(asked.state, thread, accepted)
    if not changed and not fresh.messages and thread is not None and thread.status == "interrupted":
        return Intent()  # nothing new: it goes on where it paused
    given = changed | _page_extras(asked, accepted)
    stopped = _stopped_answers(asked, thread, fresh)
    if stopped or fresh.messages:
        given["messages"] = stopped + fresh.messages
    return Intent(
        input=given or {"messages": []},
        before=fresh.before,
        out_of_order=_ids(fresh) if stopped else _out_of_order(asked, thread, fresh),
    )


# -- answers ---------------------------------------------------------------------------------------------------------


def _answer(asked: RunInput, thread: Thread | None) -> Json | None:
    if asked.resume:
        waiting = {str(each["id"]) for of_task in (thread.interrupts if thread else {}).values() for each in of_task}
        return {entry.interrupt_id: _payload(entry, waiting) for entry in asked.resume}
    command = asked.forwarded.get("command")
    return _parsed(command.get("resume")) if isinstance(command, dict) else None


def _parsed(answer: Json) -> Json:
    """Hooks of the older kind send JSON as text, and text as it is; graphs expect what was meant."""
    if not isinstance(answer, str):
        return answer
    try:
        return loads(answer)
    except ValueError:
        return answer


def _payload(entry: ResumeEntry, waiting: set[str]) -> Json:
    if entry.interrupt_id not in waiting:
        raise UnknownInterrupt(f"No interrupt {entry.interrupt_id[:100]!r} waits for an answer")
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
    given = [each for each in messages if each["role"] not in ("activity", "reasoning")]
    for at, message in enumerate(given):
        if _is_edited(message, known):
            return _Fresh(list(_new(given[at:], {}, answered)), before=message["id"])
    fresh = list(_new(_without_instructions(given), known, answered))
    if not fresh and given and given[-1]["role"] == "user" and held and held[-1].get("id") != given[-1]["id"]:
        return _Fresh(list(_new(given[-1:], {}, answered)), before=given[-1]["id"])
    return _Fresh(fresh)


def _out_of_order(asked: RunInput, thread: Thread | None, fresh: _Fresh) -> frozenset[str]:
    held = conversation_of(thread.values) if thread is not None else []
    seen = {message["id"] for message in asked.messages}
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
    """Pages put their own instructions before everything, again and again; a graph has its own."""
    return messages[1:] if messages and messages[0]["role"] in ("system", "developer") else messages


def _new(messages: Iterable[Message], known: dict[str, Json], answered: set[Json]) -> Iterable[Json]:
    for message in messages:
        if message["id"] in known or (message["role"] == "tool" and message.get("toolCallId") in answered):
            continue
        if (given := to_langchain(message)) is not None:
            yield given


def _stopped_answers(asked: RunInput, thread: Thread | None, fresh: _Fresh) -> list[Json]:
    """Answers to the calls that a run left when it was stopped or failed, because a model refuses a conversation with
    a call that has none. Those of the page's own tools are the page's to answer."""
    if thread is None or fresh.before is not None:
        return []
    held = conversation_of(thread.values)
    answered = {each.get("tool_call_id") for each in (*held, *fresh.messages) if each.get("type") == "tool"}
    last: Json = next((each for each in reversed(held) if each.get("type") != "tool"), {})
    of_page = _names(asked.tools) | _names(_at(thread.values, "copilotkit", "actions"))
    return [
        given
        for call in last.get("tool_calls") or ()
        if call.get("id") and call["id"] not in answered and call.get("name") not in of_page
        if (given := to_langchain(stopped_answer(call["id"]))) is not None
    ]


def _names(tools: Json) -> set[str]:
    named = tools if isinstance(tools, list) else ()
    return {str(tool.get("name")) for tool in named if isinstance(tool, dict)}


def _at(values: Json, *path: str) -> Json:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values


# -- state -----------------------------------------------------------------------------------------------------------


def _changed_state(state: Json, thread: Thread | None, accepted: frozenset[str] | None) -> dict[str, Json]:
    """What the page has otherwise than the thread, as far as the graph takes it."""
    shown = shown_state(state)
    if not isinstance(shown, dict):
        return {}
    held = thread.values if thread is not None and isinstance(thread.values, dict) else {}
    return {
        key: value
        for key, value in shown.items()
        if (key not in held or held[key] != value) and (accepted is None or key in accepted)
    }


def _page_extras(asked: RunInput, accepted: frozenset[str] | None) -> dict[str, Json]:
    """The page's own tools, context and properties, for graphs that have a place for them."""
    tools, context = asked.tools or [], asked.context or []
    offered: dict[str, Any] = {
        **{key: value for key, value in asked.forwarded.items() if key not in _OURS},
        "tools": tools,
        "ag-ui": {"tools": tools, "context": context},
        "copilotkit": {"actions": tools, "context": context},
    }
    return {key: value for key, value in offered.items() if accepted is not None and key in accepted}
