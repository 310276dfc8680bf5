"""Hypothesis strategies for arbitrary values that a graph may emit."""

import dataclasses
import enum
from collections import OrderedDict, UserDict, deque, namedtuple
from datetime import UTC
from types import MappingProxyType

from hypothesis import strategies as st
from pydantic import BaseModel


class AlwaysRaises:
    """Every operation raises."""

    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__

    def __getattr__(self, name):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    def __hash__(self):
        return 1


class ReturnsSelf:
    def to_dict(self):
        return self


class BrokenMapping(UserDict):
    def items(self):
        raise RuntimeError("no")

    def __iter__(self):
        raise RuntimeError("no")


class BrokenModel(BaseModel):
    anything: object = None

    def model_dump(self, **kwargs):
        raise RuntimeError("no")


@dataclasses.dataclass
class MissingAttribute:
    present: int = 1
    missing: int = 2

    def __post_init__(self):
        del self.missing


class UnencodableStr(str):
    def encode(self, *args):
        raise RuntimeError("no")


class Colour(enum.Enum):
    RED = "red"
    HUGE = 10**30


class Number(int):
    pass


Point = namedtuple("Point", "x y")

HOSTILE = [
    AlwaysRaises,
    ReturnsSelf,
    BrokenMapping,
    BrokenModel,
    MissingAttribute,
    object,
    lambda: UnencodableStr("text"),
    lambda: Number(10**30),
    lambda: type,
    lambda: BrokenModel,
    lambda: MissingAttribute,
    lambda: len,
    lambda: (each for each in ()),
    lambda: range(3),
    lambda: deque([1]),
    lambda: 3 + 4j,
    lambda: ...,
    lambda: NotImplemented,
    lambda: memoryview(b"abc"),
    lambda: ValueError("x"),
]

text = st.text(st.characters(exclude_categories=()), max_size=5)  # includes lone surrogates
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    text,
    st.binary(max_size=5),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.datetimes(timezones=st.just(UTC) | st.none()),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from(Colour),
    st.sampled_from(HOSTILE).map(lambda create: create()),
)
keys = st.one_of(
    text, st.integers(), st.floats(), st.booleans(), st.none(), st.uuids(), st.tuples(st.integers(), text), st.dates()
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.builds(Point, inner, inner),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4).map(OrderedDict),
        st.dictionaries(keys, inner, max_size=4).map(MappingProxyType),
        st.dictionaries(text, inner, max_size=4).map(UserDict),
        st.frozensets(keys, max_size=4),
        st.builds(BrokenModel, anything=inner),
    ),
    max_leaves=20,
)
