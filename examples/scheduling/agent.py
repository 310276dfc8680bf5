"""An academic scheduling assistant: who teaches what, how the load is distributed, and which sections conflict.

Every conversation starts from the same timetable; its changes are stored in its own state, under `assignments`. Without
an API key a script plays the model, so the example runs anywhere.
"""

import json
import re
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import InjectedToolArg, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition

from chat_model import call_tools, choose_model, last_question, results_of_this_turn

TEACHERS: dict[str, dict[str, Any]] = {
    "t_alice": {"name": "Alice", "max_load": 12.0},
    "t_bob": {"name": "Bob", "max_load": 10.0},
    "t_carol": {"name": "Carol", "max_load": 8.0},
    "t_dan": {"name": "Dan", "max_load": 6.0},
}

SECTIONS: dict[str, dict[str, Any]] = {
    "s_algebra": {"title": "Algebra I", "hours": 4.0, "slot": "Mon 09:00"},
    "s_biology": {"title": "Biology", "hours": 3.0, "slot": "Mon 09:00"},
    "s_calculus": {"title": "Calculus", "hours": 4.0, "slot": "Tue 09:00"},
    "s_drama": {"title": "Drama", "hours": 2.0, "slot": "Wed 14:00"},
    "s_ethics": {"title": "Ethics", "hours": 3.0, "slot": "Thu 11:00"},
    "s_french": {"title": "French", "hours": 5.0, "slot": "Tue 09:00"},
    "s_geometry": {"title": "Geometry", "hours": 4.0, "slot": "Fri 10:00"},
    "s_history": {"title": "History", "hours": 3.0, "slot": "Mon 09:00"},
}

STARTING_ASSIGNMENTS = {
    "s_algebra": "t_alice",
    "s_calculus": "t_alice",
    "s_biology": "t_bob",
    "s_history": "t_bob",
    "s_french": "t_carol",
    "s_drama": "t_dan",
}

Assignments = dict[str, str]  # section id → teacher id


class Schedule(MessagesState):
    assignments: NotRequired[Assignments]
    """The changes of this conversation, on top of STARTING_ASSIGNMENTS."""


# The model never sees this argument; the tools node fills it from the state.
CurrentAssignments = Annotated[Assignments, InjectedToolArg]


@tool
def show_schedule_overview(assignments: CurrentAssignments) -> dict[str, Any]:
    """Show every teacher's workload and every section with its teacher."""
    return {
        "message": "Schedule overview retrieved",
        "teachers": _workloads(assignments),
        "sections": {
            section_id: {**section, "teacher": assignments.get(section_id)} for section_id, section in SECTIONS.items()
        },
    }


@tool
def show_load_distribution(assignments: CurrentAssignments) -> dict[str, Any]:
    """Show how the teaching load is spread over the teachers."""
    workloads = _workloads(assignments)
    loads = [teacher["current_load"] for teacher in workloads.values()]
    return {
        "message": "Load distribution retrieved",
        "teachers": workloads,
        "average_load": round(sum(loads) / len(loads), 1),
        "lightest": min(workloads, key=lambda teacher_id: workloads[teacher_id]["current_load"]),
        "heaviest": max(workloads, key=lambda teacher_id: workloads[teacher_id]["current_load"]),
    }


@tool
def assign_section(section_id: str, teacher_id: str, assignments: CurrentAssignments) -> dict[str, Any]:
    """Give a section to a teacher, unless it would exceed the teacher's maximum load."""
    if section_id not in SECTIONS:
        return _refusal(f"There is no section {section_id}. The sections are: {', '.join(SECTIONS)}.")
    if teacher_id not in TEACHERS:
        return _refusal(f"There is no teacher {teacher_id}. The teachers are: {', '.join(TEACHERS)}.")
    section, teacher = SECTIONS[section_id], TEACHERS[teacher_id]
    after = {**assignments, section_id: teacher_id}
    load = _load(teacher_id, after)
    if load > teacher["max_load"]:
        return _refusal(
            f"{section['title']} would bring {teacher['name']} to {load:.1f}h, "
            f"over the maximum of {teacher['max_load']:.1f}h. Nothing was changed."
        )
    return {
        "message": f"{section['title']} is assigned to {teacher['name']}",
        "assigned": {section_id: teacher_id},
        "teachers": {teacher_id: _workloads(after)[teacher_id]},
    }


@tool
def find_conflicts(assignments: CurrentAssignments) -> dict[str, Any]:
    """Find teachers who are booked twice at the same time, and sections nobody teaches."""
    booked: dict[tuple[str, str], list[str]] = {}
    for section_id, teacher_id in sorted(assignments.items()):
        booked.setdefault((teacher_id, SECTIONS[section_id]["slot"]), []).append(section_id)
    clashes = [
        {"teacher": teacher_id, "slot": slot, "sections": section_ids}
        for (teacher_id, slot), section_ids in booked.items()
        if len(section_ids) > 1
    ]
    unassigned = [section_id for section_id in SECTIONS if section_id not in assignments]
    return {
        "message": f"Conflicts: {len(clashes)}, unassigned sections: {len(unassigned)}",
        "conflicts": clashes,
        "unassigned": unassigned,
    }


def _load(teacher_id: str, assignments: Assignments) -> float:
    return sum(float(SECTIONS[section]["hours"]) for section, owner in assignments.items() if owner == teacher_id)


def _workloads(assignments: Assignments) -> dict[str, dict[str, Any]]:
    return {
        teacher_id: {
            "name": teacher["name"],
            "current_load": (load := _load(teacher_id, assignments)),
            "max_load": teacher["max_load"],
            "utilization": f"{load / teacher['max_load']:.1%}",
        }
        for teacher_id, teacher in TEACHERS.items()
    }


def _refusal(reason: str) -> dict[str, Any]:
    return {"message": reason, "error": True}


TOOLS = {each.name: each for each in (show_schedule_overview, show_load_distribution, assign_section, find_conflicts)}
for each in TOOLS.values():
    each.handle_validation_error = True


# --- The script that plays the model ------------------------------------------------------------------------

HELP = (
    "I look after the timetable. You can ask me to:\n\n"
    "- **show schedule overview**\n"
    "- **show load distribution**\n"
    "- **find conflicts**\n"
    "- **assign s_geometry to t_dan** (any section, any teacher)"
)


def reply(conversation: list[BaseMessage]) -> AIMessage:
    results = results_of_this_turn(conversation)
    if results:
        return AIMessage("\n\n".join(_summary(json.loads(result.text)) for result in results))
    calls = _wanted_calls(last_question(conversation))
    if not calls:
        return AIMessage(HELP)
    opening = "Let me look that up." if calls[0][0] != "assign_section" else "Let me see whether that fits."
    return call_tools(opening, calls, conversation)


def _wanted_calls(asked: str) -> list[tuple[str, dict[str, Any]]]:
    text = asked.lower()
    if moves := re.findall(r"(?:assign|give|move) (?:section )?(\w+) to (?:teacher )?(\w+)", text):
        return [
            ("assign_section", {"section_id": _section_id(section), "teacher_id": _teacher_id(teacher)})
            for section, teacher in moves
        ]
    if "conflict" in text or "clash" in text:
        return [("find_conflicts", {})]
    if "load" in text or "distribution" in text:
        return [("show_load_distribution", {})]
    if "overview" in text or "schedule" in text or "timetable" in text:
        return [("show_schedule_overview", {})]
    return []


def _section_id(text: str) -> str:
    return f"s_{text}" if f"s_{text}" in SECTIONS else text


def _teacher_id(text: str) -> str:
    return f"t_{text}" if f"t_{text}" in TEACHERS else text


def _summary(result: dict[str, Any]) -> str:
    lines = [f"{result['message'].rstrip('.')}."]
    if teachers := result.get("teachers"):
        lines += ["", "**Teacher workloads:**", *(_workload_line(teacher) for teacher in teachers.values())]
    if "heaviest" in result:
        heaviest, lightest = teachers[result["heaviest"]]["name"], teachers[result["lightest"]]["name"]
        lines += ["", f"The average is {result['average_load']}h; {heaviest} has most, {lightest} least."]
    for conflict in result.get("conflicts", []):
        titles = " and ".join(SECTIONS[section]["title"] for section in conflict["sections"])
        lines.append(f"- **{TEACHERS[conflict['teacher']]['name']}**, {conflict['slot']}: {titles}")
    if unassigned := result.get("unassigned"):
        lines.append("- **Nobody** teaches " + ", ".join(SECTIONS[section]["title"] for section in unassigned))
    return "\n".join(lines)


def _workload_line(teacher: dict[str, Any]) -> str:
    load = f"{teacher['current_load']:.1f}h/{teacher['max_load']}"
    return f"- **{teacher['name']}**: {load} ({teacher['utilization']})"


# --- The graph ----------------------------------------------------------------------------------------------

INSTRUCTIONS = SystemMessage(
    "You are an academic scheduling assistant. Use the tools for every fact. "
    f"Sections: {', '.join(SECTIONS)}. Teachers: {', '.join(TEACHERS)}. Answer briefly, in markdown."
)


model = choose_model(reply).bind_tools(list(TOOLS.values()))


async def call_model(state: Schedule) -> dict[str, Any]:
    return {"messages": [await model.ainvoke([INSTRUCTIONS, *state["messages"]])]}


async def use_tools(state: Schedule) -> dict[str, Any]:
    """Execute the calls in sequence: two assignments of one turn must not overload a teacher together."""
    changed = dict(state.get("assignments", {}))
    results = []
    for call in state["messages"][-1].tool_calls:
        message, assigned = await _use_tool(call, {**STARTING_ASSIGNMENTS, **changed})
        results.append(message)
        changed.update(assigned)
    return {"messages": results, "assignments": changed}


async def _use_tool(call: ToolCall, assignments: Assignments) -> tuple[ToolMessage, Assignments]:
    if call["name"] not in TOOLS:
        unknown = f"There is no tool {call['name']}. The tools are: {', '.join(TOOLS)}."
        return ToolMessage(json.dumps(_refusal(unknown)), tool_call_id=call["id"], status="error"), {}
    # Pass a tool call, not just its arguments, so that clients can match the result to the call.
    arguments = {**call["args"], "assignments": assignments}
    message = await TOOLS[call["name"]].ainvoke({**call, "args": arguments})
    if message.status == "error":  # invalid arguments; the message tells the model why
        return message, {}
    result = json.loads(message.text)
    if "error" in result:
        message.status = "error"
    return message, result.get("assigned", {})


graph = (
    StateGraph(Schedule)
    .add_node("model", call_model)
    .add_node("tools", use_tools)
    .add_edge(START, "model")
    .add_conditional_edges("model", tools_condition)
    .add_edge("tools", "model")
    .compile(name="scheduling")
)
