"""The measurements of the HFVAE reproduction, each against a slow or constructed case."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.core.system import SYSTEMS
from unweave.studies.reproductions import _hfvae_figures as figures
from unweave.studies.reproductions import _hfvae_measures as measures
from unweave.studies.reproductions import _hfvae_terms as terms
from unweave.studies.reproductions import hfvae
from unweave.studies.reproductions._reproduction import REPRODUCTIONS

BLOCKS = (Block("digit", (3,), kind="simplex"), Block("style", (2,)))


def make_codes(rows: int = 300, seed: int = 0) -> tuple[Codes, np.ndarray]:
    """Labels 0 to 2; the category is right in 9 of 10 rows; style[1] leans on the label, style[0] does not."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % 3
    category = np.where(rng.random(rows) < 0.9, labels, rng.integers(0, 3, rows))
    style = np.stack([rng.standard_normal(rows), labels + 2 * rng.standard_normal(rows)], axis=1)
    values = {"digit": 0.8 * np.eye(3)[category] + 0.2 / 3, "style": style}
    return Codes(BLOCKS, values, {"style": np.full((rows, 2), 0.3)}), labels.astype(float)


def counted_information(a: list, b: list) -> float:
    n = len(a)
    joint, first, second = Counter(zip(a, b, strict=True)), Counter(a), Counter(b)
    return sum(c / n * math.log(c * n / (first[i] * second[j])) for (i, j), c in joint.items())


def test_label_information_is_the_counted_one():
    codes, labels = make_codes()
    found = measures.label_information(codes, labels)
    assert found["digit"] == pytest.approx(counted_information(codes["digit"].argmax(1).tolist(), labels.tolist()))
    for d in range(2):
        z = codes["style"][:, d]
        bins = np.minimum((20 * (z - z.min()) / (z.max() - z.min())).astype(int), 19)
        assert found[f"style[{d}]"] == pytest.approx(counted_information(bins.tolist(), labels.tolist()))
    assert measures.label_gap(found, "digit") == found["digit"] - max(found["style[0]"], found["style[1]"]) > 0


def test_unused_and_used_dimensions():
    information = {"style[0]": 0.05, "style[1]": 0.4, "style[2]": 1.7, "digit": 0.01}
    assert measures.count_unused(information, "digit") == 1
    assert measures.least_used(information, "digit") == 0.4
    assert measures.least_used({"style[0]": 0.0, "digit": 2.0}, "digit") == 0.0


def test_data_information_of_a_dimension_that_ignores_the_data():
    codes, _ = make_codes()
    style = np.array(codes["style"])
    style[:, 0] = 0.0
    mixed = Codes(BLOCKS, {"digit": codes["digit"], "style": style}, {"style": np.full(style.shape, 0.3)})
    found = measures.data_information(mixed)
    assert found["style[0]"] == pytest.approx(0, abs=1e-6)
    # q(z) of the other is close to a normal: its entropy less that of the posteriors.
    assert found["style[1]"] == pytest.approx(0.5 * math.log((style[:, 1].var() + 0.09) / 0.09), abs=0.1)
    assert measures.count_unused(found, "digit") == 1


def test_information_and_correlation_of_a_gaussian_pair():
    """z = (a, a + noise): TC is -log(1 - r^2) / 2; a category of its own adds I(x; c) and no correlation."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal(3000)
    style = np.stack([a, a], axis=1)
    spread = np.full(style.shape, 0.5)
    codes = Codes(BLOCKS, {"digit": np.full((3000, 3), 1 / 3), "style": style}, {"style": spread})
    information, correlation = measures.information_and_correlation(codes, seed=0)
    r = a.var() / (a.var() + 0.25)
    assert correlation == pytest.approx(-0.5 * math.log(1 - r**2), abs=0.05)
    assert information == pytest.approx(0.5 * math.log(1 + 2 * a.var() / 0.25), abs=0.05)


def test_most_like_finds_the_negative_copy():
    rng = np.random.default_rng(2)
    values = rng.standard_normal((200, 4))
    values[:, 3] = 1.0
    measured = 5 - 2 * values[:, 2] + 0.1 * rng.standard_normal(200)
    dimension, correlation = measures.most_like(values, measured)
    assert dimension == 2
    assert correlation == pytest.approx(np.corrcoef(values[:, 2], measured)[0, 1])
    assert correlation < -0.9


def render(codes: Codes) -> np.ndarray:
    """A picture of four pixels: the category, and the two style dimensions."""
    category = codes["digit"].argmax(1)[:, None].astype(np.float32)
    flat = np.concatenate([category, codes["style"], category], axis=1)
    return flat.reshape(-1, 1, 2, 2).astype(np.float32)


def test_traverse_moves_one_dimension_only():
    codes, _ = make_codes(5)
    moved = measures.traverse(codes, "style", 1, np.array([-1.0, 2.0]), render)
    assert moved.shape == (5, 2, 1, 2, 2)
    still = render(codes)
    for p, position in enumerate((-1.0, 2.0)):
        np.testing.assert_array_equal(moved[:, p, 0, 1, 0], position)
        for place in ((0, 0), (0, 1), (1, 1)):
            np.testing.assert_array_equal(moved[:, p, 0][:, place[0], place[1]], still[:, 0][:, place[0], place[1]])


def test_kept_identity_counts_the_recognised_ones():
    labels = np.array([0, 1, 1])
    still = np.array([0, 1, 0]).reshape(3, 1, 1, 1)  # the third is not recognised and does not count
    moved = np.array([[0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]]).reshape(3, 4, 1, 1, 1)
    assert measures.kept_identity(labels, still, moved, lambda x: x[..., 0, 0, 0]) == pytest.approx(100 * 5 / 8)
    assert measures.kept_identity(labels, still + 5, moved, lambda x: x[..., 0, 0, 0]) == 0.0


def test_classifier_learns_bars_and_leaves_the_random_state():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 600)
    pictures = rng.random((600, 1, 4, 4)).astype(np.float32) * 0.3
    pictures[labels == 0, 0, 1] += 0.7
    pictures[labels == 1, 0, :, 1] += 0.7
    state = torch.random.get_rng_state()
    classify = measures.DigitClassifier(pictures[:400], labels[:400].astype(float), epochs=5)
    assert torch.equal(state, torch.random.get_rng_state())
    assert (classify(pictures[400:]) == labels[400:]).mean() > 0.95
    assert classify(pictures[400:].reshape(50, 4, 1, 4, 4)).shape == (50, 4)
    again = measures.DigitClassifier(pictures[:400], labels[:400].astype(float), epochs=5)
    np.testing.assert_array_equal(classify(pictures), again(pictures))


def test_errors_and_their_ratio():
    pictures = np.zeros((2, 1, 2, 2))
    decoded = np.zeros((2, 1, 2, 2))
    decoded[1, 0, 0] = [0.5, 1.0]
    np.testing.assert_allclose(measures.squared_errors(pictures, decoded), [0, (0.25 + 1) / 4])
    ratio = measures.unseen_ratio(np.array([3.0]), np.array([1.0, 3.0]), np.array([4.0]))
    assert ratio == pytest.approx(3 / 3)


# Figure 2 -------------------------------------------------------------------------------------------------------------


def slow_terms(model: terms.TinyModel, x: torch.Tensor) -> dict[str, float]:
    """The four terms by sums over a fine grid of z."""
    axis = torch.linspace(-6, 6, 241, dtype=torch.float64)
    grid, cell = torch.cartesian_prod(axis, axis), float(axis[1] - axis[0]) ** 2
    q = model.posterior(x)
    posteriors = [
        torch.exp(MultivariateNormal(m, torch.diag(s**2)).log_prob(grid)) for m, s in zip(q.mean, q.stddev, strict=True)
    ]
    marginal = sum(posteriors) / len(x)
    prior = torch.exp(Normal(0.0, 1.0).log_prob(grid).sum(-1))
    totals = dict.fromkeys(("uniqueness", "information", "log_evidence", "divergence"), 0.0)
    for n, density in enumerate(posteriors):
        likelihood = Normal(model.decoder(grid), terms.NOISE).log_prob(x[n]).sum(-1)
        evidence = torch.log((likelihood.exp() * prior).sum() * cell)
        there = density > 1e-30
        totals["uniqueness"] += float((density * (likelihood - evidence)).sum() * cell)
        totals["information"] += float((density * torch.log(density / marginal))[there].sum() * cell)
        totals["divergence"] += float((density * torch.log(marginal / prior))[there].sum() * cell)
        totals["log_evidence"] += float(evidence)
    return {name: value / len(x) for name, value in totals.items()}


def test_terms_against_a_grid():
    torch.manual_seed(0)
    model = terms.TinyModel(hidden=8).double()
    with torch.no_grad():
        model.encoder[-1].bias[2:] = -1.0  # posteriors narrower than the prior
    x = torch.tensor([[0.2, -0.1], [-0.3, 0.3], [0.1, 0.5]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        draws = terms.stratified_prior(60, generator).double()
        found = model.terms(x, draws, 4000, generator)
        expected = slow_terms(model, x)
    for name, value in expected.items():
        assert float(getattr(found, name)) == pytest.approx(value, abs=0.05), name


def test_the_terms_add_up_to_the_elbo():
    """(1) - (2) - (3) - (4) is E log p(x|z) - KL(q(z|x) || p(z)), whatever the estimates of p(x) and q(z)."""
    torch.manual_seed(0)
    model = terms.TinyModel(hidden=8)
    x = torch.from_numpy(terms.make_points(0))
    with torch.no_grad():
        found = model.terms(x, terms.stratified_prior(8, torch.Generator().manual_seed(2)), 3, torch.Generator())
        generator = torch.Generator()
        q = model.posterior(x)
        z = q.mean + q.stddev * torch.randn(3, *q.mean.shape, generator=generator)
        elbo = Normal(model.decoder(z), terms.NOISE).log_prob(x).sum(-1)
        elbo = elbo + Normal(0.0, 1.0).log_prob(z).sum(-1) - q.log_prob(z).sum(-1)
    assert -float(found.cost(())) == pytest.approx(float(elbo.mean()), rel=1e-4)
    assert float(found.cost((2,))) == pytest.approx(float(found.cost(()) - found.information), rel=1e-4)
    assert float(found.cost((3,))) == pytest.approx(float(found.cost(()) + found.log_evidence), rel=1e-4)


def test_stratified_draws_have_one_in_each_cell():
    draws = terms.stratified_prior(8, torch.Generator().manual_seed(0))
    cells = torch.floor(torch.special.ndtr(draws) * 8).long()
    assert len({tuple(cell) for cell in cells.tolist()}) == 64


def test_short_training_moves_in_the_direction_of_each_removal():
    whole = terms.train_without((), seed=0, steps=60)
    silent = terms.train_without((1,), seed=0, steps=60)
    assert silent["information"] < 0.2 < whole["information"]
    assert np.shape(whole["points"]) == np.shape(whole["means"]) == (terms.POINTS, 2)


# The plan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_every_planned_run_has_settings_its_system_reads(scale):
    runs = hfvae.plan(scale, range(3))
    assert len({run.name for run in runs}) == len(runs) == 48
    for run in runs:
        SYSTEMS[run.system].config_class.preset(run.preset).override(run.settings)


def test_claims_and_figures_read_rows_of_the_plan():
    rows = {run.row for run in hfvae.plan("quick", [0])}
    reproduction = REPRODUCTIONS["hfvae"]
    asked = {row for item in (*reproduction.claims, *reproduction.figures) for row in item.rows}
    assert asked == rows
    assert len({claim.name for claim in reproduction.claims}) == len(reproduction.claims)


def test_trade_offs_are_drawn(tmp_path):
    points = {seed: {"1": [8.0, 3.0 + seed], "2": [7.5, 2.0]} for seed in (0, 1)}
    figures.draw_trade_offs(points, {1: [0.1, 0.2], 8: [0.5, 0.6]}, tmp_path / "f.png")
    assert 1000 < (tmp_path / "f.png").stat().st_size < 150_000
