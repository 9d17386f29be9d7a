"""scikit-learn's digits."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from unweave.data import load


def test_the_packaged_digits_divided_by_16():
    data, packaged = load("digits"), load_digits()
    assert data.spec.shape == (1, 8, 8)
    assert len(data) == 1797
    rows = np.arange(1797)
    np.testing.assert_array_equal(data.observations(rows) * 16, packaged.data.reshape(-1, 1, 8, 8))
    np.testing.assert_array_equal(data.factors.column("digit"), packaged.target)
    assert data.notes == ("pixels 0..16 divided by 16",)


def test_reading_gives_a_copy():
    data = load("digits")
    data.observations([0])[:] = 7
    assert data.observations([0]).max() <= 1
