"""Orders are pure functions of seed and step: groups stay whole, shares are kept exactly, processes agree."""

import numpy as np
import pytest

from unweave.base.errors import DataError, UnknownNameError
from unweave.batches.orders import Grouped, Shares, group_numbers, grouping_factor
from unweave.core.factors import Factors
from unweave.core.order import Permuted, Table

ROWS = np.arange(100, 130)
GROUPS = np.array([0] * 3 + [1] * 12 + [2] * 1 + [3] * 14)
OWNER = dict(zip(ROWS.tolist(), GROUPS.tolist(), strict=True))


def grouped(per_batch=2, members=None, seed=5):
    return Grouped(ROWS, GROUPS, per_batch, members, seed)


def test_whole_groups_come_whole():
    for step in range(6):
        rows = grouped().rows(step)
        present = {OWNER[row] for row in rows.tolist()}
        assert len(present) == 2
        assert sorted(rows.tolist()) == [row for row in ROWS.tolist() if OWNER[row] in present]


def test_an_epoch_has_every_group_once_and_epochs_differ():
    epochs = [[OWNER[row] for row in np.concatenate([grouped(1).rows(4 * e + i) for i in range(4)])] for e in range(6)]
    for epoch in epochs:
        assert len(epoch) == len(ROWS)
    assert len({tuple(epoch) for epoch in epochs}) > 1


def test_subsampled_groups_have_distinct_members_and_change_from_step_to_step():
    order = grouped(4, members=5)
    seen = set()
    for step in range(40):
        rows = order.rows(step)
        counts = np.bincount([OWNER[row] for row in rows.tolist()], minlength=4)
        assert counts.tolist() == [3, 5, 1, 5]
        assert len(set(rows.tolist())) == len(rows)
        seen |= set(rows.tolist())
    assert seen == set(ROWS.tolist())
    assert order.rows(0).tolist() != order.rows(1).tolist()


def test_a_batch_is_the_same_whenever_it_is_asked_for():
    for order in (grouped(2, 4), Permuted(ROWS, 7, 3), Shares([(ROWS[:4], 0.3), (ROWS[4:], 0.7)], 9, 3)):
        forwards = [order.rows(step).tolist() for step in range(12)]
        backwards = [order.rows(step).tolist() for step in reversed(range(12))]
        assert forwards == backwards[::-1]
        assert len({tuple(rows) for rows in forwards}) > 1


def test_a_group_is_never_divided_between_processes():
    for step in range(8):
        joint = grouped(4, 6).rows(step)
        parts = [grouped(4, 6).rows(step, rank, 2) for rank in (0, 1)]
        assert sorted(np.concatenate(parts).tolist()) == sorted(joint.tolist())
        first, second = ({OWNER[row] for row in part.tolist()} for part in parts)
        assert not first & second
    with pytest.raises(DataError, match="cannot be shared out to 3 processes: a group is never divided"):
        grouped(2).rows(0, 0, 3)


def test_rows_without_a_group_are_left_out():
    groups = np.where(GROUPS == 3, np.nan, GROUPS)
    assert {OWNER[row] for row in Grouped(ROWS, groups, 3, None, 0).rows(0).tolist()} == {0, 1, 2}


def test_too_few_groups():
    with pytest.raises(DataError, match="4 groups and a batch 5: set groups_per_batch=4 or less"):
        grouped(5)


@pytest.mark.parametrize("share", [0.0, 0.002, 1 / 3, 0.5, 0.999, 1.0])
def test_shares_are_kept_exactly_over_the_steps(share):
    labelled, rest = ROWS[:4], ROWS[4:]
    order = Shares([(labelled, share), (rest, 1 - share)], 10, 0)
    given = 0
    for step in range(300):
        rows = order.rows(step)
        assert len(rows) == 10
        given += int(np.isin(rows, labelled).sum())
        assert abs(given - share * 10 * (step + 1)) < 1 + 1e-6
    counts = [sum(int((order.rows(step) == row).sum()) for step in range(300)) for row in labelled]
    assert max(counts) - min(counts) <= 1  # each labelled row as often as any other


def test_shares_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match="must add up to 1"):
        Shares([(ROWS, 0.5), (ROWS, 0.4)], 10, 0)
    with pytest.raises(DataError, match="from an empty set of rows"):
        Shares([(ROWS[:0], 0.5), (ROWS, 0.5)], 10, 0)


def test_group_numbers_follow_first_appearance():
    assert group_numbers(np.array([7.0, 2.0, 7.0, 9.0, 2.0])).tolist() == [0, 1, 0, 2, 1]


def test_which_factor_groups():
    labels = {"digit": 10, "thickness": 0}
    assert grouping_factor(labels, "") == "digit"
    assert grouping_factor({**labels, "pen": 3}, "pen") == "pen"
    assert grouping_factor({**labels, "group": 3}, "") == "group"
    with pytest.raises(UnknownNameError, match="did you mean 'digit'"):
        grouping_factor(labels, "digt")
    with pytest.raises(DataError, match="'thickness' is continuous"):
        grouping_factor(labels, "thickness")
    with pytest.raises(DataError, match="several factors could group the data, digit, pen: choose one"):
        grouping_factor({**labels, "pen": 3}, "")
    with pytest.raises(DataError, match="no groups"):
        grouping_factor({"thickness": 0}, "")


def test_a_table_without_factors_says_what_is_missing():
    with pytest.raises(DataError, match="no factors and 'digit' is needed"):
        Table(ROWS).column("digit")
    factors = Factors(("a",), GROUPS[:, None].astype(float), ("discrete",))
    assert Table(ROWS, factors).column("a").tolist() == GROUPS.tolist()
    assert factors.counts() == {"a": 4}
