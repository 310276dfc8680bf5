"""Normalise exchanges so that two recordings are equal: ids become names in order of appearance, times `<time>`.

The keys that a server adds to nearly every object (its version, its address) are removed from the objects and listed
once per scenario. Otherwise the table of differences would repeat them a thousand times.
"""

import json
import re
import uuid
from typing import Any

NOWHERE = "6f1d2c4e-0000-4000-8000-000000000000"
"""An id that does not exist on either server."""

SERVER_KEYS = frozenset(
    {
        "__after_seconds__",
        "__request_start_time_ms__",
        "langgraph_api_url",
        "langgraph_api_version",
        "langgraph_plan",
        "langgraph_request_id",
    }
)
"""Keys of metadata and `configurable` that describe the server and its request, not the run."""

_ID = re.compile(
    r"(?:(?P<where>threads|runs|assistants|crons|state)/)?"
    r"(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f]))"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?")
_USUAL_TIME = re.compile(r"[\d-]{10}T[\d:]{8}\.\d{6}\+00:00")
_MILLISECONDS = re.compile(r"(?<!\d)1[789]\d{11}(?!\d)")  # milliseconds since the epoch
_REPR = re.compile(r"datetime\.datetime\([^()]*\)|<function \w+ at 0x[0-9a-f]+>")
_ERROR_ID = re.compile(r"\(id [0-9a-f]{12}\)")  # of an error that only the log explains
_POSITION = re.compile(r"\d+(?:-\d+)?")
_FOLDERS = {"threads": "thread", "runs": "run", "assistants": "assistant", "crons": "cron", "state": "checkpoint"}
_SYSTEM_ASSISTANTS = uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")


def system_assistant(graph: str) -> str:
    """Return the id that both servers give the assistant of a graph."""
    return str(uuid.uuid5(_SYSTEM_ASSISTANTS, graph))


class Normalizer:
    """Normalises what one server sent in one scenario."""

    def __init__(self, url: str, gate: str, graphs: list[str]) -> None:
        self._plain = {url: "http://server", gate: "<gate>"}
        self._names = {NOWHERE: "nowhere"} | {system_assistant(graph): f"assistant-{graph}" for graph in graphs}
        self._counts: dict[str, int] = {}
        self._server: dict[str, Any] = {}

    def exchanges(self, recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
        shown = [self._exchange(each) for each in recorded]
        keys = ", ".join(f"{key}={value}" for key, value in sorted(self._server.items()))
        return [*shown, {"request": "server metadata", "keys": keys}]

    def _exchange(self, exchange: dict[str, Any]) -> dict[str, Any]:
        """Name the ids of the request first, then the rest in reading order."""
        named = {key: self._value(exchange[key], key) for key in exchange if key != "frames"}
        if "frames" in exchange:
            named["frames"] = [self._frame(frame) for frame in exchange["frames"]]
        return named

    def _frame(self, frame: dict[str, Any]) -> dict[str, Any]:
        named = {"event": self._value(frame["event"], "event"), "data": self._value(frame["data"], "data")}
        if "id" in frame:
            named["id"] = _POSITION.sub("<position>", frame["id"]) if frame["id"] is not None else None
        return named

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self._value(each, key) for each in value]
        if key in ("bytes", "total_bytes"):
            return "<bytes>"
        if key == "event_id" or (key in ("seq", "timestamp") and isinstance(value, int)):
            return f"<{key}>"  # of the thread wire: a number of the connection on the stock server
        return self._text(value, key) if isinstance(value, str) else value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        """Visit keys in sorted order: the order of JSON keys is not guaranteed and must not decide the names."""
        for key in SERVER_KEYS & value.keys():
            self._server[key] = self._server_value(value[key])
        keys = (key for key in sorted(value, key=lambda key: _order(key, value[key])) if key not in SERVER_KEYS)
        return {self._text(key, "id"): self._value(value[key], key) for key in keys}

    def _server_value(self, value: Any) -> str:
        if isinstance(value, int):
            return "<number>"
        return _ID.sub("<id>", self._without_addresses(str(value)))

    def _text(self, text: str, key: str) -> str:
        role = key.removesuffix("_id") if key.endswith("_id") else "id"
        text = _ID.sub(lambda found: self._name(found, role), self._without_addresses(text))
        text = _TIME.sub(lambda found: _time(found[0]), _ERROR_ID.sub("(id <id>)", text))
        return _MILLISECONDS.sub("<milliseconds>", _REPR.sub("<repr>", text))

    def _without_addresses(self, text: str) -> str:
        for address, name in self._plain.items():
            text = text.replace(address, name)
        return text

    def _name(self, found: re.Match[str], role: str) -> str:
        where = found["where"]
        if found["id"] not in self._names:
            kind = _FOLDERS.get(where, role).removeprefix("parent_")
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[found["id"]] = f"{kind}-{self._counts[kind]}"
        name = self._names[found["id"]]
        return f"{where}/{name}" if where else name


def _order(key: str, value: Any) -> tuple[str, str]:
    """Sort keys that are ids by their values, because the ids are random."""
    masked = _ID.sub("", key)
    return (masked, "") if masked == key else (masked, _ID.sub("", json.dumps(value, sort_keys=True)))


def _time(text: str) -> str:
    """Replace a time. A time that is not in the usual format keeps its format."""
    return "<time>" if _USUAL_TIME.fullmatch(text) else "<time as " + re.sub(r"\d", "0", text) + ">"
