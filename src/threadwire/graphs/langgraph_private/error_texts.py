"""What LangGraph's errors mean, where only their text shows it.

**For:** a state read for a subgraph that does not exist must be a 404, and a cancelled task has not failed although
LangGraph records its cancellation as an error.

**Changed LangGraph:** another text is not recognized. Then such a read is reported as an error of the graph, and such a
task shows its cancellation as an error. `tests/unit/graphs/test_private_fallbacks.py` fails when LangGraph changes the
texts.
"""


def names_missing_subgraph(error: ValueError) -> bool:
    return str(error).startswith("Subgraph ")


def is_cancellation(rendered_error: object) -> bool:
    """Whether the error of a task, as it is rendered, is its cancellation."""
    return isinstance(rendered_error, str) and rendered_error.startswith("CancelledError(")
