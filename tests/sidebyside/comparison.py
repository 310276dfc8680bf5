"""Find where two normalised records of one scenario differ."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True)
class Difference:
    place: str
    stock: Any
    threadwire: Any

    def __str__(self) -> str:
        stock, threadwire = format_value(self.stock), format_value(self.threadwire)
        return f"{self.place}\n    stock:      {stock}\n    threadwire: {threadwire}"


def format_value(value: Any) -> str:
    return "(nothing)" if value is ABSENT else json.dumps(value, ensure_ascii=False)


def differences(stock: list[dict[str, Any]], threadwire: list[dict[str, Any]]) -> list[Difference]:
    if [each["request"] for each in stock] != [each["request"] for each in threadwire]:
        return [Difference("request", [each["request"] for each in stock], [each["request"] for each in threadwire])]
    found: list[Difference] = []
    for number, (left, right) in enumerate(zip(stock, threadwire, strict=True), 1):
        place = f"{number} {left['request']}:"
        if left.get("status") != right.get("status"):
            found.append(Difference(f"{place} response", _response(left), _response(right)))
        else:
            found.extend(_compare(left, right, place))
    return found


def _response(exchange: dict[str, Any]) -> dict[str, Any]:
    """Return the whole response, for requests that one server accepts and the other rejects."""
    return {key: value for key, value in exchange.items() if key != "request"}


def _compare(stock: Any, threadwire: Any, place: str) -> Iterator[Difference]:
    if isinstance(stock, dict) and isinstance(threadwire, dict):
        yield from _objects(stock, threadwire, place)
    elif isinstance(stock, list) and isinstance(threadwire, list) and len(stock) == len(threadwire):
        for index, (left, right) in enumerate(zip(stock, threadwire, strict=True)):
            yield from _compare(left, right, f"{place}[{index}]")
    elif type(stock) is not type(threadwire) or stock != threadwire:
        yield Difference(place, stock, threadwire)


def _objects(stock: dict[str, Any], threadwire: dict[str, Any], place: str) -> Iterator[Difference]:
    for key in sorted(stock.keys() | threadwire.keys()):
        left, right = stock.get(key, ABSENT), threadwire.get(key, ABSENT)
        inner = f"{place} {key}" if place.endswith(":") else f"{place}.{key}"
        if key == "frames" and left is not ABSENT and right is not ABSENT:
            yield from _frames(left, right, inner)
        else:
            yield from _compare(left, right, inner)


def _frames(stock: list[Any], threadwire: list[Any], place: str) -> Iterator[Difference]:
    """Number frames as on the stock server. A frame that only Threadwire sends has a `+` and Threadwire's number."""
    matcher = SequenceMatcher(a=_events(stock), b=_events(threadwire), autojunk=False)
    for operation, left, left_end, right, right_end in matcher.get_opcodes():
        if operation == "equal":
            for index, frame in enumerate(stock[left:left_end]):
                yield from _compare(frame, threadwire[right + index], f"{place}[{left + index}]")
            continue
        for index in range(left, left_end):
            yield Difference(f"{place}[{index}]", stock[index], ABSENT)
        for index in range(right, right_end):
            yield Difference(f"{place}[+{index}]", ABSENT, threadwire[index])


def _events(frames: list[Any]) -> list[str]:
    return [str(frame["event"]) for frame in frames]
