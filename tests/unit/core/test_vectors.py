import sys
from types import ModuleType

import pytest

from threadwire.core.vectors import similarities, unit_vector


@pytest.mark.parametrize("dims", [1, 3, 1536])
def test_the_cosine_of_a_vector_with_itself_is_one(dims):
    vector = unit_vector([0.25 * (n % 7 + 1) for n in range(dims)])
    assert similarities(vector, [vector]) == [pytest.approx(1)]


def test_only_direction_matters():
    assert similarities(
        unit_vector([2, 0]), [unit_vector([5, 0]), unit_vector([0, 3]), unit_vector([-1, 0])]
    ) == pytest.approx([1, 0, -1])


def test_the_cosine_with_a_zero_vector_is_zero():
    assert similarities(unit_vector([1, 1]), [unit_vector([0, 0])]) == [0]


def test_vectors_of_other_dimensions_are_skipped_wherever_they_stand():
    mixed = [unit_vector([1, 0]), unit_vector([1]), b"", unit_vector([0, 1]), unit_vector([1, 2, 3])]
    assert similarities(unit_vector([1, 0]), mixed) == [pytest.approx(1), None, None, pytest.approx(0), None]


def test_no_vectors_give_no_results():
    assert similarities(unit_vector([1]), []) == []


@pytest.mark.parametrize("vector", [[float("nan")], [float("inf"), 1.0]])
def test_a_vector_that_is_not_finite_is_rejected(vector):
    with pytest.raises(ValueError, match="finite"):
        unit_vector(vector)


def test_huge_numbers_keep_their_direction():
    assert similarities(unit_vector([1e300, 0]), [unit_vector([1e-300, 0])]) == [pytest.approx(1)]


def test_numpy_gets_the_same_vectors(monkeypatch):
    """numpy is not a dependency, so a fake records how it is called."""
    shapes = []

    class Matrix:
        def __init__(self, data: bytes) -> None:
            self.data = data

        def reshape(self, *shape: int) -> "Matrix":
            shapes.append(shape)
            return self

        def __matmul__(self, other: "Matrix") -> "Matrix":
            assert (self.data, other.data) == (unit_vector([1, 0]) + unit_vector([0, 1]), unit_vector([1, 1]))
            return self

        def tolist(self) -> list[float]:
            return [0.5, 0.6]

    numpy = ModuleType("numpy")
    numpy.float32 = "float32"
    numpy.frombuffer = lambda data, dtype: Matrix(data)
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    assert similarities(unit_vector([1, 1]), [unit_vector([1, 0]), unit_vector([0, 1])]) == [0.5, 0.6]
    assert shapes == [(2, 2)]
