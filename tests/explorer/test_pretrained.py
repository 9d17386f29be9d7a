"""The runs that ship: as the recipes say, small, whole, and good enough to look at, without data or network."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from unweave.base.errors import UnweaveError
from unweave.cli import cli
from unweave.explorer import pretrain
from unweave.explorer.pretrain import KEPT, RUNS, Recipe, make
from unweave.explorer.pretrained import pretrained_runs
from unweave.explorer.server import build_app
from unweave.metrics import evaluate
from unweave.runs import Run, resume

HOST = "http://localhost:8000"
names = pytest.mark.parametrize("name", RUNS)


@pytest.fixture(autouse=True)
def without_data(tmp_path, monkeypatch):
    """No data folder, and no way to get one: what ships must do."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "none"))
    monkeypatch.setattr("socket.socket.connect", _no_network)


def _no_network(*_):
    raise AssertionError("the runs that ship open without a network")


@pytest.fixture(scope="module")
def runs():
    return {path.name: Run.open(path) for path in pretrained_runs()}


@pytest.fixture(scope="module")
def client():
    with TestClient(build_app(pretrained_runs()), base_url=HOST) as made:
        yield made


def test_every_recipe_ships_and_nothing_else():
    assert {path.name for path in pretrained_runs()} == set(RUNS)
    for path in pretrained_runs():
        assert {file.name for file in path.iterdir()} - {"codes.npz", "pictures"} == set(KEPT)


def test_they_are_small():
    kept = [path / name for path in pretrained_runs() for name in KEPT]
    assert sum(file.stat().st_size for file in kept) < 5e6


@names
def test_the_files_are_of_the_recipe(runs, name):
    recipe, manifest = RUNS[name], runs[name].manifest
    assert (manifest.system, manifest.data, manifest.preset) == (recipe.system, recipe.data, recipe.preset)
    assert manifest.settings == recipe.complete()
    assert recipe.data_settings.items() <= manifest.data_settings.items()
    assert manifest.seed == recipe.seed
    assert runs[name].steps == recipe.complete()["training"]["steps"]
    assert len(runs[name].dataset()) == recipe.rows


@names
def test_no_path_of_a_machine_ships(runs, name):
    for file in ("run.json", "environment.json", "scores.json", "log.csv"):
        text = (runs[name].path / file).read_text()
        assert "/home" not in text
        assert "/tmp" not in text


@pytest.mark.parametrize(("name", "most"), [("sprites-betavae", 0.2), ("mnist-hfvae", 0.5), ("mnist-mlvae", 0.4)])
def test_reconstructions_are_far_better_than_the_mean_picture(runs, name, most):
    """The share of the mean picture's error that is left; 0.15, 0.47 and 0.33 when they were made."""
    x = runs[name].dataset().observations(np.arange(500))
    y = runs[name].system().render(runs[name].encode_rows(np.arange(500)))
    assert np.mean((x - y) ** 2) < most * np.mean((x - x.mean(axis=0)) ** 2)


@names
def test_scores_are_of_these_weights(runs, name):
    scores = runs[name].scores()
    assert {"mig", "dci_forest", "information", "sap", "modularity"} <= set(scores)
    record = json.loads((runs[name].path / "scores.json").read_text())
    assert record["step"] == runs[name].steps
    data = runs[name].dataset()
    again = evaluate(runs[name].encode_rows(np.arange(len(data))), data.factors, scores=["mig", "sap"])
    for score in ("mig", "sap"):  # the sample is a part of the rows that were scored
        assert again[score].value == pytest.approx(scores[score].value, abs=0.05)


def test_sprites_have_dimensions_of_their_own_for_position_and_scale(client):
    """Each of x, y and scale is known best by a dimension that knows none of the others a third as well."""
    knows = client.get("/api/runs/sprites-betavae/knows").json()
    shares = np.array(knows["shares"])
    wanted = [knows["factors"].index(name) for name in ("x", "y", "scale")]
    best = shares[:, wanted].argmax(axis=0)
    assert len(set(best)) == 3
    for place, knob in enumerate(best):
        own = shares[knob, wanted[place]]
        others = np.delete(shares[knob, wanted], place)
        assert own > 0.2
        assert others.max() < own / 3


def test_the_category_of_digits_is_in_use(client):
    knows = client.get("/api/runs/mnist-hfvae/knows").json()
    shares = np.array(knows["shares"])[:, knows["factors"].index("digit")]
    assert knows["knobs"][int(shares.argmax())] == "digit"
    assert shares.max() > 0.4
    assert sum(knob["nats"] > 0.3 for knob in client.get("/api/runs/mnist-hfvae").json()["knobs"]) >= 4


def test_content_knows_the_digit_and_style_does_not(runs):
    """A nearest-mean classifier of the digit on each block; ten digits, so that chance is a tenth."""
    run = runs["mnist-mlvae"]
    codes = run.encode_rows(np.arange(2000))
    digits = run.dataset().factors.column("digit")
    right = {}
    for block in ("content", "style"):
        z = codes[block]
        means = np.stack([z[:1000][digits[:1000] == digit].mean(axis=0) for digit in range(10)])
        nearest = ((z[1000:, None] - means) ** 2).sum(axis=-1).argmin(axis=1)
        right[block] = np.mean(nearest == digits[1000:])
    assert right["content"] > 0.85
    assert right["style"] < 0.5


def test_both_runs_of_digits_have_the_same_rows(runs):
    """So that comparing them shows one input under both."""
    one, other = (runs[name].dataset().observations(np.arange(50)) for name in ("mnist-hfvae", "mnist-mlvae"))
    np.testing.assert_array_equal(one, other)


@names
def test_the_page_shows_all_of_it(client, name):
    told = client.get(f"/api/runs/{name}").json()
    assert told["steps"] == RUNS[name].complete()["training"]["steps"]
    row = client.get(f"/api/runs/{name}/rows?count=1").json()["rows"][0]["row"]
    code = client.get(f"/api/runs/{name}/input?row={row}").json()["code"]
    assert client.post(f"/api/runs/{name}/decode", json={"codes": [code]}).headers["content-type"] == "image/png"
    assert client.get(f"/api/runs/{name}/knows").json()["importance"] is not None
    assert client.get(f"/api/runs/{name}/scores").json()["scores"]
    assert len(client.get(f"/api/runs/{name}/log").json()["columns"]["step"]) > 10
    assert client.post(f"/api/runs/{name}/operations/traverse", json={"params": {"steps": 3}}).status_code == 200


def test_explore_without_arguments_serves_them(monkeypatch):
    served = []
    monkeypatch.setattr("unweave.explorer.server.serve", lambda paths, **_: served.extend(paths))
    cli.main(args=["explore", "--no-browser"], prog_name="unweave", standalone_mode=False)
    assert served == pretrained_runs()
    page = TestClient(build_app(served), base_url=HOST)
    listed = page.get("/api/runs").json()["runs"]
    assert {run["name"] for run in listed} == set(RUNS)
    assert not any(run["training"] for run in listed)


def test_a_run_with_a_sample_is_not_trained_on(runs):
    with pytest.raises(UnweaveError, match="only a sample of its data"):
        resume(runs["mnist-mlvae"].path, steps=10**6)


# The command ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of a few steps, made as those that ship are."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "tiny").mkdir()
    (folder / "tiny" / "old").write_text("of an earlier version")
    settings = {"latent": 3, "nets.hidden": [16], "training.steps": 20, "training.batch_size": 16}
    make("tiny", Recipe("betavae", "digits", settings=settings, rows=60), folder, progress=False)
    return folder / "tiny"


def test_the_command_keeps_what_the_explorer_reads(made):
    assert {file.name for file in made.iterdir()} == set(KEPT)
    run = Run.open(made)
    assert run.steps == 20
    assert run.manifest.threads == 1
    assert len(run.dataset()) == 60
    assert run.scores()["mig"].value >= 0


def test_weights_are_half_as_large_and_load_as_ever(made):
    system = Run.open(made).system()
    assert all(str(weight.dtype) == "torch.float32" for weight in system.parameters())
    held = sum(weight.numel() for weight in system.parameters())
    assert 2 * held < (made / "weights.safetensors").stat().st_size < 2 * held + 4000


def test_a_run_with_a_sample_is_used_as_any_other(made):
    run = Run.open(made)
    assert run.split_rows()["test"].tolist() == list(range(60))
    shown = run.operate("reconstruct", [3, 5])
    np.testing.assert_allclose(shown.images[0], run.dataset().observations([3, 5]))


def test_the_data_that_are_given_count_more_than_the_sample(made, digits):
    run = Run.open(made, data=digits)
    assert len(run.dataset()) == len(digits)
    assert {"train", "test"} <= set(run.split_rows())


@pytest.fixture
def digits():
    from unweave.data import source

    return source("digits").load()


def test_names_are_checked_before_anything_is_trained(monkeypatch):
    asked = []
    monkeypatch.setattr(pretrain, "make", lambda name, *_: asked.append(name))
    with pytest.raises(UnweaveError, match="mnist-hfvae"):
        pretrain.main(["mnist-mlvae", "mnist-hfva"])
    assert asked == []
    pretrain.main([])
    assert asked == list(RUNS)
