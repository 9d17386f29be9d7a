"""Purity of categories: known answers, a slow twin, the baseline of random categories, and mistakes in one line."""

import json
from collections import Counter

import numpy as np
import pytest

from unweave.base.errors import MetricError
from unweave.metrics import category_purity
from unweave.metrics._interval import unseen


def slow(categories, labels):
    """Observation by observation, with dictionaries."""
    found = {}
    for category, label in zip(categories, labels, strict=True):
        if not np.isnan(label):
            found.setdefault(category, Counter())[label] += 1
    return sum(max(counts.values()) for counts in found.values()) / sum(sum(c.values()) for c in found.values())


@pytest.fixture
def noisy():
    """2,000 labels, and categories that are the label in two of three rows and random in the others."""
    rng = np.random.default_rng(3)
    labels = rng.integers(10, size=2000)
    return np.where(rng.random(2000) < 2 / 3, labels, rng.integers(10, size=2000)), labels


def test_the_example_of_the_book():
    """Manning et al. 2008, figure 16.4: three clusters of 17 points, purity (5 + 4 + 3) / 17."""
    categories = np.repeat([0, 1, 2], [6, 6, 5])
    labels = np.array([0] * 5 + [1] + [0] + [1] * 4 + [2] + [0] * 2 + [2] * 3)
    found = category_purity(categories, labels)
    assert float(found) == pytest.approx(12 / 17)
    assert found.rows.tolist() == [6, 6, 5]
    assert found.labels.tolist() == [0, 1, 2]
    np.testing.assert_allclose(found.shares, [5 / 6, 4 / 6, 3 / 5])


def test_it_is_what_a_loop_counts(noisy):
    categories, labels = noisy
    labels = labels.astype(float)
    labels[::7] = np.nan
    assert category_purity(categories, labels).purity == pytest.approx(slow(categories, labels))


def test_perfect_categories_under_other_numbers(noisy):
    labels = noisy[1]
    found = category_purity((labels + 4) % 10, labels)
    assert found.purity == 1
    assert found.interval == unseen((1.0, 1.0), len(labels), bounds=(0.0, 1.0))
    assert found.labels.tolist() == [(k + 6) % 10 for k in range(10)]


def test_random_categories_are_worth_no_more_than_chance(noisy):
    labels = noisy[1]
    random = np.random.default_rng(0).integers(10, size=len(labels))
    found = category_purity(random, labels)
    assert found.purity == pytest.approx(found.chance, abs=0.01)
    assert 0.1 < found.chance < 0.16  # a tenth, and the luck of the largest of ten counts
    assert found.interval[0] < found.chance < found.interval[1]


def test_one_category_is_as_pure_as_the_most_frequent_label():
    found = category_purity(np.zeros(10), [1] * 7 + [0] * 3)
    assert found.purity == found.chance == pytest.approx(0.7)


def test_the_interval_holds_the_value_and_narrows(noisy):
    categories, labels = noisy
    wide, narrow = category_purity(categories[:100], labels[:100]), category_purity(categories, labels)
    for found in (wide, narrow):
        assert found.interval[0] < found.purity < found.interval[1]
    assert np.ptp(narrow.interval) < np.ptp(wide.interval) / 3


def test_probabilities_count_by_the_largest_and_an_empty_category_has_no_label():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.6, 0.4, 0.0], [0.1, 0.2, 0.7]])
    found = category_purity(probabilities, [5, 5, 8])
    assert found.categories.tolist() == [0, 1, 2]
    assert found.rows.tolist() == [2, 0, 1]
    assert np.isnan([found.labels[1], found.shares[1]]).all()
    assert found.labels[[0, 2]].tolist() == [5, 8]
    assert json.loads(json.dumps(found.to_dict()))["labels"] == [5, None, 8]


def test_the_same_seed_gives_the_same_numbers(noisy):
    one, other, third = (category_purity(*noisy, rng=seed).to_dict() for seed in (1, 1, 2))
    assert one == other
    assert one != third


@pytest.mark.parametrize(
    ("categories", "labels", "why"),
    [
        ([0, 1, 1], [0, 1], r"labels have shape \(2,\): expected \(3,\)"),
        ([0, 1], ["a", "b"], "number the names"),
        ([0, 1], [np.nan, np.nan], "no observation has a label"),
        ([0, np.nan], [0, 1], "only finite codes"),
        (["a", "b"], [0, 1], "categories have type"),
        (np.zeros((2, 2, 2)), [0, 1], r"\(N, K\) probabilities"),
        ([], [], "categories have shape"),
    ],
)
def test_mistakes_are_told_in_a_line(categories, labels, why):
    with pytest.raises(MetricError, match=why):
        category_purity(categories, labels)


def test_page_runs(root, run_page):
    assert run_page(root / "docs" / "metrics" / "purity.md") == 2
