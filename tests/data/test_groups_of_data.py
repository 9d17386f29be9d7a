"""Groups from an array, a partition or a function; what a batch carries of them and of labels."""

import numpy as np
import pytest

from unweave.base.errors import DataError
from unweave.batches.assemble import assemble
from unweave.core.order import Reads
from unweave.data import from_arrays

X = np.arange(12, dtype=np.float32).reshape(6, 2)
DATA = from_arrays(X, values="real")


@pytest.mark.parametrize(
    "by",
    [np.array(list("abacbb")), [[0, 2], [1, 4, 5], [3]], lambda row: "abacbb"[row]],
    ids=["array", "lists", "call"],
)
def test_three_ways_to_say_the_same_groups(by):
    grouped = DATA.with_groups(by)
    assert grouped.factors.names == ("group",)
    assert grouped.factors.column("group").tolist() == [0, 1, 0, 2, 1, 1]
    batch = assemble(grouped, np.array([5, 3, 4, 0]), Reads(group="group"))
    assert batch.group.tolist() == [0, 1, 0, 2]


def test_groups_join_the_factors_there_are():
    data = from_arrays(X, values="real", factors=np.array([0, 1, 0, 1, 0, 1]), names=("kind",))
    grouped = data.with_groups([[0, 1], [2, 3], [4, 5]], name="pair")
    assert grouped.factors.names == ("kind", "pair")
    assert grouped.take([4, 5]).factors.column("pair").tolist() == [2, 2]
    with pytest.raises(DataError, match="has a factor 'pair' already"):
        grouped.with_groups([[0, 1], [2, 3], [4, 5]], name="pair")


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ([[0, 1], [], [2, 3, 4, 5]], "group 1 is empty"),
        ([[0, 1], [1, 2, 3, 4, 5]], "group 1 has a row that is in a group already"),
        ([[0, 1], [2, 3, 4]], "row 5 of .* is in no group"),
        ([[0, 1], [2, 3, 4, 6]], "group 1 has row 6"),
        (np.zeros(5), "5 groups were given for the 6 observations"),
    ],
)
def test_bad_groups_are_named(by, message):
    with pytest.raises(DataError, match=message):
        DATA.with_groups(by)


def test_labels_are_known_example_by_example():
    data = from_arrays(X, values="real", factors={"digit": np.array([0, 1, np.nan, 1, 0, 1])})
    usable = {"digit": np.array([True, True, True, False, True, True])}
    batch = assemble(data, np.array([3, 2, 1, 0]), Reads(labels=("digit",)), usable)
    assert batch.labels["digit"].mask.tolist() == [False, False, True, True]
    assert batch.labels["digit"].value.tolist() == [0, 0, 1, 0]  # nothing of what is withheld is left in the batch


def test_a_row_without_a_group_is_named():
    data = from_arrays(X, values="real", factors={"digit": np.array([0, 1, np.nan, 1, 0, 1])})
    with pytest.raises(DataError, match=r"row 2 of .* belongs to no group: its 'digit' is missing"):
        assemble(data, np.array([0, 2]), Reads(group="digit"))
    with pytest.raises(DataError, match="has no factors and 'digit' is needed"):
        assemble(DATA, np.array([0, 2]), Reads(group="digit"))
