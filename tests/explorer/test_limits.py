"""The server under hard questions: work is refused before it is done, sliders do not wait, broken runs are told."""

import json
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from starlette.testclient import TestClient

from unweave.base.config import Config
from unweave.core.capabilities import Decodes
from unweave.explorer import desk, opened, server
from unweave.explorer.server import build_app
from unweave.media import Shown
from unweave.operations import OPERATIONS, operation
from unweave.runs import train

HOST = "http://localhost"


def client_of(path):
    return TestClient(build_app([path]), base_url=HOST, raise_server_exceptions=True)


@pytest.fixture
def client(trained):
    return client_of(trained / "hf")


def about(client, run="hf"):
    return client.get(f"/api/runs/{run}").json()


# Limits --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def rendered(monkeypatch):
    """How many pictures were made."""
    made = []
    plain = opened.System.render

    def render(self, codes, context=None):
        made.append(codes.rows)
        return plain(self, codes, context)

    monkeypatch.setattr(opened.System, "render", render)
    return made


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("sample", {"params": {"lines": 2000}}, "at most 64"),
        ("traverse", {"params": {"steps": 64, "most": 64}, "rows": list(range(24))}, "more than is shown here"),
        ("sample", {"params": {"seed": 2**64}}, "seed"),
    ],
)
def test_large_results_are_refused_before_they_are_made(client, rendered, name, asked, told):
    about(client)
    rendered.clear()
    answer = client.post(f"/api/runs/hf/operations/{name}", json=asked)
    assert answer.status_code == 400
    assert told in answer.json()["error"]
    assert rendered == []


def test_a_seed_may_be_large(client):
    for name in ("sample", "edit"):
        answer = client.post(f"/api/runs/hf/operations/{name}", json={"params": {"seed": 2**63 - 1}})
        assert answer.status_code == 200, answer.text


def test_results_are_kept_up_to_so_many_bytes(trained, monkeypatch):
    run = opened.OpenedRun("hf", trained / "hf")
    state = run.state()
    sample = OPERATIONS["sample"]
    one = state.operate(sample, None, sample.params())
    monkeypatch.setattr(opened, "KEPT_BYTES", 3 * one.images.nbytes)
    for seed in range(1, 9):
        state.operate(sample, None, sample.params(seed=seed))
    assert len(state._results) == 3
    monkeypatch.setattr(opened, "KEPT_BYTES", 0)
    last = state.operate(sample, None, sample.params(seed=99))
    assert list(state._results.values()) == [last]


def test_bodies_and_queues_have_an_end(client, monkeypatch):
    many = client.post("/api/runs/hf/decode", json={"codes": [[1.0]] * 100_000})
    assert many.status_code == 400
    assert "100000 codes in one request: send 1 to 512" in many.json()["error"]
    assert client.post("/api/runs/hf/decode", json={"self": 1, "codes": [[0.0]]}).status_code == 404
    monkeypatch.setattr(server, "MOST_JSON", 100)
    assert client.post("/api/runs/hf/decode", content=b" " * 101).status_code == 413
    monkeypatch.setattr(desk, "MOST_WAITING", 0)
    busy = client.get("/api/runs/hf")
    assert (busy.status_code, "try again" in busy.json()["error"]) == (503, True)


# Sliders -------------------------------------------------------------------------------------------------------------


def test_a_slider_does_not_wait_for_an_operation(client, monkeypatch):
    """While one request works on the run, another one gets its picture."""
    begun, go_on = threading.Event(), threading.Event()

    @operation(Config, needs=(Decodes,), inputs=1, default_inputs=1)
    def dawdle(system, inputs, params):
        """Takes its time."""
        begun.set()
        assert go_on.wait(60)
        return Shown("Done", np.zeros((1, 1, *inputs.observations.shape[1:]), dtype=np.float32), ("",), ("",))

    known = about(client)
    code = {"codes": [[value + 0.5 for value in known["mean"]]]}
    assert client.post("/api/runs/hf/decode", json=code).status_code == 200  # prepared
    plain = OPERATIONS.__class__.__getitem__
    monkeypatch.setattr(
        OPERATIONS.__class__, "__getitem__", lambda self, name: dawdle if name == "dawdle" else plain(self, name)
    )
    answers = []
    slow = threading.Thread(target=lambda: answers.append(client.post("/api/runs/hf/operations/dawdle", json={})))
    slow.start()
    assert begun.wait(60)
    try:
        code["codes"][0][0] += 1.0
        assert client.post("/api/runs/hf/decode", json=code).content.startswith(b"\x89PNG")
        assert not answers  # the other one still works
    finally:
        go_on.set()
        slow.join(60)
    assert answers[0].json()["title"] == "Done"


# Runs that cannot be shown -------------------------------------------------------------------------------------------


def test_data_that_are_gone_are_told(tmp_path):
    file = tmp_path / "mine.npy"
    np.save(file, np.random.default_rng(0).random((40, 8, 8), dtype=np.float32))
    small = {"nets.hidden": [8], "nets.kind": "dense", "training.steps": 2, "training.batch_size": 8}
    train("vae", str(file), settings=small, run=tmp_path / "run", progress=False, threads=1)
    file.unlink()
    answer = client_of(tmp_path / "run").get("/api/runs/run")
    assert answer.status_code == 410
    assert "the data of this run cannot be read" in answer.json()["error"]
    assert "mine.npy" in answer.json()["error"]


def test_a_system_that_is_not_known_here_is_told(copied):
    manifest = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps({**manifest, "system": "nosuch"}))
    answer = client_of(copied).get("/api/runs/hf")
    assert answer.status_code == 410
    assert "nosuch" in answer.json()["error"]


def test_weights_that_diverged_are_told(copied):
    for name in ("weights.safetensors", "state.safetensors"):
        if (copied / name).exists():
            tensors = {key: torch.full_like(value, float("nan")) if value.is_floating_point() else value
                       for key, value in load_file(copied / name).items()}  # fmt: skip
            save_file(tensors, copied / name)
    client = client_of(copied)
    for path in ("", "/knows", "/points", "/input?row=1"):
        answer = client.get(f"/api/runs/hf{path}")
        assert answer.status_code in (400, 410), path
        assert "not finite" in answer.json()["error"], path


@pytest.mark.parametrize("content", [b"step,seconds\n\xff\xfe,1\n", b"step,seconds\nx,y\n"])
def test_a_damaged_log_is_told(copied, content):
    (copied / "log.csv").write_bytes(content)
    answer = client_of(copied).get("/api/runs/hf/log")
    assert answer.status_code == 410
    assert "damaged" in answer.json()["error"]


def test_a_folder_of_any_name_gives_files(trained, tmp_path):
    (tmp_path / "数据").symlink_to(trained / "hf")
    client = client_of(tmp_path / "数据")
    name = client.get("/api/runs").json()["runs"][0]["name"]
    answer = client.get(f"/api/runs/{name}/operations/reconstruct.png?rows=0,1")
    assert answer.content.startswith(b"\x89PNG")
    assert "filename*=UTF-8''" in answer.headers["content-disposition"]


def test_runs_on_the_same_rows_have_the_same_data(trained, tmp_path):
    small = {"nets.hidden": [8], "training.steps": 2, "training.batch_size": 8}
    blobs = {"resolution": 8}
    train("vae", "blobs", data_settings=blobs, settings=small, run=tmp_path / "blobs", progress=False, threads=1)
    found = [about(client_of(trained / name), name)["data_id"] for name in ("hf", "ml", "plain")]
    assert len(set(found)) == 1
    assert about(client_of(tmp_path / "blobs"), "blobs")["data_id"] not in found
