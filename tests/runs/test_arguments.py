"""A wrong keyword or type is one line that names what was meant, and leaves nothing behind."""

import numpy as np
import pytest
from torch import nn

from unweave.base.errors import ArgumentError, ConfigError, UnweaveError
from unweave.core.system import SYSTEMS
from unweave.data import from_arrays, load
from unweave.runs import Run, resume, train
from unweave.runs.arguments import check_modules

SMALL = {"nets.hidden": [8], "training.steps": 2, "training.batch_size": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arguments") / "run"
    return train("vae", "digits", settings=SMALL, run=folder, progress=False, threads=1)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"steps": 10}, "train has no argument 'steps': it is a setting, settings={'training.steps': 10}"),
        (
            {"epochs": 3},
            "train has no argument 'epochs': training is counted in steps, settings={'training.steps': ...}",
        ),
        ({"lr": 0.1}, "settings={'training.optimiser.lr': 0.1}"),
        ({"learning_rate": 0.1}, "settings={'training.optimiser.lr': 0.1}"),
        ({"batch_size": 4}, "settings={'training.batch_size': 4}"),
        ({"beta": "linear(0, 4, 9)"}, "settings={'beta': 'linear(0, 4, 9)'}"),
        ({"betta": 4}, "did you mean settings={'beta': ...}?"),
        ({"latent_dim": 4}, "settings={'latent': 4}"),
        ({"prest": "quick"}, "train has no argument 'prest': did you mean 'preset'?"),
        ({"out": "here"}, "did you mean 'run'?"),
        (
            {"encodr": nn.Linear(2, 2)},
            "takes no module 'encodr': did you mean 'encoder'? its modules are encoder, decoder",
        ),
        ({"classifier": nn.Linear(2, 2)}, "betavae takes no module 'classifier': its modules are encoder, decoder"),
        ({"encoder": "conv"}, "encoder is of type str: betavae takes a torch.nn.Module there"),
        ({"xyzzy": 1}, "train has no argument 'xyzzy': it has system, data, preset"),
        ({"xyzzy": 1}, "settings go into settings={NAME: VALUE}; modules of betavae are encoder, decoder"),
        ({"settings": "beta=4"}, "settings is of type str: give a mapping"),
        ({"split": 0.8}, "split is of type float: give unweave.data.Split"),
    ],
)
def test_train_names_what_was_meant(tmp_path, monkeypatch, given, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError) as error:
        train("betavae", "digits", **{"progress": False, **given})
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, TypeError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", SYSTEMS.names())
def test_modules_that_a_system_takes_pass(name):
    takes = {"encoder": nn.Linear(2, 2), "decoder": None}
    check_modules(train, SYSTEMS[name], takes)
    with pytest.raises(ArgumentError, match="steps"):
        check_modules(train, SYSTEMS[name], {**takes, "steps": 4})


def test_a_class_of_the_users_own_takes_what_it_likes():
    class Own:
        def __init__(self, config, spec, width=3, **more):
            pass

    check_modules(train, Own, {"width": 4, "anything": 5})


def test_resume_and_open(run):
    with pytest.raises(ArgumentError, match="resume has no argument 'epochs': did you mean 'steps'"):
        resume(run.path, epochs=3)
    with pytest.raises(ArgumentError, match="open has no argument 'dat': did you mean 'data'"):
        Run.open(run.path, dat=3)
    with pytest.raises(ArgumentError, match=r"data is of type ndarray: .*from_arrays"):
        Run.open(run.path, data=np.zeros((4, 8, 8)))
    with pytest.raises(ArgumentError, match=r"data is of type list: .*from_arrays"):
        resume(run.path, data=[1, 2])


@pytest.mark.parametrize("data", [np.zeros((9, 8, 8)), [1, 2], None, 7])
def test_data_that_are_no_data_set(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ArgumentError, match=rf"data are of type {type(data).__name__}: give a name, a path, or .*from_arrays"
    ):
        train("vae", data, progress=False)
    with pytest.raises(ArgumentError, match="from_arrays"):
        load(data)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_a_seed_is_a_whole_number_from_0(seed, tmp_path):
    with pytest.raises(ConfigError, match="'seed'"):
        train("vae", "digits", seed=seed, settings=SMALL, run=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rows", ["abc", [0.5], [True], [[0, 1]], None])
def test_rows_are_whole_numbers(run, rows):
    with pytest.raises(UnweaveError):
        run.encode_rows(rows)
    with pytest.raises(UnweaveError):
        from_arrays(np.zeros((4, 3))).take([0.5])


def test_one_score_is_a_list_of_one(run):
    with pytest.raises(UnweaveError, match=r"scores is the text 'mig': give a list, \['mig'\]"):
        run.evaluate("mig")
