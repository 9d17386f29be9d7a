"""`evaluate`: runs what applies, says what does not, and its result survives JSON."""

import csv
import io
import json

import numpy as np
import pytest

from unweave.base.card import Card
from unweave.base.errors import MetricError, UnknownNameError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.score import Score
from unweave.metrics import METRICS, Evaluation, evaluate, mapc, metric, mig

FAST = ["mig", "mapc", "cvr", "information"]


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    factors = np.stack([np.arange(240) % 3, np.arange(240) // 3 % 4], axis=1).astype(float)
    return factors + 0.1 * rng.normal(size=(240, 2)), factors


@pytest.fixture(scope="module")
def everything(arrays):
    codes, factors = arrays
    return evaluate(codes, factors, spreads=np.full(codes.shape, 0.1), names=["shape", "size"])


def test_runs_every_registered_score(everything):
    assert set(everything) == set(METRICS.names())
    assert everything.skipped == {}
    assert set(everything.seconds) == set(METRICS.names())
    assert everything["mig"].parts["factors"] == ("shape", "size")


def test_each_score_is_what_it_is_alone(arrays):
    codes, factors = arrays
    result = evaluate(codes, factors, scores=["mig", "mapc"], rng=4)
    assert result["mig"].to_dict() == mig(codes, factors, rng=4).to_dict()
    assert result["mapc"].to_dict() == mapc(codes, rng=4).to_dict()
    assert list(result) == ["mig", "mapc"]


def test_a_generator_gives_one_seed_to_all(arrays):
    result = evaluate(*arrays, scores=["mig", "mapc"], rng=np.random.default_rng(1))
    again = evaluate(*arrays, scores=["mig", "mapc"], rng=np.random.default_rng(1))
    assert result.to_dict() == again.to_dict()
    assert result["mig"].settings["seed"] == result["mapc"].settings["seed"]


def test_without_factors_and_spreads(arrays):
    result = evaluate(arrays[0])
    assert set(result) == {"mapc", "cvr", "tdv", "ud90", "total_correlation"}
    assert result["total_correlation"].settings["estimator"] == "gaussian"
    assert "needs factors" in result.skipped["mig"]
    assert "spreads" in result.skipped["information"]
    with pytest.raises(MetricError, match="'mig' was not computed: mig needs factors"):
        result["mig"]


def test_codes_carry_their_spreads(arrays):
    codes, _ = arrays
    block = Block("z", (2,))
    result = evaluate(Codes((block,), {"z": codes}, {"z": np.full(codes.shape, 0.1)}), scores=["information"])
    assert list(result["information"].parts["per_dimension"]) == ["z[0]", "z[1]"]


def test_constant_and_empty_factors_are_left_out_with_a_note(arrays):
    codes, factors = arrays
    wide = np.c_[factors, np.full(240, 3.0), np.full(240, np.nan)]
    result = evaluate(codes, wide, scores=["mig"], names=["shape", "size", "colour", "light"])
    assert result["mig"].value == mig(codes, factors).value
    assert result.notes == (
        "factor 'colour' is left out: it is constant",
        "factor 'light' is left out: it has no value",
    )
    nothing = evaluate(codes, wide[:, 2:])
    assert "needs factors" in nothing.skipped["mig"]
    assert len(nothing.notes) == 2


def test_notes_of_scores_are_passed_on():
    codes = np.random.default_rng(0).normal(size=(50, 8))
    result = evaluate(codes, scores=["total_correlation"], spreads=np.full(codes.shape, 0.01))
    assert result.notes == (f"total_correlation: {result['total_correlation'].settings['note']}",)


def test_names_must_be_known_and_named_scores_must_apply(arrays):
    codes, factors = arrays
    with pytest.raises(UnknownNameError, match="unknown score 'migg': did you mean 'mig'"):
        evaluate(codes, factors, scores=["migg"])
    with pytest.raises(MetricError, match="mig needs factors"):
        evaluate(codes, scores=["mig"])
    with pytest.raises(UnknownNameError, match="unknown score 'mapc'"):
        evaluate(codes, factors, scores=["mig"])["mapc"]


def test_input_that_no_score_can_use_is_an_error(arrays):
    codes, factors = arrays
    with pytest.raises(MetricError, match="240 rows and factors 239"):
        evaluate(codes, factors[:-1])
    with pytest.raises(MetricError, match="NaN"):
        evaluate(np.where(codes > 2, np.nan, codes), factors)


def test_progress_is_told_each_score(arrays):
    calls = []
    evaluate(*arrays, scores=["mig", "mapc"], progress=lambda *call: calls.append(call))
    assert calls == [("mig", 0, 2), ("mapc", 1, 2), ("", 2, 2)]


def test_own_scores_are_run_too(arrays, monkeypatch):
    @metric(Card("the number of dimensions"), needs="codes", bounds=(1, float("inf")))
    def width(codes, *, rng=0):
        return Score("width", float(np.shape(codes)[1]))

    monkeypatch.setattr(METRICS, "_extra", {"width": width})
    result = evaluate(*arrays, scores=["width"])
    assert result["width"].value == 2.0
    assert "width  2.000" in result.table()
    assert result.to_csv() == "score,value,low,high,better\nwidth,2.0,,,higher\n"


def test_table_is_aligned_and_complete(everything):
    lines = everything.table().splitlines()
    assert str(everything) == everything.table()
    assert lines[0].split() == ["score", "value", "95", "%", "interval", "better"]
    start = lines[0].index("95 %")
    for name, line in zip(everything, lines[1:], strict=False):
        score = everything[name]
        assert line.startswith(f"{name} ")
        assert line[start] == "["
        assert f"{score.value:.3f}" in line
        assert line.split()[-1] == {True: "higher", False: "lower", None: "-"}[score.higher_is_better]
    skipped = evaluate(np.random.default_rng(0).normal(size=(30, 2))).table()
    assert "mig does not apply: mig needs factors" in skipped


def test_csv_has_the_numbers(everything):
    rows = list(csv.DictReader(io.StringIO(everything.to_csv())))
    assert [row["score"] for row in rows] == list(everything)
    for row in rows:
        assert float(row["value"]) == everything[row["score"]].value
        assert (float(row["low"]), float(row["high"])) == everything[row["score"]].interval


def test_json_and_back(everything):
    plain = json.loads(json.dumps(everything.to_dict(), allow_nan=False))
    back = Evaluation.from_dict(plain)
    assert back.to_dict() == everything.to_dict()
    assert back.table() == everything.table()
    np.testing.assert_array_equal(back["dci_forest"].parts["importance"], everything["dci_forest"].parts["importance"])
    assert isinstance(back["mig"].parts["factors"], list)


def test_missing_numbers_survive_json():
    score = Score("x", float("nan"), (0.0, float("nan")), {"a": np.array([1.0, np.nan]), "b": None, "c": [[1], [2, 3]]})
    plain = json.loads(json.dumps(Evaluation({"x": score}, {"y": "why"}, ["note"]).to_dict()))
    back = Evaluation.from_dict(plain)
    assert np.isnan(back["x"].value)
    assert back["x"].interval[0] == 0.0
    assert np.isnan(back["x"].interval[1])
    np.testing.assert_array_equal(back["x"].parts["a"], [1.0, np.nan])
    assert back["x"].parts["c"] == [[1], [2, 3]]
    assert (back.skipped, back.notes) == ({"y": "why"}, ("note",))
