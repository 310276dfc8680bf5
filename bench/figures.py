"""Writes the measured figures into the tables of the documentation: `python -m bench.figures`, after a complete `make
bench`. The README has the main ones, and `docs/reference/figures.md` has all."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.servers import HERE, ROOT

README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference" / "figures.md"
_HEAD = "| work | bare `graph.astream` | Threadwire |"


class Figures:
    """The medians of a benchmark, as text."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = {row["row"]: row for row in rows}

    def median(self, row: str, source: str = "ours") -> float:
        return float(self._rows[row]["medians"][source])

    def reached(self, row: str) -> str:
        """The figure in the terms of the budget, such as `83 %` or `4.2 times`."""
        return str(self._rows[row]["figure"]).replace(" x", " times").replace("%", " %").replace(" of bare", "")

    def note(self, row: str) -> str:
        return str(self._rows[row]["note"])

    def of(self, row: str, unit: str = "", source: str = "ours") -> str:
        """One figure with its unit; empty if it was not measured."""
        if source not in self._rows[row]["medians"]:
            return ""
        return f"{_number(self.median(row, source))} {unit}".strip()

    def pair(self, row: str, other: str, unit: str, source: str = "ours") -> str:
        if source not in self._rows[row]["medians"]:
            return ""
        return f"{self.of(row, source=source)} / {self.of(other, unit, source)}"

    def range(self, rows: Sequence[str]) -> str:
        reached = sorted(self.reached(row).removesuffix(" times") for row in rows)
        return f"{reached[0]} to {reached[-1]} times"


class Line(NamedTuple):
    work: str
    bare: Callable[[Figures], str]
    ours: Callable[[Figures], str]
    stock: Callable[[Figures], str]
    budget: str


def _nothing(figures: Figures) -> str:
    return ""


def _compared(work: str, row: str, unit: str, budget: str, of_bare: str = "") -> Line:
    """A row that is measured on all three."""
    return Line(
        work,
        lambda figures: figures.of(row, unit, "bare"),
        lambda figures: f"{figures.of(row, unit)}, {figures.reached(row)}{of_bare}",
        lambda figures: figures.of(row, unit, "stock"),
        budget,
    )


def _ours(work: str, ours: Callable[[Figures], str], budget: str = "") -> Line:
    return Line(work, _nothing, ours, _nothing, budget)


MAIN = (
    _compared("one stream, 2 000 tokens", "1", "tokens/s", "at least 55 %", " of bare"),
    _compared("20 concurrent streams, summed", "2", "tokens/s", "at least 35 %"),
    Line(
        "the same with 2 worker processes",
        _nothing,
        lambda figures: f"{figures.of('K2', 'tokens/s')}, {figures.reached('K2')}",
        _nothing,
        "at least 110 %",
    ),
    _compared("trivial run on a new thread, request to last byte, p50", "3", "ms", "at most 5 times", " bare"),
    Line(
        "trivial runs, 16 concurrent",
        _nothing,
        lambda figures: f"{figures.of('4', 'runs/s')}, {figures.reached('4')} the time of a bare run",
        lambda figures: figures.of("4", "runs/s", "stock"),
        "at most 3 times",
    ),
    _ours(
        "the same with 2 worker processes",
        lambda figures: f"{figures.of('K5', 'runs/s')}, {figures.reached('K5')} as many",
        "at least 1.25 times",
    ),
    _compared("100 super-steps with durable checkpoints", "5", "steps/s", "at least 50 %"),
    Line(
        "token to client, 20 runs at 50 tokens/s, p50 / p99",
        lambda figures: figures.pair("L3", "L3b", "ms", "bare"),
        lambda figures: figures.pair("L3", "L3b", "ms"),
        lambda figures: figures.pair("L3", "L3b", "ms", "stock"),
        "3.5 / 16 ms",
    ),
    _ours(
        "first token of 100 runs started together, p50 / p99",
        lambda figures: figures.pair("L4", "L4b", "ms"),
        "400 ms",
    ),
    Line(
        "one run at 400 tokens/s, 100 subscribers",
        _nothing,
        lambda figures: f"all complete, {figures.of('6b', 'events/s')}",
        lambda figures: f"{stock} at 200 tokens/s" if (stock := figures.of("6", "events/s", "stock")) else "",
        "at least 20 000",
    ),
    _ours("memory of an idle stream", lambda figures: figures.of("8d", "kB"), "at most 30 kB"),
)
"""The lines of the README."""

MORE = (
    Line(
        "create and get a thread, 16 clients, per pair",
        lambda figures: f"a trivial run: {figures.of('T1', 'ms', 'bare')}",
        lambda figures: f"{figures.of('T1', 'ms')}, {figures.reached('T1')}",
        lambda figures: figures.of("T1", "ms", "stock"),
        "at most 0.7 times",
    ),
    Line(
        "state of a 400-message thread, first read / again, p50",
        lambda figures: f"a trivial run: {figures.of('T2', 'ms', 'bare')}",
        lambda figures: f"{figures.pair('T2b', 'T2', 'ms')}, {figures.reached('T2b')} / {figures.reached('T2')}",
        lambda figures: figures.pair("T2b", "T2", "ms", "stock"),
        "at most 6 / 3 times",
    ),
    Line(
        "CPU per token",
        lambda figures: figures.of("7", "µs", "bare"),
        lambda figures: figures.reached("7"),
        _nothing,
        "at most 20 µs more",
    ),
    _ours(
        "database file growth per token, at 200 tokens/s / unthrottled",
        lambda figures: f"{figures.of('8b', 'B')} / {figures.of('8a', 'B')}",
        "at most 200 B",
    ),
    _ours(
        "log size: 100 steps with 1 MB of constant state and a list that grows from 400 to 500 messages",
        lambda figures: figures.of("8c", "MB"),
        "below 5 MB",
    ),
    _ours(
        "join, run and stream after 50 000 log entries, relative to 100",
        lambda figures: "{}, {} and {}".format(
            *(figures.reached(row).removesuffix(" times") for row in ("8e", "8f")), figures.reached("8g")
        ),
        "the same",
    ),
    _ours(
        "one page of a thread search by graph, user or status: 100 000 threads relative to 100",
        lambda figures: figures.range(("9a", "9b", "9c", "9d", "9e")),
        "the same",
    ),
    _ours(
        "one page of a thread's history: 10 000 checkpoints relative to 10",
        lambda figures: figures.reached("9f"),
        "the same",
    ),
    _ours(
        "AG-UI: connect to an idle thread of 400 messages, p50 / p99",
        lambda figures: figures.pair("P1", "P1b", "ms"),
        "100 ms",
    ),
    _ours(
        "AG-UI: delay of live events from a run started by another client, p50 / p99",
        lambda figures: figures.pair("P2", "P2b", "ms"),
        "100 ms",
    ),
    _compared("thread wire: one stream, 2 000 tokens", "W1", "tokens/s", "at least 70 %"),
    _compared("AG-UI: one stream, 2 000 tokens", "P3", "tokens/s", ""),
    _ours(
        "AG-UI: bytes per token",
        lambda figures: "; ".join(filter(None, (figures.of("P4", "B"), _peer(figures.note("P4"))))),
    ),
    _ours("timeline: last page of 10 000 blocks, p50", lambda figures: figures.of("B1", "ms"), "10 ms"),
    _ours("timeline: the same after a restart, p50", lambda figures: figures.of("B1b", "ms"), "10 ms"),
    _ours(
        "timeline: following 2 000 tokens, and bytes per token",
        lambda figures: f"{figures.of('B2', 'tokens/s')}, {figures.of('B3', 'B')}",
        "80 % of classic, 130 B",
    ),
    _ours(
        "timeline: a page with 2 000 blocks, painted from the cache, and main-thread time per token",
        lambda figures: f"{figures.of('B4', 'ms')}, {figures.of('B5', 'µs')}",
    ),
    _ours(
        "ChatKit: one stream, 2 000 tokens",
        lambda figures: f"{figures.of('C1', 'tokens/s')}, {figures.reached('C1')} of the classic stream",
        "at least 80 %",
    ),
    _ours(
        "ChatKit: `threads.get_by_id` / `items.list` of 400 messages, p50",
        lambda figures: figures.pair("C2", "C3", "ms"),
        "10 ms",
    ),
    _ours(
        "20 concurrent streams with 1 worker process",
        lambda figures: f"{figures.of('K1', 'tokens/s')}, {figures.reached('K1')} of bare",
    ),
    _ours(
        "2 worker processes: trivial run / token to client, p50, relative to none",
        lambda figures: f"{figures.reached('K3')} / {figures.reached('K4')}",
    ),
    _ours(
        "create and get a thread with auth, relative to without",
        lambda figures: figures.reached("A1"),
        "at most 1.15 times",
    ),
    _ours("PostgreSQL: appends, fenced", lambda figures: figures.of("D1", "entries/s"), "at least 30 000"),
    _ours(
        "PostgreSQL: trivial runs, an API process and 2 workers",
        lambda figures: _beside_langhost(figures.of("D2", "runs/s"), figures.of("D2", "runs/s", "stock")),
        "at least 150",
    ),
    _ours(
        "PostgreSQL: token to client with Redis, p50 / p99",
        lambda figures: _beside_langhost(figures.pair("D3", "D3b", "ms"), figures.pair("D3", "D3b", "ms", "stock")),
        "12 / 40 ms",
    ),
    _ours(
        "PostgreSQL: token to client without Redis, p50 / p99",
        lambda figures: figures.pair("D4", "D4b", "ms"),
        "12 / 40 ms",
    ),
    _ours("PostgreSQL: memory of an idle stream", lambda figures: figures.of("D5", "kB"), "at most 30 kB"),
)


def _peer(note: str) -> str:
    """The size that another adapter's events have, from `ag-ui-langgraph: 2,122 B, and …`."""
    name, _, size = note.partition(":")
    return f"`{name}` {size.partition(' B')[0].strip().replace(',', ' ')} B" if size else ""


def _beside_langhost(ours: str, langhost: str) -> str:
    """Not in the column of `langgraph dev`, because it is another server."""
    return f"{ours}; `langhost` {langhost}" if langhost else ours


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def table(lines: Iterable[Line], results: Mapping[str, Any]) -> list[str]:
    """The lines of the table after its head."""
    figures = Figures(results["rows"])
    return [
        "| " + " | ".join([line.work, line.bare(figures), line.ours(figures), line.stock(figures), line.budget]) + " |"
        for line in lines
    ]


def update(page: str, lines: Iterable[Line], results: Mapping[str, Any]) -> str:
    """Return the page with the figures of `results` in its table."""
    text = page.splitlines()
    [head] = [at for at, line in enumerate(text) if line.startswith(_HEAD)]
    end = next(at for at in range(head, len(text) + 1) if at == len(text) or not text[at].startswith("|"))
    cells = [" ".join(line.split()) for line in table(lines, results)]
    return "\n".join([*text[: head + 2], *cells, *text[end:]]) + "\n"


def main() -> None:
    results = json.loads((HERE / "results.json").read_text())
    for page, lines in ((README, MAIN), (REFERENCE, (*MAIN, *MORE))):
        page.write_text(update(page.read_text(), lines, results))
        print(f"{page.relative_to(ROOT)}: the figures of {results['source']}")


if __name__ == "__main__":
    main()
