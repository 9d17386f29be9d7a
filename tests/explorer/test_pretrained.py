"""The runs that ship: as the recipes say, small, whole, and good enough to look at, without data or network."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

from unweave.base.errors import UnweaveError
from unweave.cli import cli
from unweave.core.dataspec import DataSpec
from unweave.explorer import pretrain
from unweave.explorer.pretrain import KEPT, RUNS, Recipe, make
from unweave.explorer.pretrained import pretrained_runs
from unweave.explorer.promises import SHAPE, Trial, moves, of_category, of_swaps
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
    assert manifest.settings == recipe.config().fitted(DataSpec.from_dict(manifest.data_spec)).to_dict()
    assert recipe.data_settings.items() <= manifest.data_settings.items()
    assert manifest.seed == recipe.seed
    assert runs[name].steps == recipe.config().training.steps
    assert len(runs[name].dataset()) == recipe.rows


@names
def test_no_path_of_a_machine_ships(runs, name):
    for file in ("run.json", "environment.json", "scores.json", "log.csv"):
        text = (runs[name].path / file).read_text()
        assert "/home" not in text
        assert "/tmp" not in text


@pytest.mark.parametrize(
    ("name", "most"), [("sprites-structured", 0.2), ("mnist-structured", 0.6), ("mnist-mlvae", 0.5)]
)
def test_reconstructions_are_far_better_than_the_mean_picture(runs, name, most):
    """The share of the mean picture's error that is left; 0.15, 0.53 and 0.43 when they were made; style is short."""
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
    knows = client.get("/api/runs/sprites-structured/knows").json()
    shares = np.array(knows["shares"])
    wanted = [knows["factors"].index(name) for name in ("x", "y", "scale")]
    best = shares[:, wanted].argmax(axis=0)
    assert len(set(best)) == 3
    for place, knob in enumerate(best):
        own = shares[knob, wanted[place]]
        others = np.delete(shares[knob, wanted], place)
        assert own > 0.2
        assert others.max() < own / 3


def test_sprites_come_back_as_what_they_are(runs, client):
    """Of the rows that were scored when it was made; the classifier of originals is nearly always right."""
    scores = runs["sprites-structured"].scores()
    assert scores["mig"].value > 0.35
    assert scores["recognition"].value > 0.8
    assert scores["recognition"].parts["originals"] > 0.9
    [shape] = [knob for knob in client.get("/api/runs/sprites-structured").json()["knobs"] if knob["name"] == "shape"]
    assert [category["label"] for category in shape["categories"]] == ["square", "ellipse", "heart"]
    assert min(category["share"] for category in shape["categories"]) > 0.9


def test_each_button_of_digits_says_its_digit(client):
    """The category is the digit, each of ten once, and in that order: what is counted is written on the buttons."""
    knob = next(knob for knob in client.get("/api/runs/mnist-structured").json()["knobs"] if knob["name"] == "digit")
    assert [category["label"] for category in knob["categories"]] == list("0123456789")
    assert min(category["share"] for category in knob["categories"]) > 0.8


def test_buttons_of_digits_keep_their_promise(runs):
    found = of_category(Trial.of(runs["mnist-structured"]), "digit")
    assert found["purity"] > 0.85
    assert found["shown"] > 0.9  # the digit on the button is seen whatever the style
    assert found["slant"] > 0.7  # and the style stays


def test_content_is_who_and_style_is_how(runs):
    """Of pictures with the content of one row and the style of another, of unlike digits; chance is a ninth."""
    found = of_swaps(Trial.of(runs["mnist-mlvae"]))
    assert found["content"] > 0.8
    assert found["style"] < 0.05
    for name, least in (("slant", 0.7), ("area", 0.5), ("width", 0.3)):
        assert found[name] > least
        assert abs(found[f"{name} of content"]) < 0.2


@pytest.mark.parametrize("name", ["mnist-structured", "mnist-mlvae"])
def test_a_slider_of_its_own_for_slant_and_for_ink(runs, name):
    """One slider moves slant furthest, another the ink, and each the other's measure half as far at most."""
    far = np.abs(moves(Trial.of(runs[name])))
    slant, ink = far[:, SHAPE.index("slant")], far[:, SHAPE.index("area")]
    one, other = int(slant.argmax()), int(ink.argmax())
    assert one != other
    assert slant[one] > 2
    assert ink[other] > 1
    assert ink[one] < slant[one] / 2
    assert slant[other] < ink[other] / 2


def test_the_digits_were_told_by_a_hundred_labels(runs):
    """What the page says of the run: 100 of its training rows had a label, ten of each digit."""
    assert runs["mnist-structured"].manifest.settings["labels"] == 100


def test_both_runs_of_digits_have_the_same_rows(runs):
    """So that comparing them shows one input under both."""
    one, other = (runs[name].dataset().observations(np.arange(50)) for name in ("mnist-structured", "mnist-mlvae"))
    np.testing.assert_array_equal(one, other)


@names
def test_the_page_shows_all_of_it(client, name):
    told = client.get(f"/api/runs/{name}").json()
    assert told["steps"] == RUNS[name].config().training.steps
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
    with pytest.raises(UnweaveError, match="mnist-structured"):
        pretrain.main(["mnist-mlvae", "mnist-structurd"])
    assert asked == []
    pretrain.main([])
    assert asked == list(RUNS)


def test_another_seed_is_that_of_the_labels_too_and_goes_elsewhere(monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(pretrain, "make", lambda *given: asked.append(given))
    with pytest.raises(SystemExit):
        pretrain.main(["mnist-structured", "--seed", "1"])
    assert "--into FOLDER" in capsys.readouterr().err
    pretrain.main(["mnist-structured", "--seed", "1", "--into", str(tmp_path)])
    [(name, recipe, folder)] = asked
    assert (name, folder) == ("mnist-structured", tmp_path)
    assert recipe.seed == recipe.config().label_seed == 1
    assert recipe.config().override({"label_seed": 0}) == RUNS[name].config()
