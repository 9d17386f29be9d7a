"""IDX files against bytes written by hand."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from unweave.base.errors import DataError
from unweave.data._idx import read_idx


def idx_bytes(array: np.ndarray, kind: int = 0x08) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize(
    ("kind", "dtype"), [(0x08, ">u1"), (0x09, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]
)
@pytest.mark.parametrize("shape", [(5,), (2, 3, 4)])
def test_reads_every_type(tmp_path, kind, dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    (tmp_path / "a").write_bytes(idx_bytes(array, kind))
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx_bytes(array, kind)))
    for name in ("a", "a.gz"):
        read = read_idx(tmp_path / name)
        np.testing.assert_array_equal(read, array)
        assert read.dtype.isnative


GOOD = idx_bytes(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-1], "truncated"),
        (GOOD + b"x", "truncated or damaged"),
        (GOOD[:10], "truncated"),
        (GOOD[:9], "truncated"),
        (b"", "not an IDX file"),
        (b"\x89PNG....", "not an IDX file"),
        (gzip.compress(GOOD, mtime=0)[:-9], "damaged"),
        (gzip.compress(GOOD, mtime=0)[:12] + b"\xff" * 20, "damaged"),
    ],
)
def test_damage_is_one_line_with_the_file(tmp_path, content, message):
    (tmp_path / "a.gz").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(tmp_path / "a.gz")
    assert str(tmp_path / "a.gz") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path / "none")
