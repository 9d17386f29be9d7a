"""Numbers of the report against loops and known answers."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from toy_run import ToyRun

from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.factors import Factors
from unweave.core.score import Score
from unweave.metrics import information
from unweave.report import facts


def test_knowledge_of_copies_and_of_noise():
    rng = np.random.default_rng(0)
    factor = rng.integers(0, 4, size=800)
    noise = rng.normal(size=800)
    codes = Codes(
        (Block("z", (2,)), Block("kind", (4,), kind="simplex")),
        {"z": np.column_stack([factor * 0.5, noise]), "kind": np.eye(4)[factor]},
    )
    factors = Factors(("group", "same", "constant"), np.column_stack([factor, factor, 0 * factor]), ("discrete",) * 3)
    shares = facts.knowledge(codes, factors)
    assert shares.shape == (3, 3)
    np.testing.assert_allclose(shares[[0, 2], :2], 1.0, atol=0.02)
    assert shares[1].max() < 0.02
    np.testing.assert_array_equal(shares[:, 2], 0.0)


def test_a_dimension_over_time_is_one_dimension():
    toy = ToyRun(None, system="Clips", steps=3, rows=800)
    codes, factors = toy.codes(), toy.dataset().factors
    every = {dimension.name: dimension for dimension in facts.dimensions(codes, factors, {})}
    assert set(every) == {"shape", "place[:,0]", "place[:,1]", "light[:]", "count"}
    measured = information(codes).parts["per_dimension"]
    steps = [measured[f"place[{t},1]"] for t in range(3)]
    assert every["place[:,1]"].nats == pytest.approx(np.mean(steps))
    shares = facts.knowledge(codes, factors)
    first = Codes((Block("z", (1,)),), {"z": codes["place"][:, 0, :1]}, {"z": codes.spread("place")[:, 0, :1]})
    x = factors.names.index("x")
    assert shares[1, x] == pytest.approx(facts.knowledge(first, factors)[0, x], abs=0.03)
    assert shares[1, x] > 0.5


def plug_in(a, b):
    total = 0.0
    for i in np.unique(a):
        for j in np.unique(b):
            joint = np.mean((a == i) & (b == j))
            if joint > 0:
                total += joint * math.log(joint / (np.mean(a == i) * np.mean(b == j)))
    return total


def test_knowledge_is_the_plug_in_estimate_less_chance():
    rng = np.random.default_rng(1)
    code, factor = rng.integers(0, 3, size=300), rng.integers(0, 2, size=300)
    factor = np.where(rng.random(300) < 0.6, code > 0, factor).astype(int)
    chance = np.mean([plug_in(rng.permutation(code), factor) for _ in range(200)])
    assert chance < 0.01
    codes = Codes((Block("z", (1,)),), {"z": code[:, None].astype(float)})
    found = facts.knowledge(codes, Factors(("v",), factor[:, None].astype(float), ("discrete",)))[0, 0]
    assert found == pytest.approx((plug_in(code, factor) - chance) / plug_in(factor, factor), abs=0.01)


def test_a_mean_hidden_in_a_wide_posterior_is_not_known():
    factor = np.random.default_rng(0).integers(0, 2, size=2000)
    means = 0.01 * factor[:, None] + np.array([[0.0, 5.0]])
    spreads = np.broadcast_to([1.0, 1e-4], means.shape)
    probabilities = np.column_stack([0.5 + 0.01 * factor, 0.5 - 0.01 * factor])
    blocks = (Block("z", (2,)), Block("kind", (2,), kind="simplex"))
    codes = Codes(blocks, {"z": means, "kind": probabilities}, {"z": spreads})
    shares = facts.knowledge(codes, Factors(("v",), factor[:, None].astype(float), ("discrete",)))[:, 0]
    assert shares[0] < 0.02
    assert shares[1] > 0.98
    assert shares[2] < 0.02


def test_dimensions_take_the_scored_information_and_estimate_the_rest(tmp_path):
    run = ToyRun(tmp_path)
    every = facts.dimensions(run.codes(), run.dataset().factors, {})
    measured = information(run.codes()).parts["per_dimension"]
    assert {d.name: d.nats for d in every if d.name in measured} == pytest.approx(measured)
    counts = np.bincount(run.codes()["count"]) / run.codes().rows
    count = next(d for d in every if d.name == "count")
    assert count.nats == pytest.approx(float(-(counts * np.log(counts)).sum()))
    assert [d.used for d in every] == [True] * 6 + [False] * 2
    first = next(d for d in every if d.name == "z[0]")
    assert next(iter(first.known)) == "x"
    parts = {"per_dimension": {"z[5]": 9.0}, "interval_per_dimension": {"z[5]": (8.0, 10.0)}}
    told = facts.dimensions(run.codes(), None, {"information": Score("information", 9.0, None, parts)})
    assert (told[0].name, told[0].nats, told[0].interval, told[0].known) == ("z[5]", 9.0, (8.0, 10.0), {})


def test_importances_sum_the_columns_of_a_simplex(tmp_path):
    run = ToyRun(tmp_path)
    columns = np.random.default_rng(0).random((10, 5))
    score = Score("dci_lasso", 0.5, parts={"importance": columns}, settings={"factors": run.dataset().factors.names})
    name, factors, importance = facts.importances(run.codes(), {"dci_lasso": score})
    assert (name, factors) == ("dci_lasso", run.dataset().factors.names)
    np.testing.assert_allclose(importance[0], columns[:3].sum(axis=0))
    np.testing.assert_allclose(importance[1:], columns[3:])
    assert facts.importances(run.codes(), {}) is None


def test_the_central_row_is_nearest_the_average():
    values = np.array([[0.0, 0.0, 5.0], [10.0, 0.1, 5.0], [5.0, 0.06, 5.0], [5.0, 0.2, 5.0]])
    codes = Codes((Block("z", (3,)),), {"z": values})
    assert facts.central_row(codes) == 2
    chosen = facts.spread_rows(codes, 3, seed=1)
    assert len(set(chosen.tolist())) == 3
    assert facts.spread_rows(codes, 9, seed=1).shape == (4,)


def test_the_command_names_only_what_differs():
    manifest = SimpleNamespace(
        system="betavae",
        preset="quick",
        data="dsprites",
        seed=3,
        threads=2,
        settings={"beta": 4.0, "nets": {"channels": [8, 8], "stem": 4}, "training": {"steps": 10}},
        data_settings={"resolution": 64, "path": "my photos"},
        split={"train": 0.9},
    )
    defaults = {
        "settings": {"beta": 4.0, "nets": {"channels": [32], "stem": 4}, "training": {"steps": 20}},
        "data": {"resolution": 64},
        "split": {"train": 0.8},
    }
    assert facts.command(manifest, defaults) == (
        "unweave train betavae --data dsprites --preset quick --seed 3 --threads 2 --set 'nets.channels=[8, 8]' "
        "--set training.steps=10 --set 'data.path=my photos' --set split.train=0.9"
    )
