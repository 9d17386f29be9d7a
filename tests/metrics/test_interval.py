"""Intervals against closed forms, SciPy and the share of samples in which they hold the truth."""

import numpy as np
import pytest
from scipy import stats

from unweave.base.errors import MetricError
from unweave.metrics._interval import bootstrap_interval, generator, repeat_interval, weighted_bootstrap_interval


def test_bootstrap_of_a_mean_is_the_normal_interval():
    data = np.random.default_rng(0).normal(size=2000)
    low, high = bootstrap_interval(lambda rows: data[rows].mean(), 2000, np.random.default_rng(1), repeats=4000)
    reach = 1.96 * data.std() / np.sqrt(2000)
    assert low == pytest.approx(data.mean() - reach, abs=0.1 * reach)
    assert high == pytest.approx(data.mean() + reach, abs=0.1 * reach)


def test_bootstrap_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(200):
        data = rng.exponential(size=80)
        low, high = bootstrap_interval(lambda rows, data=data: data[rows].mean(), 80, rng, level=0.9)
        held += low <= 1.0 <= high
    assert 0.82 <= held / 200 <= 0.95


def test_bootstrap_draws_with_replacement_and_the_level_is_the_share_between():
    seen = []
    low, high = bootstrap_interval(
        lambda rows: seen.append(rows) or float(len(seen)), 50, np.random.default_rng(3), repeats=100, level=0.5
    )
    assert all(len(rows) == 50 and rows.min() >= 0 and rows.max() < 50 for rows in seen)
    assert np.mean([len(np.unique(rows)) for rows in seen]) == pytest.approx(50 * (1 - np.exp(-1)), abs=2)
    assert (low, high) == (25.75, 75.25)


def test_bootstrap_centre_shifts_bounds_cut_and_nan_does_not_count():
    values = iter([5.0, np.nan, 6.0, 7.0])
    low, high = bootstrap_interval(
        lambda rows: next(values), 3, np.random.default_rng(0), repeats=4, centre=0.5, bounds=(0.0, 10.0)
    )
    assert low == 0.0
    assert high == pytest.approx(1.45)


@pytest.mark.parametrize("rows", [40, 3000])
def test_weighing_rows_is_drawing_them(rows, monkeypatch):
    monkeypatch.setattr("unweave.metrics._interval.MOST_WEIGHTS", 7000)  # several blocks, the last one not full
    data = np.random.default_rng(0).normal(size=rows)
    gathered = bootstrap_interval(
        lambda drawn: data[drawn].mean(), rows, np.random.default_rng(1), repeats=25, centre=0.1, bounds=(0.05, 9.0)
    )
    weighed = weighted_bootstrap_interval(
        lambda weights: data @ weights / weights.sum(axis=0),
        rows,
        np.random.default_rng(1),
        repeats=25,
        centre=0.1,
        bounds=(0.05, 9.0),
    )
    assert weighed == pytest.approx(gathered, abs=1e-6)
    with pytest.raises(MetricError, match="at least 2"):
        weighted_bootstrap_interval(lambda weights: weights[0], 3, np.random.default_rng(0), repeats=1)


def test_repeats_give_the_student_interval():
    values = [0.3, 0.5, 0.45, 0.6]
    expected = stats.t.interval(0.9, 3, loc=np.mean(values), scale=stats.sem(values))
    assert repeat_interval(values, 50, 0.9) == pytest.approx(expected)
    assert repeat_interval([1.0, 1.0], 50) == (1.0, 1.0)
    assert repeat_interval([0.99, 1.0], 50, bounds=(0.0, 1.0))[1] == 1.0


@pytest.mark.parametrize("rows", [1, 7, 60, 10_000])
def test_draws_that_all_agree_leave_room_for_what_the_rows_do_not_show(rows):
    """A kind of row with this share of all is not among N rows with probability 0.05: found here by bisection."""
    share, above = 0.0, 1.0
    while above - share > 1e-12:
        middle = (share + above) / 2
        share, above = (middle, above) if (1 - middle) ** rows > 0.05 else (share, middle)
    draws = np.random.default_rng(0)
    same = bootstrap_interval(lambda drawn: 1.0, rows, draws, repeats=5, bounds=(0.0, 1.0))
    assert same == pytest.approx((1 - share, 1.0), abs=1e-9)
    again = weighted_bootstrap_interval(lambda w: np.full(w.shape[1], 0.5), rows, draws, repeats=5, bounds=(0.0, 1.0))
    assert again == pytest.approx((max(0, 0.5 - share), min(1, 0.5 + share)), abs=1e-9)
    assert repeat_interval([-1.0, -1.0], rows, bounds=(-1.0, 1.0)) == pytest.approx((-1.0, 2 * share - 1), abs=1e-9)
    for bounds in (None, (0.0, np.inf)):  # where there is no range there is no share of it
        assert bootstrap_interval(lambda drawn: 1.0, rows, draws, repeats=5, bounds=bounds) == (1.0, 1.0)


def test_draws_that_differ_are_left_as_they_are():
    data = np.random.default_rng(0).random(20)
    found = bootstrap_interval(lambda rows: data[rows].mean(), 20, np.random.default_rng(1), bounds=(0.0, 1.0))
    assert found == bootstrap_interval(lambda rows: data[rows].mean(), 20, np.random.default_rng(1))


def test_too_few_repeats_and_impossible_levels_are_errors():
    with pytest.raises(MetricError, match="at least 2"):
        repeat_interval([1.0], 50)
    with pytest.raises(MetricError, match="at least 2"):
        bootstrap_interval(lambda rows: 0.0, 3, np.random.default_rng(0), repeats=1)
    with pytest.raises(MetricError, match="level"):
        repeat_interval([1.0, 2.0], 50, level=95)


def test_generator_knows_its_seed_and_keeps_a_given_generator():
    rng, seed = generator(7)
    assert seed == 7
    assert rng.random() == np.random.default_rng(7).random()
    assert generator(rng) == (rng, None)
