"""A dashboard of a small fund that is updated by background runs, and an assistant that explains it.

Everything the page shows is in the thread's state, ready to be rendered: five metrics with labels and texts, a week of
history for each, and the time of the last refresh. A run with `{"refresh": true}` recomputes the metrics: in the
background, after a delay, or on a schedule. A run with a message answers questions about them.
"""

import json
import random
import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from chat_model import call_tools, choose_model, last_question, results_of_this_turn

MetricName = Literal["income_7d", "apy", "users", "aum", "points"]
Unit = Literal["usd", "percent", "count"]

METRICS: dict[MetricName, tuple[str, Unit]] = {
    "income_7d": ("7-day income", "usd"),
    "apy": ("APY", "percent"),
    "users": ("Users", "count"),
    "aum": ("AUM", "usd"),
    "points": ("Points", "count"),
}

DAYS = 7
FIRST_DAY = date(2026, 1, 5)


class Metric(TypedDict):
    label: str
    unit: Unit
    value: float
    text: str
    """The formatted value: "$17,940", "7.80 %", "1,310"."""
    change: float
    """Relative to the previous day, in percent."""
    history: list[float]
    """One value for each of `days`; the last is `value`."""


class Source(TypedDict, total=False):
    """The context of a run."""

    seed: int
    """Selects the fund: another seed gives other numbers."""


class Request(MessagesState):
    """The input of a run. It has no metrics, so a page that sends its whole state cannot overwrite them."""

    refresh: Annotated[NotRequired[bool], EphemeralValue(bool)]


class Board(Request):
    metrics: NotRequired[dict[MetricName, Metric]]
    days: NotRequired[list[str]]
    """The dates of the histories, oldest first."""
    updated_at: NotRequired[str]
    refreshes: NotRequired[int]


# --- Where the numbers come from ----------------------------------------------------------------------------
# A fictional fund in which every refresh is the next day. The same seed and day always give the same numbers.


def measure(refreshes: int, seed: int) -> dict[str, Any]:
    """Return the board on the day of that refresh, with the week that ends on it."""
    days = range(refreshes, refreshes + DAYS)
    week = [_figures(day, seed) for day in days]
    return {
        "metrics": {name: _metric(name, [figures[name] for figures in week]) for name in METRICS},
        "days": [(FIRST_DAY + timedelta(days=day)).isoformat() for day in days],
        "updated_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "refreshes": refreshes + 1,
    }


def _figures(day: int, seed: int) -> dict[MetricName, float]:
    income = sum(_income(earlier, seed) for earlier in range(day - DAYS + 1, day + 1))
    aum = 12_000_000 * 1.002**day
    return {
        "income_7d": round(income, 2),
        "apy": round(income / aum * 365 / DAYS * 100, 2),
        "users": 1_310 + 12 * day + _noise("users", day, seed, 9),
        "aum": round(aum, 2),
        "points": 84_000 + 950 * day + _noise("points", day, seed, 300),
    }


def _income(day: int, seed: int) -> float:
    return 2_500 + 15 * day + _noise("income", day, seed, 40_000) / 100


def _noise(what: str, day: int, seed: int, maximum: int) -> int:
    return random.Random(f"{what} {day} {seed}").randint(0, maximum)


def _metric(name: MetricName, history: list[float]) -> Metric:
    label, unit = METRICS[name]
    before, value = history[-2:]
    return Metric(
        label=label,
        unit=unit,
        value=value,
        text={"usd": f"${value:,.0f}", "percent": f"{value:.2f} %", "count": f"{value:,.0f}"}[unit],
        change=round((value / before - 1) * 100, 2),
        history=history,
    )


def next_board(board: Board, source: Source | None) -> dict[str, Any]:
    return measure(board.get("refreshes", 0), (source or {}).get("seed", 1))


# --- The tools ----------------------------------------------------------------------------------------------


CallId = Annotated[str, InjectedToolCallId]


@tool
def read_metrics(names: list[MetricName], board: Annotated[Board, InjectedState], call_id: CallId) -> Command:
    """Read metrics from the board, each with its history of seven days."""
    fresh = {} if "metrics" in board else next_board(board, get_runtime(Source).context)
    return _result({**board, **fresh}, names, fresh, call_id)


@tool
def refresh_board(board: Annotated[Board, InjectedState], call_id: CallId) -> Command:
    """Recompute all metrics of the board."""
    fresh = next_board(board, get_runtime(Source).context)
    return _result(fresh, list(METRICS), fresh, call_id)


def _result(board: dict[str, Any], names: list[MetricName], update: dict[str, Any], call_id: str) -> Command:
    result = {"updated_at": board["updated_at"], "metrics": {name: board["metrics"][name] for name in names}}
    return Command(update={**update, "messages": [ToolMessage(json.dumps(result), tool_call_id=call_id)]})


TOOLS = [read_metrics, refresh_board]


# --- The script that plays the model ------------------------------------------------------------------------

HELP = (
    "I look after the board. Ask me about the **income**, the **APY**, the **users**, the **AUM** or the **points**; "
    "or say **refresh**."
)

WORDS: dict[str, MetricName] = {
    "income": "income_7d",
    "apy": "apy",
    "user": "users",
    "aum": "aum",
    "point": "points",
}


def reply(conversation: list[BaseMessage]) -> AIMessage:
    if results := results_of_this_turn(conversation):
        return AIMessage("\n".join(_summary(json.loads(each.text)) for each in results))
    asked = last_question(conversation).lower()
    if re.search("refresh|update", asked):
        return call_tools("Let me look again.", [("refresh_board", {})], conversation)
    names = [name for word, name in WORDS.items() if word in asked]
    if not names and re.search("how|board|all|numbers", asked):
        names = list(METRICS)
    if not names:
        return AIMessage(HELP)
    return call_tools("Let me look.", [("read_metrics", {"names": names})], conversation)


def _summary(result: dict[str, Any]) -> str:
    return "\n".join(
        f"- **{metric['label']}**: {metric['text']} ({metric['change']:+.2f} % since the day before)"
        for metric in result["metrics"].values()
    )


# --- The graph ----------------------------------------------------------------------------------------------

INSTRUCTIONS = SystemMessage(
    "You explain the dashboard of a small fund. Use the tools for every number. Answer briefly, in markdown."
)

model = choose_model(reply).bind_tools(TOOLS)


def what_is_asked(board: Board) -> Literal["refresh", "talk"]:
    return "refresh" if board.get("refresh") else "talk"


def refresh(board: Board, runtime: Runtime[Source]) -> dict[str, Any]:
    return next_board(board, runtime.context)


async def talk(board: Board) -> dict[str, Any]:
    return {"messages": [await model.ainvoke([INSTRUCTIONS, *board["messages"]])]}


graph = (
    StateGraph(Board, context_schema=Source, input_schema=Request)
    .add_node("refresh", refresh)
    .add_node("talk", talk)
    .add_node("tools", ToolNode(TOOLS))
    .add_conditional_edges(START, what_is_asked)
    .add_edge("refresh", END)
    .add_conditional_edges("talk", tools_condition)
    .add_edge("tools", "talk")
    .compile(name="dashboard")
)
