"""Drawn rows against an enumeration of all that may be drawn."""

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.metrics._rows_by_value import RowsByOthers, RowsByValue, in_chunks, random_half

ROW_VALUES = np.array([0, 1, 0, -1, 2, 1, 0, 3, -1, 3])  # value 2 has one row, two rows are missing


def shares(left, right, size):
    """How often each pair of rows was drawn."""
    table = np.zeros((size, size))
    np.add.at(table, (left.ravel(), right.ravel()), 1)
    return table / table.sum()


def test_groups_share_a_value_and_values_come_as_in_the_data():
    drawn = RowsByValue(ROW_VALUES, "f").draw(np.random.default_rng(0), 7000, 3)
    values = ROW_VALUES[drawn]
    assert drawn.shape == (7000, 3)
    assert (values == values[:, :1]).all()
    np.testing.assert_allclose(np.bincount(values[:, 0], minlength=4) / 7000, np.array([3, 2, 0, 2]) / 7, atol=0.02)
    np.testing.assert_allclose(
        np.bincount(drawn[values[:, 0] == 0].ravel())[[0, 2, 6]] / (values == 0).sum(), 1 / 3, atol=0.02
    )


def test_pairs_are_all_pairs_of_different_rows_of_a_value():
    left, right = RowsByValue(ROW_VALUES, "f").draw_pairs(np.random.default_rng(0), (3000, 4))
    expected = np.zeros((10, 10))
    for value in (0, 1, 3):
        rows = [row for row in range(10) if ROW_VALUES[row] == value]
        for a in rows:
            for b in rows:
                if a != b:
                    expected[a, b] = 1 / 7 / (len(rows) - 1)
    np.testing.assert_allclose(shares(left, right, 10), expected, atol=0.01)


def test_only_chosen_rows_are_drawn():
    chosen = np.arange(10) != 6
    part = RowsByValue(ROW_VALUES, "f").within(chosen)
    assert sorted(part.order) == [0, 1, 2, 5, 7, 9]
    with pytest.raises(MetricError, match="'f'"):
        RowsByValue(ROW_VALUES, "f").within(np.arange(10) < 2)


def test_pairs_that_differ_in_one_factor_are_all_such_pairs():
    rng = np.random.default_rng(1)
    numbers = np.stack([rng.integers(3, size=40), rng.integers(2, size=40), rng.integers(4, size=40)], axis=1)
    numbers[:5, 2] = -1
    for k in range(3):
        left, right = RowsByOthers(numbers, k, "f").draw_pairs(np.random.default_rng(0), (20000, 4))
        partners = {}
        for a in range(5, 40):
            fit = [
                b
                for b in range(5, 40)
                if numbers[a, k] != numbers[b, k] and (np.delete(numbers[a], k) == np.delete(numbers[b], k)).all()
            ]
            if fit:
                partners[a] = fit
        expected = np.zeros((40, 40))
        for a, fit in partners.items():
            expected[a, fit] = 1 / len(partners) / len(fit)
        np.testing.assert_allclose(shares(left, right, 40), expected, atol=0.003)


def test_pairs_within_chosen_rows_stay_there():
    numbers = np.stack(np.meshgrid(range(4), range(3), range(5)), axis=-1).reshape(-1, 3)
    chosen = random_half(60, np.random.default_rng(0))
    assert chosen.sum() == 30
    left, right = RowsByOthers(numbers, 2, "f").within(chosen).draw_pairs(np.random.default_rng(1), (500, 2))
    assert chosen[left].all()
    assert chosen[right].all()
    assert (numbers[left, :2] == numbers[right, :2]).all()
    assert (numbers[left, 2] != numbers[right, 2]).all()


def test_many_factors_do_not_overflow():
    numbers = np.tile(np.arange(90)[:, None], (1, 40))  # 90^40 combinations
    numbers[45:] = numbers[:45]
    numbers[45:, 7] += 1
    left, right = RowsByOthers(numbers, 7, "f").draw_pairs(np.random.default_rng(0), (200, 1))
    assert (np.abs(left - right) == 45).all()


def test_no_pair_is_an_error_that_says_what_to_give():
    numbers = np.stack([np.arange(6), np.arange(6)], axis=1)
    with pytest.raises(MetricError, match="give `groups`"):
        RowsByOthers(numbers, 0, "f")


def test_chunks_cover_all_groups_once():
    parts = [np.arange(10)[part] for part in in_chunks(10, 1_500_000)]
    assert [len(part) for part in parts] == [2, 2, 2, 2, 2]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(10))
