"""Files are written beside and then renamed: a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unweave.base.errors import PlaceError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that takes the place of `path` when the block ends without an error.

    It has the suffix of `path`, because `np.save` and others add one to a name without it. The folder must be there:
    one that was removed meanwhile must not come back with a single file in it.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.partial-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())  # the rename must not reach the disk before the contents
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private; these are the user's own
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Raise PlaceError unless a file can be written there, in a folder that is there or can be made."""
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        why = "cannot be written to" if folder.is_dir() else "is a file and no folder"
        raise PlaceError(f"cannot write {path}: {folder} {why}; choose another place")


def make_place(path: Path) -> None:
    """Make the folder of a file that is about to be written, where there is none."""
    check_place(path)
    path.parent.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
