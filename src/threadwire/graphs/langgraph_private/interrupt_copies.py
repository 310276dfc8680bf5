"""Interrupts whose value cannot be copied.

**For:** to include an interrupt in a task, LangGraph deep-copies its value with `dataclasses.asdict`. That fails if the
value cannot be copied, contains itself or is nested too deeply, and the interrupt would be lost. We render the value
ourselves, so a shallow copy is enough.

**Changed LangGraph:** `langgraph.pregel.debug` has no `asdict`. Then LangGraph copies the value, and the run fails at
such an interrupt.
"""

from dataclasses import fields
from typing import Any

from threadwire.graphs.langgraph_private.process_patch import ProcessPatch


def _shallow_asdict(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


INTERRUPT_COPIES = ProcessPatch(
    "interrupt copies",
    "A run fails at an interrupt whose value cannot be deep-copied.",
    {"langgraph.pregel.debug:asdict": lambda original: _shallow_asdict},
)
