"""Long strings in the output of a node.

**For:** LangGraph searches the output of a node for messages. It checks every element of every sequence, including
every character of a string: 20 MB of text blocked all runs for two seconds.

**Changed LangGraph:** `langgraph.pregel._messages` has no `_state_values`. Then strings are searched.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from threadwire.graphs.langgraph_private.process_patch import ProcessPatch


def _without_text(state_values: Callable[[Any], Sequence[Any]], state: Any) -> Sequence[Any]:
    return [value for value in state_values(state) if not isinstance(value, (str, bytes, bytearray))]


TEXT_SEARCH = ProcessPatch(
    "text search",
    "Megabytes of text in the output of a node briefly block all runs.",
    {"langgraph.pregel._messages:_state_values": lambda original: partial(_without_text, original)},
)
