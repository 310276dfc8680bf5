"""A small but complete protocol, written by following "Adding a protocol" in CONTRIBUTING.md: one line per log entry of
the chosen kinds, over server-sent events."""
