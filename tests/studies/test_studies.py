"""Studies: plans are pure, finished runs are reused, the table has every run and the right means."""

import json
import statistics
from types import SimpleNamespace

import pytest

from unweave.base.errors import UnweaveError
from unweave.studies import _complete, _runner
from unweave.studies._complete import Share
from unweave.studies._study import STUDIES, PlannedRun, Study


@pytest.mark.parametrize("name", STUDIES.names())
def test_plans_are_pure_and_name_each_run_once(name):
    study = STUDIES[name]
    plan = study.plan(3, 100)
    assert plan == study.plan(3, 100)
    assert len({run.name for run in plan}) == len(plan)
    assert {run.seed for run in plan} == {0, 1, 2}
    assert all(run.settings["training.steps"] == 100 for run in plan)


def small_plan(seeds, steps):
    settings = {"training.steps": steps, "training.batch_size": 8, "nets.hidden": "[8]", "latent": 3}
    return [PlannedRun("vae", "vae", "digits", seed, settings=settings) for seed in range(seeds)]


@pytest.fixture
def study(monkeypatch):
    made = Study("small", "two small runs", small_plan, ("mig", "sap"), steps=3)
    monkeypatch.setitem(STUDIES._extra, "small", made)
    # one quick score instead of all: what the runner does with them is the same
    real = _complete._command

    def quick(path, threads, *words):
        real(path, threads, *words, *(("--score", "mig", "--score", "sap") if words[0] == "evaluate" else ()))

    monkeypatch.setattr(_complete, "_command", quick)
    return made


@pytest.mark.timeout(200)
def test_a_study_trains_scores_tabulates_and_goes_on(study, tmp_path, monkeypatch):
    options = {"folder": tmp_path / "runs", "out": tmp_path / "out", "seeds": 2, "steps": 3}
    said = []
    page = _runner.run_study("small", **options, say=said.append).read_text()
    result = json.loads((tmp_path / "out" / "results.json").read_text())
    values = [run["scores"]["mig"] for run in result["runs"]]
    assert len(values) == 2
    assert all(run["parts"]["mig/gap digit"] == pytest.approx(run["scores"]["mig"]) for run in result["runs"])
    assert f"{statistics.fmean(values):.3f} ± {statistics.stdev(values):.3f}" in page
    assert all(f"| vae, seed {seed} |" in page for seed in (0, 1))
    assert (tmp_path / "out" / "results.png").read_bytes().startswith(b"\x89PNG")
    assert "unweave study small --seeds 2 --steps 3" in page
    commits = {
        json.loads((tmp_path / "runs" / f"vae-{seed}" / "environment.json").read_text())["commit"] for seed in (0, 1)
    }
    assert {run["commit"] for run in result["runs"]} == commits
    assert f"trained at {', '.join(commits)}." in page
    assert (tmp_path / "out" / "logs" / "vae-0.csv").read_text().startswith("step,seconds,")
    before = (tmp_path / "runs" / "vae-0" / "state.safetensors").stat().st_mtime_ns
    monkeypatch.setattr(_complete, "_command", lambda *_: pytest.fail("finished runs are reused"))
    _runner.run_study("small", **options, say=said.append)
    assert (tmp_path / "runs" / "vae-0" / "state.safetensors").stat().st_mtime_ns == before

    with pytest.raises(UnweaveError, match="other settings than are planned"):
        _runner.run_study("small", **{**options, "steps": 5}, say=said.append)


def test_a_study_of_one_row_plans_no_other(tmp_path, monkeypatch):
    planned = []

    def stop(runs, *_):
        planned.extend(runs)
        raise KeyboardInterrupt

    monkeypatch.setattr(_runner, "complete_all", stop)
    options = {"folder": tmp_path / "runs", "out": tmp_path / "out", "seeds": 2, "say": lambda _: None}
    with pytest.raises(KeyboardInterrupt):
        _runner.run_study("dsprites", row=["factorvae"], **options)
    assert [run.name for run in planned] == ["factorvae-0", "factorvae-1"]
    with pytest.raises(UnweaveError, match=r"unknown row 'factorvea'.*factorvae"):
        _runner.run_study("dsprites", row=["factorvea"], **options)


@pytest.mark.parametrize(
    ("cores", "jobs", "threads", "share"),
    [
        (8, 1, None, Share(1, 8, False)),
        (8, 2, None, Share(2, 4, False)),
        (8, 3, None, Share(3, 2, False)),
        (2, 5, None, Share(2, 1, False)),
        (8, 5, 3, Share(2, 3, True)),
        (2, 2, 4, Share(1, 4, True)),  # more threads than cores were asked for, for one run
    ],
)
def test_runs_never_take_more_cores_than_there_are(monkeypatch, cores, jobs, threads, share):
    monkeypatch.setattr(_complete, "usable_cores", lambda: cores)
    assert Share.of(jobs, threads) == share


def test_a_run_is_told_its_share_and_chooses_within_it_unless_it_is_fixed(tmp_path, monkeypatch):
    started = []

    def start(command, env, **_):
        started.append((command[3], command, env))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(_complete.subprocess, "run", start)
    planned = PlannedRun("vae", "vae", "digits", 0)
    _complete.complete(planned, tmp_path, Share(2, 4, fixed=False))
    _complete.complete(planned, tmp_path, Share(2, 4, fixed=True))
    assert [word for word, _, _ in started] == ["train", "evaluate"] * 2
    assert all(env["OMP_NUM_THREADS"] == env["LOKY_MAX_CPU_COUNT"] == "4" for _, _, env in started)
    assert ["--threads" in command for _, command, _ in started] == [False, False, True, False]


def test_scores_of_a_share_take_no_more_cores(monkeypatch):
    """What joblib makes of the share, from which all scores that use several cores get their number."""
    import joblib

    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert joblib.effective_n_jobs(-1) == 1
    with joblib.parallel_config("threading"):
        assert joblib.effective_n_jobs(-1) == 1


def test_a_run_that_fails_stops_the_study_with_its_message(study, tmp_path):
    run = PlannedRun("vae", "vae", "digits", 0, settings={"latent": 0})
    with pytest.raises(UnweaveError, match="greater than 0"):
        _complete.complete(run, tmp_path, Share(1, 1, True))
