"""A run has one writer, and it is told where that cannot be held; its directory does not come back as half a run."""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from unweave.base.errors import RunError
from unweave.data import DataSet, from_arrays
from unweave.runs import Run, resume, train
from unweave.runs import writer as module
from unweave.runs.checkpoint import checkpoint_step
from unweave.runs.writer import LOCK, file_system, sole_writer

SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 40, "training.batch_size": 8}
UNWEAVE = [sys.executable, "-m", "unweave"]
ENDLESS = ["--set", "training.steps=1000000", "--set", "nets.hidden=[16]", "--checkpoint-every", "20", "--quiet"]
posix = pytest.mark.skipif(os.name == "nt", reason="no SIGKILL and no fork on Windows")


def small_data(at=(), act=lambda: None):
    """Data in memory that do something when the given batches are read; the first reading is a look before training."""
    x = np.random.default_rng(0).random((40, 1, 8, 8), dtype=np.float32)
    factors = from_arrays(x, factors=np.arange(40)[:, None] % 4, names=("a",)).factors
    batches = []

    def read(rows):
        batches.append(len(rows))
        if batches.count(8) in at and len(rows) == 8:
            act()
        return x[rows]

    return DataSet("mine", from_arrays(x).spec, read, factors)


def wait_for(condition, child=None):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        assert child is None or child.poll() is None
        time.sleep(0.02)


@pytest.fixture
def training(tmp_path):
    """A run that another process trains without end."""
    run = tmp_path / "run"
    child = subprocess.Popen(
        [*UNWEAVE, "train", "vae", "--data", "digits", *ENDLESS, "--threads", "1", "--run", str(run)]
    )
    wait_for(lambda: (run / "log.csv").exists(), child)
    yield run, child
    child.kill()
    child.wait()


def said(*words):
    done = subprocess.run([*UNWEAVE, *words], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr.strip()


def test_a_second_writer_is_told_who_the_first_is(tmp_path):
    with sole_writer(tmp_path):
        about = json.loads((tmp_path / LOCK).read_text())
        assert (about["process"], about["host"]) == (os.getpid(), socket.gethostname())
        who = f"is being trained by process {os.getpid()} on {socket.gethostname()} since {about['since']}"
        with pytest.raises(RunError, match=who), sole_writer(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()
    assert not (tmp_path / LOCK).exists()
    with sole_writer(tmp_path):
        pass


def test_a_second_train_or_resume_ends_with_one_line_and_changes_nothing(training):
    run, child = training
    before = (run / "run.json").read_text()
    for words in (["resume", str(run), "--steps", "5"], ["train", "vae", "--data", "digits", "--run", str(run)]):
        code, error = said(*words)
        assert code == 2
        assert f"is being trained by process {child.pid} on " in error
        assert len(error.splitlines()) == 1
    assert (run / "run.json").read_text() == before
    assert child.poll() is None


@posix
def test_a_writer_that_was_killed_holds_nothing(training):
    run, child = training
    child.kill()
    child.wait()
    assert (run / LOCK).exists()
    done = checkpoint_step(run / "state.safetensors")
    code, error = said("resume", str(run), "--steps", str(done + 5), "--quiet")
    assert code == 0
    assert all(line.startswith(("this run collapsed", "try ")) for line in error.splitlines())  # of the lock, nothing
    assert checkpoint_step(run / "weights.safetensors") == done + 5
    assert not (run / LOCK).exists()


HOLDS_AND_STARTS_OTHERS = """
import os, subprocess, sys, time
from pathlib import Path
from unweave.runs.writer import sole_writer

with sole_writer(Path(sys.argv[1])) as writer:
    forked = os.fork()
    if forked == 0:
        assert not writer.holds()
        time.sleep(1000)
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    print(forked, started.pid, flush=True)
    time.sleep(1000)
"""


@posix
def test_processes_that_the_writer_started_do_not_keep_the_lock(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", HOLDS_AND_STARTS_OTHERS, str(tmp_path)], stdout=subprocess.PIPE)
    others = [int(word) for word in child.stdout.readline().split()]
    try:
        with pytest.raises(RunError, match=f"trained by process {child.pid} "), sole_writer(tmp_path):
            pass
        child.kill()
        child.wait()
        child.stdout.close()
        for other in others:
            os.kill(other, 0)  # alive
        with sole_writer(tmp_path):
            pass
    finally:
        for other in others:
            os.kill(other, signal.SIGKILL)


def test_many_writers_one_at_a_time(tmp_path):
    inside, most, refused = [], [], []

    def write():
        for _ in range(50):
            try:
                with sole_writer(tmp_path):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
            except RunError:
                refused.append(1)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(most) + len(refused) == 200


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_one_line_says_so_and_training_goes_on(tmp_path, monkeypatch, capsys, number):
    def refuse(file):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module, "_lock", refuse)
    train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False)
    error = capsys.readouterr().err
    assert f"run cannot be locked here ({os.strerror(number)}): nothing keeps a second" in error
    assert len(error.splitlines()) == 1
    assert Run.open(tmp_path / "run").steps == 40


def test_on_a_shared_file_system_one_line_says_what_the_lock_cannot_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "file_system", lambda folder: "nfs4")
    train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False)
    assert "is on a shared file system (nfs4), where other machines may not see" in capsys.readouterr().err


def test_the_kind_of_a_file_system_is_that_of_the_innermost_mount(tmp_path):
    inner, blank = tmp_path / "inner", tmp_path / "with blank"
    for folder in (inner, blank):
        folder.mkdir()
    table = tmp_path / "mounts"
    escaped = str(blank).replace(" ", "\\040")
    table.write_text(
        f"/dev/a / ext4 rw 0 0\nhost:/x {inner} ext4 rw 0 0\nhost:/x {inner} nfs4 rw 0 0\n//h/s {escaped} cifs rw 0 0\n"
    )
    assert file_system(tmp_path, table) == "ext4"
    assert file_system(inner / "run", table) == "nfs4"
    assert file_system(blank, table) == "cifs"
    assert file_system(inner, tmp_path / "no such table") == ""


@posix
@pytest.mark.parametrize("how", ["deleted", "renamed", "replaced", "lock removed"])
def test_a_directory_that_goes_away_while_it_is_trained_is_not_made_again(tmp_path, how):
    run, moved = tmp_path / "run", tmp_path / "moved"

    def act():
        if how == "renamed":
            run.rename(moved)
        elif how == "lock removed":
            (run / LOCK).unlink()
        else:
            shutil.rmtree(run)
        if how == "replaced":
            run.mkdir()
            (run / "mine.txt").write_text("not a run")

    options = {"settings": SMALL, "progress": False, "log_every": 5, "checkpoint_every": 10, "threads": 1}
    with pytest.raises(RunError, match="was deleted, renamed or replaced while it was trained"):
        train("vae", small_data((17,), act), run=run, **options)
    if how == "replaced":
        assert [path.name for path in run.iterdir()] == ["mine.txt"]
    elif how != "lock removed":
        assert not run.exists()
    if how == "renamed":
        resume(moved, data=small_data(), progress=False)
        train("vae", small_data(), run=tmp_path / "whole", **options)
        whole, cut = (load_file(folder / "weights.safetensors") for folder in (tmp_path / "whole", moved))
        assert all(np.array_equal(whole[name], cut[name]) for name in whole)


@posix
def test_a_log_that_is_removed_while_it_is_written_does_not_come_back_without_its_beginning(tmp_path):
    log = tmp_path / "run" / "log.csv"
    with pytest.raises(RunError, match=r"cannot write .*log\.csv"):
        train("vae", small_data((17,), log.unlink), settings=SMALL, run=log.parent, progress=False, log_every=5)
    assert not log.exists()


def test_others_may_encode_score_and_report_while_it_is_trained(training):
    run, child = training
    opened = Run.open(run)
    opened.encode_split()
    since = checkpoint_step(run / "state.safetensors")
    wait_for(lambda: checkpoint_step(run / "state.safetensors") > since, child)
    result = opened.evaluate(["mapc"])
    assert opened.report().exists()
    # What is kept is of the weights it was made with, whatever has been trained since.
    assert int(np.load(run / "codes.npz")["step"]) == opened.steps == opened.system().step
    assert json.loads((run / "scores.json").read_text())["step"] == opened.steps
    assert opened.scores()["mapc"].value == result["mapc"].value
    codes = opened.codes().flat()[0]
    np.testing.assert_array_equal(codes, opened.encode_rows(opened.code_rows()).flat()[0])
    assert child.poll() is None


def test_two_runs_that_are_not_named_get_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = {**SMALL, "training.steps": 2}
    runs = [train("vae", small_data(), settings=small, progress=False).path.as_posix() for _ in range(3)]
    assert runs == ["runs/vae-mine-0", "runs/vae-mine-0-2", "runs/vae-mine-0-3"]
