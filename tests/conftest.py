"""Shared by all tests: where real data are, how docs snippets run, and one thread so that tests share the machine."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    import torch

    torch.set_num_threads(1)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs have it, and hand it on
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; the test is skipped where it is absent."""
    folder = Path(os.environ.get("UNWEAVE_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data are not at {folder}: set UNWEAVE_TEST_DATA")
    return folder


_FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that runs the python blocks of a docs page, in order, in one namespace and an empty folder."""

    def run(page: Path) -> int:
        blocks = _FENCE.findall(page.read_text(encoding="utf-8"))
        monkeypatch.chdir(tmp_path)
        namespace: dict[str, object] = {"__name__": "__page__"}
        for block in blocks:
            exec(compile(block, str(page), "exec", dont_inherit=True), namespace)
        return len(blocks)

    return run
