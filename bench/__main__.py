"""Print the budget table: `python -m bench`, or `python -m bench row1 row3` for some rows.

The results are in `bench/results.json`. After a complete run with the stock server, the charts of the README are drawn
from them, and `python -m bench.figures` writes the figures into the README and `docs/reference/figures.md`.

BENCH_STOCK is the path of a `langgraph` executable to compare with; if it is empty, there is no comparison. The default
is the one that `make stock` installs, if it exists. BENCH_LANGHOST is the same for `langhost` and `make langhost`; it
stands in the column of the stock server where the work is on PostgreSQL.
"""

import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import uvloop

from bench.ag_ui import attach_to_live_run, connect_to_idle_thread, streaming
from bench.auth_rows import with_auth
from bench.chart import PANELS, write_charts
from bench.chatkit import long_thread
from bench.chatkit import streaming as chatkit_streaming
from bench.postgres import append
from bench.rows import ALIASES, ROWS, Bench, Row, Sample
from bench.scaled import scaled_rows
from bench.servers import HERE, ROOT, bare, source_digest, stock, stock_command, threadwire
from bench.thread_rows import create_and_get, state_of_long_thread
from bench.thread_wire import streaming as thread_wire_streaming
from bench.timeline import follow, last_page, last_page_after_restart
from bench.timeline_browser import long_page
from bench.workers import worker_processes

ROWS |= {"create": create_and_get, "state": state_of_long_thread, "auth": with_auth}
ROWS |= {"connect": connect_to_idle_thread, "attach": attach_to_live_run, "ag-ui": streaming}
ROWS["wire"] = thread_wire_streaming
ROWS |= {"chatkit": chatkit_streaming, "chatkit-thread": long_thread}
ROWS |= {"last-page": last_page, "last-page-restart": last_page_after_restart, "follow": follow}
ROWS["timeline-page"] = long_page
ROWS |= {"postgres-append": append, "scaled": scaled_rows}
ROWS["workers"] = worker_processes


def main() -> None:
    wanted = [ALIASES.get(name.lower(), name.lower()) for name in sys.argv[1:]] or list(ROWS)
    if unknown := [name for name in wanted if name not in ROWS]:
        raise SystemExit(f"Unknown row: {unknown[0]}; choose from {', '.join([*ROWS, *ALIASES])}")
    source = source_digest()
    rows, notes, seconds = uvloop.run(_measure(list(dict.fromkeys(wanted))))
    print("\n" + table(rows))
    for note in notes:
        print(note)
    if source != source_digest():
        print("The source changed during the benchmark: rows 8a to 8d may be measured with newer code than the others.")
    mode = os.environ.get("THREADWIRE_STORAGE", "sqlite, fsynced before it is published")
    print(
        f"\nOne process, default settings, storage: {mode}."
        f" Source {source}, Python {platform.python_version()}, {os.cpu_count()} cores,"
        f" load {os.getloadavg()[0]:.1f}. min-max of the turns in brackets. {seconds:.0f} s."
    )
    results = {
        "mode": mode,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "source": source,
        "seconds": seconds,
        "at": time.time(),
        "rows": [_as_json(row) for row in rows],
    }
    (HERE / "results.json").write_text(json.dumps(results, indent=1))
    charted = {panel.row for panel in PANELS}  # other rows may be compared with another peer
    if set(wanted) == set(ROWS) and any(row.stock for row in rows if row.row in charted):
        for path in write_charts(results):
            print(f"Drew {path.relative_to(ROOT)}.")
        print("To write the figures into the documentation: python -m bench.figures")
    missed = [row.row for row in rows if row.passed is False]
    print(f"Missed: {', '.join(missed)}" if missed else "All budgets are met.")


async def _measure(wanted: list[str]) -> tuple[list[Row], list[str], float]:
    start = time.perf_counter()
    rows: list[Row] = []
    command = stock_command()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with contextlib.AsyncExitStack() as stack:
            (data := Path(folder) / "server").mkdir()
            bench = Bench(
                bare=await stack.enter_async_context(bare()),
                ours=await stack.enter_async_context(threadwire(data)),
                stock_server=await stack.enter_async_context(stock(command)) if command else None,
                data=Path(folder),
            )
            for name in wanted:
                row_start = time.perf_counter()
                rows += await ROWS[name](bench)
                print(f"{name}: {time.perf_counter() - row_start:.0f} s", file=sys.stderr, flush=True)
    order = {
        row: position
        for position, row in enumerate(
            "1 2 3 3b 4 5 6 6b 7 8a 8b 8c 8d 8e 8f 8g 9a 9b 9c 9d 9e 9f L3 L3b L4 L4b T1 A1 A2 T2 T2b"
            " P1 P1b P2 P2b P3 P4 K1 K2 K3 K4 K5 W1 C1 C2 C3 B1 B1b B2 B3 B4 B5 D1 D2 D3 D3b D4 D4b D5".split()
        )
    }
    return sorted(rows, key=lambda row: order[row.row]), bench.notes, time.perf_counter() - start


def table(rows: list[Row]) -> str:
    with_stock = any(row.stock for row in rows)
    head = ["row", "work", "unit", "bare", "threadwire", *(["stock"] if with_stock else []), "reached", "budget", ""]
    lines = [head]
    for row in rows:
        cells = [row.row, row.work, row.unit, _cell(row.bare), _cell(row.ours)]
        if with_stock:
            cells.append(_cell(row.stock, row.ours))
        lines.append([*cells, row.figure, row.budget, {True: "pass", False: "MISS", None: ""}[row.passed]])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*text, "", *(f"  {row.row}: {row.note}" for row in rows if row.note)])


def _cell(sample: Sample | None, ours: Sample | None = None) -> str:
    if sample is None:
        return ""
    cell = _number(sample.median)
    if len(sample.values) > 1:
        cell += f" ({_number(min(sample.values))}-{_number(max(sample.values))})"
    if ours is not None and min(ours.median, sample.median) > 0:
        ratio = ours.median / sample.median
        cell += f" [we: {ratio:.1f} x]" if ratio >= 1 else f" [we: 1/{1 / ratio:.0f}]"
    return cell


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _as_json(row: Row) -> dict[str, object]:
    medians = {name: getattr(row, name).median for name in ("ours", "bare", "stock") if getattr(row, name)}
    return {**asdict(row), "medians": medians}


main()
