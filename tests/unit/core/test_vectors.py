import sys
from types import ModuleType

import pytest

from threadwire.core.vectors import nearness, unit


@pytest.mark.parametrize("dims", [1, 3, 1536])
def test_a_vector_is_as_near_to_itself_as_can_be(dims):
    vector = unit([0.25 * (n % 7 + 1) for n in range(dims)])
    assert nearness(vector, [vector]) == [pytest.approx(1)]


def test_length_does_not_matter_and_direction_does():
    assert nearness(unit([2, 0]), [unit([5, 0]), unit([0, 3]), unit([-1, 0])]) == pytest.approx([1, 0, -1])


def test_zeros_are_near_to_nothing():
    assert nearness(unit([1, 1]), [unit([0, 0])]) == [0]


def test_other_dimensions_cannot_be_compared_whatever_stands_around_them():
    mixed = [unit([1, 0]), unit([1]), b"", unit([0, 1]), unit([1, 2, 3])]
    assert nearness(unit([1, 0]), mixed) == [pytest.approx(1), None, None, pytest.approx(0), None]


def test_nothing_is_near_if_there_is_nothing():
    assert nearness(unit([1]), []) == []


@pytest.mark.parametrize("wrong", [[float("nan")], [float("inf"), 1.0]])
def test_what_is_not_finite_is_refused(wrong):
    with pytest.raises(ValueError, match="finite"):
        unit(wrong)


def test_huge_numbers_keep_their_direction():
    assert nearness(unit([1e300, 0]), [unit([1e-300, 0])]) == [pytest.approx(1)]


def test_numpy_is_asked_the_same_question(monkeypatch):
    """It is not among our dependencies, so a stand-in shows what it is asked for."""
    asked = []

    class Matrix:
        def __init__(self, data: bytes) -> None:
            self.data = data

        def reshape(self, *shape: int) -> "Matrix":
            asked.append(shape)
            return self

        def __matmul__(self, other: "Matrix") -> "Matrix":
            assert (self.data, other.data) == (unit([1, 0]) + unit([0, 1]), unit([1, 1]))
            return self

        def tolist(self) -> list[float]:
            return [0.5, 0.6]

    numpy = ModuleType("numpy")
    numpy.float32 = "float32"
    numpy.frombuffer = lambda data, dtype: Matrix(data)
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    assert nearness(unit([1, 1]), [unit([1, 0]), unit([0, 1])]) == [0.5, 0.6]
    assert asked == [(2, 2)]
