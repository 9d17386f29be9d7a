"""The log: a term that first appears later gains a column; what a kill cut short is left out."""

import numpy as np
import pytest

from unweave.base.errors import RunError
from unweave.runs.log import TrainingLog, read_log


def test_a_later_term_gains_a_column(tmp_path):
    log = TrainingLog(tmp_path / "log.csv", tmp_path / "tensorboard", 0)
    log.append(1, 0.5, {"a": 1.0})
    log.append(2, 1.0, {"a": 2.0, "b": 3.0})
    log.append(3, 1.5, {"b": 4.0})
    log.close()
    columns = read_log(tmp_path / "log.csv")
    assert list(columns) == ["step", "seconds", "a", "b"]
    np.testing.assert_array_equal(columns["a"], [1, 2, np.nan])
    np.testing.assert_array_equal(columns["b"], [np.nan, 3, 4])


def test_a_row_cut_short_is_left_out_and_a_damaged_cell_is_named(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,seconds,total\n1,0.1,5\n2,0.2")
    assert read_log(path)["total"].tolist() == [5]
    path.write_text("step,seconds,total\n1,0.1,oops\n")
    with pytest.raises(RunError, match="is damaged"):
        read_log(path)


def test_rows_after_the_checkpoint_are_removed_on_resume(tmp_path):
    first = TrainingLog(tmp_path / "log.csv", tmp_path / "tensorboard", 0)
    for step in (1, 2, 3, 4):
        first.append(step, step / 10, {"a": float(step)})
    first.close()
    second = TrainingLog(tmp_path / "log.csv", tmp_path / "tensorboard", 2)
    second.append(3, 0.3, {"a": 33.0})
    second.close()
    columns = read_log(tmp_path / "log.csv")
    assert columns["a"].tolist() == [1, 2, 33]
    assert columns["seconds"].tolist() == [0.1, 0.2, 0.3]
