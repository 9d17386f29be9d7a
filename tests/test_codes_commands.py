"""`unweave encode` and `unweave decode`: new pictures to codes, edited codes to pictures."""

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unweave.cli import main
from unweave.data import from_arrays
from unweave.runs import Run, train

SMALL = {"nets.kind": "dense", "nets.hidden": [16], "training.steps": 3, "training.batch_size": 8}


def call(*words):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    return stopped.value.code


def make_images(folder, count=6, shape=(12, 12)):
    rng = np.random.default_rng(0)
    for number in range(count):
        place = folder / ("ada", "ben")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(place / f"{number}.png")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    make_images(place / "images", 12)
    own = {"resize": 8, "folder_factor": "person"}
    small = {**SMALL, "content": 2, "style": 2, "group": "person"}
    train("mlvae", place / "images", data_settings=own, settings=small, run=place / "run", progress=False, threads=1)
    return place / "run"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_images(tmp_path / "new", shape=(20, 30, 3))
    return tmp_path


def test_from_new_pictures_to_edited_ones(run, here, capsys):
    assert call("encode", run, "--data", "new", "--out", "codes.csv") == 0
    said = capsys.readouterr()
    assert said.out == "Codes(6 rows: content[2], style[2]): codes.csv\n"
    assert said.err == (
        "inputs: made grey; resized 20 x 30 to 8 x 8 (bilinear, proportions not kept); bytes 0..255 divided by 255\n"
    )
    with Path("codes.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["file", "content[0]", "content[1]", "style[0]", "style[1]"]
    assert " ".join(line[0] for line in lines) == "ada/0.png ada/2.png ada/4.png ben/1.png ben/3.png ben/5.png"
    lines[1][2] = "4.5"
    with Path("codes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    assert call("decode", run, "codes.csv", "--out", "pictures") == 0
    assert capsys.readouterr().out == "6 pictures: pictures\n"
    made = sorted(path.relative_to(here / "pictures").as_posix() for path in (here / "pictures").rglob("*.png"))
    assert made == sorted(line[0] for line in lines)
    codes = Run.open(run).encode(here / "new", say=lambda line: None)
    content = codes["content"].copy()
    content[1, 1] = 4.5
    expected = Run.open(run).decode(codes.replace(content=content))
    with Image.open(here / "pictures" / "ada" / "2.png") as image:
        assert np.abs(np.asarray(image) / 255 - expected[1, 0]).max() <= 0.5 / 255 + 1e-6


def test_arrays_in_and_out(run, here, capsys):
    x = np.random.default_rng(0).random((5, 8, 8))
    np.save("x.npy", x)
    assert call("encode", run, "--data", "x.npy") == 0  # codes.npz unless named
    assert call("decode", run, "codes.npz", "--out", "y.npy") == 0
    assert capsys.readouterr().out.splitlines()[1] == "5 x 1 x 8 x 8 values: y.npy"
    expected = Run.open(run)
    np.testing.assert_allclose(np.load("y.npy"), expected.decode(expected.encode(x)), rtol=1e-5)
    assert call("decode", run, "codes.npz", "--out", "numbered") == 0
    assert sorted(path.name for path in (here / "numbered").iterdir()) == [f"{n}.png" for n in range(5)]


@pytest.mark.parametrize(
    "table",
    [
        "person\nx\nx\nx\ny\ny\ny\n",
        "person,file\ny,ben/1.png\ny,ben/3.png\ny,ben/5.png\nx,ada/0.png\nx,ada/2.png\nx,ada/4.png\n",
        "age,person\n1,x\n2,x\n3,x\n4,y\n5,y\n6,y\n",
    ],
    ids=["in order", "by name", "among others"],
)
def test_groups_in_a_table(run, here, table, capsys):
    (here / "groups.csv").write_text(table)
    assert call("encode", run, "--data", "new", "--groups", "groups.csv", "--out", "together.npz") == 0
    together = np.load("together.npz")["value/content"]
    assert np.ptp(together[:3], axis=0).max() == 0
    assert np.ptp(together[2:4], axis=0).max() > 0


def test_folders_of_results_are_made(run, here, capsys):
    assert call("encode", run, "--data", "new", "--out", "a/b/codes.csv") == 0
    assert call("decode", run, "a/b/codes.csv", "--out", "c/d/x.npy") == 0
    assert np.load("c/d/x.npy").shape == (6, 1, 8, 8)
    assert call("traverse", run, "--out", "e/f/traverse.png") == 0
    assert Path("e/f/traverse.png").stat().st_size > 0


def test_rows_of_the_run_are_kept_in_it(run, capsys):
    assert call("encode", run, "--split", "train", "--most", "4") == 0
    assert "Codes(4 rows" in capsys.readouterr().out
    assert Run.open(run).codes().rows == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["encode", "RUN", "--data", "nowhere"], "there is no file or folder nowhere"),
        (["encode", "RUN", "--data", "empty"], "has no images"),
        (["encode", "RUN", "--data", "damaged.png"], "damaged.png is damaged or cannot be read"),
        (["encode", "RUN", "--data", "notes.txt"], "neither an image"),
        (["encode", "RUN", "--data", "nan.npy"], "observation 1 is nan"),
        (["encode", "RUN", "--data", "colour.npy"], r"shape (2, 3, 8, 8): the run was trained on"),
        (["encode", "RUN", "--data", "new", "--out", "codes.txt"], "ends in .npz, .csv, .npy"),
        (["encode", "RUN", "--data", "new", "--out", "new"], "cannot write codes to new"),
        (["encode", "RUN", "--data", "new", "--out", "RUN/codes.npz"], "codes of the run's own data"),
        (["encode", "RUN", "--data", "new", "--split", "test"], "--split and --most choose rows"),
        (["encode", "RUN", "--out", "codes.csv"], "--out and --groups go with --data"),
        (["encode", "RUN", "--data", "new", "--groups", "short.csv"], "and there are 6 observations"),
        (["encode", "RUN", "--data", "new", "--groups", "files.csv"], "there is no group for 'ada/2.png'"),
        (["encode", "RUN", "--data", "new", "--groups", "gap.csv"], "row 1 of table gap.csv has no 'person'"),
        (
            ["encode", "RUN", "--data", "new", "--groups", "two.csv"],
            "has the columns a, b: expected one, with the groups, or one named 'person'",
        ),
        (["encode", "RUN", "--data", "new", "--out", "notes.txt/codes.npz"], "notes.txt is a file and no folder"),
        (["decode", "RUN", "good.csv", "--out", "notes.txt/deep/y.npy"], "notes.txt is a file and no folder"),
        (["decode", "RUN", "notes.txt", "--out", "y"], "notes.txt is no file of codes: expected one that ends in"),
        (["evaluate", "notes.txt"], "notes.txt is neither a run nor codes as a .npy array"),
        (["decode", "RUN", "nowhere.csv", "--out", "y"], "there is no file nowhere.csv"),
        (["decode", "RUN", "damaged.csv", "--out", "y"], "expected a number"),
        (["decode", "RUN", "narrow.csv", "--out", "y"], "has no column 'style[1]'"),
        (["decode", "RUN", "wide.npy", "--out", "y"], "wide.npy are none of this run: matrix has shape (2, 5)"),
        (["decode", "RUN", "outside.csv", "--out", "y"], "no file name within a folder"),
        (["decode", "RUN", "nan.csv", "--out", "y"], "expected a finite number"),
        (["decode", "RUN", "good.csv", "--out", "y.jpg"], "name a folder for pictures, or a .npy file"),
        (["decode", "RUN", "good.csv"], "Missing option '--out'"),
    ],
)
def test_mistakes_are_one_line(run, here, words, told, capsys):
    (here / "empty").mkdir()
    (here / "damaged.png").write_bytes(b"\x89PNG and no more")
    (here / "notes.txt").write_text("no picture")
    x = np.zeros((2, 8, 8))
    np.save("colour.npy", np.zeros((2, 3, 8, 8)))
    x[1, 3, 3] = np.nan
    np.save("nan.npy", x)
    np.save("wide.npy", np.zeros((2, 5)))
    header = "file,content[0],content[1],style[0],style[1]\n"
    tables = {
        "short.csv": "person\nx\ny\n",
        "files.csv": "file,person\nada/0.png,x\n",
        "gap.csv": "file,person\nada/0.png,x\nada/2.png,\n",
        "two.csv": "a,b\n1,2\n",
        "damaged.csv": header + "a.png,1,2,3,four\n",
        "narrow.csv": "content[0],content[1],style[0]\n1,2,3\n",
        "outside.csv": header + "../../a.png,1,2,3,4\n",
        "nan.csv": header + "a.png,1,2,3,nan\n",
        "good.csv": header + "a.png,1,2,3,4\n",
    }
    for name, text in tables.items():
        (here / name).write_text(text)
    before = sorted(here.rglob("*"))
    assert call(*(word.replace("RUN", str(run)) for word in words)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert told in error
    assert sorted(here.rglob("*")) == before  # nothing half written


def test_vectors_need_an_array(tmp_path, capsys):
    data = from_arrays(np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32), values="real")
    train("vae", data, settings={**SMALL, "latent": 2}, run=tmp_path / "run", progress=False, threads=1)
    np.save(tmp_path / "z.npy", np.zeros((3, 2)))
    assert call("decode", tmp_path / "run", tmp_path / "z.npy", "--out", tmp_path / "pictures") == 2
    assert "write them to a .npy file" in capsys.readouterr().err
    assert call("decode", tmp_path / "run", tmp_path / "z.npy", "--out", tmp_path / "x.npy") == 0
    assert np.load(tmp_path / "x.npy").shape == (3, 5)
