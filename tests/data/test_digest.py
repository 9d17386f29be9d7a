"""Data are known again by their digest: other data are not, the last bits do not count, and little is read."""

import json
import math

import numpy as np
import pytest

from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.data import DATA, DataSet, from_arrays
from unweave.data._digest import LEAST, MOST, VALUES, _rounded, _sampled, data_difference, digest, factor_difference

RNG = np.random.default_rng(0)
IMAGES = RNG.random((50, 8, 8), dtype=np.float32)


def test_equal_data_have_equal_digests_however_they_are_kept(tmp_path):
    np.save(tmp_path / "x.npy", IMAGES)
    kept = json.loads(json.dumps(digest(from_arrays(IMAGES))))
    assert kept["size"] == 50
    for same in (IMAGES.copy(), IMAGES.astype(np.float64), np.load(tmp_path / "x.npy", mmap_mode="r")):
        assert digest(from_arrays(same)) == kept
        assert data_difference(from_arrays(same), kept) == ""


@pytest.mark.parametrize("row", [0, 23, 49])
def test_one_other_image_among_few_is_seen(row):
    other = IMAGES.copy()
    other[row, 3, 4] = 1 - other[row, 3, 4]
    assert (
        data_difference(from_arrays(other), digest(from_arrays(IMAGES)))
        == "it has as many observations, but other ones"
    )


def test_other_order_type_and_size_are_seen():
    kept = digest(from_arrays(IMAGES))
    assert data_difference(from_arrays(IMAGES[::-1]), kept)
    assert data_difference(from_arrays(IMAGES, values="real"), kept)
    assert data_difference(from_arrays(IMAGES.reshape(50, 4, 16)), kept)
    assert data_difference(from_arrays(IMAGES[:40]), kept) == "it has 40 observations instead of 50"


def test_the_last_bits_do_not_count():
    pixels = (RNG.integers(0, 256, (30, 8, 8)) / 255).astype(np.float32)
    once, again = np.nextafter(pixels, np.float32(0)), np.nextafter(pixels, np.float32(2))
    assert data_difference(from_arrays(once, values="real"), digest(from_arrays(again, values="real"))) == ""


def test_rounding_is_to_twelve_significant_bits():
    values = np.concatenate([RNG.normal(size=300) * 10.0 ** RNG.integers(-9, 9, 300), [0.0, -0.0, 1.0, -3.0, 255.0]])
    values = values.astype(np.float32)
    expected = [math.ldexp(round(math.frexp(v)[0] * 4096), math.frexp(v)[1] - 12) for v in map(float, values)]
    found = np.frombuffer(_rounded(values), dtype="<u4") << 12
    np.testing.assert_array_equal(found.view("<f4"), np.array(expected, dtype=np.float32))


def test_of_a_million_rows_few_are_read_and_always_the_same():
    asked = []

    def read(rows):
        asked.extend(rows)
        return np.repeat(rows[:, None], 1000, axis=1).astype(np.float32)

    data = DataSet("large", DataSpec((1000,), "real", 1_000_000), read)
    kept = digest(data)
    rows = min(MOST, VALUES // 1000)
    assert len(set(asked)) == rows
    assert {0, 999_999} <= set(asked)
    assert len(asked) <= rows + 256
    assert digest(data) == kept


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 5000])
@pytest.mark.parametrize("values", [1, 1000, VALUES])
def test_rows_that_are_looked_at(size, values):
    rows = _sampled(DataSet("any", DataSpec((values,), "real", size), lambda rows: rows))
    assert len(rows) == min(size, max(LEAST, min(MOST, VALUES // values)))
    assert rows[0] == 0
    assert rows[-1] == size - 1
    assert len(np.unique(rows)) == len(rows)


def test_data_that_change_each_time_are_known_by_their_size_only():
    rng = np.random.default_rng(1)
    data = DataSet("noisy", DataSpec((3,), "real", 20), lambda rows: rng.normal(size=(len(rows), 3)).astype(np.float32))
    kept = digest(data)
    assert kept["observations"] == ""
    assert data_difference(data, kept) == ""
    assert data_difference(data.take(range(10)), kept) == "it has 10 observations instead of 20"


def test_factors_by_name_value_and_label():
    def data(values, labels):
        factors = Factors(
            ("who", "size"), np.stack([values, RNG.random(50)], axis=1), ("discrete", "continuous"), labels
        )
        return from_arrays(IMAGES, factors=factors)

    who = np.arange(50) % 2
    kept = digest(data(who, (("ada", "ben"), None)))
    assert factor_difference(data(who, (("ada", "ben"), None)), kept, ("who",)) == ""
    assert (
        factor_difference(data(1 - who, (("ada", "ben"), None)), kept, ("who",))
        == "it has other values of factor 'who'"
    )
    assert factor_difference(data(who, (("ben", "ada"), None)), kept, ("who",))
    assert factor_difference(from_arrays(IMAGES), kept, ("who",)) == "it has no factor 'who'"
    assert factor_difference(from_arrays(IMAGES), kept, ()) == ""
    assert data_difference(from_arrays(IMAGES), kept) == ""  # factors may come later: they are for scores


@pytest.mark.parametrize("name", ["blobs", "gaussians", "digits", "moving_digits"])
def test_made_data_are_known_again(name):
    assert digest(DATA[name]().load()) == digest(DATA[name]().load())
