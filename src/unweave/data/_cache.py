"""The folder that data files live in: found there, or downloaded into it with a checksum; never half written.

The folder is `UNWEAVE_DATA` when that variable is set, and otherwise the usual cache folder of the system. It may be
read-only as long as everything asked for is in it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from unweave.base.errors import DataError
from unweave.base.files import replacing

# Files whose checksum was found right, with size and time of change: each is read through once per process.
_verified: set[tuple[Path, int, int, str]] = set()

_CANNOT_WRITE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EEXIST}


def cache_dir() -> Path:
    """`UNWEAVE_DATA` when set, else the user's cache folder; not created before something is written."""
    chosen = os.environ.get("UNWEAVE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("unweave"))


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the name `path` when the block ends well and is removed otherwise.

    An error says how to choose another cache folder.

        with atomic_write(cache_dir() / "dsprites" / "packed.npy") as temporary:
            np.save(temporary, packed)
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(Path(path)) as temporary:
            yield temporary
    except OSError as error:
        if error.errno in _CANNOT_WRITE:
            raise _cannot_write(path, error) from error
        raise


def fetch(filename: str, subfolder: str, urls: Sequence[str], checksum: str) -> Path:
    """The path of a data file with the right checksum.

    Looks for cache_dir()/subfolder/filename, then cache_dir()/filename; downloads from the first of `urls` that answers
    when neither exists. `checksum` is a sha256 in hexadecimal, or "md5:..." for a file published with that only.
    """
    place = find(filename, subfolder)
    if place is None:
        return _download(filename, subfolder, urls, checksum)
    verify(place, checksum, urls)
    return place


def find(filename: str, subfolder: str) -> Path | None:
    """Where a data file is, unchecked; None when it is in neither place."""
    return next((place for place in _places(filename, subfolder) if place.is_file()), None)


def verify(path: Path, checksum: str, urls: Sequence[str] = ()) -> None:
    """Raise DataError unless the file has this checksum; a file once found right is not read again."""
    kind, expected = _split_checksum(checksum)
    try:
        status = path.stat()
        known = (path.resolve(), status.st_size, status.st_mtime_ns, checksum)
        if known in _verified:
            return
        got = _digest(path, kind)
    except OSError as error:
        raise DataError(f"cannot read {path} ({error.strerror}): check its permissions") from error
    if got != expected:
        source = f" or copy it again from {urls[0]}" if urls else " and copy it again from its source"
        raise DataError(
            f"{path} is damaged or incomplete ({status.st_size} bytes): expected {kind} {expected}, got {got}; "
            f"delete it so that it is downloaded anew{source}"
        )
    _verified.add(known)


def _places(filename: str, subfolder: str) -> tuple[Path, Path]:
    return cache_dir() / subfolder / filename, cache_dir() / filename


def _split_checksum(checksum: str) -> tuple[str, str]:
    kind, colon, digest = checksum.partition(":")
    return (kind, digest) if colon else ("sha256", checksum)


def _digest(path: Path, kind: str) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _download(filename: str, subfolder: str, urls: Sequence[str], checksum: str) -> Path:
    """Try each address in turn; pooch checks the checksum and moves the file into place only when it is right."""
    import pooch

    kind, expected = _split_checksum(checksum)
    target = cache_dir() / subfolder
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(target / filename, error) from error
    failures = []
    for url in urls:
        try:
            downloader = pooch.HTTPDownloader(progressbar=True, timeout=30)
            pooch.retrieve(url, f"{kind}:{expected}", fname=filename, path=target, downloader=downloader)
            verify(target / filename, checksum, urls)
            return target / filename
        except (OSError, ValueError) as error:
            # requests' errors are OSErrors; pooch says with a ValueError that the checksum is wrong.
            if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
                raise _cannot_write(target / filename, error) from error
            failures.append(_short(error))
    first, second = _places(filename, subfolder)
    why = ", ".join(dict.fromkeys(failures)) or "no public address"
    raise DataError(
        f"{filename} was not found: it is neither {first} nor {second} and cannot be downloaded from "
        f"{' or '.join(urls) or 'anywhere'} ({why}); "
        "get it on a machine with a network and put it there, or set UNWEAVE_DATA to the folder it is in"
    )


def _short(error: Exception) -> str:
    """The reason in a few words, on one line."""
    known = {"ConnectionError": "no connection", "OSError": "no connection", "ValueError": "wrong checksum"}
    return known.get(type(error).__name__, type(error).__name__)


def _cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(
        f"cannot write {path} ({error.strerror or error}): "
        "free some space or set UNWEAVE_DATA to a folder that can be written"
    )
