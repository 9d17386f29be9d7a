"""A run killed at any moment and resumed ends with the weights of a run that was never interrupted, bit for bit."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from unweave.base.errors import RunError
from unweave.data import from_arrays
from unweave.runs import resume, train

SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 12, "training.batch_size": 8}


def small_data():
    return from_arrays(np.random.default_rng(0).random((40, 1, 8, 8), dtype=np.float32))


def weights(folder):
    return load_file(folder / "weights.safetensors")


def assert_same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), name


TRAIN = [sys.executable, "-m", "unweave", "train", "factorvae", "--data", "digits", "--quiet", "--threads", "1"]
SETTINGS = ["nets.hidden=[16]", "training.steps=60", "training.batch_size=16", "discriminator.width=16"]

SLOW_DISK = """
import sys, time
import unweave.runs.loop as loop
from unweave.cli import main

save = loop.save_checkpoint
def save_slowly(*arguments):
    save(*arguments)
    time.sleep(0.3)
loop.save_checkpoint = save_slowly
main(sys.argv[1:])
"""


def test_killed_and_resumed_equals_never_interrupted(tmp_path):
    # factorvae: two players, two optimisers, a second stream of batches
    arguments = [*TRAIN, *(word for setting in SETTINGS for word in ("--set", setting)), "--checkpoint-every", "7"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*arguments, "--run", str(whole)], check=True, timeout=120)

    # A slow disk in the child makes sure that it is alive, and at an arbitrary point, when the signal comes.
    start = [sys.executable, "-c", SLOW_DISK, *arguments[3:]]
    child = subprocess.Popen([*start, "--run", str(cut)])
    deadline = time.monotonic() + 120
    while not (cut / "state.safetensors").exists():
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not (cut / "weights.safetensors").exists()  # it was indeed killed before the end

    subprocess.run([sys.executable, "-m", "unweave", "resume", str(cut), "--quiet"], check=True, timeout=120)
    assert_same(weights(whole), weights(cut))


def test_training_longer_equals_training_long_at_once(tmp_path):
    data = small_data()
    options = {"progress": False, "threads": 1, "checkpoint_every": 5}
    train("vae", data, settings={**SMALL, "training.steps": 25}, run=tmp_path / "long", **options)
    train("vae", data, settings=SMALL, run=tmp_path / "short", **options)
    longer = resume(tmp_path / "short", steps=25, data=data, progress=False)
    assert longer.steps == 25
    assert_same(weights(tmp_path / "long"), weights(tmp_path / "short"))


def test_log_has_each_interval_once_after_a_resume(tmp_path):
    data = small_data()
    train("vae", data, settings=SMALL, run=tmp_path / "run", progress=False, log_every=4, checkpoint_every=6)
    again = resume(tmp_path / "run", steps=20, data=data, progress=False)
    assert again.log()["step"].tolist() == [1, 4, 8, 12, 16, 20]
    assert (np.diff(again.log()["seconds"]) >= 0).all()


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    data = small_data()
    train("vae", data, settings=SMALL, run=tmp_path / "run", progress=False)
    before = (tmp_path / "run" / "state.safetensors").read_bytes()
    resume(tmp_path / "run", data=data, progress=False)
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == before


def test_fewer_steps_than_there_are_is_refused_and_nothing_is_lost(tmp_path):
    data = small_data()
    train("vae", data, settings=SMALL, run=tmp_path / "run", progress=False)
    before = (tmp_path / "run" / "run.json").read_text()
    with pytest.raises(RunError, match="has 12 steps already"):
        resume(tmp_path / "run", steps=5, data=data, progress=False)
    assert (tmp_path / "run" / "run.json").read_text() == before
