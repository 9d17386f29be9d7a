"""What benchmarks stand on: one build of PyTorch for all contenders, and results of several processors side by side."""

import importlib
import json
import os
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest


@pytest.fixture
def script(root, monkeypatch):
    """Imports a module of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(str(root / "benchmarks" / "peers"))
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    return importlib.import_module


OURS = {"version": "2.13.0+cpu", "cuda": None, "git": "cf30", "config": "PyTorch built with: GCC"}


@pytest.fixture
def peers(script, tmp_path, monkeypatch):
    """peers(build) is an environment of peers whose Python tells this build, a stand-in without any packages."""
    install = script("install")
    monkeypatch.setenv("UNWEAVE_BENCH_ENV", str(tmp_path / "env"))

    def make(build):
        python = install.interpreter(tmp_path / "env")
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(build)}\nEND\n")
        python.chmod(0o755)
        (tmp_path / "env" / ".ready").write_text(install.wanted())
        return python

    return make


needs_sh = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")


@needs_sh
def test_peers_with_our_build_run(script, peers, monkeypatch):
    processes = script("_processes")
    monkeypatch.setattr(sys, "executable", str(peers(OURS)))
    assert processes.installed_peers()


@needs_sh
@pytest.mark.parametrize("part", ["version", "cuda", "git", "config"])
def test_peers_with_another_build_do_not_run(script, peers, part, root):
    real = script("install").build(sys.executable)
    peers({**real, part: f"not {real[part]}"})
    done = subprocess.run(
        [sys.executable, str(root / "benchmarks" / "training.py"), "--quick", "--models", "mnist"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
    )
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith(f"unweave has PyTorch {real['version']}")
    assert "the peers" in line
    assert line.endswith("python benchmarks/peers/install.py")


def test_a_build_that_cannot_be_asked_is_one_line(script, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'ImportError: no torch' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(SystemExit, match="cannot import torch: ImportError: no torch"):
        script("install").build(broken)


def test_torch_is_copied_file_by_file(script, tmp_path):
    install = script("install")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    (ours / "torch" / "lib").mkdir(parents=True)
    (ours / "torch" / "lib" / "libtorch.so").write_bytes(b"machine code")
    info = ours / "torch-2.13.0+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: torch\nVersion: 2.13.0+cpu\n")
    (info / "RECORD").write_text(f"torch/lib/libtorch.so,,\n../bin/torchrun,,\n{info.name}/METADATA,,\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "torchrun").write_text("")
    for _ in range(2):  # also over what is there
        install.copy(Distribution.at(info), theirs)
    copied = sorted(path.relative_to(theirs).as_posix() for path in theirs.rglob("*") if path.is_file())
    assert copied == ["torch-2.13.0+cpu.dist-info/METADATA", "torch/lib/libtorch.so"]
    assert (theirs / "torch/lib/libtorch.so").read_bytes() == b"machine code"


def test_what_torch_needs_comes_with_it(script):
    names = {package.metadata["Name"].lower() for package in script("install").with_torch()}
    assert {"torch", "sympy", "mpmath", "jinja2", "markupsafe"} <= names
    assert not {"pip", "setuptools", "numpy"} & names


CPUINFO = """processor : 0
vendor_id : {vendor}
cpu family : {family}
model : {model}
model name : {name}
flags : fpu sse2 {flags}

processor : 1
vendor_id : {vendor}
model name : another
flags : fpu
"""


@pytest.mark.parametrize(
    ("vendor", "flags", "kind", "vectors"),
    [
        ("GenuineIntel", "avx avx2 avx512f", "Intel family 6 model 167", "AVX-512"),
        ("AuthenticAMD", "avx avx2", "AMD family 6 model 167", "AVX2"),
        ("Other", "", "Other family 6 model 167", "SSE2"),
    ],
)
def test_processors_are_told_apart(script, tmp_path, vendor, flags, kind, vectors):
    info = tmp_path / "cpuinfo"
    info.write_text(CPUINFO.format(vendor=vendor, family=6, model=167, name="A Processor", flags=flags))
    assert script("_processes").processor(info) == {"processor": kind, "name": "A Processor", "vectors": vectors}


def test_a_machine_that_says_little_has_a_name(script, tmp_path):
    found = script("_processes").processor(tmp_path / "none")
    assert found["processor"]
    assert found["vectors"] == "not known"


@pytest.fixture
def report(script, tmp_path, monkeypatch):
    report = script("_report")
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "README", tmp_path / "README.md")
    report.README.write_text("Before\n<!-- speed: begin (made) -->\nold\n<!-- speed: end -->\nAfter\n")
    return report


def saved(report, processor, value, note="a note"):
    machine = {"processor": processor, "name": "Name", "vectors": "AVX2", "cores": 2}
    tables = [report.table("Speed", ["model", "times"], [["vae", value], ["big", value]], [note, "all say this"])]
    report.save("speed", machine, {"turns": 8}, tables, None)
    return report.README.read_text()


def test_one_processor_needs_no_column(report):
    text = saved(report, "Intel family 6 model 167", "2.0")
    assert "| vae | 2.0 |" in text
    assert "- **Intel family 6 model 167**: Name, vectors AVX2, cores 2, turns 8" in text
    assert text.startswith("Before\n")
    assert text.endswith("<!-- speed: end -->\nAfter\n")


def test_processors_stand_side_by_side_and_a_run_replaces_its_own(report):
    saved(report, "Intel family 6 model 167", "2.0", "peak 500")
    saved(report, "AMD family 25 model 17", "1.9", "peak 200")
    text = saved(report, "Intel family 6 model 167", "2.1", "peak 510")
    lines = [line for line in text.splitlines() if line.startswith(("| ", "- "))]
    assert lines[2:] == [
        "| model | processor | times |",
        "| vae | AMD family 25 model 17 | 1.9 |",
        "| vae | Intel family 6 model 167 | 2.1 |",
        "| big | AMD family 25 model 17 | 1.9 |",
        "| big | Intel family 6 model 167 | 2.1 |",
        "- AMD family 25 model 17: peak 200",
        "- all say this",
        "- Intel family 6 model 167: peak 510",
    ]
    files = sorted(path.name for path in (report.RESULTS / "speed").iterdir())
    assert files == ["amd-family-25-model-17.json", "intel-family-6-model-167.json"]


def test_the_committed_page_has_the_committed_results(script, tmp_path, monkeypatch):
    report = script("_report")
    copy = tmp_path / "README.md"
    copy.write_text(Path(report.README).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(report, "README", copy)
    before = copy.read_text(encoding="utf-8")
    report.rewrite()
    assert copy.read_text(encoding="utf-8") == before


def test_the_library_at_a_commit_is_its_source(script, root):
    with script("_processes").library_at("HEAD") as source:
        tracked = subprocess.run(
            ["git", "-C", str(root), "show", "HEAD:src/unweave/__init__.py"], capture_output=True, check=True
        )
        assert (source / "unweave" / "__init__.py").read_bytes() == tracked.stdout
    assert not source.exists()


def test_an_unknown_commit_is_one_line(script):
    with (
        pytest.raises(SystemExit, match="git has no source at 'no-such-commit'"),
        script("_processes").library_at("no-such-commit"),
    ):
        pass
