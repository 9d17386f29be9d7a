"""tools/environment.py: which build of PyTorch it asks pip for, what it says, what it keeps, and what it goes on with.

Most tests have a stand-in for the environment's Python, whose pip answers from what the test says can be had. The last
ones have the real pip, in an environment of their own, and an index on this machine with wheels of a few bytes.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pip has one build of PyTorch only")

STAND_IN = """#!{python}
import json, pathlib, shutil, sys
venv = pathlib.Path(__file__).resolve().parents[1]
site = venv / "lib/python3/site-packages"
has = json.loads((venv / "has.json").read_text())
words = [word for word in sys.argv[3:] if not word.startswith("--")]  # python -m pip
if sys.argv[3] == "--version":
    sys.exit(0)
with open(venv / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[3:]) + "\\n")

def put(name, **files):
    folder = site / f"{{name}}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "RECORD").write_text(f"{{name}}.dist-info/INSTALLER,,")

def fail(*lines):
    print(*lines, sep="\\n")
    sys.exit(1)

unreachable = "WARNING: Retrying after connection broken by 'NewConnectionError(...)': /simple/"
wanted = words[-1]
if words[0] == "uninstall":
    for name in words[1:]:
        for folder in site.glob(f"{{name}}-*"):
            shutil.rmtree(folder)
elif wanted.startswith("torch"):
    builds = list(has["pip"])
    if "--extra-index-url" in sys.argv and has["index"]:
        builds.append(has["index"])
    exactly = wanted.replace("===", "==").removeprefix("torch").removeprefix("==")
    found = [build for build in builds if exactly in ("", build)]
    if not found:
        lost = [unreachable] if not has["index"] or not has["pip"] else []
        fail(*lost, f"ERROR: No matching distribution found for {{wanted}}")
    for folder in site.glob("torch-*"):
        shutil.rmtree(folder)
    put(f"torch-{{max(found)}}")
    (site / "torch").mkdir(exist_ok=True)
    cuda = "'13.0'" if max(found) == "2.13.0" else None
    if cuda:
        put("nvidia_nccl-2"), put("triton-3")
    (site / "torch/version.py").write_text(f"__version__ = '{{max(found)}}'\\ncuda: str | None = {{cuda}}\\n")
elif not has["pip"]:
    fail(unreachable, "ERROR: No matching distribution found for setuptools>=77")
"""


class Clone:
    """A fresh clone, as far as setting up is concerned."""

    def __init__(self, folder, root):
        self.folder, self.bin = folder, folder / "path"
        (folder / "tools").mkdir(parents=True)
        (folder / "tools" / "environment.py").write_bytes((root / "tools" / "environment.py").read_bytes())
        (folder / "pyproject.toml").write_text("[project]\nname = 'unweave'\n")
        (folder / "constraints.txt").write_text("torch==2.13.0\n")
        self.bin.mkdir()

    @property
    def venv(self):
        return self.folder / ".venv"

    def stand_in(self, pip=("2.13.0",), index="2.13.0+cpu"):
        """What pip finds by itself, and what PyTorch's index of CPU builds has; none: it cannot be reached."""
        python = self.venv / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(STAND_IN.format(python=sys.executable))
        python.chmod(0o755)
        (self.venv / "has.json").write_text(json.dumps({"pip": pip, "index": index}))
        return self

    def gpu(self, listed="GPU 0: NVIDIA A100", code=0):
        tool = self.bin / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\necho '{listed}'\nexit {code}\n")
        tool.chmod(0o755)

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        return {**kept, "PATH": f"{self.bin}:/usr/bin:/bin", "PIP_CONFIG_FILE": os.devnull, **more}

    def command(self, *words):
        return [sys.executable, str(self.folder / "tools" / "environment.py"), *words]

    def set_up(self, *words, code=0, **environment):
        """What it printed, and the calls of pip it made."""
        (self.venv / "calls").unlink(missing_ok=True)
        environment = self.environment(**environment)
        done = subprocess.run(self.command(*words), env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        calls = self.venv / "calls"
        return done.stdout + done.stderr, calls.read_text().splitlines() if calls.exists() else []

    def torch(self):
        [folder] = self.venv.glob("lib/python*/site-packages/torch-*")
        return folder.name.removeprefix("torch-").removesuffix(".dist-info")


@pytest.fixture
def clone(tmp_path, root):
    return Clone(tmp_path / "clone", root)


@pytest.fixture(autouse=True)
def no_gpu_here():
    if Path("/dev/nvidia0").exists():
        pytest.skip("this machine has an NVIDIA GPU")


def test_without_a_gpu_it_is_the_cpu_build(clone):
    said, calls = clone.stand_in().set_up()
    assert clone.torch() == "2.13.0+cpu"
    assert "no NVIDIA GPU is visible, so the CPU build: about 192 MB to fetch" in said
    assert "TORCH=cuda" in said
    assert said.splitlines()[-1].startswith("Ready after")
    assert [call.split()[-1] for call in calls] == ["torch==2.13.0+cpu", "."]
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in calls[0]
    assert "-c" in calls[1].split()


def test_with_a_gpu_it_is_the_build_for_cuda(clone):
    clone.gpu()
    said, _ = clone.stand_in(pip=("2.13.0", "2.13.0+cpu")).set_up()
    assert clone.torch() == "2.13.0"
    assert "an NVIDIA GPU is visible, so the build for CUDA: about 2.7 GB to fetch" in said


@pytest.mark.parametrize(("listed", "code"), [("", 0), ("No devices were found", 6), ("GPU is lost", 15)])
def test_a_driver_that_lists_no_gpu_is_none(clone, listed, code):
    clone.gpu(listed, code)
    clone.stand_in().set_up()
    assert clone.torch() == "2.13.0+cpu"


def test_gpus_are_seen_without_nvidia_smi(tmp_path, root, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(root / "tools"))
    import environment

    assert not environment.gpu_visible(tmp_path)
    (tmp_path / "proc/driver/nvidia/gpus").mkdir(parents=True)
    assert not environment.gpu_visible(tmp_path)
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir()
    assert environment.gpu_visible(tmp_path)


def test_where_the_index_cannot_be_reached_it_is_what_pip_finds(clone):
    said, _ = clone.stand_in(index=None).set_up()
    assert clone.torch() == "2.13.0"
    assert "download.pytorch.org/whl/cpu cannot be reached" in said
    assert "PyTorch is the build for CUDA" in said


def test_where_the_index_has_none_that_is_said(clone):
    said, _ = clone.stand_in(index="2.14.0+cpu").set_up()
    assert clone.torch() == "2.13.0"
    assert "has none for this Python" in said


def test_a_demanded_build_is_not_exchanged_for_another(clone):
    said, _ = clone.stand_in(index=None).set_up("--torch", "cpu", code=2)
    assert said.splitlines()[-1].startswith("setup: the CPU build of PyTorch 2.13.0 is not to be had")
    said, _ = clone.stand_in(pip=("2.13.0+cpu",)).set_up("--torch", "cuda", code=2)
    assert said.splitlines()[-1].startswith("setup: the build for CUDA of PyTorch 2.13.0 is not to be had")


def test_the_second_time_pip_is_not_called(clone):
    clone.stand_in().set_up()
    for words in ([], ["--torch", "cpu"]):
        assert clone.set_up(*words) == ("", [])


def test_another_build_demanded_later_replaces_the_first(clone):
    clone.stand_in().set_up()
    clone.set_up("--torch", "cuda")
    assert clone.torch() == "2.13.0"
    assert clone.set_up() == ("", [])  # of either build, what is there is kept
    _, calls = clone.set_up("--torch", "cpu")
    assert clone.torch() == "2.13.0+cpu"
    assert "uninstall --yes nvidia_nccl triton" in calls[-1]


def test_a_build_that_cannot_be_had_costs_nothing_that_is_there(clone):
    clone.stand_in().set_up()
    clone.stand_in(pip=(), index=None).set_up("--torch", "cuda", code=2)
    assert clone.set_up() == ("", [])


def test_pytorch_that_is_there_is_kept(clone):
    clone.stand_in().set_up()
    (clone.venv / ".ready").unlink()
    said, calls = clone.set_up()
    assert "kept" in said
    assert [call.split()[-1] for call in calls] == ["."]


def test_another_version_in_the_constraints_is_installed(clone):
    clone.stand_in().set_up()
    (clone.folder / "constraints.txt").write_text("torch==2.14.0\n")
    clone.stand_in(index="2.14.0+cpu").set_up()
    assert clone.torch() == "2.14.0+cpu"


def test_a_demo_needs_less_than_tests(clone):
    _, calls = clone.stand_in().set_up()
    assert calls[-1].endswith("-e .")
    said, calls = clone.set_up("--dev")
    assert [call.split()[-1] for call in calls] == [".[dev]"]
    assert "what tests and benchmarks need: about 150 MB" in said
    assert clone.set_up() == clone.set_up("--dev") == ("", [])


def test_without_a_network_there_is_one_line(clone):
    said, _ = clone.stand_in(pip=(), index=None).set_up(code=2)
    last = said.splitlines()[-1]
    assert last.startswith("setup: no package index could be reached: go online")
    assert "Traceback" not in said
    clone.stand_in().set_up()
    assert clone.torch() == "2.13.0+cpu"


def test_what_an_interrupted_pip_left_is_installed_again(clone):
    clone.stand_in().set_up()
    [metadata] = clone.venv.glob("lib/python*/site-packages/torch-*")
    (metadata / "RECORD").unlink()
    clone.set_up()
    assert (metadata / "RECORD").exists()


def test_make_passes_the_build_on(root):
    def dry(*words):
        return subprocess.run(["make", "-n", *words], cwd=root, capture_output=True, text=True, check=True).stdout

    assert "tools/environment.py --torch auto\n" in dry("demo")
    assert "tools/environment.py --torch cuda\n" in dry("demo", "TORCH=cuda")
    assert "tools/environment.py --torch cpu --dev\n" in dry("test", "TORCH=cpu")


# The real pip.


def wheel(folder, name, version, needs=(), **files):
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        **files,
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {each}\n" for each in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


BACKEND = """
import zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    info, name = "unweave-0.1.dist-info", "unweave-0.1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as archive:
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: unweave\\nVersion: 0.1\\n"
                         "Requires-Dist: torch>=2\\nProvides-Extra: dev\\nRequires-Dist: tool; extra == 'dev'\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: t\\n"
                         "Root-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", f"{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n")
    return name
"""


class Index(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def index(tmp_path):
    """Address of a server with pip's own index under simple/ and the index of CPU builds under cpu/."""
    served = tmp_path / "served"
    version = "__version__ = '{}'\ncuda: str | None = {}\n"
    cuda, cpu = version.format("2.13.0", "'13.0'"), version.format("2.13.0+cpu", None)
    wheel(served / "simple/torch", "torch", "2.13.0", ["nvidia-nccl", "sympy"], **{"torch/version.py": cuda})
    wheel(served / "cpu/torch", "torch", "2.13.0+cpu", ["sympy"], **{"torch/version.py": cpu})
    wheel(served / "simple/nvidia-nccl", "nvidia_nccl", "2.0", **{"nvidia/nccl.py": ""})
    for name in ("sympy", "tool"):
        wheel(served / "simple" / name, name, "1.0", **{f"{name}.py": ""})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=str(served)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def real(clone, index):
    clone.folder.joinpath("backend.py").write_text(BACKEND)
    build = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    clone.folder.joinpath("pyproject.toml").write_text(build + "[project]\nname = 'unweave'\nversion = '0.1'\n")
    more = {"PIP_INDEX_URL": f"{index}/simple", "PIP_NO_CACHE_DIR": "1"}
    clone.set_up = partial(clone.set_up, **more)
    clone.environment = partial(clone.environment, **more)
    return clone


def packages(clone):
    return {path.name.split("-")[0] for path in clone.venv.glob("lib/python*/site-packages/*.dist-info")} - {"pip"}


def test_real_pip_installs_and_replaces_builds(real, index):
    there = ("--cpu-index", f"{index}/cpu")
    real.set_up(*there)
    assert real.torch() == "2.13.0+cpu"
    assert {"sympy", "unweave"} <= packages(real)
    assert not {"nvidia_nccl", "tool"} & packages(real)
    assert real.set_up(*there) == ("", [])
    real.set_up(*there, "--torch", "cuda", "--dev")
    assert real.torch() == "2.13.0"
    assert {"nvidia_nccl", "tool"} <= packages(real)
    real.set_up(*there, "--torch", "cpu")
    assert real.torch() == "2.13.0+cpu"
    assert "nvidia_nccl" not in packages(real)
    assert real.set_up(*there, "--dev") == ("", [])


def test_real_pip_without_the_index_of_cpu_builds(real, index):
    said, _ = real.set_up("--cpu-index", "http://127.0.0.1:9/cpu")
    assert real.torch() == "2.13.0"
    assert "http://127.0.0.1:9/cpu cannot be reached" in said
    said, _ = real.set_up("--cpu-index", f"{index}/nothing", "--torch", "cpu", code=2)
    assert f"{index}/nothing has none" in said


def test_real_pip_without_a_network(real):
    said, _ = real.set_up("--cpu-index", "http://127.0.0.1:9/cpu", code=2, PIP_INDEX_URL="http://127.0.0.1:9/simple")
    assert "setup: no package index could be reached" in said.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.5, 2.0, 3.5, 5.0])
def test_real_set_up_goes_on_after_a_kill(real, index, after):
    words = ("--cpu-index", f"{index}/cpu", "--dev")
    process = subprocess.Popen(
        real.command(*words), env=real.environment(), stdout=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(after)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    real.set_up(*words)
    assert real.torch() == "2.13.0+cpu"
    assert {"sympy", "tool", "unweave"} <= packages(real)
