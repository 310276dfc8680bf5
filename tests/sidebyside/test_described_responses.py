"""The OpenAPI document describes every response that the scenarios received, and no others."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playback import Played
from scenarios import SCENARIOS

pytestmark = pytest.mark.timeout(600)  # the first test of the session plays all scenarios

Response = tuple[str, str, int]
"""Method, path and status."""

EXCLUDED_STATUSES = {429, 502, 503}
"""Statuses for a full queue, broken graph code or a broken disk. Other tests cover them."""


EXCLUDED_PATHS = (
    "/ag-ui",
    "/chatkit",
    "/copilotkit",
    "/metrics",
    "/ready",
    "/tickets",
    "/ui",
    "/threads/{thread_id}/timeline",
)
"""Paths that no scenario requests: the stock server has none, or bundles them with its own tools."""


def test_every_response_is_described(played: Played) -> None:
    assert set(received_responses(played)) - set(described_responses(played.api)) == set()


def test_every_described_response_occurs(played: Played) -> None:
    assert {each for each in described_responses(played.api) if each[2] not in EXCLUDED_STATUSES} - set(
        received_responses(played)
    ) == set()


def test_every_error_has_a_text(played: Played) -> None:
    for (_, path), exchange in exchanges(played):
        if exchange["status"] == 400 and path.endswith("/commands"):  # a response of the protocol
            assert sorted(exchange["body"]) == ["error", "id", "message", "type"], exchange
        elif exchange["status"] >= 400:
            assert list(exchange["body"]) == ["detail"], exchange
            assert isinstance(exchange["body"]["detail"], str), exchange


def described_responses(api: dict[str, Any]) -> Iterator[Response]:
    for path, methods in api["paths"].items():
        if path.startswith(EXCLUDED_PATHS):
            continue
        for method, operation in methods.items():
            yield from ((method.upper(), path, int(status)) for status in operation["responses"])


def received_responses(played: Played) -> Iterator[Response]:
    for (method, path), exchange in exchanges(played):
        yield method, path, exchange["status"]


def exchanges(played: Played) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Yield Threadwire's exchanges on the paths that it describes. With auth, handlers may choose any status, so those
    exchanges are left out."""
    paths = sorted(played.api["paths"], key=lambda path: path.count("{"))
    for name, (_, record) in played.records.items():
        for exchange in [] if SCENARIOS[name].has_auth else record:
            method, _, target = exchange["request"].partition(" ")
            path = next((path for path in paths if _pattern(path).fullmatch(target.partition("?")[0])), None)
            if path is not None and method.lower() in played.api["paths"][path]:
                yield (method, path), exchange


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
