"""Every command and snippet in the README and the docs runs as written, only shorter.

Commands are lines of shell blocks, indented lines, and code within sentences; of the last also parts, such as `--data
mnist --set data.values=binary` and `--set beta=4`, which are tried as options of `train`. Training gets three steps of
eight observations; `evaluate` gets one quick score; a run a page only refers to is a small one made here, of a system
with the parts that are named. Studies, reproductions and the demo take minutes: of these the words are checked.
"""

import os
import re
import shlex
import shutil
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image

from unweave.cli import cli
from unweave.core.system import SYSTEMS
from unweave.data import DATA
from unweave.explorer import build_app
from unweave.runs import Run, train

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
SHORTER = ["--set", "training.steps=3", "--set", "training.batch_size=8", "--quiet", "--threads", "1"]
LONG = ("demo", "study", "reproduce")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b|\.\.\.")  # of what the reader is to put there; RUN is a run
# Systems that need more of their data than digits have, or clips: their runs by what a command names.
KINDS = {
    "mlvae": ("mlvae", "digits", {"group": "digit", "members": 2}),
    "video": ("video", "moving_digits", {}),
    "structured": ("structured", "digits", {}),
    "hfvae": ("hfvae", "digits", {}),
    "betavae": ("betavae", "digits", {}),
}


def pages(root):
    made = (root / "docs" / "evidence").rglob("results.md")  # by their commands, which are on the pages about them
    own = [root / "README.md", root / "CONTRIBUTING.md", root / "benchmarks" / "README.md"]
    return [*own, *sorted({*(root / "docs").rglob("*.md")} - {*made})]


def lines_of(page):
    """Every line and every piece of code within a sentence that may hold a command."""
    text = page.read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text):
        if language == "sh":
            yield from block.replace("\\\n", " ").splitlines()
    prose = BLOCK.sub("", text)
    yield from (line.strip() for line in prose.splitlines() if line.startswith("    "))
    yield from (" ".join(code.split()) for code in INLINE.findall(prose))


def words_of(line):
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quotation mark that is no shell's
        return []


def commands_of(page):
    """The words after `unweave` of each command; options alone become those of `train` with what the page is about."""
    for line in lines_of(page):
        words = words_of(line)
        if words[:1] == ["unweave"] and len(words) > 1:
            words = words[1:]
        elif words[:1] in (["--data"], ["--set"]) and len(words) > 1:
            words = _of_train(page.stem, words)
        else:
            continue
        words = ["runs/first" if word == "RUN" else word for word in words]
        if not PLACEHOLDER.search(" ".join(words)) and not _only_named(words):
            yield words


def _only_named(words):
    """`unweave train` within a sentence: the name of a command that is nothing without arguments."""
    command = cli.commands.get(words[0])
    needs = command is not None and any(isinstance(p, click.Argument) and p.required for p in command.params)
    return len(words) == 1 and needs


def _of_train(about, options):
    """`--set nets.kind=dense` on the page of a system or of a data set."""
    system = about if about in SYSTEMS else "vae"
    if "--data" not in options:
        data = (
            about
            if about in DATA
            else next(
                (name for word, name in (("shape=", "dsprites"), ("subject", "olivetti")) if word in " ".join(options)),
                "digits",
            )
        )
        options = ["--data", "blobs" if "nets.channels" in " ".join(options) else data, *options]
    return ["train", system, *options]


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        found = [page for page in pages(metafunc.config.rootpath) if any(commands_of(page))]
        ids = [str(page.relative_to(metafunc.config.rootpath)) for page in found]
        metafunc.parametrize("page", found, ids=ids)


@pytest.fixture(scope="module")
def small_runs(tmp_path_factory):
    """A function from the words of a command to a small run in which they have a meaning."""
    folder, made = tmp_path_factory.mktemp("made"), {}

    def run_for(words):
        text = " ".join(words)
        kind = next((kind for kind in ("mlvae", "video") if f"runs/{kind}" in text), None)
        kind = kind or ("structured" if "digit" in text or "structured" in text else None)
        kind = kind or ("betavae" if "z[" in text or "--blocks z" in text else "hfvae")
        if kind not in made:
            system, data, settings = KINDS[kind]
            small = {"nets.hidden": [16], "training.steps": 3, "training.batch_size": 8, **settings}
            few = {"size": 32, "clips": 200, "digits": "sklearn"} if data == "moving_digits" else {}
            run = train(system, data, data_settings=few, settings=small, run=folder / kind, progress=False, threads=1)
            run.encode_split()
            run.evaluate(["mapc"])
            made[kind] = run.path
        return made[kind]

    return run_for


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with what a reader would have: images in two folders, tables of factors, arrays, codes of some model."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (24, 3))
    lines = ["colour,size,person", *(",".join(map(str, row)) for row in factors)]
    for name in ("factors.csv", "labels.csv", "photos.csv"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    for folder in ("my_images", "new_images", "photos/ada", "photos/ben"):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(12 if "photos" in folder else 24):
            picture = rng.integers(0, 256, (32, 32), dtype=np.uint8)
            Image.fromarray(picture).save(tmp_path / folder / f"{number:02}.png")
    images = rng.random((24, 32, 32), dtype=np.float32)
    np.savez(tmp_path / "mine.npz", images=images, size=factors[:, 0], angle=rng.random(24))
    np.save(tmp_path / "codes.npy", factors + 0.1 * rng.normal(size=(24, 3)))
    np.save(tmp_path / "my_images.npy", images)
    return tmp_path


@pytest.mark.timeout(400)
def test_commands_run(page, workplace, small_runs, request, monkeypatch, tmp_path_factory):
    commands = list(commands_of(page))
    needed = [
        name for name in ("mnist", "fashion_mnist", "yaleb", "olivetti") if any(name in words for words in commands)
    ]
    needed += ["mnist"] if any("data.digits=mnist" in words for words in commands) else []
    monkeypatch.setenv("UNWEAVE_DATA", str(data_folder(needed, request, tmp_path_factory)))
    monkeypatch.setattr("unweave.explorer.server.serve", lambda paths, **_: build_app(paths))  # a server would not end
    for words in commands:
        if words[0] in LONG and "--list" not in words:
            check_words(words)
            continue
        words = [*words, *SHORTER] if words[0] == "train" else list(words)
        for word in words[1:]:
            if word.startswith("runs/") and words[0] != "train":
                _put(small_runs(words), workplace / word, keep=page.stem in ("README", "using"))
        if words[0] == "evaluate" and "--score" not in words:
            words += ["--score", "mapc", "--quiet"]
        result = cli.main(args=words, prog_name="unweave", standalone_mode=False)
        assert result in (None, 0), words


def _put(run, place, keep):
    """A run where a command looks for it; on pages that tell one story, the run of the story."""
    if place.exists() and not keep:
        shutil.rmtree(place)
    if not place.exists():
        shutil.copytree(run, place)


def check_words(words):
    """The words of a command that takes minutes: its options are there, and take such values."""
    command = cli.get_command(click.Context(cli), words[0])
    command.make_context(words[0], list(words[1:]))


def test_words_of_long_commands_are_really_checked():
    check_words(["study", "dsprites", "--seeds", "3"])
    with pytest.raises(click.NoSuchOption):
        check_words(["study", "dsprites", "--sedes", "3"])


def test_all_ways_of_writing_a_command_are_found(tmp_path):
    page = tmp_path / "mnist.md"
    page.write_text(
        "Type `unweave systems`, or\nwith `--set data.values=binary`; `RUN` and `unweave report RUN` are\n\n"
        "    unweave traverse runs/first --dims 'z[3],z[1]'\n\n"
        "```sh\nunweave train vae \\\n  --data mnist  # why\n```\n"
        "```python\nunweave = 3\n```\n`unweave study NAME`, `unweave train`, `make demo`.\n"
    )
    assert list(commands_of(page)) == [
        ["train", "vae", "--data", "mnist"],
        ["traverse", "runs/first", "--dims", "z[3],z[1]"],
        ["systems"],
        ["train", "vae", "--data", "mnist", "--set", "data.values=binary"],
        ["report", "runs/first"],
    ]


def test_scripts_and_targets_that_are_named_are_there(root):
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    found = 0
    for page in pages(root):
        for words in map(words_of, lines_of(page)):
            if words[:1] == ["make"] and len(words) > 1 and page.stem != "make":
                assert words[1] in targets, f"{page.name}: {words}"
                found += 1
            if words[:1] == ["python"] and len(words) > 1 and words[1].endswith(".py"):
                script = root / words[1]
                assert script.is_file(), f"{page.name}: {words}"
                options = [word for word in words[2:] if word.startswith("--")]
                assert all(option in script.read_text(encoding="utf-8") for option in options), f"{page.name}: {words}"
                found += 1
            if words[:2] == ["python", "-m"] and len(words) > 2:
                module = root / "src" / Path(*words[2].split("."))
                assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), (
                    f"{page.name}: {words}"
                )
                found += 1
    assert found > 20


def data_folder(needed, request, factory):
    """A writable cache with the real data a page needs; the page is skipped where they are absent."""
    folder = factory.getbasetemp() / "unweave-data"
    folder.mkdir(exist_ok=True)
    for name in needed:
        if not (folder / name).exists():
            (folder / name).symlink_to(request.getfixturevalue("real_data") / name)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "docs/architecture.md",
        "docs/objectives.md",
        "docs/networks.md",
        "docs/explorer.md",
        "docs/using.md",
    ],
)
def test_snippets_run(name, root, run_page):
    assert run_page(root / name) >= 1


@pytest.fixture
def one_core():
    """Training takes the cores that it may use; other tests have theirs."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    yield
    os.sched_setaffinity(0, usable)


def test_the_readme_trains_a_code_that_is_alive(root, run_page, tmp_path, one_core):
    run_page(root / "README.md")
    [folder] = (tmp_path / "runs").iterdir()
    found = Run.open(folder).checkup()
    assert found.used >= 2
    assert found.mse < 0.8 * found.mean_mse


def test_links_lead_somewhere(root):
    for page in pages(root):
        prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (page.parent / target).exists(), f"{page.relative_to(root)} links to {target}"
