"""A run knows its data again wherever it meets data: others are refused before anything is written."""

import json

import numpy as np
import pytest
from PIL import Image

from unweave.base.errors import DataError
from unweave.data import from_arrays, load
from unweave.runs import Run, resume, train

SMALL = {"nets.kind": "dense", "nets.hidden": [8], "training.steps": 3, "training.batch_size": 4}


def arrays(seed=0, who=0):
    rng = np.random.default_rng(seed)
    return from_arrays(rng.random((60, 6, 6), dtype=np.float32), factors={"who": (np.arange(60) + who) % 5})


@pytest.fixture
def run(tmp_path):
    return train("vae", arrays(), settings=SMALL, run=tmp_path / "run", progress=False, threads=1)


def kept(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_other_data_of_the_same_size_and_kind_are_refused_and_nothing_changes(run):
    before = kept(run.path)
    told = r"array is not what .*run was trained on, it has as many observations, but other ones: give those data"
    with pytest.raises(DataError, match=told):
        resume(run.path, steps=9, data=arrays(seed=1), progress=False)
    for use in ("encode_split", "evaluate", "report", "split_rows", "reconstruction"):
        with pytest.raises(DataError, match=told):
            getattr(Run.open(run.path, data=arrays(seed=1)), use)()
    assert kept(run.path) == before


def test_the_same_data_are_taken(run):
    assert resume(run.path, steps=5, data=arrays(), progress=False).steps == 5
    opened = Run.open(run.path, data=arrays())
    assert opened.dataset() is opened.dataset()
    assert len(opened.encode_split("all").flat()[0]) == 60


def test_other_groups_are_refused_when_training_goes_on_and_only_then(tmp_path):
    settings = {**SMALL, "group": "who", "members": 2}
    run = train("mlvae", arrays(), settings=settings, run=tmp_path / "run", progress=False, threads=1)
    with pytest.raises(DataError, match=r"is not what .* was trained on, it has other values of factor 'who'"):
        resume(run.path, steps=5, data=arrays(who=1), progress=False)
    assert resume(run.path, steps=5, data=arrays(), progress=False).steps == 5
    assert Run.open(run.path, data=arrays(who=1)).evaluate(["mapc"])  # other factors may be scored


def test_a_folder_whose_pictures_changed(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(30):
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / "photos" / f"{number:02}.png")
    run = train("vae", tmp_path / "photos", settings=SMALL, run=tmp_path / "run", progress=False, threads=1)
    assert resume(run.path, steps=4, progress=False).steps == 4
    Image.new("L", (8, 8)).save(tmp_path / "photos" / "07.png")
    with pytest.raises(
        DataError, match=r"photos is not what .* was trained on, it has as many observations, but other"
    ):
        resume(run.path, steps=5, progress=False)
    assert Run.open(run.path).steps == 4


def test_the_digest_is_in_run_json(run):
    digest = json.loads((run.path / "run.json").read_text())["data_digest"]
    assert digest["size"] == 60
    assert set(digest["factors"]) == {"who"}
    assert len(digest["observations"]) == 32


def test_a_sample_that_travels_is_no_other_data():
    from unweave.explorer.pretrained import pretrained_runs

    for path in pretrained_runs():
        assert len(Run.open(path).dataset()) > 0


def test_rendered_data_are_known_again(tmp_path):
    data = load("blobs", resolution=8)
    run = train("vae", data, settings=SMALL, run=tmp_path / "run", progress=False, threads=1)
    assert resume(run.path, steps=4, data=load("blobs", resolution=8), progress=False).steps == 4
    with pytest.raises(DataError, match="other ones"):
        resume(run.path, steps=5, data=load("blobs", resolution=8, sigma=0.11), progress=False)
