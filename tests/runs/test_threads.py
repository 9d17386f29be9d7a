"""Threads of a run: fixed ones are as before, chosen ones are kept with the run and repeated after a kill."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file

from unweave.base.errors import RunError
from unweave.data import load
from unweave.runs import Manifest, resume, threads, train
from unweave.runs.log import read_log
from unweave.runs.manifest import read_manifest
from unweave.runs.threads import Chosen, Fixed, Record, most_threads, threads_of, used

SMALL = {"nets.hidden": [16], "training.steps": 12, "training.batch_size": 8}


@pytest.fixture(autouse=True)
def as_many_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Forced:
    """Stands for the chooser: another count after every few steps. It has seen so many steps: `seen`."""

    def __init__(self, most=2, cores=2, every=3):
        self.most, self.limit, self.taken, self.threads, self.every, self.seen = most, most, 0, 1, every, 0

    def made(self, seconds, now, held):
        assert seconds >= 0
        self.seen += 1
        self.threads = 1 + self.seen // self.every % 2


def chosen(path, until=0, tell=lambda line: None, every=3):
    return Chosen(Record(path), until, tell, chooser=Forced(every=every))


def steps(of, first, last):
    """The threads that torch has at each step."""
    counts = []
    for step in range(first, last + 1):
        of.begin(step)
        counts.append(torch.get_num_threads())
        of.end()
    return counts


def test_every_change_is_written_before_its_step(tmp_path):
    path = tmp_path / "threads.csv"
    made = chosen(path)
    for step in range(1, 10):
        made.begin(step)
        assert Record(path).at(step) == torch.get_num_threads()
        made.end()
    assert path.read_text() == "step,threads\n1,1\n4,2\n7,1\n"


def test_recorded_steps_have_the_threads_they_had_and_later_ones_are_chosen(tmp_path):
    path = tmp_path / "threads.csv"
    first = steps(chosen(path), 1, 11)
    assert first == [1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2]
    text = path.read_text()
    again = chosen(path, until=11, every=1)
    assert steps(again, 6, 11) == first[5:]
    assert path.read_text() == text
    assert again.chooser.seen == 0  # what is repeated is no choice and teaches nothing
    assert steps(again, 12, 15) == [1, 2, 1, 2]
    assert path.read_text() == text + "12,1\n13,2\n14,1\n15,2\n"


@pytest.mark.parametrize("end", ["1", "16", "16,", "16,2"])
def test_a_line_that_a_kill_cut_short_is_removed(tmp_path, end):
    path = tmp_path / "threads.csv"
    path.write_text("step,threads\n1,1\n4,2\n" + end)
    record = Record(path)
    assert path.read_text().endswith(end)  # who only reads leaves it
    assert record.lines == [(1, 1), (4, 2)]
    Record(path, check=lambda: None)
    assert path.read_text() == "step,threads\n1,1\n4,2\n"


@pytest.mark.parametrize("line", ["x,1", "3", "3,0", "0,1", "1,2,3"])
def test_a_damaged_record_is_one_line(tmp_path, line):
    path = tmp_path / "threads.csv"
    path.write_text(f"step,threads\n{line}\n")
    with pytest.raises(RunError, match=r"threads\.csv is damaged: .*remove it"):
        Record(path)


def test_a_torn_header_begins_anew(tmp_path):
    path = tmp_path / "threads.csv"
    path.write_text("step,th")
    record = Record(path, check=lambda: None)
    record.add(1, 2)
    assert path.read_text() == "step,threads\n1,2\n"


def test_one_line_when_cores_are_taken_and_not_a_flood(tmp_path):
    now, said = [100.0], []
    made = Chosen(Record(tmp_path / "threads.csv"), 0, said.append, Forced(2), clock=lambda: now[0])

    def after(seconds, taken, limit):
        now[0] += seconds
        made.chooser.taken, made.chooser.limit = taken, limit
        steps(made, 1, 1)

    after(1, 0, 2)
    assert not said
    for _ in range(5):
        after(1, 1, 1)
    assert said == ["1 core is taken by other programs: training goes on with 1 thread"]
    for _ in range(10):
        after(1, 0, 2)
        after(1, 2, 1)
    assert len(said) == 1
    after(60, 0, 2)
    assert said[1:] == ["the cores are free again: training goes on with up to 2 threads"]


def test_fixed_threads_are_set_and_nothing_is_written(tmp_path):
    train("vae", load("digits"), settings=SMALL, run=tmp_path / "run", progress=False, threads=2)
    assert torch.get_num_threads() == 2
    assert not (tmp_path / "run" / "threads.csv").exists()
    manifest = read_manifest(tmp_path / "run")
    assert manifest.threads == 2
    assert used(manifest, tmp_path / "run") == [2]


def test_chosen_threads_are_with_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "Chooser", Forced)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "threads.csv").write_text("step,threads\n1,2\n")  # of a run that was here before
    run = train("vae", "digits", settings=SMALL, run=tmp_path / "run", progress=False)
    assert read_manifest(tmp_path / "run").threads is None
    assert Record(tmp_path / "run" / "threads.csv").lines == [(1, 1), (4, 2), (7, 1), (10, 2)]
    assert used(run.manifest, run.path) == [1, 2, 1, 2]
    resume(tmp_path / "run", steps=16, progress=False)
    assert Record(tmp_path / "run" / "threads.csv").lines[4:] == [(13, 1), (16, 2)]


def test_an_accelerator_has_nothing_to_choose(tmp_path):
    values = {"system": "vae", "settings": {}, "data": "digits", "data_settings": {}, "data_spec": {}, "split": {}}
    values |= {"seed": 0, "threads": None, "log_every": 1, "checkpoint_every": 1}
    assert isinstance(threads_of(Manifest(**values, device="cuda"), None, print), Fixed)


def test_omp_num_threads_is_the_most(monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda: 16)
    for value, most in (("3", 3), ("0", 1), ("100", 8), ("", 8), ("many", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert most_threads() == most
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert most_threads() == 8


# A slow disk makes sure that the child is alive, and at an arbitrary point, when the signal comes.
CHILD = """
import sys, time
sys.path.insert(0, sys.argv.pop(1))
import unweave.runs.loop as loop
import unweave.runs.threads as threads
from test_threads import Forced
from unweave.cli import main

every = int(sys.argv.pop(1))
threads.Chooser = lambda most, cores: Forced(most, cores, every)
save = loop.save_checkpoint
def save_slowly(*arguments):
    save(*arguments)
    time.sleep(0.3)
loop.save_checkpoint = save_slowly
main(sys.argv[1:])
"""
# Convolutions of small batches: sums that differ with the number of threads.
NETWORK = ["nets.kind=convolutional", "nets.channels=[16, 16]", "training.batch_size=16", "training.steps=36"]


def weights(folder):
    return {name: array.tobytes() for name, array in load_file(folder / "weights.safetensors").items()}


@pytest.mark.timeout(300)
def test_killed_and_resumed_equals_the_same_steps_with_the_same_threads(tmp_path):
    cut = tmp_path / "cut"
    child = [sys.executable, "-c", CHILD, str(Path(__file__).parent)]
    words = [word for setting in NETWORK for word in ("--set", setting)]
    options = ["--quiet", "--checkpoint-every", "7", "--log-every", "1", "--run", str(cut)]
    started = subprocess.Popen([*child, "3", "train", "tcvae", "--data", "digits", *words, *options])
    deadline = time.monotonic() + 200
    while not Record(cut / "threads.csv").last_step > 12:
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.01)
    os.kill(started.pid, signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    assert not (cut / "weights.safetensors").exists()
    before, logged = Record(cut / "threads.csv").lines, read_log(cut / "log.csv")

    # Chosen otherwise by the one that goes on.
    subprocess.run([*child, "5", "resume", str(cut), "--quiet"], check=True, timeout=120)
    record, log = Record(cut / "threads.csv"), read_log(cut / "log.csv")
    assert record.lines[: len(before)] == before
    assert len(record.lines) > len(before)
    for name in logged.keys() - {"seconds"}:  # what was logged before the kill is what is logged now
        assert log[name][: len(logged[name])].tobytes() == logged[name].tobytes()

    # Never interrupted, and made to follow the record: its log says that all 36 steps were made.
    whole = tmp_path / "whole"
    whole.mkdir()
    for name in ("run.json", "threads.csv", "log.csv"):
        shutil.copy(cut / name, whole)
    resume(whole, anew=True, progress=False)
    assert Record(whole / "threads.csv").lines == record.lines
    assert weights(whole) == weights(cut)

    # The test could fail: one thread throughout gives other bits.
    train("tcvae", "digits", settings=NETWORK, run=tmp_path / "one", threads=1, progress=False)
    assert weights(tmp_path / "one") != weights(cut)
