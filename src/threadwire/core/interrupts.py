"""Interrupts in LangGraph's own form. Which ones are pending or answered, according to the log, is part of the
timeline (`core/timeline/interrupts.py`)."""

INTERRUPT = "__interrupt__"
"""The key of interrupts in LangGraph's streams and writes."""
