"""The field `extract` of a thread search: paths like `values.messages[-1].content`. A path is parsed once and then
followed in every row."""

import re
from typing import Any

from threadwire.core.entries import Json
from threadwire.errors import Invalid

Path = tuple[str | int, ...]

ROOTS = ("config", "interrupts", "metadata", "values")
MAX_PATHS = 10
MAX_LENGTH = 1000

_ALIAS = re.compile(r"[A-Za-z0-9_]+")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(-?[0-9]{1,9})\]")


def limit_paths(extract: Any) -> Any:
    """Check the number of paths first, since parsing each path, and reporting each error, takes time."""
    if isinstance(extract, dict) and len(extract) > MAX_PATHS:
        raise Invalid(f"extract: must have at most {MAX_PATHS} paths")
    return extract


def parse_extract(extract: dict[str, str]) -> dict[str, Path]:
    return {_alias(alias): parse_path(alias, path) for alias, path in extract.items()}


def _alias(alias: str) -> str:
    if not _ALIAS.fullmatch(alias):
        raise Invalid(f"Extract key {alias[:60]!r} must be a valid identifier (letters, digits, underscores)")
    return alias


def parse_path(alias: str, text: str) -> Path:
    if not text:
        raise Invalid(f"Extract path for {alias[:60]!r} must be a non-empty string")
    if len(text) > MAX_LENGTH:
        raise Invalid(f"Extract path for {alias[:60]!r} is longer than {MAX_LENGTH} characters")
    root = re.match(r"[^.\[\]]*", text)
    assert root is not None
    if root[0] not in ROOTS:
        raise Invalid(f"Extract path {text[:100]!r} must start with one of: {', '.join(ROOTS)}")
    path: list[str | int] = [root[0]]
    at = root.end()
    while at < len(text):
        if (step := _STEP.match(text, at)) is None:
            raise Invalid(f"Extract path {text[:100]!r} is not a path like values.messages[-1].content")
        path.append(step[1] if step[1] is not None else int(step[2]))
        at = step.end()
    return tuple(path)


def follow_path(path: Path, value: Json) -> Json:
    """The value at the path; None if there is none."""
    for step in path:
        if value is None:
            break
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            exists = isinstance(value, list) and -len(value) <= step < len(value)
            value = value[step] if exists else None
    return value
