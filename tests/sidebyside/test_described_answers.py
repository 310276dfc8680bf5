"""The API describes the answers that the scenarios got, and none that cannot be had."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playing import Played

pytestmark = pytest.mark.timeout(600)  # the first test of the session plays all scenarios

Answer = tuple[str, str, int]
"""Method, path and status."""

BROKEN = {502, 503}
"""Only where a graph's own code or the disk is broken, which no scenario is about; other tests are."""


OURS = ("/ag-ui", "/copilotkit", "/metrics", "/ui")
"""What the scenarios do not visit: what the stock server has not, or bundles with tools of its own."""


def test_every_answer_is_described(played: Played) -> None:
    assert set(seen(played)) - set(described(played.api)) == set()


def test_every_described_answer_can_be_had(played: Played) -> None:
    assert {each for each in described(played.api) if each[2] not in BROKEN} - set(seen(played)) == set()


def test_every_error_is_a_sentence(played: Played) -> None:
    for _, exchange in answers(played):
        if exchange["status"] >= 400:
            assert list(exchange["body"]) == ["detail"], exchange
            assert isinstance(exchange["body"]["detail"], str), exchange


def described(api: dict[str, Any]) -> Iterator[Answer]:
    for path, methods in api["paths"].items():
        if path.startswith(OURS):
            continue
        for method, operation in methods.items():
            yield from ((method.upper(), path, int(status)) for status in operation["responses"])


def seen(played: Played) -> Iterator[Answer]:
    for (method, path), exchange in answers(played):
        yield method, path, exchange["status"]


def answers(played: Played) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """What Threadwire answered on paths that it describes."""
    paths = sorted(played.api["paths"], key=lambda path: path.count("{"))
    for _, record in played.records.values():
        for exchange in record:
            method, _, target = exchange["asked"].partition(" ")
            path = next((path for path in paths if _pattern(path).fullmatch(target.partition("?")[0])), None)
            if path is not None and method.lower() in played.api["paths"][path]:
                yield (method, path), exchange


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
