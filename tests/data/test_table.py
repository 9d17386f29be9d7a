"""Factor tables: what becomes of each kind of column, and what each bad table says."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from unweave.base.errors import DataError, MissingExtraError, UnknownNameError
from unweave.data import read_factors
from unweave.data._table import factors_from_columns, read_table


@pytest.fixture
def csv(tmp_path):
    def write(text: str):
        (tmp_path / "t.csv").write_text(text, encoding="utf-8")
        return tmp_path / "t.csv"

    return write


NAN = np.nan


def test_text_whole_numbers_and_floats(csv):
    factors = read_factors(csv("shape,count,angle\nheart,0,0.5\nsquare,2,1.25\nheart,1,3\n"), 3)
    assert factors.names == ("shape", "count", "angle")
    assert factors.kinds == ("discrete", "discrete", "continuous")
    assert factors.labels == (("heart", "square"), None, None)
    np.testing.assert_array_equal(factors.values, [[0, 0, 0.5], [1, 2, 1.25], [0, 1, 3]])


def test_missing_cells_are_nan_and_counted(csv):
    path = csv("a,b,c\n1,x,\n,NA,0.5\n0,y,nan\n1,,0.25\n")
    factors, notes = read_table(path, 4)
    np.testing.assert_array_equal(factors.values, [[1, 0, NAN], [NAN, NAN, 0.5], [0, 1, NAN], [1, NAN, 0.25]])
    assert "factor a: 1 of 4 values missing" in notes
    assert "factor b: 2 of 4 values missing" in notes


def test_other_whole_numbers_are_numbered_and_their_values_kept_as_labels(csv):
    factors, notes = read_table(csv("year\n1999\n1990\n\n1995\n"), 4)
    np.testing.assert_array_equal(factors.column("year"), [2, 0, NAN, 1])
    assert factors.labels == (("1990", "1995", "1999"),)
    assert any("1990 to 1999 numbered 0 to 2" in note for note in notes)


def test_many_whole_numbers_are_continuous_unless_told(csv):
    path = csv("n\n" + "\n".join(map(str, range(1000, 1101))))
    factors, notes = read_table(path, 101)
    assert factors.kinds == ("continuous",)
    assert "101 distinct whole numbers" in notes[0]
    told, _ = read_table(path, 101, kinds={"n": "discrete"})
    assert told.kinds == ("discrete",)
    assert told.values[:, 0].tolist() == list(range(101))


def test_fractions_may_be_told_discrete_and_whole_numbers_continuous(csv):
    factors, _ = read_table(csv("s,n\n0.5,1\n1,0\n0.5,2\n"), 3, kinds={"s": "discrete", "n": "continuous"})
    assert factors.labels == (("0.5", "1"), None)
    np.testing.assert_array_equal(factors.values, [[0, 1], [1, 0], [0, 2]])
    with pytest.raises(DataError, match="holds the text 'x'"):
        read_table(csv("s\n1\nx\n"), 2, kinds={"s": "continuous"})


def test_quotes_spaces_bom_and_trailing_lines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfshape , n\r\n"a, b", 1\r\n c , 0\r\n\r\n')
    factors = read_factors(path, 2)
    assert factors.names == ("shape", "n")
    assert factors.labels[0] == ("a, b", "c")


def test_underscores_and_words_are_text(csv):
    assert read_factors(csv("a\n1_000\n2_000\n"), 2).labels == (("1_000", "2_000"),)


def test_chosen_columns_in_the_order_given(csv):
    assert read_factors(csv("a,b,c\n0,1,2\n1,0,3\n"), 2, names=("c", "a")).names == ("c", "a")


def test_constant_columns_are_left_out_with_a_word(csv):
    path = csv("a,b\n0,7\n1,7\n0,\n")
    factors, notes = read_table(path, 3)
    assert factors.names == ("a",)
    assert notes == ("factor b: constant, left out because it explains nothing",)
    with pytest.warns(UserWarning, match="factor b: constant"):
        read_factors(path, 3)
    with pytest.raises(DataError, match=r"'b' .* one value only"):
        read_factors(path, 3, names=("b",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "is empty"),
        ("a,b\n1,2\n3,4\n", "has 2 rows and the data 3 observations"),
        ("a,a\n1,2\n1,3\n2,2\n", "two columns named 'a'"),
        ("a,\n1,2\n1,3\n2,2\n", "column without a name"),
        ("1,2\n1,3\n2,2\n1,3\n", "begins with numbers"),
        ("a;b\n1;2\n1;3\n2;2\n", "separate its columns by commas"),
        ("a,b\n1,2\n1\n2,2\n", "row 3: 1 cells"),
        ("a,b\n1,2\n\n2,2\n3,1\n", "row 3: 0 cells"),
        ("a,b\n0,\n1,NA\n2,nan\n", "'b' .* has no values at all"),
        ("a\n1\ninf\n2\n", "'a' .* infinite in row 1"),
        ("a\n1\n1\n1\n", "no column that varies"),
        ('a\n"1\n2\n3\n', "cannot read"),
    ],
)
def test_bad_tables_are_one_line(csv, text, message):
    path = csv(text)
    with pytest.raises(DataError, match=message) as caught:
        read_factors(path, 3)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_columns_name_the_nearest(csv):
    path = csv("shape,scale\n0,1\n1,0\n")
    with pytest.raises(UnknownNameError, match="'shpae': did you mean 'shape'"):
        read_factors(path, 2, names=("shpae",))
    with pytest.raises(UnknownNameError, match="'scael': did you mean 'scale'"):
        read_table(path, 2, kinds={"scael": "discrete"})


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_factors(tmp_path / "none.csv", 2)
    with pytest.raises(DataError, match="does not exist"):
        read_factors(tmp_path, 2)
    (tmp_path / "t.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"expected .csv or .parquet"):
        read_factors(tmp_path / "t.xlsx", 2)
    (tmp_path / "t.csv").write_bytes("größe\n1\n2\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_factors(tmp_path / "t.csv", 2)


def test_matching_by_file(csv):
    path = csv("file,a\nb/2.png,2\n./a.png,0\nb\\1.png,1\nz.png,3\n")
    factors, notes = read_table(path, 3, files=["a.png", "b/1.png", "b/2.png"])
    assert factors.column("a").tolist() == [0, 1, 2]
    assert notes == ("1 rows of the factor table have no image",)
    with pytest.raises(DataError, match=r"no row for the file 'c.png'"):
        read_table(path, 1, files=["c.png"])
    with pytest.raises(DataError, match=r"two rows for the file 'a.png'"):
        read_table(csv("file,a\na.png,0\na.png,1\n"), 1, files=["a.png"])
    with pytest.raises(DataError, match="no column but 'file'"):
        read_table(csv("file\na.png\nb.png\n"), 2, files=["a.png", "b.png"])


def test_parquet_equals_csv(tmp_path, csv):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pyarrow.table(
        {
            "shape": pyarrow.array(["heart", None, "square"]).dictionary_encode(),
            "n": pyarrow.array([0, 1, None], pyarrow.int64()),
            "x": [0.5, float("nan"), 2.0],
            "on": [True, False, None],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    got, _ = read_table(tmp_path / "t.parquet", 3)
    expected, _ = read_table(csv("shape,n,x,on\nheart,0,0.5,True\n,1,,False\nsquare,,2.0,\n"), 3)
    np.testing.assert_array_equal(got.values, expected.values)
    assert (got.names, got.kinds, got.labels) == (expected.names, expected.kinds, expected.labels)


def test_bad_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "t.parquet"
    path.write_bytes(b"not parquet")
    with pytest.raises(DataError, match="damaged or not Parquet"):
        read_factors(path, 2)
    for column, message in (([[1], [2]], "numbers or text"), ([None, None], "no values at all")):
        pyarrow.parquet.write_table(pyarrow.table({"a": [0, 1], "b": column}), path)
        with pytest.raises(DataError, match=message):
            read_factors(path, 2)
    pyarrow.parquet.write_table(pyarrow.table([[0, 1], [1, 0]], names=["a", "a"]), path)
    with pytest.raises(DataError, match="two columns named 'a'"):
        read_factors(path, 2)
    pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.array([], pyarrow.int64())}), path)
    with pytest.raises(DataError, match="is empty"):
        read_factors(path, 2)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"unweave\[tables\]"):
        read_factors(tmp_path / "t.parquet", 2)


def test_columns_of_other_types_are_refused():
    with pytest.raises(DataError, match="numbers or text"):
        factors_from_columns({"when": np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")}, "here")
