"""The server over HTTP: answers against the library called directly, mistakes as sentences, attacks refused."""

import io
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient

import unweave
from unweave.base.config import Config
from unweave.core.batch import Batch
from unweave.core.capabilities import Decodes
from unweave.explorer import guard, server
from unweave.explorer.opened import OpenedRun
from unweave.explorer.server import build_app
from unweave.knobs import information, knobs
from unweave.media import Shown
from unweave.media.pictures import as_pictures
from unweave.operations import OPERATIONS, operation
from unweave.report.facts import TOLD, knowledge
from unweave.runs import Run, resume
from unweave.runs.sample import write_sample

HOST = "http://localhost:8000"


@pytest.fixture(scope="module")
def client(trained):
    app = build_app([trained / "hf", trained / "ml", trained / "plain"])
    with TestClient(app, base_url=HOST) as made:
        yield made


def opened(path):
    return TestClient(build_app([path]), base_url=HOST)


def pixels(content):
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB"))


def about(client, run="hf"):
    return client.get(f"/api/runs/{run}").json()


# What a page asks ----------------------------------------------------------------------------------------------------


def test_runs_are_listed_by_the_names_of_their_folders(client):
    listed = client.get("/api/runs").json()["runs"]
    assert [run["name"] for run in listed] == ["hf", "ml", "plain"]
    assert listed[0] == {"name": "hf", "system": "hfvae", "data": "digits", "seed": 0, "training": False}


def test_folders_of_one_name_are_told_apart(trained, tmp_path):
    other = shutil.copytree(trained / "plain", tmp_path / "hf")
    both = TestClient(build_app([trained / "hf", other]), base_url=HOST)
    assert [run["name"] for run in both.get("/api/runs").json()["runs"]] == ["hf", "hf-2"]


def test_about_tells_blocks_knobs_ranges_and_operations(client, trained):
    told, run = about(client), Run.open(trained / "hf")
    assert [block["name"] for block in told["blocks"]] == ["digit", "style"]
    assert told["columns"] == list(run.codes().columns)
    assert [knob["name"] for knob in told["knobs"]] == ["digit", "style[0]", "style[1]", "style[2]", "style[3]"]
    assert told["shape"] == [1, 8, 8]
    assert told["factors"][0]["name"] == "digit"
    assert set(told["operations"]) == {op.name for op in OPERATIONS if op.applies_to(run.system())}
    measured = run.scores()["information"].parts["per_dimension"]
    nats = {knob["name"]: knob["nats"] for knob in told["knobs"]}
    assert nats["style[2]"] == pytest.approx(measured["style[2]"])


def test_ranges_and_information_are_those_of_the_reference(client, trained):
    told, run = about(client, "plain"), Run.open(trained / "plain")
    rows = np.random.default_rng(0).permutation(run.split_rows()["test"])[:2000]
    codes = run.encode_rows(rows)
    values = codes.flat()[0].astype(np.float64)
    np.testing.assert_allclose(told["mean"], values.mean(0), atol=1e-6)
    spread = np.sqrt(values.var(0) + (codes.flat_spread().astype(np.float64) ** 2).mean(0))
    np.testing.assert_allclose(told["deviation"], spread, rtol=1e-5)
    quick = information(codes)
    for knob in told["knobs"]:
        assert knob["nats"] == pytest.approx(quick[knob["name"]])


def test_a_knob_tells_the_factors_it_knows_most_about(client, trained, monkeypatch):
    assert all(each["share"] >= TOLD for knob in about(client)["knobs"] for each in knob["knows"])
    monkeypatch.setattr("unweave.report.facts.TOLD", 0.0)  # a run of a few steps knows little
    told, run = about(TestClient(build_app([trained / "hf"]), base_url=HOST)), Run.open(trained / "hf")
    rows = np.random.default_rng(0).permutation(run.split_rows()["test"])[:2000]
    factors = run.dataset().factors.take(rows)
    shares = knowledge(run.encode_rows(rows), factors)
    for knob, own in zip(told["knobs"], shares, strict=True):
        known = dict(zip(factors.names, own, strict=True))
        assert [each["share"] for each in knob["knows"]] == pytest.approx(sorted(own, reverse=True)[:2])
        assert all(each["share"] == pytest.approx(known[each["factor"]]) for each in knob["knows"])


def test_an_input_has_its_code_spread_and_factors(client, trained):
    run = Run.open(trained / "hf")
    row = client.get("/api/runs/hf/rows?count=3").json()["rows"][0]["row"]
    got = client.get(f"/api/runs/hf/input?row={row}").json()
    codes = run.encode_rows([row])
    np.testing.assert_allclose(got["code"], codes.flat()[0][0], rtol=1e-6)
    spread = codes.flat_spread()[0]
    assert [value is None for value in got["spread"]] == np.isnan(spread).tolist()
    assert got["factors"] == {"digit": str(int(run.dataset().factors.column("digit")[row]))}


def test_pictures_of_rows_are_the_data(client, trained):
    data = Run.open(trained / "hf").dataset()
    content = client.get("/api/runs/hf/rows/17.png").content
    expected = as_pictures(data.observations([17])[None], data.spec).grid[0, 0]
    np.testing.assert_array_equal(pixels(content), expected)


def test_a_decoded_code_is_what_the_system_renders(client, trained):
    run = Run.open(trained / "hf")
    code = np.zeros(14, dtype=np.float32)
    code[3], code[11] = 1, -1.5
    answer = client.post("/api/runs/hf/decode", json={"codes": [code.tolist()]})
    assert answer.headers["content-type"] == "image/png"
    rendered = run.system().render(run.codes().unflat(code[None]))
    expected = as_pictures(rendered[None], run.dataset().spec).grid[0, 0]
    np.testing.assert_array_equal(pixels(answer.content), expected)


def test_several_codes_come_as_several_pictures(client):
    codes = np.random.default_rng(0).normal(size=(5, 14))
    content = client.post("/api/runs/hf/decode", json={"codes": codes.tolist()}).content
    found = []
    while content:
        length = int.from_bytes(content[:4], "big")
        found.append(pixels(content[4 : 4 + length]))
        content = content[4 + length :]
    assert len(found) == 5
    alone = client.post("/api/runs/hf/decode", json={"codes": [codes[3].tolist()]}).content
    np.testing.assert_array_equal(found[3], pixels(alone))


def test_a_dropped_image_is_encoded_and_not_kept(client, trained):
    run = Run.open(trained / "hf")
    levels = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    memory = io.BytesIO()
    Image.fromarray(levels).save(memory, "PNG")
    before = sorted(path.name for path in (trained / "hf").rglob("*"))
    got = client.post("/api/runs/hf/upload", content=memory.getvalue()).json()
    assert got["seen"] == [levels.tolist()]
    observation = (levels / np.float32(255)).astype(np.float32)[None, None]
    codes = run.system().encode(Batch.of(torch.from_numpy(observation)))
    np.testing.assert_allclose(got["code"], codes.flat()[0][0], rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in (trained / "hf").rglob("*")) == before


def test_draws_are_the_systems(client, trained):
    got = client.get("/api/runs/hf/draw?seed=4").json()["code"]
    np.testing.assert_allclose(got, Run.open(trained / "hf").system().draw(1, 4).flat()[0][0], rtol=1e-6)


def test_what_dimensions_know_and_their_importances(client, trained):
    got = client.get("/api/runs/hf/knows").json()
    assert got["knobs"] == [knob.name for knob in knobs(Run.open(trained / "hf").codes().blocks)]
    assert got["factors"] == ["digit"]
    assert np.shape(got["shares"]) == (5, 1)
    assert got["importance"]["score"] == "dci_lasso"
    assert np.shape(got["importance"]["values"]) == (5, 1)
    assert client.get("/api/runs/plain/knows").json()["importance"] is None


def test_points_scores_and_log(client, trained):
    run = Run.open(trained / "hf")
    points = client.get("/api/runs/hf/points").json()
    some = points["rows"][:5]
    np.testing.assert_allclose(points["codes"][:5], run.encode_rows(some).flat()[0], atol=1e-4)
    np.testing.assert_allclose(points["factors"]["digit"][:5], run.dataset().factors.column("digit")[some])
    scores = {score["name"]: score for score in client.get("/api/runs/hf/scores").json()["scores"]}
    assert scores["mig"]["value"] == pytest.approx(run.scores()["mig"].value)
    none = client.get("/api/runs/plain/scores").json()
    assert none["scores"] == []
    assert none["command"].startswith("unweave evaluate ")
    log = client.get("/api/runs/hf/log").json()
    assert log["columns"]["step"] == run.log()["step"].tolist()
    assert (log["steps"], log["training"]) == (20, False)
    last = log["columns"]["step"][-1]
    assert client.get(f"/api/runs/hf/log?since={int(last)}").json()["columns"]["step"] == []


# Operations ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [op.name for op in OPERATIONS if not op.clips and op.name != "predict"])
def test_every_operation_runs_from_its_form(client, trained, name):
    rows = [0, 1, 2, 3]
    got = client.post(f"/api/runs/ml/operations/{name}", json={"rows": rows, "params": {}})
    assert got.status_code == 200, got.text
    told = got.json()
    shown = Run.open(trained / "ml").operate(name, rows)
    assert told["title"] == shown.title
    assert told["rows"] == list(shown.rows)
    assert told["columns"] == list(shown.columns)
    sheet = pixels(client.get(f"/api/runs/ml/operations/{name}.sheet?{told['query']}").content)
    expected = as_pictures(shown.images, Run.open(trained / "ml").dataset().spec)
    height, width = expected.grid.shape[2:4]
    row, column = np.argwhere(expected.full)[-1]
    cell = sheet[row * height : (row + 1) * height, column * width : (column + 1) * width]
    np.testing.assert_allclose(cell.astype(int), expected.grid[row, column], atol=2)
    kinds = ["png", "csv"] + ["gif"] * shown.plays
    for kind in kinds:
        answer = client.get(f"/api/runs/ml/operations/{name}.{kind}?{told['query']}")
        assert answer.status_code == 200
        assert f'filename="ml-{name}.{kind}"' in answer.headers["content-disposition"]


def test_the_same_in_python_and_on_the_command_line(client, trained):
    params = {"steps": 5, "dims": ["style[0]", "style[2]"], "low": -1.0}
    told = client.post("/api/runs/hf/operations/traverse", json={"rows": [3], "params": params}).json()
    shown = eval(told["python"], {"unweave": unweave})
    direct = Run.open(trained / "hf").operate("traverse", [3], **params)
    np.testing.assert_array_equal(shown.images, direct.images)
    expected = f"unweave traverse {trained / 'hf'} --rows 3 --dims 'style[0],style[2]' --low -1.0 --steps 5"
    assert told["command"] == expected


def test_a_new_operation_appears_by_itself(client, monkeypatch):
    monkeypatch.setattr(OPERATIONS, "_extra", {})

    class BrightParams(Config):
        """How bright."""

        by: float = 0.25
        """What is added."""

    @OPERATIONS.register
    @operation(BrightParams, needs=(Decodes,), inputs=1, default_inputs=2)
    def brighten(system, inputs, params):
        """Shows inputs brighter."""
        return Shown("Brighter", np.clip(inputs.observations + params.by, 0, 1)[None], ("",), ("",) * len(inputs.rows))

    forms = {form["name"]: form for form in client.get("/api/operations").json()["operations"]}
    assert forms["brighten"]["params"]["properties"]["by"]["default"] == 0.25
    assert client.post("/api/runs/hf/operations/brighten", json={"params": {"by": 0.5}}).json()["title"] == "Brighter"
    assert "/api/runs/{run}/operations/brighten" in client.get("/openapi.json").json()["paths"]


def test_the_description_has_every_route(client):
    described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.")
    for name in OPERATIONS.names():
        body = described["paths"][f"/api/runs/{{run}}/operations/{name}"]["post"]["requestBody"]
        fields = body["content"]["application/json"]["schema"]["properties"]["params"]["properties"]
        assert set(fields) == set(OPERATIONS[name].params.model_fields)
    for path, methods in described["paths"].items():
        for entry in methods.values():
            assert entry["summary"], path
            named = {part[1 : part.index("}")] for part in path.split("/") if part.startswith("{")}
            assert {each["name"] for each in entry["parameters"] if each["in"] == "path"} == named


def test_what_is_described_is_answered(client):
    """Every GET of the description, with a value for each number that it says is needed."""
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        if "get" not in methods or "/operations/" in path:
            continue
        query = {each["name"]: 1 for each in methods["get"]["parameters"] if each["in"] == "query" and each["required"]}
        answer = client.get(path.format(run="hf", row=1), params=query)
        assert answer.status_code == 200, (path, answer.text)
    files = client.get("/openapi.json").json()["paths"]["/api/runs/{run}/operations/reconstruct.png"]["get"]
    assert {each["name"] for each in files["parameters"]} == {
        "run",
        "rows",
        *OPERATIONS["reconstruct"].params.model_fields,
    }
    assert client.get("/api/runs/hf/operations/reconstruct.png", params={"rows": "0,1"}).content.startswith(b"\x89PNG")


# Mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "/api/runs/nope", None, 404, "unknown run 'nope'"),
        ("GET", "/api/runs/hf/input?row=x", None, 400, "row is a whole number"),
        ("GET", "/api/runs/hf/input", None, 400, "row is a whole number"),
        ("GET", "/api/runs/hf/input?row=99999999", None, 400, "there is no row 99999999"),
        ("GET", "/api/runs/hf/rows/99999999.png", None, 400, "there is no row"),
        ("GET", "/api/runs/hf/rows?count=9999", None, 400, "count is between 1 and 200"),
        ("GET", "/api/runs/hf/draw?seed=-1", None, 400, "seed is between"),
        ("POST", "/api/runs/hf/decode", {"codes": [[1.0]]}, 400, "a code has 1 numbers: this run's have 14"),
        ("POST", "/api/runs/hf/decode", {"codes": []}, 400, "send 1 to 512"),
        ("POST", "/api/runs/hf/decode", {"codes": [["a"] * 14]}, 400, "codes"),
        ("POST", "/api/runs/hf/decode", {"codes": [[1e9] * 14]}, 400, "beyond a million"),
        ("POST", "/api/runs/hf/decode", {"codes": [[0.0] * 14], "path": "/"}, 404, "unknown setting"),
        ("POST", "/api/runs/hf/decode", {"codes": [[0.0] * 14] * 600}, 400, "send 1 to 512"),
        ("POST", "/api/runs/hf/decode", [1], 400, "a JSON object"),
        ("POST", "/api/runs/hf/operations/traverze", {}, 404, "did you mean 'traverse'"),
        ("POST", "/api/runs/hf/operations/traverse", {"params": {"stepz": 3}}, 404, "unknown setting"),
        ("POST", "/api/runs/hf/operations/traverse", {"params": {"steps": -3}}, 400, "setting 'steps'"),
        ("POST", "/api/runs/hf/operations/traverse", {"params": {"steps": 100000}}, 400, "at most 64"),
        ("POST", "/api/runs/hf/operations/traverse", {"rows": [99999999]}, 400, "there is no row"),
        ("POST", "/api/runs/hf/operations/traverse", {"rows": list(range(99))}, 400, "at most 24"),
        ("POST", "/api/runs/hf/operations/traverse", {"params": {"dims": "zz"}}, 404, "unknown block or dimension"),
        ("POST", "/api/runs/hf/operations/swap", {"rows": [1]}, 400, "at least 2 inputs"),
        ("GET", "/api/runs/hf/operations/traverse.exe", None, 404, "unknown kind of file"),
        ("GET", "/api/runs/hf/operations/traverse.png?rows=a", None, 400, "rows are whole numbers"),
        ("GET", "/api/runs/hf/operations/reconstruct.gif", None, 400, "does not move"),
        ("GET", "/api/nothing", None, 404, "there is nothing here"),
        ("DELETE", "/api/runs", None, 405, "DELETE is not possible"),
    ],
)
def test_mistakes_are_sentences(client, method, path, body, status, told):
    answer = client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    sentence = answer.json()["error"]
    assert told in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000, b"NaN", b'{"codes": [[NaN]]}'])
def test_bodies_that_are_no_json_are_told(client, content):
    answer = client.post("/api/runs/hf/decode", content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_an_upload_that_is_no_image_is_told(client):
    answer = client.post("/api/runs/hf/upload", content=b"GIF89a but not really")
    assert answer.status_code == 400
    assert "no image that can be read" in answer.json()["error"]


# Runs that change ----------------------------------------------------------------------------------------------------


def test_a_deleted_run_is_a_message(copied):
    client = opened(copied)
    assert client.get("/api/runs/hf").status_code == 200
    shutil.rmtree(copied)
    for path in ("/api/runs/hf", "/api/runs/hf/log", "/api/runs/hf/points"):
        answer = client.get(path)
        assert answer.status_code == 410
        assert "there is no run at" in answer.json()["error"]
    assert "there is no run at" in client.get("/api/runs").json()["runs"][0]["error"]


def test_damaged_weights_are_a_message(copied):
    client = opened(copied)
    assert client.get("/api/runs/hf").status_code == 200
    for name in ("state.safetensors", "weights.safetensors"):
        (copied / name).write_bytes(b"damaged")
    answer = client.get("/api/runs/hf")
    assert answer.status_code == 410
    assert "damaged" in answer.json()["error"]


def test_a_run_that_trains_on_is_shown_with_its_new_weights(copied):
    client = opened(copied)
    code = {"codes": [[0.0] * 14]}
    steps, picture = client.get("/api/runs/hf").json()["steps"], client.post("/api/runs/hf/decode", json=code).content
    resume(copied, steps=60, progress=False)
    assert (steps, client.get("/api/runs/hf").json()["steps"]) == (20, 60)
    assert client.post("/api/runs/hf/decode", json=code).content != picture


def test_a_run_without_a_checkpoint_says_so(copied):
    for name in ("state.safetensors", "weights.safetensors"):
        (copied / name).unlink()
    answer = opened(copied).get("/api/runs/hf")
    assert answer.status_code == 410
    assert "no weights yet" in answer.json()["error"]


def test_a_sample_stands_for_the_data(copied):
    run = Run.open(copied)
    rows = run.split_rows()["test"][:50]
    write_sample(copied, run.dataset(), rows)
    state = OpenedRun("hf", copied).state()
    assert len(state.dataset) == 50
    np.testing.assert_allclose(state.dataset.observations(range(50)), run.dataset().observations(rows), atol=1 / 255)
    np.testing.assert_array_equal(state.dataset.factors.values, run.dataset().factors.values[rows])
    assert state.dataset.factors.labels == run.dataset().factors.labels
    client = opened(copied)
    assert client.get("/api/runs/hf").json()["rows"] == 50
    assert client.post("/api/runs/hf/operations/swap", json={"rows": [0, 49]}).status_code == 200
    (copied / "sample.npz").write_bytes(b"x")
    assert opened(copied).get("/api/runs/hf").status_code == 410


# Attacks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "/....//server.py", "/static/../server.py",
        "//etc/passwd", "/%2fetc%2fpasswd", "/server.py", "/api/runs/../../etc/passwd", "/api/runs/..%2f..%2f",
        "/api/runs/hf/rows/../../run.json", "/api/runs/%2fetc", "/index.html%00.js",
    ],
)  # fmt: skip
def test_no_other_file_can_be_read(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 400)
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_only_the_pages_own_files_are_served(client):
    for file in server.STATIC.iterdir():
        answer = client.get(f"/{file.name}")
        assert answer.status_code == 200
        assert answer.content == file.read_bytes()
    assert client.get("/").content == (server.STATIC / "index.html").read_bytes()


def test_every_answer_has_the_strict_headers(client):
    refused = client.get("/api/runs", headers={"Host": "x"})
    for answer in (client.get("/"), client.get("/api/runs"), client.get("/nothing"), refused):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_large_bodies_are_refused(client, monkeypatch):
    monkeypatch.setattr(guard, "MOST_BODY", 1000)
    assert client.post("/api/runs/hf/upload", content=b"x" * 2000).status_code == 413

    def pieces():  # without a length in the header
        for _ in range(20):
            yield b"x" * 100

    assert client.post("/api/runs/hf/upload", content=pieces()).status_code == 413


@pytest.mark.parametrize("header", [{"Cookie": "a=\x01b; =;;"}, {"Content-Length": "many"}, {"Host": "[::1"}])
def test_headers_that_cannot_be_read_are_no_crash(client, header):
    assert client.get("/api/runs", headers=header).status_code in (200, 400, 403)
