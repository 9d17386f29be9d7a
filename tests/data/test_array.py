"""Arrays: axes, values and factors are told, checked and never silently changed."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.base.errors import ConfigError, DataError, UnknownNameError
from unweave.core.factors import Factors
from unweave.data import from_arrays, load

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("shape", "layout", "event"),
    [
        ((6, 5), "auto", (5,)),
        ((6, 8, 9), "auto", (1, 8, 9)),
        ((6, 3, 8, 9), "auto", (3, 8, 9)),
        ((6, 8, 9, 3), "auto", (3, 8, 9)),
        ((6, 8, 9, 1), "auto", (1, 8, 9)),
        ((6, 3, 4, 3), "NCHW", (3, 4, 3)),
        ((6, 3, 4, 3), "NHWC", (3, 3, 4)),
        ((6, 7, 8, 9), "NCHW", (7, 8, 9)),
        ((6, 5, 3, 8, 9), "auto", (5, 3, 8, 9)),
        ((6, 5, 8, 9, 3), "auto", (5, 3, 8, 9)),
        ((6, 3, 8, 9, 1), "auto", (3, 1, 8, 9)),
        ((6, 2, 3, 4, 3), "NTCHW", (2, 3, 4, 3)),
        ((6, 2, 3, 4, 3), "NTHWC", (2, 3, 3, 4)),
    ],
)
def test_axes_pixel_by_pixel(shape, layout, event):
    array = RNG.random(shape).astype(np.float32)
    data = from_arrays(array, layout=layout)
    assert data.spec.shape == event
    rows = np.array([4, 0, 4])
    observed = data.observations(rows)
    assert observed.dtype == np.float32
    assert observed.flags.c_contiguous
    assert observed.flags.writeable
    for place, row in enumerate(rows):
        for index in np.ndindex(event):
            if any(data.notes[1].startswith(f"axes of {shape} read as {last}") for last in ("NHWC", "NTHWC")):
                *step, channel, height, width = index
                expected = array[(row, *step, height, width, channel)]
            else:
                expected = array[row].reshape(event)[index]
            assert observed[(place, *index)] == expected


@pytest.mark.parametrize(
    ("shape", "layout", "message"),
    [
        ((6,), "auto", "expected .N, D. vectors"),
        ((6, 2, 3, 4, 5, 6), "auto", "expected .N, D. vectors"),
        ((6, 2, 3, 4, 3), "auto", "fits both NTCHW and NTHWC"),
        ((6, 5, 8, 8, 8), "auto", "fits neither NTCHW nor NTHWC"),
        ((6, 8, 8, 3), "NTHWC", "layout NTHWC needs 5 axes"),
        ((6, 5, 8, 8, 3), "NTCHW", "layout NTCHW reads 8 channels; layout NTHWC reads 3"),
        ((6, 3, 4, 3), "auto", "fits both NCHW and NHWC"),
        ((6, 8, 8, 8), "auto", "fits neither"),
        ((6, 8, 8), "NCHW", "layout NCHW needs 4 axes"),
        ((6, 8, 8, 3), "NHW", "layout NHW needs 3 axes"),
        ((6, 3, 8, 8), "NHWC", "layout NHWC reads 8 channels; layout NCHW reads 3"),
        ((6, 8, 8, 1), "NCHW", "layout NCHW reads 8 channels; layout NHWC reads 1"),
    ],
)
def test_wrong_rank_or_channels(shape, layout, message):
    with pytest.raises(DataError, match=message) as caught:
        from_arrays(np.zeros(shape), layout=layout)
    assert str(shape) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_list_of_clips_needs_one_length():
    clips = [RNG.random((steps, 3, 8, 8)) for steps in (8, 8, 10)]
    with pytest.raises(DataError, match=r"^clips have different lengths 8 and 10: cut them to one length$"):
        from_arrays(clips)
    ragged = np.empty(3, dtype=object)
    ragged[:] = clips
    with pytest.raises(DataError, match="different lengths 8 and 10"):
        from_arrays(ragged)
    cut = from_arrays([clip[:8] for clip in clips])
    assert cut.spec.shape == (8, 3, 8, 8)
    np.testing.assert_array_equal(cut.observations([2])[0], clips[2][:8].astype(np.float32))
    assert from_arrays(clips[:2]).notes[1] == "axes of (2, 8, 3, 8, 8) read as NTCHW: clips"
    with pytest.raises(DataError, match=r"observation 0 has shape \(8, 8\) and 1 \(8, 9\): all need the same"):
        from_arrays([np.zeros((8, 8)), np.zeros((8, 9))])


BYTES = np.array([[0, 51, 255], [102, 7, 1]], dtype=np.uint8)


@pytest.mark.parametrize(
    ("array", "values", "kind", "divisor", "note"),
    [
        (BYTES, None, "unit", 255, "uint8 values 0 to 255: pixels 0..255 divided by 255"),
        (BYTES, "unit", "unit", 255, "divided by 255"),
        (BYTES, "levels", "levels", 1, "taken as levels, not rescaled"),
        (BYTES, "counts", "counts", 1, "not rescaled"),
        (BYTES, "real", "real", 1, "not rescaled"),
        (BYTES // 200, None, "binary", 1, "only 0 and 1: binary"),
        (BYTES // 200 * 255, None, "binary", 255, "only 0 and 255, divided by 255: binary"),
        (BYTES // 200 * 255, "unit", "unit", 255, "divided by 255"),
        (BYTES > 50, None, "binary", 1, "bool values 0 to 1: only 0 and 1: binary"),
        (BYTES // 200 * 1.0, None, "binary", 1, "binary"),
        (BYTES // 200 * 1.0, "unit", "unit", 1, "not rescaled"),
        (BYTES / 255, None, "unit", 1, "float64 values 0 to 1: in 0..1, not rescaled"),
        (BYTES / 100 - 1, "real", "real", 1, "float64 values -1 to 1.55: taken as real, not rescaled"),
        (BYTES.astype(int) // 50, "levels", "levels", 1, "not rescaled"),
    ],
)
def test_values_are_told_and_only_bytes_divided(array, values, kind, divisor, note):
    data = from_arrays(array, values=values)
    assert data.spec.values == kind
    assert note in data.notes[0]
    np.testing.assert_allclose(data.observations([0, 1]), array.astype(np.float64) / divisor, rtol=1e-6)
    if kind == "levels":
        assert data.spec.levels == (256 if array.dtype == np.uint8 else 6)


@pytest.mark.parametrize(
    ("array", "values", "message"),
    [
        (BYTES / 255 * 2, None, "values 0 to 2, not 0 to 1 and not bytes: .* values='real'"),
        (BYTES.astype(int), None, "int64 values 0 to 255.* 'counts' or 'levels'"),
        (BYTES / 255 * 2, "unit", "first outside in observation 0"),
        (BYTES, "binary", "means 0 to 1"),
        (BYTES / 255, "counts", "fractional"),
        (-BYTES.astype(int), "counts", "means 0 and above"),
    ],
)
def test_values_out_of_range(array, values, message):
    with pytest.raises(DataError, match=message) as caught:
        from_arrays(array, values=values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_pixels(bad):
    array = RNG.random((9, 1, 8, 8))
    array[6, 0, 2, 3] = bad
    with pytest.raises(DataError, match=rf"observation 6 is {bad} at \(0, 2, 3\)"):
        from_arrays(array)


def test_empty_and_no_numbers():
    with pytest.raises(DataError, match="is empty"):
        from_arrays(np.zeros((0, 3, 8, 8)))
    with pytest.raises(DataError, match="must be numbers"):
        from_arrays(np.array([["a", "b"]]))


def test_misspelt_words_and_other_traps():
    with pytest.raises(UnknownNameError, match="'unti': did you mean 'unit'"):
        from_arrays(RNG.random((4, 3)), values="unti")
    with pytest.raises(UnknownNameError, match="layout 'NCWH': did you mean"):
        from_arrays(RNG.random((4, 3, 8, 8)), layout="NCWH")
    with pytest.raises(DataError, match="is a masked array"):
        from_arrays(np.ma.masked_less(RNG.random((4, 3)), 0.1))
    with pytest.raises(DataError, match="32-bit floats cannot hold"):
        from_arrays(np.full((4, 3), 1e39), values="real")
    for factors in (None, np.arange(4)):
        with pytest.raises(DataError, match=r"single number|0 observations"):
            from_arrays(np.float64(3), factors)


def test_empty_files(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((0, 3, 8, 8)))
    np.savez(tmp_path / "a.npz", np.zeros((0, 3, 8, 8)))
    np.savez(tmp_path / "b.npz")
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match=r"is empty \(shape \(0, 3, 8, 8\)\)"):
            load(tmp_path / name)
    with pytest.raises(DataError, match="holds no arrays"):
        load(tmp_path / "b.npz")


def test_factors_in_every_form():
    array, columns = RNG.random((4, 3)), np.array([[0, 0.5], [1, 0.25], [0, 0.0], [1, np.nan]])
    plain = from_arrays(array, columns)
    assert plain.factors.names == ("factor_0", "factor_1")
    assert plain.factors.kinds == ("discrete", "continuous")
    assert "factor factor_1: 1 of 4 values missing" in plain.notes
    named = from_arrays(array, columns, names=["side", "angle"], kinds=["discrete", "continuous"])
    mapped = from_arrays(array, {"side": columns[:, 0], "angle": columns[:, 1]})
    given = from_arrays(array, Factors(("side", "angle"), columns, ("discrete", "continuous")))
    for data in (named, mapped, given):
        assert data.factors.names == ("side", "angle")
        assert data.factors.kinds == ("discrete", "continuous")
        np.testing.assert_array_equal(data.factors.values, columns)
    one = from_arrays(array, np.array(["b", "a", "b", "a"]), names=["side"])
    assert one.factors.labels == (("a", "b"),)
    assert one.factors.values[:, 0].tolist() == [1, 0, 1, 0]
    chosen = from_arrays(array, {"side": columns[:, 0], "angle": columns[:, 1]}, names=["angle"])
    assert chosen.factors.names == ("angle",)


def test_constant_factors_are_left_out_with_a_note():
    array = RNG.random((4, 3))
    columns = np.array([[0, 1], [0, 2], [0, 0], [np.nan, 1]])
    for factors in (columns, Factors(("factor_0", "factor_1"), columns, ("discrete", "discrete"))):
        data = from_arrays(array, factors)
        assert data.factors.names == ("factor_1",)
        assert "factor factor_0: constant, left out because it explains nothing" in data.notes
    with pytest.raises(DataError, match="no factor varies"):
        from_arrays(array, Factors(("a",), columns[:, :1], ("discrete",)))


@pytest.mark.parametrize(
    ("factors", "more", "message"),
    [
        (np.arange(5), {}, "4 observations"),
        (np.zeros((4, 2, 2)), {}, "expected .N,. or .N, K."),
        (np.arange(8).reshape(4, 2), {"names": ["a"]}, "1 factor names for 2 columns"),
        (np.arange(8).reshape(4, 2), {"names": ["a", "a"]}, "each once"),
        (np.arange(8).reshape(4, 2), {"kinds": ["discrete"]}, "1 kinds for 2 factors"),
        (None, {"names": ["a"]}, "none are given"),
        (Factors(("a",), np.arange(5)[:, None], ("discrete",)), {}, "5 rows and array 4 observations"),
        (Factors(("a",), np.arange(4)[:, None], ("discrete",)), {"kinds": ["discrete"]}, "have kinds already"),
    ],
)
def test_factors_that_do_not_fit(factors, more, message):
    with pytest.raises(DataError, match=message):
        from_arrays(RNG.random((4, 3)), factors, **more)


def test_npy_is_memory_mapped_and_takes_a_table(tmp_path):
    array = RNG.integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    np.save(tmp_path / "pics.npy", array)
    (tmp_path / "t.csv").write_text("a,b\n0,x\n1,y\n0,\n1,x\n0,y\n")
    data = load(tmp_path / "pics.npy", factors=str(tmp_path / "t.csv"))
    assert isinstance(data.read.array, np.memmap)
    assert data.name == "pics"
    np.testing.assert_array_equal(data.observations([3])[0], array[3].transpose(2, 0, 1) / np.float32(255))
    assert data.factors.labels == (None, ("x", "y"))
    assert any("pixels 0..255 divided by 255" in note for note in data.notes)
    assert any("read as NHWC" in note for note in data.notes)
    assert any("1 of 5 values missing" in note for note in data.notes)
    chosen = load(tmp_path / "pics.npy", factors=str(tmp_path / "t.csv"), factor_names="b")
    assert chosen.factors.names == ("b",)


def test_a_table_of_another_length_or_with_unknown_columns(tmp_path):
    np.save(tmp_path / "pics.npy", RNG.random((5, 8, 8)))
    (tmp_path / "t.csv").write_text("size\n0\n1\n")
    with pytest.raises(DataError, match="has 2 rows and the data 5 observations"):
        load(tmp_path / "pics.npy", factors=str(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_text("size\n0\n1\n0\n1\n0\n")
    with pytest.raises(UnknownNameError, match="'siez': did you mean 'size'"):
        load(tmp_path / "pics.npy", factors=str(tmp_path / "t.csv"), factor_names=("siez",))


def test_npz_keys(tmp_path):
    x, y, angle = RNG.random((5, 4)), np.array(["b", "a", "a", "b", "a"]), RNG.random(5)
    np.savez(tmp_path / "a.npz", x=x, y=y, angle=angle)
    path = tmp_path / "a.npz"
    with pytest.raises(DataError, match="holds x, y, angle: say which with key="):
        load(path)
    with pytest.raises(UnknownNameError, match="'z'"):
        load(path, key="z")
    with pytest.raises(UnknownNameError, match="'agnle': did you mean 'angle'"):
        load(path, key="x", factors=("y", "agnle"))
    with pytest.raises(UnknownNameError, match="'agnle': did you mean 'angle'"):
        load(path, key="x", factors="agnle")
    data = load(path, factors=("y", "angle"))
    np.testing.assert_allclose(data.observations(range(5)), x, rtol=1e-6)
    assert data.factors.names == ("y", "angle")
    assert data.factors.labels[0] == ("a", "b")
    np.testing.assert_array_equal(data.factors.column("angle"), angle)
    assert load(path, key="x", factors="angle").factors.names == ("angle",)
    assert load(path, factors="y, angle").factors.names == ("y", "angle")
    assert load(path, key="x").factors is None


def test_npz_with_a_matrix_of_factors(tmp_path):
    np.savez(tmp_path / "a.npz", x=RNG.random((5, 4)), f=RNG.random((5, 2)), short=RNG.random(4))
    assert load(tmp_path / "a.npz", key="x", factors="f").factors.names == ("f_0", "f_1")
    named = load(tmp_path / "a.npz", key="x", factors="f", factor_names=("p", "q"), factor_kinds={"q": "discrete"})
    assert named.factors.names == ("p", "q")
    assert named.factors.kinds == ("continuous", "discrete")
    with pytest.raises(DataError, match=r"'short' .* has 4 rows and the data 5"):
        load(tmp_path / "a.npz", key="x", factors="short")


def test_settings_survive_json_and_the_command_line(tmp_path, monkeypatch):
    from unweave.data import source

    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=RNG.random((5, 4)), y=np.arange(5))
    settings = source("a.npz", key="x").override(
        {"factors": "y", "values": "unit", "factor_kinds": '{"y": "continuous"}'}
    )
    again = type(settings).from_dict(settings.to_dict())
    monkeypatch.chdir("/")
    assert again == settings
    assert again.load().factors.kinds == ("continuous",)
    (tmp_path / "t.csv").write_text("n\n0\n1\n2\n3\n4\n")
    monkeypatch.chdir(tmp_path)
    table = source("a.npz", key="x", factors="t.csv")
    monkeypatch.chdir("/")
    assert table.load().factors.names == ("n",)
    with pytest.raises(ConfigError, match="setting 'values'"):
        source(tmp_path / "a.npz", values="unitt")


def test_damaged_files(tmp_path):
    good = RNG.random((50, 8, 8))
    np.save(tmp_path / "a.npy", good)
    np.savez_compressed(tmp_path / "a.npz", x=good)
    for name in ("a.npy", "a.npz"):
        content = (tmp_path / name).read_bytes()
        for cut in (content[: len(content) // 2], b"", b"some text that is no array"):
            (tmp_path / name).write_bytes(cut)
            with pytest.raises(DataError, match="damaged, truncated or not a NumPy file") as caught:
                load(tmp_path / name)
            assert "\n" not in str(caught.value)
            assert name in str(caught.value)


def test_python_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([{}, {}]))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match="Python objects, which are never loaded"):
            load(tmp_path / name)


def test_other_misuses(tmp_path):
    np.save(tmp_path / "a.npy", RNG.random((5, 4)))
    with pytest.raises(DataError, match="leave out key='x'"):
        load(tmp_path / "a.npy", key="x")
    with pytest.raises(DataError, match="must be one CSV or Parquet table"):
        load(tmp_path / "a.npy", factors=("a", "b"))
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "b.npy")
    (tmp_path / "a.txt").write_text("1")
    with pytest.raises(DataError, match=r"expected .npy or .npz"):
        load("array", path=tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"table .*none.csv does not exist"):
        load(tmp_path / "a.npy", factors="none.csv")
