"""What a run keeps belongs to its weights: codes and scores of older weights are never shown as those of newer ones."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from unweave.data import from_arrays
from unweave.runs import Run, resume, train

SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 4, "training.batch_size": 8}


def small_data():
    rng = np.random.default_rng(0)
    return from_arrays(rng.random((60, 1, 8, 8), dtype=np.float32), factors=np.arange(60)[:, None] % 3, names=("a",))


@pytest.fixture
def run(tmp_path):
    return train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False, threads=1)


def test_codes_and_scores_follow_the_weights(run):
    run.encode_split("train")
    before = run.codes()
    run.evaluate(["mapc"])
    longer = resume(run.path, steps=30, data=small_data(), progress=False)
    assert longer.scores() is None
    after = longer.codes()
    assert longer._code_label() == (30, "train")  # the same rows, encoded again
    assert not np.allclose(before.flat()[0], after.flat()[0])
    np.testing.assert_allclose(after.flat()[0], longer.encode_rows(longer.code_rows()).flat()[0], rtol=1e-6)


def test_named_scores_are_added_to_those_there_are(run):
    run.evaluate(["mapc", "sap"])
    result = run.evaluate(["cvr"])
    assert list(result) == ["cvr"]
    assert set(Run.open(run.path, data=small_data()).scores()) == {"mapc", "sap", "cvr"}
    run.encode_split("train")  # other rows: the old scores are not theirs
    run.evaluate(["cvr"])
    assert set(run.scores()) == {"cvr"}


def test_the_weights_file_is_written_by_a_resume_when_a_kill_came_before_it(run):
    whole = load_file(run.path / "weights.safetensors")
    (run.path / "weights.safetensors").unlink()
    resume(run.path, data=small_data(), progress=False)
    again = load_file(run.path / "weights.safetensors")
    assert whole.keys() == again.keys()
    assert all(np.array_equal(whole[name], again[name]) for name in whole)


def test_without_factors_everything_else_works(tmp_path):
    data = from_arrays(np.random.default_rng(0).random((60, 1, 8, 8), dtype=np.float32))
    run = train("vae", data, settings=SMALL, run=tmp_path / "run", progress=False, threads=1)
    result = run.evaluate()
    assert {"information", "mapc", "total_correlation"} <= set(result)
    assert "mig" in result.skipped
    assert run.report().exists()


def test_ctrl_c_says_how_to_go_on(tmp_path):
    words = [
        "train",
        "vae",
        "--data",
        "digits",
        "--set",
        "training.steps=100000",
        "--set",
        "nets.hidden=[16]",
        "--quiet",
    ]
    command = [sys.executable, "-m", "unweave", *words, "--threads", "1", "--run", str(tmp_path / "run")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not (tmp_path / "run" / "log.csv").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    error = child.communicate(timeout=60)[1]
    assert child.returncode == 130
    assert "unweave resume" in error
    assert "Traceback" not in error
