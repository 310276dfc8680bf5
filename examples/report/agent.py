"""A long-running report: while sources are read, a progress widget moves; then the text is streamed.

It shows what a long job can send to its clients: progress events (`get_stream_writer`), widgets that are also stored in
the state (`push_ui_message`), steps inside a subgraph, and finally the text of a model. Each source is a separate step
with its own checkpoint, so after a crash the run resumes with the source it was reading.
"""

import asyncio
import hashlib
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.ui import AnyUIMessage, delete_ui_message, push_ui_message, ui_message_reducer
from langgraph.runtime import Runtime
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from chat_model import choose_model, last_question

SOURCES = ("Interviews", "Order books", "Price lists", "Patents", "Newspapers", "Customs data", "Job adverts", "Forums")
SECONDS = 8.0


class Finding(TypedDict):
    source: str
    demand: int
    """From 0 to 100."""


class Pace(TypedDict, total=False):
    """The context of a run."""

    seconds: float
    """How long it takes to read all sources."""


class Research(TypedDict):
    topic: str
    number: int
    """The number of this report in the conversation; part of the ids of its widgets."""
    findings: list[Finding]
    ui: Annotated[list[AnyUIMessage], ui_message_reducer]


class Report(MessagesState):
    topic: str
    number: int
    findings: list[Finding]
    ui: Annotated[list[AnyUIMessage], ui_message_reducer]


def send_progress(doing: str, done: int) -> None:
    get_stream_writer()({"type": "progress", "doing": doing, "done": done, "of": len(SOURCES)})


def widget_id(state: Research | Report, widget: str) -> str:
    return f"report-{state['number']}-{widget}"


# --- Research: one step per source --------------------------------------------------------------------------


async def read_source(research: Research, runtime: Runtime[Pace]) -> dict[str, Any]:
    findings = research["findings"]
    source = SOURCES[len(findings)]
    send_progress(f"Reading: {source}", len(findings))
    await asyncio.sleep((runtime.context or {}).get("seconds", SECONDS) / len(SOURCES))
    findings = [*findings, Finding(source=source, demand=_demand(research["topic"], source))]
    # Updates the widget that `plan` created: the id is the same, even if a crash makes this step run twice.
    push_ui_message("progress", {"done": len(findings), "last": source}, id=widget_id(research, "progress"), merge=True)
    return {"findings": findings}


def _demand(topic: str, source: str) -> int:
    """A fictional but deterministic number."""
    return hashlib.sha256(f"{topic} {source}".encode()).digest()[0] % 101


def more_to_read(research: Research) -> Literal["read_source", "__end__"]:
    return "read_source" if len(research["findings"]) < len(SOURCES) else END


research = (
    StateGraph(Research, context_schema=Pace)
    .add_node("read_source", read_source)
    .add_edge(START, "read_source")
    .add_conditional_edges("read_source", more_to_read)
    .compile(name="research")
)


# --- The report ---------------------------------------------------------------------------------------------


def reply(conversation: list[BaseMessage]) -> AIMessage:
    """The script that plays the writer: it returns its notes unchanged."""
    return AIMessage(last_question(conversation))


model = choose_model(reply)


def plan(report: Report) -> dict[str, Any]:
    asked = last_question(report["messages"])
    topic = asked.lower().removeprefix("report on ").strip(" .") or "everything"
    planned = {"topic": topic, "number": report.get("number", 0) + 1, "findings": []}
    widget = {"title": f"Research on {topic}", "done": 0, "of": len(SOURCES)}
    push_ui_message("progress", widget, id=widget_id(planned, "progress"))
    return planned


async def write(report: Report) -> dict[str, Any]:
    send_progress("Writing", len(report["findings"]))
    outline = SystemMessage("Turn these notes into a short report in markdown. Change no number.")
    message = await model.ainvoke([outline, HumanMessage(_notes(report))])
    bars = {finding["source"]: finding["demand"] for finding in report["findings"]}
    chart = {"title": "Demand by source", "bars": bars}
    push_ui_message("bar-chart", chart, id=widget_id(report, "chart"), message=message)
    delete_ui_message(widget_id(report, "progress"))  # the text says what the sources say
    return {"messages": [message]}


def _notes(report: Report) -> str:
    findings = sorted(report["findings"], key=lambda finding: finding["demand"], reverse=True)
    average = sum(finding["demand"] for finding in findings) / len(findings)
    lines = [f"- {finding['source']}: {finding['demand']} of 100" for finding in findings]
    return (
        f"# Demand for {report['topic']}\n\n"
        f"We read {len(findings)} sources. On average they put the demand at {average:.0f} of 100; "
        f"{findings[0]['source']} at most, {findings[-1]['source']} at least.\n\n" + "\n".join(lines)
    )


graph = (
    StateGraph(Report, context_schema=Pace, input_schema=MessagesState)
    .add_node("plan", plan)
    .add_node("research", research)
    .add_node("write", write)
    .add_edge(START, "plan")
    .add_edge("plan", "research")
    .add_edge("research", "write")
    .compile(name="report")
)
