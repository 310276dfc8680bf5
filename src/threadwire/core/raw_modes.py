"""What the RAW events of AG-UI can carry."""

RAW_MODES = ("events", "values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "log")
"""The stream modes of LangGraph, and the entries of the log."""

RawModes = tuple[str, ...]
