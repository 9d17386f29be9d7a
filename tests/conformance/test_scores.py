"""Every score that the registry finds: it has a page and a test, keeps its bounds, and behaves like all the others."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.factors import Factors
from unweave.core.score import Score
from unweave.metrics import METRICS

NAMES = METRICS.names()
SUPERVISED = tuple(name for name in NAMES if METRICS[name].needs == "codes+factors")
ROWS, SIZES = 480, (3, 4, 8)
SMALL = {"dci_boosted": {"trees": 10}}  # settings that keep this suite quick; any other score runs with its defaults
BLOCKS = (Block("shape", (2,)), Block("place", (3,)))


def data(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes (480, 5), discrete factors (480, 3) and spreads (480, 5)."""
    rng = np.random.default_rng(7)
    factors = np.stack([rng.permutation(np.arange(ROWS) % size) for size in SIZES], axis=1).astype(float)
    noise = rng.normal(size=(ROWS, 5))
    codes = {
        "noise": noise,
        "perfect": np.concatenate([factors, 1e-3 * noise[:, :2]], axis=1),
        "mixed": factors @ rng.normal(size=(3, 5)) + noise,
    }[kind]
    return codes, factors, np.full(codes.shape, 0.5) + 0.2 * np.abs(codes)


def run(name: str, codes, factors, spreads, **settings) -> Score:
    entry, settings = METRICS[name], {**SMALL.get(name, {}), **settings}
    if entry.needs == "codes+factors":
        return entry(codes, factors, **settings)
    if entry.needs == "posterior":
        return entry(codes, spreads=spreads, **settings)
    return entry(codes, **settings)


@pytest.mark.parametrize("name", NAMES)
def test_has_a_page_that_names_every_setting_and_runs(name, root, run_page):
    page = root / "docs" / "metrics" / f"{name}.md"
    assert page.is_file(), f"write docs/metrics/{name}.md"
    text = page.read_text(encoding="utf-8")
    settings = [
        key for key, p in inspect.signature(METRICS[name].function).parameters.items() if p.kind == p.KEYWORD_ONLY
    ]
    missing = [key for key in settings if key not in ("names", "kinds") and f"`{key}`" not in text]
    assert not missing, f"docs/metrics/{name}.md does not name the settings {missing}"
    assert METRICS[name].card.bibtex.split("{")[1].split(",")[0] in text, (
        f"docs/metrics/{name}.md does not cite the paper"
    )
    index = (root / "docs" / "metrics" / "index.md").read_text(encoding="utf-8")
    assert f"({name}.md)" in index, f"docs/metrics/index.md does not link {name}.md"
    assert run_page(page) > 0, f"docs/metrics/{name}.md has no python block"


def test_the_overview_runs(root, run_page, monkeypatch):
    monkeypatch.setattr(METRICS, "_extra", {})  # the page registers a score of its own
    assert run_page(root / "docs" / "metrics" / "index.md") > 0


@pytest.mark.parametrize("name", NAMES)
def test_has_a_test(name, root):
    tests = [file.read_text(encoding="utf-8") for file in (root / "tests" / "metrics").glob("test_*.py")]
    assert any(f"{name}(" in text or f"[{name}" in text or f", {name}" in text for text in tests)


@pytest.mark.parametrize("name", NAMES)
def test_card_and_signature(name):
    entry = METRICS[name]
    assert isinstance(entry.card, Card)
    assert entry.card.summary
    assert "\n" not in entry.card.summary
    assert entry.card.paper
    assert entry.card.bibtex.startswith("@")
    assert entry.needs in ("codes", "codes+factors", "posterior")
    assert entry.bounds[0] < entry.bounds[1]
    assert entry.higher_is_better in (True, False, None)
    assert entry.__doc__
    parameters = inspect.signature(entry.function).parameters
    assert parameters["rng"].default == 0
    positional = [key for key, p in parameters.items() if p.kind != p.KEYWORD_ONLY]
    assert positional == (["codes", "factors"] if entry.needs == "codes+factors" else ["codes"])


@pytest.mark.parametrize("kind", ["noise", "perfect", "mixed"])
@pytest.mark.parametrize("name", NAMES)
def test_value_and_interval_are_within_bounds_and_plain(name, kind):
    codes, factors, spreads = data(kind)
    before = codes.copy(), factors.copy(), spreads.copy()
    score = run(name, codes, factors, spreads)
    assert all(np.array_equal(a, b) for a, b in zip(before, (codes, factors, spreads), strict=True))
    low, high = METRICS[name].bounds
    assert score.name == name
    assert isinstance(score.value, float)
    assert low - 1e-9 <= score.value <= high + 1e-9
    assert score.higher_is_better == METRICS[name].higher_is_better
    assert score.interval is not None
    assert all(type(end) is float and math.isfinite(end) for end in score.interval)
    slack = 0.02 * max(1.0, abs(score.value))
    assert score.interval[0] - slack <= score.value <= score.interval[1] + slack
    assert low <= score.interval[0] <= score.interval[1] <= high
    assert "seed" in score.settings
    assert json.loads(json.dumps(score.to_dict(), allow_nan=False))["name"] == name


@pytest.mark.parametrize("name", SUPERVISED)
def test_perfect_codes_are_far_better_than_noise(name):
    perfect, noise = (run(name, *data(kind)) for kind in ("perfect", "noise"))
    assert METRICS[name].higher_is_better is True
    assert perfect.value - noise.value > 0.4
    assert perfect.interval[0] > noise.interval[1]


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_score(name):
    codes, factors, spreads = data("mixed")
    one = run(name, codes, factors, spreads, rng=3).to_dict()
    assert one == run(name, codes, factors, spreads, rng=3).to_dict()
    drawn = run(name, codes, factors, spreads, rng=np.random.default_rng(3))
    assert drawn.value == one["value"]
    assert one["settings"]["seed"] == 3
    assert drawn.settings["seed"] is None


@pytest.mark.parametrize("name", NAMES)
def test_order_of_dimensions_does_not_matter(name):
    codes, factors, spreads = data("mixed")
    order = [3, 0, 4, 2, 1]
    one, other = run(name, codes, factors, spreads), run(name, codes[:, order], factors, spreads[:, order])
    # Noise meets other dimensions, a tree may choose between two equally good splits, an optimiser stops elsewhere.
    chance = (one.interval[1] - one.interval[0]) / 2 if METRICS[name].needs == "posterior" else 0.0
    assert other.value == pytest.approx(one.value, abs=0.02 + chance)


@pytest.mark.parametrize("name", NAMES)
def test_codes_and_factors_objects_score_as_arrays(name):
    codes, factors, spreads = data("mixed")
    as_codes = Codes(
        BLOCKS,
        {"shape": codes[:, :2], "place": codes[:, 2:]},
        {"shape": spreads[:, :2], "place": spreads[:, 2:]},
    )
    as_factors = Factors(("a", "b", "c"), factors, ("discrete",) * 3)
    plain, objects = run(name, codes, factors, spreads), run(name, as_codes, as_factors, None)
    assert objects.value == pytest.approx(plain.value, abs=1e-9)
    assert objects.interval == pytest.approx(plain.interval, abs=1e-9)


@pytest.mark.parametrize("name", SUPERVISED)
def test_subset_of_factors_missing_values_and_continuous_factors(name):
    codes, factors, spreads = data("mixed")
    columns = {"first": factors[:, 0], "last": factors[:, 2]}
    subset = run(name, codes, columns, spreads)
    assert subset.value == run(name, codes, factors[:, [0, 2]], spreads, names=["first", "last"]).value
    holes = factors.copy()
    holes[np.random.default_rng(0).random(holes.shape) < 0.1] = np.nan
    low, high = METRICS[name].bounds
    assert low <= run(name, codes, holes, spreads).value <= high
    score = run(name, codes, factors / 7, spreads, kinds=["discrete", "discrete", "continuous"])
    assert low <= score.value <= high


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_refused_in_one_line(name):
    codes, factors, spreads = data("mixed")
    broken = codes.copy()
    broken[5, 2] = np.nan
    refused = [(broken, factors, spreads, r"row 5, column z\[2\]"), (codes[:0], factors[:0], spreads[:0], "nothing")]
    if METRICS[name].needs == "codes+factors":
        constant = factors.copy()
        constant[:, 1] = 2
        refused += [
            (codes[:-1], factors, None, "rows"),
            (codes, constant, None, "constant"),
            (codes, factors[:, :0], None, "no factors"),
        ]
    if METRICS[name].needs == "posterior":
        refused.append((codes, None, spreads[:-1], "spread"))
    for bad_codes, bad_factors, bad_spreads, message in refused:
        with pytest.raises(MetricError, match=message) as caught:
            run(name, bad_codes, bad_factors, bad_spreads)
        assert "\n" not in str(caught.value)


IMPORTS = {
    "score first": "import unweave.metrics; f = unweave.metrics.{0}; import unweave.metrics.{0}",
    "file first": "import unweave.metrics.{0}; import unweave.metrics; f = unweave.metrics.{0}",
    "from file first": "from unweave.metrics.{0} import {0} as f; import unweave.metrics",
    "from package": "from unweave.metrics import {0} as f; import unweave.metrics",
}


@pytest.mark.parametrize("order", IMPORTS)
def test_the_package_attribute_is_the_score_in_every_order_of_import(order):
    code = IMPORTS[order].format("mig") + (
        "; from unweave.metrics import METRICS"
        "; assert f is unweave.metrics.mig is METRICS['mig'], f"
        "; METRICS.names()"
        "; assert unweave.metrics.mig is f and callable(f)"
        "; from unweave.metrics.mig import mig; assert mig is f"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_and_running_scores_needs_no_torch():
    code = (
        "import sys, numpy as np, unweave.metrics\n"
        "assert not {'torch', 'sklearn', 'scipy', 'matplotlib'} & set(sys.modules), 'package'\n"
        "assert 'mig' in dir(unweave.metrics) and 'evaluate' in dir(unweave.metrics)\n"
        "assert not {'torch', 'sklearn', 'scipy', 'matplotlib'} & set(sys.modules), 'registry'\n"
        "x = np.arange(60.).reshape(30, 2) % 7\n"
        "unweave.metrics.mig(x, x)\n"
        "unweave.metrics.evaluate(x, x, scores=['dci_lasso', 'mapc'])\n"
        "assert 'torch' not in sys.modules, 'run'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_attribute_is_an_attribute_error():
    import unweave.metrics

    with pytest.raises(AttributeError, match="migg"):
        _ = unweave.metrics.migg
