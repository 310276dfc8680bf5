"""Draws the main figures as bars, for the README: one SVG for light pages and one for dark ones.

`make bench` draws them after a complete run; `python -m bench.chart` draws them again from `bench/results.json`.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from bench.servers import HERE, ROOT

Results = dict[str, Any]
"""The content of `results.json`."""

IMAGES = ROOT / "docs" / "images"


class Theme(NamedTuple):
    text: str
    muted: str
    line: str
    track: str
    ours: str
    bare: str
    stock: str


LIGHT = Theme("#1f2328", "#59636e", "#d1d9e0", "#f3f5f7", "#0969da", "#a3adb8", "#d9a441")
DARK = Theme("#f0f6fc", "#9198a1", "#3d444d", "#1c2128", "#4493f8", "#6e7a87", "#b9862f")
THEMES = {"light": LIGHT, "dark": DARK}


class Panel(NamedTuple):
    row: str
    title: str
    unit: str
    higher_is_better: bool = True
    convert: Callable[[float], float] = lambda value: value
    with_bare: bool = True


def _per_second(milliseconds: float) -> float:
    return 1000 / milliseconds


PANELS = (
    Panel("1", "One stream", "tokens/s"),
    Panel("2", "20 concurrent streams", "tokens/s"),
    Panel("5", "Super-steps, each stored", "steps/s"),
    Panel("4", "Trivial runs, 16 at a time", "runs/s"),
    Panel("3", "One trivial run", "ms", higher_is_better=False),
    Panel("L3", "Token to client, 20 runs", "ms", higher_is_better=False),
    # A bare graph has neither: these rows are compared with a trivial run.
    Panel("T1", "Create and get a thread", "pairs/s", convert=_per_second, with_bare=False),
    Panel("T2", "State of a 400-message thread", "ms", higher_is_better=False, with_bare=False),
)
"""Two in a row."""
NAMES = {"ours": "Threadwire", "bare": "bare graph", "stock": "langgraph dev"}

WIDTH, GAP, PADDING = 880, 16, 16
PANEL = (WIDTH - GAP) // 2
HEADER, BAR, STEP, FOOTER = 44, 16, 26, 30
LABELS, VALUES = 104, 62
"""The space to the left of the bars and to their right."""


class Bar(NamedTuple):
    source: str
    value: float


def write_charts(results: Results) -> list[Path]:
    written = []
    for name, theme in THEMES.items():
        path = IMAGES / f"benchmarks-{name}.svg"
        path.write_text(draw(results, theme))
        written.append(path)
    return written


def draw(results: Results, theme: Theme) -> str:
    rows = {row["row"]: row for row in results["rows"]}
    panels = [(panel, _bars(panel, rows[panel.row])) for panel in PANELS if panel.row in rows]
    body: list[str] = []
    top = 1
    for first in range(0, len(panels), 2):
        pair = panels[first : first + 2]
        height = HEADER + STEP * max(len(bars) for _, bars in pair) + PADDING - (STEP - BAR)
        for column, (panel, bars) in enumerate(pair):
            body += _panel(panel, bars, column * (PANEL + GAP), top, height, theme)
        top += height + GAP
    body.append(_text(PADDING, top + 8, _conditions(results), theme.muted, size=12))
    return _document(WIDTH, top + FOOTER - GAP // 2, body, _description(panels))


def _bars(panel: Panel, row: dict[str, Any]) -> list[Bar]:
    sources = ("ours", "bare", "stock") if panel.with_bare else ("ours", "stock")
    medians = row["medians"]
    return [Bar(source, panel.convert(medians[source])) for source in sources if source in medians]


def _panel(panel: Panel, bars: Sequence[Bar], left: float, top: float, height: float, theme: Theme) -> Iterator[str]:
    yield (
        f'<rect x="{left + 0.5}" y="{top + 0.5}" width="{PANEL - 1}" height="{height - 1}" rx="8"'
        f' fill="none" stroke="{theme.line}"/>'
    )
    yield _text(left + PADDING, top + 27, panel.title, theme.text, weight=600)
    hint = f"{panel.unit}, {'higher' if panel.higher_is_better else 'lower'} is better"
    yield _text(left + PANEL - PADDING, top + 27, hint, theme.muted, size=12, anchor="end")
    start, space = left + PADDING + LABELS, PANEL - 2 * PADDING - LABELS - VALUES
    largest = max(bar.value for bar in bars)
    for at, bar in enumerate(bars):
        y = top + HEADER + STEP * at
        ours, length = bar.source == "ours", max(3.0, space * bar.value / largest)
        colour, weight = (theme.text, 600) if ours else (theme.muted, 400)
        yield _text(left + PADDING, y + 12.5, NAMES[bar.source], colour, size=13, weight=weight)
        yield _rect(start, y, space, theme.track)
        yield _rect(start, y, length, getattr(theme, bar.source))
        yield _text(start + space + 8, y + 12.5, _number(bar.value), colour, size=13, weight=weight)


def _rect(x: float, y: float, width: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{BAR}" rx="3" fill="{fill}"/>'


def _text(x: float, y: float, text: str, fill: str, *, size: int = 14, weight: int = 400, anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" font-weight="{weight}"'
        f' text-anchor="{anchor}">{escape(text)}</text>'
    )


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}".replace(",", "\N{THIN SPACE}")
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _conditions(results: Results) -> str:
    day = time.strftime("%d %B %Y", time.gmtime(results["at"])).lstrip("0")
    return (
        f"Medians of make bench on {results['cores']} cores, Python {results['python']}, {day}."
        " Every entry is fsynced before a client sees it."
    )


def _description(panels: Sequence[tuple[Panel, list[Bar]]]) -> str:
    figures = (
        f"{panel.title}, {panel.unit}: " + ", ".join(f"{NAMES[bar.source]} {_number(bar.value)}" for bar in bars)
        for panel, bars in panels
    )
    return "; ".join(figures) + "."


def _document(width: int, height: float, body: Sequence[str], description: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" role="img"'
        ' aria-labelledby="title text" font-family="system-ui, -apple-system, \'Segoe UI\', sans-serif">'
    )
    title = '<title id="title">Threadwire, the bare graph and langgraph dev</title>'
    return "\n  ".join([head, title, f'<desc id="text">{escape(description)}</desc>', *body]) + "\n</svg>\n"


def main() -> None:
    for path in write_charts(json.loads((HERE / "results.json").read_text())):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
