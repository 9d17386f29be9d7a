"""Few rows are told as few: the share that chance looks like is what codes of pure noise measure."""

import numpy as np
import pytest

from unweave.core.factors import Factors
from unweave.metrics import METRICS, evaluate, mig
from unweave.metrics._evaluate import Evaluation
from unweave.metrics._few import CHANCE, chance_shares, few_rows


def table(rows, *values, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(n, size=rows) if n else rng.random(rows) for n in values]
    kinds = tuple("discrete" if n else "continuous" for n in values)
    return Factors(tuple(f"f{n}" for n in values), np.stack(columns, axis=1).astype(float), kinds)


@pytest.mark.parametrize("rows", [300, 1000, 5000])
def test_the_share_is_what_codes_that_know_nothing_measure(rows):
    factors = table(rows, 3, 10, 40, 0)
    noise = np.random.default_rng(1).random((rows, 20))  # evenly spread: as many rows in each bin
    parts = mig(noise, factors, repeats=2).parts
    measured = parts["mutual_information"].mean(axis=0) / parts["entropy"]
    shares = np.array([share for share, _ in chance_shares(factors).values()])
    known = shares < 0.3  # the formula is that of many rows
    assert known.any()
    np.testing.assert_allclose(shares[known], measured[known], rtol=0.2)


def test_as_many_rows_as_are_named_are_enough():
    wanted = chance_shares(table(60, 5))["f5"][1]
    more = chance_shares(table(wanted + 20, 5))["f5"][0]
    assert more < CHANCE < chance_shares(table(wanted // 2, 5))["f5"][0]


def test_missing_values_are_no_rows():
    few = table(60, 5)
    more = Factors(few.names, np.concatenate([few.values, np.full((940, 1), np.nan)]), few.kinds)
    assert chance_shares(more) == chance_shares(few)


def test_the_line_names_the_worst_factors_and_how_many_rows():
    line = few_rows(60, table(60, 2, 3, 4, 30), ["codes+factors"])
    assert line.startswith("60 rows are few: chance alone makes codes seem to know all of f30, ")
    assert " of f4, " in line
    assert " of f3 and of 1 more, which intervals do not show; score about " in line
    assert line.endswith(" rows or more")
    assert "\n" not in line
    assert few_rows(60, table(60, 2, 3, 4, 30), ["posterior"]) == ""
    assert few_rows(5000, table(5000, 2, 3, 4, 30), ["codes+factors", "codes"]) == ""


def test_correlations_of_few_rows():
    assert few_rows(60, None, ["codes"]).startswith(
        "60 rows are few: chance alone makes codes seem to correlate by 0.10"
    )
    assert few_rows(64, None, ["codes"]) == ""
    rng = np.random.default_rng(0)
    chance = np.mean([METRICS["mapc"](rng.normal(size=(20, 5)), repeats=2).value for _ in range(200)])
    said = float(few_rows(20, None, ["codes"]).split("correlate by ")[1].split(",")[0])
    assert said == pytest.approx(chance, rel=0.05)


def test_evaluate_warns_for_the_scores_that_were_asked_and_keeps_it():
    factors = {"colour": np.arange(60) % 3, "who": np.arange(60) % 20}
    codes = np.random.default_rng(0).normal(size=(60, 4))
    found = evaluate(codes, factors, scores=["mig"])
    assert found.about == "60 rows"
    assert "all of who" in found.warning
    assert found.table().splitlines()[-2:] == ["scored: 60 rows", f"warning: {found.warning}"]
    again = Evaluation.from_dict(found.to_dict())
    assert (again.about, again.warning) == (found.about, found.warning)
    assert "know" not in evaluate(codes, factors, scores=["mapc"]).warning
    assert evaluate(np.repeat(codes, 100, axis=0), scores=["mapc"]).warning == ""
