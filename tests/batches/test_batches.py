"""Batches are a pure function of seed and step: any start gives the same batches, every epoch sees each row once."""

from itertools import chain

import numpy as np
import pytest

from unweave.base.errors import DataError
from unweave.batches.assemble import Batches
from unweave.core.order import Permuted
from unweave.data import from_arrays

DATA = from_arrays(np.arange(20, dtype=np.float32).reshape(20, 1) / 20, values="real")


def permuted(batch_size, seed, start, stop, extra=(), rank=0, processes=1):
    orders = [Permuted(np.arange(20), batch_size, seed, stream) for stream in range(1 + len(extra))]
    return Batches(DATA, orders, start, stop, extra, rank=rank, processes=processes)


def rows_of(batches):
    return [batch.index.tolist() for batch in batches]


def test_starting_later_gives_the_same_batches():
    whole = rows_of(permuted(6, seed=3, start=0, stop=17))
    for start in (1, 3, 8, 16):
        assert rows_of(permuted(6, seed=3, start=start, stop=17)) == whole[start:]


def test_an_epoch_has_distinct_rows_and_the_next_another_order():
    whole = rows_of(permuted(5, seed=0, start=0, stop=8))
    first, second = list(chain(*whole[:4])), list(chain(*whole[4:]))
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second


def test_extra_streams_are_independent_and_observations_belong_to_their_rows():
    for batch in permuted(5, seed=0, start=0, stop=4, extra=("second",)):
        assert batch.index.tolist() != batch.extra["second"].index.tolist()
        np.testing.assert_allclose(batch.x[:, 0].numpy(), batch.index.numpy() / 20, rtol=1e-6)


def test_processes_share_out_the_joint_batch():
    joint = rows_of(permuted(6, seed=1, start=0, stop=5))
    parts = [rows_of(permuted(6, 1, 0, 5, rank=rank, processes=2)) for rank in (0, 1)]
    for step in range(5):
        assert sorted(parts[0][step] + parts[1][step]) == sorted(joint[step])


def test_too_few_rows_for_a_batch():
    with pytest.raises(DataError, match=r"20 observations and a batch 21: set training\.batch_size=20 or less"):
        Permuted(np.arange(20), 21, seed=0)
