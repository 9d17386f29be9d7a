"""Codes in files: what is written is read again, what was edited counts, what is damaged is told."""

import numpy as np
import pytest

from unweave.base.errors import RunError, ShapeError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.runs.codes_file import read_codes, write_codes

BLOCKS = (Block("digit", (3,), ("category",), "simplex"), Block("style", (2, 2), ("entity", "dim")))


@pytest.fixture
def codes():
    rng = np.random.default_rng(0)
    values = {"digit": rng.dirichlet(np.ones(3), 4).astype(np.float32), "style": rng.normal(size=(4, 2, 2))}
    return Codes(BLOCKS, values, {"style": np.ones((4, 2, 2))}, ["a.png", "b/c.png", 'd, "e".png', "ü.png"])


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".npy"])
@pytest.mark.parametrize("named", [True, False])
def test_there_and_back(codes, tmp_path, suffix, named):
    codes = codes if named else codes.named(None)
    again = read_codes(write_codes(tmp_path / f"codes{suffix}", codes), BLOCKS)
    np.testing.assert_allclose(again.flat()[0], codes.flat()[0], rtol=1e-6)
    assert again.names == (None if suffix == ".npy" else codes.names)
    assert (again.spread("style") is not None) == (suffix == ".npz")


def test_float32_survives_a_csv_bit_for_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    codes = Codes((Block("z", (3,)),), {"z": values})
    np.testing.assert_array_equal(read_codes(write_codes(tmp_path / "c.csv", codes), codes.blocks)["z"], values)


def test_a_csv_may_be_edited_anywhere(codes, tmp_path):
    path = write_codes(tmp_path / "codes.csv", codes)
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    assert header == 'file,digit[0],digit[1],digit[2],"style[0,0]","style[0,1]","style[1,0]","style[1,1]"'
    cells = lines[1].split(",")
    cells[1] = " 9.5"
    path.write_text("\ufeff" + "\r\n".join([header, lines[0], ",".join(cells), ""]) + "\r\n", encoding="utf-8")
    edited = read_codes(path, BLOCKS)
    assert edited.rows == 2
    assert edited["digit"][1, 0] == 9.5
    np.testing.assert_allclose(edited["style"][1], codes["style"][1], rtol=1e-6)


def test_columns_may_come_in_any_order(tmp_path):
    (tmp_path / "c.csv").write_text("z[1],z[0]\n1,0\n")
    assert read_codes(tmp_path / "c.csv", (Block("z", (2,)),))["z"].tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"has no column 'z\[0\]': expected file \(or none\) and z\[0\], z\[1\]"),
        ("z[0]\n1\n", r"has no column 'z\[1\]'"),
        ("z[0],z[1],zz\n1,2,3\n", "has the column 'zz', which is no number"),
        ("z[0],z[1],z[1]\n1,2,3\n", r"has the column 'z\[1\]', which is no number of these codes or there twice"),
        ("z[0],z[1]\n", "has no rows"),
        ("z[0],z[1]\n1\n", "row 1 of .* has 1 cells and the header 2"),
        ("z[0],z[1]\n1,2\n3,abc\n", r"row 2 of .* has 'abc' in column 'z\[1\]': expected a number"),
        ('z[0],z[1]\n1,"2\n', "cannot be read"),
    ],
)
def test_a_damaged_csv_is_told(tmp_path, text, told):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(RunError, match=told) as raised:
        read_codes(tmp_path / "c.csv", (Block("z", (2,)),))
    assert "\n" not in str(raised.value)


def test_text_that_is_none(tmp_path):
    (tmp_path / "c.csv").write_bytes(b"z[0]\n\xff\xfe\n")
    with pytest.raises(RunError, match="cannot be read"):
        read_codes(tmp_path / "c.csv", (Block("z", (1,)),))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and then nothing", b"\x93NUMPY"])
def test_damaged_arrays_are_told(tmp_path, content):
    (tmp_path / "c.npz").write_bytes(content)
    with pytest.raises(RunError, match="are damaged"):
        read_codes(tmp_path / "c.npz", BLOCKS)


def test_other_codes_are_told(codes, tmp_path):
    path = write_codes(tmp_path / "c.npz", codes)
    with pytest.raises(RunError, match="has digit, style: expected codes of z; they are of another run"):
        read_codes(path, (Block("z", (2,)),))
    with pytest.raises(ShapeError, match=r"block 'digit' has values of shape \(4, 3\): expected \(4, 5\)"):
        read_codes(path, (Block("digit", (5,)), BLOCKS[1]))
    np.save(tmp_path / "c.npy", np.zeros((4, 5)))
    with pytest.raises(ShapeError, match=r"shape \(4, 5\): expected \(rows, 7\)"):
        read_codes(tmp_path / "c.npy", BLOCKS)


def test_names_of_files(codes, tmp_path):
    with pytest.raises(RunError, match=r"codes.txt: name a file that ends in .npz, .csv, .npy"):
        write_codes(tmp_path / "codes.txt", codes)
    with pytest.raises(RunError, match="there is no file"):
        read_codes(tmp_path / "codes.csv", BLOCKS)
