"""Vectors as they are stored: unit vectors of 32-bit floats, so that the cosine is a dot product."""

import importlib
import math
from array import array
from collections.abc import Sequence
from itertools import groupby
from operator import mul
from types import ModuleType

_FLOAT = 4


def unit_vector(vector: Sequence[float]) -> bytes:
    """Scale the vector to length one; a zero vector stays zero. Raise `ValueError` if it is not finite."""
    length = math.hypot(*vector)
    if not math.isfinite(length):
        raise ValueError("An embedding must consist of finite numbers.")
    return array("f", [each / length for each in vector] if length else vector).tobytes()


def similarities(near: bytes, vectors: Sequence[bytes]) -> list[float | None]:
    """Return the cosine of each vector with `near`, or None for one with a different number of dimensions."""
    found: list[float | None] = []
    for comparable, group in groupby(vectors, lambda vector: len(vector) == len(near)):
        part = list(group)
        found += _products(near, part) if comparable else [None] * len(part)
    return found


def _products(near: bytes, vectors: list[bytes]) -> list[float]:
    if (numpy := _numpy()) is not None:
        matrix = numpy.frombuffer(b"".join(vectors), dtype=numpy.float32).reshape(len(vectors), len(near) // _FLOAT)
        products: list[float] = (matrix @ numpy.frombuffer(near, dtype=numpy.float32)).tolist()
        return products
    wanted = array("f", near)
    return [sum(map(mul, wanted, array("f", vector))) for vector in vectors]


def _numpy() -> ModuleType | None:
    """Return numpy if it is installed: it is several times as fast. The import is slow, so it happens on first use."""
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None
