"""What categories stand for: labels that are claimed, those that are not, and categories of data without labels."""

import numpy as np
import pytest

from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.factors import Factors
from unweave.report.categories import CLAIMED, named_categories

DIGIT = Block("digit", (3,), kind="simplex")
STYLE = Block("style", (2,))


def codes(category):
    """Codes of rows with these categories, 0 to 2, and a style that says nothing."""
    rng = np.random.default_rng(0)
    category = np.asarray(category)
    values = {"digit": np.eye(3)[category], "style": rng.normal(size=(len(category), 2))}
    return Codes((DIGIT, STYLE), values)


def factors(**columns):
    names = tuple(columns)
    return Factors(names, np.stack([columns[n] for n in names], axis=1), ("discrete",) * len(names))


def test_a_pure_category_has_its_label_and_a_mixed_one_has_none():
    category = np.repeat([0, 1], [100, 90])
    label = np.concatenate([np.full(100, 7.0), np.repeat([1.0, 2.0, 3.0], 30)])
    label[:4] = 1
    found = named_categories(codes(category), factors(digit=label))
    assert set(found) == {"digit"}  # a style is not chosen from
    pure, mixed, empty = found["digit"].categories
    assert (pure.value, pure.rows, pure.label, pure.share) == (0, 100, "7", pytest.approx(0.96))
    assert (mixed.label, mixed.share) == (None, pytest.approx(1 / 3))
    assert (empty.rows, empty.label, empty.share) == (0, None, None)
    assert found["digit"].purity == pytest.approx((96 + 30) / 190)
    assert found["digit"].words == ("7", "mixed", "unused")
    assert named_categories(codes(category), None)["digit"].words == ()


def test_a_label_is_claimed_from_two_thirds_on():
    label = np.array([4.0] * 2 + [5.0] + [6.0] * 33 + [5.0] * 17)
    found = named_categories(codes([0] * 3 + [1] * 50), factors(digit=label))["digit"]
    assert found.categories[0].share == pytest.approx(CLAIMED)
    assert [each.label for each in found.categories] == ["4", None, None]


def test_the_factor_that_the_category_knows_best_names_it():
    rng = np.random.default_rng(1)
    category = rng.integers(3, size=600)
    kinds, other = np.array([2.0, 0.0, 1.0])[category], rng.integers(4, size=600).astype(float)
    table = Factors(
        ("other", "kind", "size"),
        np.stack([other, kinds, kinds + 0.1], axis=1),
        ("discrete", "discrete", "continuous"),
        (None, ("square", "ellipse", "heart"), None),
    )
    found = named_categories(codes(category), table)["digit"]
    assert found.factor == "kind"
    assert [each.label for each in found.categories] == ["heart", "square", "ellipse"]


@pytest.mark.parametrize(
    "table", [None, Factors(("size",), np.zeros((5, 1)), ("continuous",)), factors(constant=np.zeros(5))]
)
def test_without_labels_there_are_categories_and_no_names(table):
    found = named_categories(codes([0, 0, 2, 2, 2]), table)["digit"]
    assert (found.factor, found.purity) == (None, None)
    assert [each.rows for each in found.categories] == [2, 0, 3]
    assert {each.label for each in found.categories} == {None}


def test_rows_without_a_label_are_left_out():
    label = np.array([1.0, 1.0, np.nan, np.nan, 2.0])
    found = named_categories(codes([0, 0, 0, 1, 2]), factors(digit=label))["digit"]
    assert [(each.rows, each.label) for each in found.categories] == [(2, "1"), (0, None), (1, "2")]


def test_whole_numbers_are_categories_too():
    block = Block("count", (), axes=(), kind="discrete")
    values = np.repeat([2.0, 5.0], 20)
    found = named_categories(Codes((block,), {"count": values}), factors(kind=values))["count"]
    assert [(each.value, each.label) for each in found.categories] == [(2, "2"), (5, "5")]
