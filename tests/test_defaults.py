"""What a person meets first is alive: default settings on small digits, on a folder of pictures and on sprites."""

import importlib

import pytest

from unweave.core.system import SYSTEMS
from unweave.data import load

FEW = 300
"""Steps after which a run is looked at first; what is not alive then makes twice as many, up to its own."""


@pytest.fixture(scope="module")
def script(root):
    """Imports a module of benchmarks/ by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        yield importlib.import_module


@pytest.fixture(scope="module")
def defaults(script):
    return script("defaults")


@pytest.fixture(scope="module")
def folder(defaults, tmp_path_factory):
    return defaults.read("folder", tmp_path_factory.mktemp("own") / "pictures")


@pytest.fixture(scope="module")
def sprites():
    return load("dsprites", subset=6000, cached=False)


def measured(defaults, system, dataset, name, preset="default", **settings):
    given = {**defaults.told(system, name), **settings}
    return defaults.measure(system, dataset, preset, given, FEW, seed=0)


def is_alive(found):
    return found["used"] >= 2 and found["mse"] < found["mean_mse"]


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "quick"])
@pytest.mark.parametrize("system", [name for name in SYSTEMS.names() if name != "video"])
def test_every_system_is_alive_on_digits(defaults, system, preset):
    assert is_alive(measured(defaults, system, load("digits"), "digits", preset))


@pytest.mark.slow
def test_video_is_alive_on_its_clips(defaults):
    assert is_alive(measured(defaults, "video", load("moving_digits", clips=1000), "moving_digits"))


@pytest.mark.slow
@pytest.mark.parametrize("system", ["betavae", "factorvae", "hfvae", "mlvae"])
def test_own_pictures_come_alive(defaults, system, folder):
    assert folder.spec.shape == (3, 48, 48)
    assert len(folder) == 600
    assert is_alive(measured(defaults, system, folder, "folder"))


@pytest.mark.slow
@pytest.mark.parametrize("system", ["betavae", "factorvae", "hfvae", "mlvae"])
def test_few_sprites_come_alive(defaults, system, sprites):
    assert is_alive(measured(defaults, system, sprites, "dsprites"))


# The look itself ------------------------------------------------------------------------------------------------------


def test_a_dead_run_is_found_dead_and_makes_all_its_steps(defaults):
    """A weight that no code can pay: every dimension is the prior's, every picture comes back as the mean one."""
    settings = {"beta": 400, "training.steps": 450}
    found = measured(defaults, "betavae", load("digits"), "digits", **settings)
    assert not found["alive"]
    assert not is_alive(found)
    assert found["used"] == 0
    assert (found["steps"], found["own"]) == (450, 450)
    told = defaults.told_rows({"betavae digits default": found})[0]
    assert told[:5] == ["betavae", "digits", "default", "**no**", "0 of 10"]


def test_a_run_that_is_alive_is_not_trained_further(defaults):
    found = measured(defaults, "vae", load("digits"), "digits")
    assert found["alive"]
    assert is_alive(found)
    assert (found["steps"], found["own"]) == (FEW, 3000)
    assert "300 of 3,000" in defaults.told_rows({"vae digits default": found})[0]


def test_the_look_is_at_test_rows_without_their_labels(defaults, monkeypatch, tmp_path):
    """The mean image of training rows, and the classes that the model finds by itself."""
    seen = []

    def examine(system, batches, mean):
        seen.extend([*batches, mean])
        return defaults.Checkup(step=1, rows=1, nats={}, mse=1.0, mean_mse=2.0)

    monkeypatch.setattr(defaults, "examine", examine)
    data = load("digits")
    short = {"training.steps": 1, "training.batch_size": 8}
    run = defaults.train("structured", data, settings=short, run=tmp_path / "run", threads=1, progress=False)
    defaults.look(run)
    batch, mean = seen
    rows = run.split_rows()
    assert set(batch.index.tolist()) <= set(rows["test"].tolist())
    assert not batch.labels["digit"].mask.any()
    assert mean.numpy() == pytest.approx(data.observations(rows["train"]).mean(axis=0), abs=0.15)


def test_a_folder_is_the_same_whenever_it_is_made(script, tmp_path):
    pictures = script("pictures")
    first, again = (pictures.make_folder(tmp_path / name, people=3, each=2, side=16) for name in ("a", "b"))
    names = sorted(path.name for path in first.iterdir())
    assert len(names) == 7
    assert all((first / name).read_bytes() == (again / name).read_bytes() for name in names)
    lines = (first / "factors.csv").read_text().splitlines()
    assert lines[:2] == ["file,person,shape", "00-00.png,p00,disc"]
    assert lines[-1] == "02-01.png,p02,triangle"
