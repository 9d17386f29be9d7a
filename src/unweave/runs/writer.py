"""A run has one writer: a lock in its directory while it is trained, and a look that the directory is still that one.

The lock is the operating system's own (`flock`, on Windows `msvcrt.locking`) on the file writer.lock. It belongs to the
process and not to the file: a writer that is killed leaves the file and no lock. Others may read the run meanwhile, and
add codes, scores and pictures; these are written beside and renamed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
import time
import weakref
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from unweave.base.errors import RunError

LOCK = "writer.lock"
# fmt: off
SHARED = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "gpfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs",
    "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
))
"""File systems that several machines may have mounted; so may those whose kind begins with `fuse.`."""
# fmt: on
_MOUNTS = Path("/proc/self/mounts")
_BYTE = 1 << 30
"""The byte that is locked on Windows, where nobody can read what is locked: far behind the text."""


class Writer:
    """The one that trains a run, from `sole_writer`.

    folder: the run's directory
    note:   what the lock cannot do here, in one line; empty when it holds
    """

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / LOCK
        self._file = -1
        for _ in range(10):  # a writer that ends takes the file with it: then another one is to be locked
            self._file, failure = _locked(self.path)
            if self._is_in_place():
                break
            os.close(self._file)
        else:
            raise RunError(f"cannot lock {folder}: {LOCK} in it is removed again and again; stop what does that")
        self.note = _note(folder, failure)
        since = datetime.now().isoformat(" ", "seconds")
        about = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
        os.ftruncate(self._file, 0)
        os.write(self._file, json.dumps(about).encode())
        _WRITERS.add(self)

    def check(self) -> None:
        """Raise when the directory is no longer there or is another one: nothing may be written there then."""
        if not self.holds():
            raise RunError(
                f"{self.folder} was deleted, renamed or replaced while it was trained: training stopped and nothing "
                "was written in its place; if it was renamed, `unweave resume` with its new name goes on from its last "
                "checkpoint"
            )

    def holds(self) -> bool:
        """Whether the directory is the one that was locked. An open file's number is given to no other file."""
        return self._file >= 0 and self._is_in_place()

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), self.path.stat())
        except OSError:
            return False

    def release(self) -> None:
        """Let others write; the file goes first, while nobody else can have it."""
        if self._file < 0:
            return
        ours = self._is_in_place()
        if ours and sys.platform != "win32":  # which removes no open file
            self._remove()
        os.close(self._file)
        self._file = -1
        if ours and sys.platform == "win32":
            self._remove()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()

    def forget(self) -> None:
        """In a forked process, which has a copy of the open file: the lock would last as long as the copy."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


# Processes started by exec, such as those of joblib, get no copy: Python opens files so.
_WRITERS: weakref.WeakSet[Writer] = weakref.WeakSet()


def _forget_all() -> None:
    for writer in _WRITERS:
        writer.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


@contextlib.contextmanager
def sole_writer(folder: Path) -> Iterator[Writer]:
    """While it lasts no other process or thread trains the run; an error says who does when one does already."""
    writer = Writer(folder)
    try:
        yield writer
    finally:
        writer.release()


def _locked(path: Path) -> tuple[int, str]:
    """The open and locked file, and why it is not locked where the file system cannot."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RunError(f"cannot write to {path.parent}: {error.strerror or error}") from None
    try:
        _lock(file)
    except BlockingIOError:
        holder = _holder(path)
        os.close(file)
        raise RunError(
            f"{path.parent} is being trained by {holder}: wait until it ends, or stop it, which saves, and try again"
        ) from None
    except OSError as error:
        return file, error.strerror or str(error)
    return file, ""


def _lock(file: int) -> None:
    """Lock an open file or raise: BlockingIOError when another has it, another OSError where there are no locks."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLOCK):
                raise BlockingIOError from None
            raise
        finally:
            os.lseek(file, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _holder(path: Path) -> str:
    """Who has the lock, in words; it says so right after it has got it."""
    for _ in range(20):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return f"process {found['process']} on {found['host']} since {found['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            time.sleep(0.01)
    return "another process"


def _note(folder: Path, failure: str) -> str:
    if failure:
        return (
            f"{folder} cannot be locked here ({failure}): nothing keeps a second `unweave train` or `unweave resume` "
            "out of it; start none while this one lasts"
        )
    kind = file_system(folder)
    if kind not in SHARED and not kind.startswith("fuse."):
        return ""
    return (
        f"{folder} is on a shared file system ({kind}), where other machines may not see that it is locked: train it "
        "from one machine at a time"
    )


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str:
    """The kind of file system a folder is on, such as ext4 or nfs4; empty where the system has no list of them."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place, found, longest = folder.resolve(), "", -1
    for words in map(str.split, lines):
        point = Path(_unescaped(words[1]))
        if place.is_relative_to(point) and len(point.parts) >= longest:  # the later of two on one place hides the other
            found, longest = words[2], len(point.parts)
    return found


def _unescaped(text: str) -> str:
    """A path as the list of mounts writes it, where blanks are `\\040`."""
    return text.encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
