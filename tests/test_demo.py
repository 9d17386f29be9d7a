"""The demo: a recipe that fits its data, one command from nothing to the report, words that say what was measured."""

import json

import numpy as np
import pytest

from unweave.cli import main
from unweave.core.score import Score
from unweave.core.system import SYSTEMS
from unweave.data import source
from unweave.demo_command import found, recognised
from unweave.runs import Run
from unweave.studies.demo import DATA, STEPS, recipe


def call(*words):
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return stopped.value.code


@pytest.mark.parametrize("steps", [1, 7, STEPS, 3 * STEPS])
def test_the_recipe_is_whole_at_any_length(steps):
    plan = recipe(3, steps)
    config = SYSTEMS[plan.system].config_class.preset(plan.preset).override(dict(plan.settings))
    assert config.training.steps == steps
    assert plan.seed == config.label_seed == 3
    rate = config.training.optimiser.lr
    assert rate(steps) == pytest.approx(rate.end)  # the schedule is as long as the training


def test_no_two_images_of_the_demo_are_the_same():
    """A factor that two values of look alike for could not be found by anything."""
    data = source("dsprites", **DATA).load()
    images = np.packbits(data.observations(np.arange(len(data))).reshape(len(data), -1) > 0, axis=1)
    assert len(np.unique(images, axis=0)) == len(data)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "my demo"
    assert call("demo", "--run", str(folder), "--steps", "12", "--seed", "5") == 0
    return folder


def test_one_command_trains_scores_and_reports(made, capsys):
    run = Run.open(made)
    assert (run.steps, run.manifest.seed, run.manifest.data) == (12, 5, "dsprites")
    assert {"mig", "kim", "recognition"} <= set(run.scores())
    assert (made / "report.html").stat().st_size > 10_000
    weights = (made / "weights.safetensors").stat().st_mtime_ns
    scores = json.loads((made / "scores.json").read_text())
    assert call("demo", "--run", str(made)) == 0
    said = capsys.readouterr().out
    assert "going on from where it is" in said
    assert "Where each factor is found" in said
    assert f"'{made}'" in said  # a command to paste
    assert (made / "weights.safetensors").stat().st_mtime_ns == weights
    assert json.loads((made / "scores.json").read_text()) == scores


def test_what_is_found_where_is_said_only_where_it_is_so():
    shares = np.array([[0.9, 0.04, 0.3], [0.2, 0.08, 0.6]])
    lines = found(["z[0]", "z[1]"], ["x", "shape", "scale"], shares)[1:]
    assert [line.split() for line in lines] == [
        ["x", "z[0]", "90", "%"],
        ["shape", "nowhere"],
        ["scale", "z[1]", "60", "%"],
    ]


def test_recognition_is_told_beside_what_it_is_worth():
    parts = {"originals": 0.99, "mean_picture": 0.33}
    score = Score("recognition", 0.875, (0.8, 0.9), parts, {"factor": "shape"})
    (line,) = recognised({"recognition": score})
    assert (
        "88 % of the reconstructions the shape is still recognised (originals: 99 %, one picture for all: 33 %)" in line
    )
    assert recognised({}) == []
