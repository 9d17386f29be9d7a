"""The command line as a person meets it: help at once, lists, one-line errors with exit code 2."""

import shlex
import subprocess
import sys

import numpy as np
import pytest

from unweave.base.errors import RunError
from unweave.base.shell import command_line
from unweave.cli import main
from unweave.runs import train

COMMANDS = [
    "train",
    "resume",
    "encode",
    "evaluate",
    "traverse",
    "reconstruct",
    "interpolate",
    "swap",
    "sample",
    "report",
]
COMMANDS += ["cite", "systems", "data", "metrics", "operations", "study", "studies", "reproduce", "demo"]
SMALL = {"nets.hidden": [16], "training.steps": 3, "training.batch_size": 8}


def call(*words):
    """(exit code, nothing) of a command run in this process."""
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return stopped.value.code


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    train("vae", "digits", settings=SMALL, run=folder, progress=False, threads=1)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert call(command, "--help") == 0
    assert f"Usage: unweave {command}" in capsys.readouterr().out


def test_help_lists_all_commands(capsys):
    assert call("--help") == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {command} " in shown for command in COMMANDS)


@pytest.mark.parametrize(
    ("listed", "some"),
    [("systems", "hfvae"), ("data", "dsprites"), ("metrics", "mig"), ("operations", "swap"), ("studies", "dsprites")],
)
def test_lists(listed, some, capsys):
    assert call(listed) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(some + " ") and len(line) > len(some) + 10 for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "betvae", "--data", "digits"], "unknown system 'betvae': did you mean 'betavae'"),
        (["train", "vae", "--data", "dsprite"], "unknown data set 'dsprite': did you mean 'dsprites'"),
        (["train", "vae", "--data", "digits", "--preset", "quik"], "unknown preset 'quik'"),
        (["train", "vae", "--data", "digits", "--set", "latnet=3"], "unknown setting 'latnet': did you mean 'latent'"),
        (["train", "vae", "--data", "digits", "--set", "latent"], "write name=value"),
        (["train", "vae", "--data", "blobs", "--set", "data.sigm=3"], "unknown setting 'sigm': did you mean 'sigma'"),
        (["train", "vae", "--data", "digits", "--set", "split.trian=3"], "unknown setting 'trian'"),
        (["train", "vae", "--data", "digits", "--device", "cuda"], "device 'cuda' is not available"),
        (["train", "vae"], "Missing option '--data'"),
        (["train", "vae", "--data", ""], "data is an empty text: give a name or a path"),
        (["train", "vae", "--data", "digits", "--epochs", "3"], "It is a setting: --set training.steps=VALUE"),
        (
            ["train", "vae", "--data", "digits", "--learning-rate=1"],
            "It is a setting: --set training.optimiser.lr=VALUE",
        ),
        (["train", "vae", "--data", "digits", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["trian"], "No such command 'trian'"),
        (["evaluate", "nowhere"], "there is no run at nowhere"),
        (["report", "nowhere"], "there is no run at nowhere"),
        (["cite", "migg"], "did you mean 'mig'"),
        (["study", "dsprits"], "unknown study 'dsprits': did you mean 'dsprites'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert call(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "RUN", "--score", "migg"], "unknown score 'migg': did you mean 'mig'"),
        (["traverse", "RUN", "--dims", "y[0]"], "unknown"),
        (["traverse", "RUN", "--steps", "many"], "steps"),
        (["swap", "RUN", "--blocks", "stlye"], "unknown"),
        (["reconstruct", "RUN", "--rows", "a,b"], "cannot read the rows 'a,b'"),
        (["reconstruct", "RUN", "--rows", "99999"], "rows 0 to 1796"),
        (["reconstruct", "RUN", "--out", "picture.tiff"], "pictures are .png or .gif"),
        (["encode", "RUN", "--split", "tset"], "did you mean 'test'"),
        (["evaluate", "RUN", "--factors", "f.csv"], "--factors goes with a file of codes"),
        (["resume", "RUN", "--steps", "1"], "has 3 steps already"),
        (["resume", "RUN", "--anew", "--from-weights"], "two ways to go on: choose one"),
    ],
)
def test_mistakes_with_a_run(words, message, capsys, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(*(str(run) if word == "RUN" else word for word in words)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_from_training_to_report(tmp_path, capsys):
    folder = tmp_path / "run"
    settings = ["--set", "nets.hidden=[16]", "--set", "training.steps=4", "--set", "training.batch_size=8"]
    assert call("train", "tcvae", "--data", "digits", *settings, "--run", str(folder), "--quiet", "--threads", "1") == 0
    said = capsys.readouterr().out
    assert f" evaluate {folder} && " in said
    assert said.splitlines()[-1].startswith("next: ")
    assert call("evaluate", str(folder), "--score", "mig", "--score", "sap", "--quiet") == 0
    assert "mig" in capsys.readouterr().out
    assert call("traverse", str(folder), "--steps", "3", "--rows", "0,5") == 0
    assert call("report", str(folder)) == 0
    assert call("cite", str(folder)) == 0
    assert "@" in capsys.readouterr().out
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    expected = (
        "run.json environment.json log.csv state.safetensors weights.safetensors codes.npz scores.json scores.csv"
    )
    expected += " report.html citations.bib pictures/traverse.png pictures/traverse.gif"
    assert set(expected.split()) <= made
    assert any(name.startswith("tensorboard/") for name in made)


def test_codes_of_any_model(tmp_path, capsys):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (300, 2))
    np.save(tmp_path / "codes.npy", factors + 0.05 * rng.normal(size=(300, 2)))
    lines = ["a,b", *(f"{a},{b}" for a, b in factors)]
    (tmp_path / "factors.csv").write_text("\n".join(lines))
    words = [
        "evaluate",
        str(tmp_path / "codes.npy"),
        "--factors",
        str(tmp_path / "factors.csv"),
        "--score",
        "mig",
        "--quiet",
    ]
    assert call(*words) == 0
    assert "mig" in capsys.readouterr().out
    (tmp_path / "codes.npy").write_bytes(b"not an array")
    assert call(*words) == 2
    assert "cannot read codes" in capsys.readouterr().err


def test_a_score_that_cannot_be_computed_is_told_on_a_line_of_its_own(tmp_path, capsys):
    np.save(tmp_path / "codes.npy", np.random.default_rng(0).normal(size=(6, 2)))
    (tmp_path / "factors.csv").write_text("\n".join(["a", *map(str, range(6))]))
    words = [str(tmp_path / "codes.npy"), "--factors", str(tmp_path / "factors.csv"), "--score", "dci_forest"]
    assert call("evaluate", *words) == 2
    bar, _, error = capsys.readouterr().err.partition("\nerror: ")
    assert "scoring:" in bar
    assert error.count("\n") == 1


def test_no_traceback_in_a_process_of_its_own(tmp_path):
    words = [sys.executable, "-m", "unweave", "train", "vae", "--data", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_the_next_commands_can_be_pasted(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    settings = ["--set", "nets.hidden=[16]", "--set", "training.steps=2", "--set", "training.batch_size=8"]
    assert (
        call("train", "vae", "--data", "digits", *settings, "--run", "my run; it's", "--quiet", "--threads", "1") == 0
    )
    first, second = capsys.readouterr().out.splitlines()[-1].removeprefix("next: ").split(" && ")
    assert shlex.split(first) == ["unweave", "evaluate", "my run; it's"]
    assert shlex.split(second) == ["unweave", "report", "my run; it's"]


def test_words_are_quoted_as_the_shell_of_the_machine_reads_them(monkeypatch):
    assert command_line("unweave", "swap", "a b", "--blocks", "z[0]") == "unweave swap 'a b' --blocks 'z[0]'"
    monkeypatch.setattr("os.name", "nt")
    assert command_line("unweave", "swap", "C:\\a b", "--blocks", "z[0]") == 'unweave swap "C:\\a b" --blocks z[0]'


@pytest.mark.parametrize("words", [["systems"], ["--help"], ["train", "--help"], ["systems", "hfvae"]])
def test_who_reads_only_the_first_line_is_not_told_of_a_failure(words):
    command = [sys.executable, "-m", "unweave", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # before anything is written, which is the earliest that `head` can leave
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["train", "vae", "--data", "digits", "--run", ""],
        ["train", "vae", "--data", "digits", "--run", "  "],
        ["evaluate", ""],
        ["demo", "--run", ""],
        ["study", "dsprites", "--folder", ""],
        ["reproduce", "mlvae", "--out", ""],
    ],
)
def test_an_empty_path_is_not_this_folder(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(*words) == 2
    error = capsys.readouterr().err
    assert "an empty text was given" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_empty_run_is_an_error_in_python_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="run is an empty text: name a folder"):
        train("vae", "digits", settings=SMALL, run="", progress=False)
    assert not list(tmp_path.iterdir())
