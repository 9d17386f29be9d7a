"""Runs that cannot be used, and training that cannot go on: one line, nothing lost, nothing half written."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from unweave.base.errors import ConfigError, DataError, DeviceError, RunError, TrainingError, UnknownNameError
from unweave.core.batch import Batch
from unweave.core.dataspec import DataSpec
from unweave.core.system import SYSTEMS
from unweave.core.terms import Terms
from unweave.data import DataSet, from_arrays
from unweave.runs import Run, resume, train

SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 6, "training.batch_size": 8}


def small_data(rows=40):
    return from_arrays(np.random.default_rng(0).random((rows, 1, 8, 8), dtype=np.float32))


@pytest.fixture
def run(tmp_path):
    return train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False)


def test_missing_and_empty_directories(tmp_path):
    with pytest.raises(RunError, match="there is no run at"):
        Run.open(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"has no run\.json"):
        Run.open(tmp_path)


def test_damaged_manifest(run):
    (run.path / "run.json").write_text('{"format": 1, "system"')
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        Run.open(run.path)
    (run.path / "run.json").write_text('{"format": 1}')
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        Run.open(run.path)
    (run.path / "run.json").write_text("[]")
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        Run.open(run.path)


@pytest.mark.skipif(os.name == "nt", reason="permissions work otherwise on Windows")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root reads everything")
def test_unreadable_manifest(run):
    (run.path / "run.json").chmod(0)
    with pytest.raises(RunError, match="cannot read"):
        Run.open(run.path)


def test_unreadable_path_that_root_cannot_read_either(run):
    (run.path / "run.json").unlink()
    (run.path / "run.json").mkdir()
    with pytest.raises(RunError, match="cannot read"):
        Run.open(run.path)


def test_newer_format(run):
    values = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**values, "format": 99}))
    with pytest.raises(RunError, match=r"made by a newer version.*update unweave"):
        Run.open(run.path)


def test_another_system_than_asked_for(run):
    with pytest.raises(RunError, match="is a run of vae, not of hfvae"):
        Run.open(run.path, system="hfvae")


def test_manifest_changed_to_another_system(run):
    values = json.loads((run.path / "run.json").read_text())
    settings = SYSTEMS["betavae"].config_class().override(SMALL).to_dict()
    (run.path / "run.json").write_text(json.dumps({**values, "system": "betavae", "settings": settings}))
    with pytest.raises(RunError, match="holds weights of vae: this run is of betavae"):
        Run.open(run.path, data=small_data()).system()


def test_damaged_weights(run):
    state = run.path / "state.safetensors"
    whole = state.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"\x00" * 100):
        state.write_bytes(damaged)
        with pytest.raises(RunError, match="are damaged"):
            Run.open(run.path, data=small_data()).system()


def test_weights_of_other_settings(run):
    values = json.loads((run.path / "run.json").read_text())
    values["settings"]["latent"] = 3
    (run.path / "run.json").write_text(json.dumps(values))
    with pytest.raises(RunError, match="does not fit vae with these settings"):
        Run.open(run.path, data=small_data()).system()


def test_a_pickle_in_place_of_weights_is_not_run(run, tmp_path):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "executed",)

    for name in ("state.safetensors", "codes.npz"):
        (run.path / name).write_bytes(pickle.dumps(Evil()))
    opened = Run.open(run.path, data=small_data())
    with pytest.raises(RunError, match="are damaged"):
        opened.system()
    with pytest.raises(RunError, match="are damaged"):
        run.codes()
    assert not (tmp_path / "executed").exists()


def test_object_arrays_in_codes_are_refused(run):
    with (run.path / "codes.npz").open("wb") as file:
        np.savez(file, rows=np.array([{}], dtype=object), **{"value/z": np.zeros((1, 10))})
    with pytest.raises(RunError, match="are damaged"):
        run.codes()


def test_an_existing_run_is_never_overwritten(run):
    before = (run.path / "run.json").read_text()
    with pytest.raises(RunError, match="holds a run already: go on with `unweave resume"):
        train("vae", small_data(), settings=SMALL, run=run.path, progress=False)
    assert (run.path / "run.json").read_text() == before


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write to"):
        train("vae", small_data(), settings=SMALL, run=tmp_path / "file" / "run", progress=False)


def test_a_full_disk_at_checkpoint_time_keeps_the_last_good_one(tmp_path, monkeypatch):
    import unweave.runs.checkpoint as checkpoint

    saved = checkpoint.save_file
    calls = []

    def full_disk(tensors, path, metadata):
        calls.append(path)
        if len(calls) == 3:  # after the first weights and those of step 2
            Path(path).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        saved(tensors, path, metadata=metadata)

    monkeypatch.setattr(checkpoint, "save_file", full_disk)
    with pytest.raises(RunError, match="No space left on device; the last good checkpoint is kept"):
        train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False, checkpoint_every=2)
    assert Run.open(tmp_path / "run", data=small_data()).steps == 2
    Run.open(tmp_path / "run", data=small_data()).system()
    assert not list((tmp_path / "run").glob("*partial*"))
    assert not list((tmp_path / "run").glob(".*partial*"))


class _Explodes:
    """Makes the objective of the VAE NaN from a given step on."""

    def __init__(self, step):
        self.step, self.real = step, SYSTEMS["vae"].objective

    def __call__(self, system, player, batch, step):
        terms = self.real(system, player, batch, step)
        costs = {name: terms[name] * (float("nan") if name == "kl" and step >= self.step else 1) for name in terms}
        return Terms(costs)


def test_a_loss_that_becomes_nan_names_term_and_step_and_keeps_good_weights(tmp_path, monkeypatch):
    explodes = _Explodes(5)
    monkeypatch.setattr(SYSTEMS["vae"], "objective", lambda self, *rest: explodes(self, *rest))
    with pytest.raises(TrainingError, match="term 'kl' of player 'model' became nan at step 5"):
        train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False, checkpoint_every=2)
    kept = Run.open(tmp_path / "run", data=small_data())
    assert kept.steps == 4
    assert all(torch.isfinite(value).all() for value in kept.system().state_dict().values())


def test_weights_that_became_nan_are_not_saved(tmp_path):
    from unweave.runs.checkpoint import save_checkpoint
    from unweave.runs.log import Tally

    system = SYSTEMS["vae"](SYSTEMS["vae"].config_class().override(SMALL), small_data().spec)
    save_checkpoint(tmp_path / "state", system, [], Tally())
    good = (tmp_path / "state").read_bytes()
    with torch.no_grad():
        next(system.parameters()).fill_(float("inf"))
    with pytest.raises(TrainingError, match="is NaN or infinite after step 0"):
        save_checkpoint(tmp_path / "state", system, [], Tally())
    assert (tmp_path / "state").read_bytes() == good


def test_an_accelerator_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="device 'cuda' is not available on this machine: it has cpu"):
        train("vae", small_data(), settings=SMALL, run=tmp_path / "run", device="cuda", progress=False)
    with pytest.raises(UnknownNameError, match="unknown device 'cdua'"):
        train("vae", small_data(), settings=SMALL, run=tmp_path / "run", device="cdua", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"training.batch_size": 1000}, DataError, "set training.batch_size=36 or less"),
        ({"likelihood.kind": "categorical"}, ConfigError, "categorical"),
        ({"nets.kind": "convolutional", "nets.channels": [4] * 4}, ConfigError, "images of 8 x 8 are too small"),
        ({"latnet": 3}, UnknownNameError, "did you mean 'latent'"),
        ({"latent": 0}, ConfigError, "greater than 0"),
    ],
)
def test_settings_that_do_not_fit_leave_nothing_behind(tmp_path, change, error, match):
    with pytest.raises(error, match=match):
        train("vae", small_data(), settings={**SMALL, **change}, run=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("value", "match"),
    [(np.nan, "observation 0 is nan"), (np.inf, "observation 0 is inf"), (1.5, "values='unit' means 0 to 1")],
)
def test_observations_outside_their_spec_are_found_before_training(tmp_path, value, match):
    def read(rows):
        return np.full((len(rows), 1, 8, 8), value, dtype=np.float32)

    data = DataSet("mine", DataSpec((1, 8, 8), "unit", 40), read)
    with pytest.raises(DataError, match=match):
        train("vae", data, settings=SMALL, run=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_observations_of_another_shape_than_their_spec(tmp_path):
    data = DataSet("mine", DataSpec((3, 8, 8), "unit", 40), lambda rows: np.zeros((len(rows), 1, 8, 8), np.float32))
    with pytest.raises(DataError, match="its spec says"):
        train("vae", data, settings=SMALL, run=tmp_path / "run", progress=False)


def test_unknown_preset_and_system(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown preset 'quik': did you mean 'quick'"):
        train("vae", small_data(), preset="quik", run=tmp_path / "run")
    with pytest.raises(UnknownNameError, match="unknown system 'betvae': did you mean 'betavae'"):
        train("betvae", small_data(), run=tmp_path / "run")


def test_unknown_score_split_and_operation(run):
    with pytest.raises(UnknownNameError, match="unknown score 'mgi': did you mean 'mig'"):
        run.evaluate(["mgi"])
    with pytest.raises(UnknownNameError, match="unknown split of this run 'tset': did you mean 'test'"):
        run.encode_split("tset")
    with pytest.raises(UnknownNameError, match="unknown operation 'travrese'"):
        run.operate("travrese")
    with pytest.raises(DataError, match="rows 0 to 39"):
        run.operate("reconstruct", rows=[40])


def test_data_that_changed_since(run):
    other = from_arrays(np.zeros((40, 1, 9, 9), dtype=np.float32) + 0.5)
    with pytest.raises(DataError, match="the data changed since"):
        Run.open(run.path, data=other).encode_split()


def test_data_of_another_size_are_refused(run):
    with pytest.raises(DataError, match=r"is not what .* was trained on, it has 60 observations instead of 40"):
        resume(run.path, steps=12, data=small_data(60), progress=False)


def test_resuming_on_an_accelerator_that_is_not_there(run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="device 'cuda' is not available"):
        resume(run.path, steps=12, data=small_data(), device="cuda", progress=False)


def test_a_loss_that_is_nan_at_once_leaves_the_name_free(tmp_path, monkeypatch):
    explodes = _Explodes(0)
    monkeypatch.setattr(SYSTEMS["vae"], "objective", lambda self, *rest: explodes(self, *rest))
    with pytest.raises(TrainingError, match="at step 0"):
        train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_nan_before_the_first_checkpoint_keeps_the_first_weights(tmp_path, monkeypatch):
    explodes = _Explodes(2)
    monkeypatch.setattr(SYSTEMS["vae"], "objective", lambda self, *rest: explodes(self, *rest))
    with pytest.raises(TrainingError, match="at step 2"):
        train("vae", small_data(), settings=SMALL, run=tmp_path / "run", progress=False)
    assert Run.open(tmp_path / "run", data=small_data()).steps == 0
    Run.open(tmp_path / "run", data=small_data()).system()


def test_damaged_scores(run):
    run.evaluate(["mapc"])
    for text in ("{}", "[", "3"):
        (run.path / "scores.json").write_text(text)
        with pytest.raises(RunError, match=r"scores\.json is damaged"):
            run.scores()


def test_data_in_memory_must_be_given_again(run):
    with pytest.raises(RunError, match="was trained on data in memory"):
        Run.open(run.path).dataset()


def test_a_batch_without_observations_says_so():
    with pytest.raises(ValueError, match="only carries context"):
        _ = Batch(rows=3).observations
