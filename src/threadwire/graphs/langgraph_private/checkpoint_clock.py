"""The clock from which LangGraph generates checkpoint ids.

**For:** the newest checkpoint of a thread is the one with the greatest id. After the system clock has been set back,
new checkpoints would sort before the existing ones, and acknowledged state would be lost. So LangGraph's id module gets
a clock that is never behind the ids that were seen (`storage/checkpoint_ids.py`).

LangGraph's own lower bound for ids cannot be raised instead: another thread that generates an id concurrently would
reset it.

**Changed LangGraph:** its id module has no `time`. Then ids follow the system clock.
"""

import time
from typing import Any, Protocol

from threadwire.graphs.langgraph_private.process_patch import ProcessPatch


class Clock(Protocol):
    def time_ns(self) -> int: ...


class _Time:
    """Stands in for the module `time`, with another clock."""

    def __init__(self, clock: Clock) -> None:
        self.time_ns = clock.time_ns

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def checkpoint_clock(clock: Clock) -> ProcessPatch:
    return ProcessPatch(
        "checkpoint clock",
        "After the system clock is set back, threads do not continue from their newest checkpoint.",
        {"langgraph.checkpoint.base.id:time": lambda original: _Time(clock)},
    )
