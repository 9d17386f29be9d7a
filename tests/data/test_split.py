"""Splits: every row once, the right sizes, the same everywhere, combinations held out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unweave.base.errors import ConfigError, DataError, UnknownNameError
from unweave.core.factors import Factors
from unweave.data import Split, from_arrays, hold_out_combinations, split


def splitmix64(seed: int, row: int) -> int:
    """The rank of a row in Python's own integers."""

    def mix(value: int) -> int:
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % 2**64
        return value ^ (value >> 31)

    golden = 0x9E3779B97F4A7C15
    return mix(mix((row * golden + mix((seed + golden) % 2**64)) % 2**64))


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_against_python_integers(seed):
    order = sorted(range(100), key=lambda row: splitmix64(seed, row))
    parts = split(100, {"train": 0.7, "validation": 0.1, "test": 0.2}, seed)
    assert parts["train"].tolist() == sorted(order[:70])
    assert parts["validation"].tolist() == sorted(order[70:80])
    assert parts["test"].tolist() == sorted(order[80:])


def test_the_same_on_every_machine():
    assert split(10, seed=0)["test"].tolist() == [1, 5]


@pytest.mark.parametrize("n", [6, 7, 10, 1001])
def test_every_row_once_and_sizes_within_one(n):
    fractions = {"a": 0.5, "b": 0.3, "c": 0.2}
    parts = split(n, fractions, 3)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(n))
    for name, part in fractions.items():
        assert abs(len(parts[name]) - part * n) <= 1
        assert (np.diff(parts[name]) > 0).all()


def test_rows_keep_their_order_when_others_are_removed():
    """The ranks are fixed, so only rows near the border between the parts change sides."""
    all_rows, fewer = np.arange(1000), np.arange(0, 1000, 2)
    big, small = split(all_rows, seed=5), split(fewer, seed=5)
    stayed = np.isin(small["train"], big["train"]).mean()
    assert stayed > 0.95  # a new random permutation would keep about 0.8


def test_seeds_differ_and_look_random():
    masks = np.stack([np.isin(np.arange(2000), split(2000, seed=seed)["test"]) for seed in range(20)])
    np.testing.assert_allclose(masks.mean(axis=0).mean(), 0.2)
    # Number of seeds that put a row in test is binomial(20, 0.2), variance 3.2.
    assert masks.sum(axis=0).var() == pytest.approx(3.2, rel=0.15)
    # Neighbouring rows are independent.
    assert abs(np.corrcoef(masks[:, :-1].ravel(), masks[:, 1:].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("fractions", [{"a": 0.5, "b": 0.4}, {"a": 1.2, "b": -0.2}, {"a": 1.0, "b": 0.0}])
def test_fractions_must_make_a_whole(fractions):
    with pytest.raises(DataError, match="add up to 1"):
        split(10, fractions)


def test_too_few_rows():
    with pytest.raises(DataError, match="2 rows are too few for a part 'test'"):
        split(2)


@pytest.fixture
def factors() -> Factors:
    grid = np.array(list(itertools.product(range(3), range(4), [0.0, 0.25, 1 / 3], [0, 1, 2])), dtype=float)
    grid[5, 1] = np.nan
    labels = (("square", "heart", "a,b"), None, None, ("1990", "1995", "1999"))
    return Factors(("shape", "x", "angle", "year"), grid, ("discrete", "discrete", "continuous", "discrete"), labels)


def test_conditions_against_a_loop(factors):
    years = (1990, 1995, 1999)
    cases = {
        "shape=heart": lambda s, x, a, y: s == 1,
        "shape==heart": lambda s, x, a, y: s == 1,
        "shape!=heart,x>=2": lambda s, x, a, y: s != 1 and x >= 2,
        ' shape = "a,b" , x < 1 ': lambda s, x, a, y: s == 2 and x < 1,
        "shape=1": lambda s, x, a, y: s == 1,
        "shape>=1": lambda s, x, a, y: s >= 1,
        "x!=0": lambda s, x, a, y: x != 0 and not np.isnan(x),
        "angle=0.3333333": lambda s, x, a, y: a == 1 / 3,
        "angle>0.3333333": None,
        "angle>=0.3333333": lambda s, x, a, y: a == 1 / 3,
        "year>1990,year<=1.995e3": lambda s, x, a, y: years[int(y)] == 1995,
        "year=1999": lambda s, x, a, y: y == 2,
    }
    for text, rule in cases.items():
        if rule is None:
            with pytest.raises(DataError, match="no row fulfils"):
                hold_out_combinations(factors, text)
            continue
        expected = [rule(*row) for row in factors.values]
        assert hold_out_combinations(factors, text).tolist() == expected, text


def test_several_texts_are_joined_by_or(factors):
    both = hold_out_combinations(factors, ["shape=heart,x=0", "year=1990"])
    one, two = hold_out_combinations(factors, "shape=heart,x=0"), hold_out_combinations(factors, "year=1990")
    np.testing.assert_array_equal(both, one | two)


@pytest.mark.parametrize(
    "text", ["", "shape", "shape=", "=heart", "shape=heart,", "shape~heart", "x>=1;", ",x=1", "x=>2", 'shape="a']
)
def test_unreadable_conditions(factors, text):
    with pytest.raises(DataError, match="cannot read the held-out combination") as caught:
        hold_out_combinations(factors, text)
    assert "\n" not in str(caught.value)


def test_wrong_names_and_values(factors):
    with pytest.raises(UnknownNameError, match="unknown factor 'shpae': did you mean 'shape'"):
        hold_out_combinations(factors, "shpae=heart")
    with pytest.raises(UnknownNameError, match="'haert': did you mean 'heart'"):
        hold_out_combinations(factors, "shape=haert")
    with pytest.raises(DataError, match="names without an order"):
        hold_out_combinations(factors, "shape>heart")
    with pytest.raises(DataError, match="'x' holds numbers"):
        hold_out_combinations(factors, "x=left")
    with pytest.raises(DataError, match="no row fulfils"):
        hold_out_combinations(factors, "x=17")


def test_split_settings_from_the_command_line(factors):
    settings = Split().override({"train": "0.5", "hold_out": "shape=heart,x>=2; year=1990"})
    assert settings == Split(train=0.5, hold_out=["shape=heart,x>=2", "year=1990"])
    assert Split.from_dict(settings.to_dict()) == settings
    text = hold_out_combinations(factors, settings.hold_out)
    np.testing.assert_array_equal(text, hold_out_combinations(factors, ["shape=heart,x>=2", "year=1990"]))


def test_split_rows(factors):
    data = from_arrays(np.random.default_rng(0).random((len(factors), 5)), factors)
    rows = Split(train=0.8, validation=0.1, hold_out="shape=heart,x>=2").rows(data)
    mask = hold_out_combinations(factors, "shape=heart,x>=2")
    assert list(rows) == ["train", "validation", "test", "held_out"]
    assert rows["held_out"].tolist() == np.flatnonzero(mask).tolist()
    assert sorted(np.concatenate(list(rows.values()))) == list(range(len(data)))
    assert len(rows["train"]) == round(0.8 * (~mask).sum())
    again = Split(train=0.8, validation=0.1, hold_out=("shape=heart,x>=2",)).rows(data)
    assert all(np.array_equal(rows[name], again[name]) for name in rows)


def test_all_rows_may_be_trained_on(factors):
    data = from_arrays(np.random.default_rng(0).random((len(factors), 5)), factors)
    rows = Split(train=1).rows(data)
    assert list(rows) == ["train"]
    assert rows["train"].tolist() == list(range(len(data)))
    assert list(Split(train=0.9, validation=0.1).rows(data)) == ["train", "validation"]


def test_split_refuses(factors):
    with pytest.raises(ConfigError, match="more than the whole"):
        Split(train=0.9, validation=0.2)
    with pytest.raises(ConfigError, match="setting 'train'"):
        Split(train=0)
    with pytest.raises(ConfigError, match=r"setting 'hold_out' .*cannot read"):
        Split(hold_out="shape is heart")
    data = from_arrays(np.random.default_rng(0).random((len(factors), 5)), factors)
    with pytest.raises(DataError, match="holds out every row"):
        Split(hold_out="angle>=0").rows(data)
    with pytest.raises(DataError, match="has no factors"):
        Split(hold_out="angle>=0").rows(from_arrays(np.random.default_rng(0).random((20, 5))))


@pytest.fixture
def people():
    """Twenty people with 1 to 20 pictures each, shuffled."""
    subject = np.random.default_rng(4).permutation(np.repeat(np.arange(20), np.arange(1, 21)))
    return from_arrays(np.random.default_rng(0).random((len(subject), 3)), {"subject": subject, "age": subject / 3})


def test_by_divides_the_values_as_wholes(people):
    """Against Python: values in the order of their ranks, 14 of them to train, 2 to validation, 4 to test."""
    rows = Split(train=0.7, validation=0.1, by="subject", seed=3).rows(people)
    order = sorted(range(20), key=lambda value: splitmix64(3, value))
    shares = {"train": order[:14], "validation": order[14:16], "test": order[16:]}
    subject = people.factors.column("subject")
    assert list(rows) == list(shares)
    for name, values in shares.items():
        assert rows[name].tolist() == [row for row in range(len(people)) if subject[row] in values]


def test_by_goes_with_held_out_rows(people):
    rows = Split(train=0.5, by="subject", hold_out="age>=5").rows(people)
    subject = people.factors.column("subject")
    values = [set(subject[rows[name]]) for name in ("train", "test", "held_out")]
    assert sum(map(len, values)) == len(set.union(*values)) == 20
    assert values[2] == {15, 16, 17, 18, 19}
    assert sum(map(len, rows.values())) == len(people)
    assert (len(values[0]), len(values[1])) in {(7, 8), (8, 7)}


def test_by_refuses_in_one_line(people):
    wrong = {
        "subjct": "unknown factor 'subjct': did you mean 'subject'",
        "age": "'age' of array is continuous",
    }
    for by, words in wrong.items():
        with pytest.raises((DataError, UnknownNameError), match=words) as caught:
            Split(by=by).rows(people)
        assert "\n" not in str(caught.value)
    few = people.take(np.flatnonzero(people.factors.column("subject") < 2))
    with pytest.raises(DataError, match="has 2 values, too few for the parts train, validation, test"):
        Split(train=0.5, validation=0.2, by="subject").rows(few)
    with pytest.raises(DataError, match=r"2 values of 'subject' are too few for a part 'test' of 0.1"):
        Split(train=0.9, by="subject").rows(few)
    with pytest.raises(DataError, match="has no factors: split by='subject'"):
        Split(by="subject").rows(from_arrays(np.random.default_rng(0).random((20, 5))))
    gaps = from_arrays(np.random.default_rng(0).random((4, 5)), {"who": ["a", "", "b", "c"]})
    with pytest.raises(DataError, match="1 rows of array have no value of 'who'"):
        Split(train=0.5, by="who").rows(gaps)
