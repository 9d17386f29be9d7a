"""What is found in an array of observations."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.base.errors import DataError
from unweave.data import _check
from unweave.data._check import Found, check_observations, check_values, first_outside


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(_check, "_CHUNK_BYTES", 1000)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
def test_range_against_numpy_over_several_chunks(dtype):
    array = (np.random.default_rng(0).random((50, 4, 5)) * 100).astype(dtype)
    found = check_observations(array, "a")
    assert (found.low, found.high) == (array.min(), array.max())
    assert found.whole == (np.dtype(dtype).kind in "iu")
    assert not found.two


def test_whole_and_two_valued():
    array = np.zeros((200, 10))
    array[150, 3] = 1
    assert check_observations(array, "a") == Found(0, 1, True, True)
    array[151, 3] = 2
    assert check_observations(array, "a") == Found(0, 2, True, False)
    array[199, 9] = 0.5
    assert check_observations(array, "a") == Found(0, 2, False, False)
    assert check_observations(array > 0, "a") == Found(0, 1, True, True)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_bad_pixel_is_named(bad):
    array = np.zeros((300, 3, 4), dtype=np.float32)
    array[237, 1, 2] = bad
    with pytest.raises(DataError, match=rf"a: observation 237 is {bad} at \(1, 2\)") as caught:
        check_observations(array, "a")
    assert "\n" not in str(caught.value)


def test_opposite_infinities_do_not_hide():
    array = np.zeros((10, 2))
    array[3] = np.inf, -np.inf
    with pytest.raises(DataError, match="observation 3 is inf"):
        check_observations(array, "a")


def test_large_finite_values_are_not_infinite():
    array = np.full((100, 10), np.finfo(np.float64).max)
    assert check_observations(array, "a").high == np.finfo(np.float64).max


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 3)), "is empty"),
        (np.zeros((3, 0)), "is empty"),
        (np.zeros(()), "single number"),
        (np.array([["a"]]), "must be numbers"),
        (np.array([[None]]), "must be numbers"),
        (np.zeros((2, 2), dtype=complex), "must be numbers"),
    ],
)
def test_what_is_no_observation(array, message):
    with pytest.raises(DataError, match=message):
        check_observations(array, "a")


@pytest.mark.parametrize(
    ("array", "values", "message"),
    [
        ([[0.0, 1.5]], "unit", "values 0 to 1.5, first outside in observation 0"),
        ([[0.0], [-0.1]], "unit", "first outside in observation 1"),
        ([[0.0, 2.0]], "binary", "means 0 to 1"),
        ([[0.0, 0.5]], "binary", "fractional .* only 0 and 1"),
        ([[-1.0, 3.0]], "counts", "means 0 and above"),
        ([[0.5, 3.0]], "counts", "whole numbers"),
        ([[0.5, 3.0]], "levels", "whole numbers"),
    ],
)
def test_values_must_be_what_they_are_called(array, values, message):
    array = np.array(array)
    with pytest.raises(DataError, match=message):
        check_values(check_observations(array, "a"), values, array, "a")


def test_first_outside_over_chunks():
    array = np.zeros((400, 5))
    assert first_outside(array, 0, 1) is None
    array[[300, 333]] = 2
    assert first_outside(array, 0, 1) == 300


@pytest.mark.parametrize(
    ("pieces", "two"),
    [
        ([[0, 1], [1, 1], [0, 0]], True),
        ([[0, 0], [5, 5]], True),
        ([[0, 0], [5, 5], [3, 3]], False),  # two values in no piece, three in all
        ([[0, 5], [0, 3, 5, 5]], False),
        ([[7, 7]], True),
    ],
)
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_two_values_are_counted_over_all_pieces(monkeypatch, pieces, two, kind):
    """As the plain count of different values in the whole array says."""
    monkeypatch.setattr(_check, "_CHUNK_BYTES", 4)
    array = np.array([value for piece in pieces for value in piece], dtype=kind)[:, None]
    found = _check.check_observations(array, "here")
    assert found.two is two
    assert found.two == (len(np.unique(array)) <= 2)
    assert (found.low, found.high) == (array.min(), array.max())
