"""Files of the cache folder: found, checked, downloaded, written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import numpy as np
import pytest

from unweave.base.errors import DataError
from unweave.data import _cache
from unweave.data._cache import atomic_write, cache_dir, fetch

CONTENT = b"observations" * 100
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URLS = ("https://one.invalid/a.bin", "https://two.invalid/a.bin")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(_cache, "_verified", set())
    return tmp_path / "cache"


def offline(url, *args, **kwargs):
    import requests

    raise requests.exceptions.ConnectionError("no route\nto host")


def fail_while_writing(path: Path, error: Exception) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        raise error


def test_the_variable_chooses_the_folder(folder, monkeypatch):
    assert cache_dir() == folder
    monkeypatch.setenv("UNWEAVE_DATA", "~/somewhere")
    assert cache_dir() == Path.home() / "somewhere"
    monkeypatch.delenv("UNWEAVE_DATA")
    assert cache_dir().name == "unweave"
    assert not (folder).exists(), "asking for the folder must not make it"


def test_atomic_write_appears_at_once_and_keeps_the_suffix(folder):
    target = folder / "deep" / "a.npy"
    with atomic_write(target) as temporary:
        np.save(temporary, np.arange(3))
        assert not target.exists()
    assert np.load(target).tolist() == [0, 1, 2]
    assert [path.name for path in target.parent.iterdir()] == ["a.npy"]


def test_atomic_write_leaves_nothing_after_a_failure_and_keeps_the_old_file(folder):
    target = folder / "a.txt"
    with atomic_write(target) as temporary:
        temporary.write_text("old")
    with pytest.raises(RuntimeError, match="stop"):
        fail_while_writing(target, RuntimeError("stop"))
    assert target.read_text() == "old"
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


def test_a_full_disk_is_one_line_and_leaves_nothing(folder):
    with pytest.raises(DataError, match=r"cannot write .*a.txt.*UNWEAVE_DATA") as caught:
        fail_while_writing(folder / "a.txt", OSError(errno.ENOSPC, "No space left on device"))
    assert "\n" not in str(caught.value)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot write .*UNWEAVE_DATA"), atomic_write(cache_dir() / "a.txt"):
        pass
    with pytest.raises(DataError, match=r"cannot write .*UNWEAVE_DATA"):
        fetch("a.bin", "sub", URLS, SHA256)


@pytest.mark.parametrize("place", ["sub/a.bin", "a.bin"])
def test_fetch_finds_both_places_without_network(folder, monkeypatch, place):
    monkeypatch.setattr("pooch.retrieve", offline)
    (folder / place).parent.mkdir(parents=True)
    (folder / place).write_bytes(CONTENT)
    assert fetch("a.bin", "sub", URLS, SHA256) == folder / place
    assert fetch("a.bin", "sub", URLS, "md5:" + hashlib.md5(CONTENT).hexdigest()) == folder / place


def test_the_checksum_is_computed_once_per_process_and_again_when_the_file_changes(folder, monkeypatch):
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.bin").write_bytes(CONTENT)
    computed = []
    digest = _cache._digest
    monkeypatch.setattr(_cache, "_digest", lambda path, kind: computed.append(path) or digest(path, kind))
    for _ in range(3):
        fetch("a.bin", "sub", URLS, SHA256)
    assert len(computed) == 1
    (folder / "sub" / "a.bin").write_bytes(CONTENT + b"!")
    with pytest.raises(DataError):
        fetch("a.bin", "sub", URLS, SHA256)


def test_a_truncated_file_names_file_checksums_and_remedy(folder):
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.bin").write_bytes(CONTENT[:50])
    with pytest.raises(DataError) as caught:
        fetch("a.bin", "sub", URLS, SHA256)
    message = str(caught.value)
    got = hashlib.sha256(CONTENT[:50]).hexdigest()
    assert all(part in message for part in (str(folder / "sub" / "a.bin"), SHA256, got, "delete it", URLS[0]))
    assert "\n" not in message


def test_without_network_the_error_says_what_where_and_how(folder, monkeypatch):
    monkeypatch.setattr("pooch.retrieve", offline)
    with pytest.raises(DataError) as caught:
        fetch("a.bin", "sub", URLS, SHA256)
    message = str(caught.value)
    wanted = ("a.bin", str(folder / "sub" / "a.bin"), str(folder / "a.bin"), "no connection", *URLS, "UNWEAVE_DATA")
    assert all(part in message for part in wanted)
    assert "\n" not in message


def test_the_next_address_is_tried_and_the_checksum_is_given_to_pooch(folder, monkeypatch):
    asked = []

    def retrieve(url, known_hash, fname, path, downloader):
        asked.append((url, known_hash))
        if url == URLS[0]:
            raise ValueError("SHA256 hash of downloaded file does not match")
        (path / fname).write_bytes(CONTENT)

    monkeypatch.setattr("pooch.retrieve", retrieve)
    assert fetch("a.bin", "sub", URLS, SHA256).read_bytes() == CONTENT
    assert asked == [(URLS[0], f"sha256:{SHA256}"), (URLS[1], f"sha256:{SHA256}")]


def test_a_real_download_through_pooch(folder, tmp_path):
    """A server on this machine: the right file arrives; a wrong one is refused and leaves nothing."""
    import threading
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.bin").write_bytes(CONTENT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "served")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/a.bin"
        with pytest.raises(DataError, match="wrong checksum"):
            fetch("a.bin", "sub", [url], hashlib.sha256(b"other").hexdigest())
        assert list((folder / "sub").iterdir()) == []
        assert fetch("a.bin", "sub", [url], SHA256).read_bytes() == CONTENT
    finally:
        server.shutdown()
        server.server_close()
