"""Every command and snippet in the README and the docs runs as written, only shorter.

Training commands get three steps of eight observations; `evaluate` gets one quick score; a run a page only refers to
is a small one made here.
"""

import re
import shlex
import shutil

import numpy as np
import pytest
from PIL import Image

from unweave.cli import cli
from unweave.explorer import build_app
from unweave.runs import train

SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHORTER = ["--set", "training.steps=3", "--set", "training.batch_size=8", "--quiet", "--threads", "1"]


def commands_of(page):
    for block in SHELL.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "unweave":
                yield words[1:]


def pages(root):
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        found = [page for page in pages(metafunc.config.rootpath) if any(commands_of(page))]
        ids = [str(page.relative_to(metafunc.config.rootpath)) for page in found]
        metafunc.parametrize("page", found, ids=ids)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    small = {"nets.hidden": [16], "training.steps": 3, "training.batch_size": 8}
    run = train("hfvae", "digits", settings=small, run=folder, progress=False, threads=1)
    run.encode_split()
    run.evaluate(["mig", "information"])
    return folder


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with what a reader would have: images, a table of factors, codes of some model."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "my_images").mkdir()
    for number in range(24):
        picture = rng.integers(0, 256, (32, 32), dtype=np.uint8)
        Image.fromarray(picture).save(tmp_path / "my_images" / f"{number:02}.png")
    factors = rng.integers(0, 3, (24, 3))
    lines = ["colour,size,person", *(",".join(map(str, row)) for row in factors)]
    (tmp_path / "factors.csv").write_text("\n".join(lines) + "\n")
    np.save(tmp_path / "codes.npy", factors + 0.1 * rng.normal(size=(24, 3)))
    np.save(tmp_path / "my_images.npy", rng.random((24, 32, 32), dtype=np.float32))
    return tmp_path


@pytest.mark.timeout(240)
def test_commands_run(page, workplace, small_run, request, monkeypatch, tmp_path_factory):
    commands = list(commands_of(page))
    needed = [name for name in ("mnist", "fashion_mnist") if any(name in words for words in commands)]
    monkeypatch.setenv("UNWEAVE_DATA", str(data_folder(needed, request, tmp_path_factory)))
    monkeypatch.setattr("unweave.explorer.server.serve", lambda paths, **_: build_app(paths))  # a server would not end
    for words in commands:
        words = list(words)
        if words[0] in ("demo", "study", "reproduce") and "--list" not in words:
            continue  # minutes of work: `make demo` and the evidence are that
        if words[0] == "train":
            words += SHORTER
        for word in words[1:]:
            if word.startswith("runs/") and words[0] not in ("train",) and not (workplace / word).exists():
                shutil.copytree(small_run, workplace / word)
        if words[0] == "evaluate" and "--score" not in words:
            words += ["--score", "mig", "--quiet"]
        result = cli.main(args=words, prog_name="unweave", standalone_mode=False)
        assert result in (None, 0), words


def data_folder(needed, request, factory):
    """A writable cache with the real data a page needs; the page is skipped where they are absent."""
    folder = factory.getbasetemp() / "unweave-data"
    folder.mkdir(exist_ok=True)
    for name in needed:
        if not (folder / name).exists():
            (folder / name).symlink_to(request.getfixturevalue("real_data") / name)
    return folder


@pytest.mark.parametrize(
    "name", ["README.md", "docs/architecture.md", "docs/objectives.md", "docs/networks.md", "docs/explorer.md"]
)
def test_snippets_run(name, root, run_page):
    assert run_page(root / name) >= 1


def test_links_lead_somewhere(root):
    for page in pages(root):
        prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{page.relative_to(root)} links to {target}"
