"""Likelihoods against loops, torch.distributions and scipy; supports and settings that do not fit."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch.distributions import Categorical, Normal

from unweave.base.errors import ConfigError, DataError, ShapeError
from unweave.core.dataspec import DataSpec
from unweave.core.distributions import centre, elementwise_log_prob
from unweave.core.trace import Given, Trace
from unweave.objectives.likelihood import (
    STD_FLOOR,
    DiscretisedLogistic,
    Levels,
    Likelihood,
    LikelihoodHead,
    check_values,
)

SHAPE = (2, 3, 2)


def head_of(values: str, levels: int | None = None, shape: tuple[int, ...] = SHAPE, **settings: Any) -> LikelihoodHead:
    return Likelihood(**settings).build(DataSpec(shape, values, 10, levels))  # type: ignore[arg-type]


def raw_for(head: LikelihoodHead, *leading: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(*leading, head.parameters_per_value * head.shape[0], *head.shape[1:])


ALL: list[tuple[str, int | None, dict[str, Any]]] = [
    ("binary", None, {}),
    ("unit", None, {}),
    ("real", None, {}),
    ("real", None, {"variance": "learned"}),
    ("real", None, {"variance": "predicted"}),
    ("levels", 5, {}),
    ("tokens", 7, {}),
    ("binary", None, {"kind": "categorical"}),
    ("levels", 5, {"kind": "discretised"}),
    ("unit", None, {"kind": "discretised"}),
    ("binary", None, {"kind": "discretised"}),
]


@pytest.mark.parametrize(("values", "levels", "settings"), ALL)
def test_the_contract_of_every_likelihood(values: str, levels: int | None, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    head = head_of(values, levels, **settings)
    raw = raw_for(head, 4, 3).requires_grad_()
    p = head(raw)
    assert (p.batch_shape, p.event_shape) == ((4, 3), SHAPE)
    x = p.sample()
    assert x.shape == (4, 3, *SHAPE)
    assert x.is_floating_point()
    check_values(x, head)  # samples lie in the support
    assert p.sample(torch.Size((2,))).shape == (2, 4, 3, *SHAPE)
    assert centre(p).shape == (4, 3, *SHAPE)
    # Nats per example: the sum over all values, the same for (S, B) as for a loop over S, with x shared over samples.
    log_prob = p.log_prob(x[0])
    torch.testing.assert_close(log_prob, torch.stack([head(part).log_prob(x[0]) for part in raw]))
    torch.testing.assert_close(log_prob, elementwise_log_prob(p, x[0]).sum(-1))
    assert elementwise_log_prob(p, x[0]).shape == (4, 3, math.prod(SHAPE))
    log_prob.sum().backward()
    assert raw.grad is not None
    assert raw.grad.abs().sum() > 0
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs() > 0, name
    # A trace may draw more rows from a distribution without any.
    torch.testing.assert_close(
        head(raw[0, 0]).expand((6,)).log_prob(x[0, 0]), head(raw[0, 0]).log_prob(x[0, 0]).expand(6)
    )


@pytest.mark.parametrize(("values", "levels", "settings"), ALL)
def test_a_trace_can_observe_and_draw_it(values: str, levels: int | None, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    head = head_of(values, levels, **settings)
    p = head(raw_for(head, 3))
    x = p.sample()
    seen, drawn, shown = Trace({"x": Given(x)}, rows=3), Trace(rows=3), Trace(rows=3, centred=True)
    torch.testing.assert_close(seen.sample("x", p), x)
    torch.testing.assert_close(seen.log_prob("x"), p.log_prob(x))
    assert drawn.sample("x", p).shape == x.shape
    torch.testing.assert_close(shown.sample("x", p), p.mean)


def test_bernoulli_equals_a_loop() -> None:
    torch.manual_seed(0)
    head = head_of("unit")
    raw, x = raw_for(head, 3, scale=3), torch.rand(3, *SHAPE)  # grey pixels: cross-entropy
    expected = []
    for b in range(3):
        total = 0.0
        for logit, pixel in zip(raw[b].flatten().tolist(), x[b].flatten().tolist(), strict=True):
            r = 1 / (1 + math.exp(-logit))
            total += pixel * math.log(r) + (1 - pixel) * math.log(1 - r)
        expected.append(total)
    torch.testing.assert_close(head(raw).log_prob(x), torch.tensor(expected))
    torch.testing.assert_close(head(raw).mean, raw.sigmoid())
    assert head.parameters_per_value == 1


def test_bernoulli_survives_extreme_logits() -> None:
    head = head_of("binary", shape=(2,))
    raw = torch.tensor([[1e4, -1e4]], requires_grad=True)
    log_prob = head(raw).log_prob(torch.tensor([[0.0, 0.0]]))
    log_prob.sum().backward()
    torch.testing.assert_close(log_prob, torch.tensor([-1e4]))
    torch.testing.assert_close(raw.grad, torch.tensor([[-1.0, 0.0]]))


@pytest.mark.parametrize("shape", [(5, 1, 3, 4), (2, 5, 1, 3, 4)])
def test_bernoulli_and_its_gradients_equal_pytorch(shape: tuple[int, ...]) -> None:
    """Also with a sample axis, where one observation meets several decoder outputs, and far into both tails."""
    generator = torch.Generator().manual_seed(0)
    raw = 6 * torch.randn(shape, generator=generator, dtype=torch.float64)
    raw.view(-1)[:4] = torch.tensor([60.0, -60.0, 30.0, -30.0], dtype=torch.float64)
    x = torch.rand(5, 1, 3, 4, generator=generator, dtype=torch.float64)
    weights = torch.rand(shape[:-3], generator=generator, dtype=torch.float64)
    found, expected = [], []
    for results, family in ((found, head_of("unit", shape=(1, 3, 4)).distribution), (expected, None)):
        logits, value = raw.clone().requires_grad_(), x.clone().requires_grad_()
        each = family(logits.unsqueeze(-4), -4) if family else torch.distributions.Bernoulli(logits=logits)
        log_prob = (
            each.log_prob(value)
            if family
            else -torch.nn.functional.binary_cross_entropy_with_logits(logits, value.expand(shape), reduction="none")
        )
        (weights * log_prob.sum((-3, -2, -1))).sum().backward()
        results += [log_prob, logits.grad, value.grad]
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_gaussian_with_a_fixed_std() -> None:
    torch.manual_seed(0)
    head = head_of("real", std=0.3)
    raw, x = raw_for(head, 4), torch.randn(4, *SHAPE)
    expected = scipy.stats.norm.logpdf(x.numpy(), raw.numpy(), 0.3).sum(axis=(1, 2, 3))
    np.testing.assert_allclose(head(raw).log_prob(x).numpy(), expected, rtol=1e-5)
    assert head.parameters_per_value == 1
    assert list(head.parameters()) == []


def test_gaussian_with_one_learned_std_finds_the_noise() -> None:
    torch.manual_seed(0)
    head = head_of("real", shape=(50,), variance="learned", std=2.0)
    raw = torch.zeros(1, 50)
    assert head(raw).stddev[0, 0].item() == pytest.approx(2.0, abs=1e-5)
    x = 0.25 * torch.randn(200, 50)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        (-head(raw).log_prob(x).mean()).backward()
        optimiser.step()
    assert head(raw).stddev[0, 0].item() == pytest.approx(float(x.square().mean().sqrt()), rel=0.01)


def test_gaussian_with_a_predicted_std() -> None:
    torch.manual_seed(0)
    head = head_of("real", variance="predicted", std=0.5)
    assert head.parameters_per_value == 2
    assert torch.allclose(head(torch.zeros(1, 4, 3, 2)).stddev, torch.tensor(0.5))
    raw, x = raw_for(head, 4, scale=2), torch.randn(4, *SHAPE)
    mean, raw_std = raw[:, :2], raw[:, 2:]  # all means, then all deviations
    std = STD_FLOOR + torch.nn.functional.softplus(raw_std + math.log(math.expm1(0.5 - STD_FLOOR)))
    expected = Normal(mean, std).log_prob(x).sum((1, 2, 3))
    torch.testing.assert_close(head(raw).log_prob(x), expected)
    torch.testing.assert_close(head(raw).mean, mean)
    torch.testing.assert_close(head(torch.full((1, 4, 3, 2), -1e4)).stddev, torch.full((1, *SHAPE), STD_FLOOR))


@pytest.mark.parametrize("values", ["levels", "tokens"])
def test_categorical_equals_a_loop(values: str) -> None:
    torch.manual_seed(0)
    head = head_of(values, 5)
    assert head.parameters_per_value == 5
    raw, x = raw_for(head, 3), torch.randint(5, (3, *SHAPE)).float()
    logits = raw.reshape(3, 5, *SHAPE)  # all logits of level 0, then all of level 1, ...
    expected, means = torch.zeros(3), torch.zeros(3, *SHAPE)
    for b in range(3):
        for c, i, j in np.ndindex(*SHAPE):
            category = Categorical(logits=logits[b, :, c, i, j])
            expected[b] += category.log_prob(x[b, c, i, j])
            means[b, c, i, j] = (
                (category.probs * torch.arange(5)).sum() if values == "levels" else category.probs.argmax()
            )
    p = head(raw)
    torch.testing.assert_close(p.log_prob(x), expected)
    torch.testing.assert_close(p.mean, means)


def test_categorical_samples_have_the_right_frequencies() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 3)
    draws = Levels(logits, axis=-2).sample(torch.Size((20_000,)))
    assert draws.shape == (20_000, 2, 3)
    counts = torch.stack([(draws == k).float().mean(0) for k in range(4)], dim=1)
    assert (counts - logits.softmax(1)).abs().max() < 0.02  # five standard errors


def logistic_bins(location: float, scale: float, levels: int) -> np.ndarray:
    """(L,) probabilities of the bins, from scipy's logistic cdf: the slow twin."""
    edges = -1 + (2 * np.arange(1, levels) - 1) / (levels - 1)
    cdf = scipy.stats.logistic.cdf(edges, location, scale)
    return np.diff(np.concatenate([[0.0], cdf, [1.0]]))


@pytest.mark.parametrize("levels", [2, 5, 256])
@pytest.mark.parametrize(("location", "scale"), [(0.0, 0.5), (0.3, 0.05), (-0.9, 0.2), (1.4, 0.3), (0.0, 4.0)])
def test_discretised_bins_equal_scipy_and_sum_to_one(levels: int, location: float, scale: float) -> None:
    as_tensor = {"dtype": torch.float64}
    p = DiscretisedLogistic(torch.tensor(location, **as_tensor), torch.tensor(scale, **as_tensor), levels, levels - 1.0)
    probabilities = p.log_prob(torch.arange(levels, **as_tensor)).exp().numpy()
    np.testing.assert_allclose(probabilities, logistic_bins(location, scale, levels), rtol=1e-7, atol=1e-15)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert p.mean.item() == pytest.approx(np.dot(probabilities, np.arange(levels)), abs=1e-9)


def test_discretised_sums_to_one_in_single_precision_for_any_decoder_output() -> None:
    torch.manual_seed(0)
    head = head_of("levels", 16, shape=(6,), kind="discretised")
    raw = raw_for(head, 40, scale=4)
    total = sum(torch.exp(elementwise_log_prob(head(raw), torch.full((40, 6), float(k)))) for k in range(16))
    torch.testing.assert_close(total, torch.ones(40, 6), rtol=0, atol=2e-5)


def test_discretised_head_layout_scale_and_units() -> None:
    torch.manual_seed(0)
    levels, unit = head_of("levels", 256, kind="discretised"), head_of("unit", kind="discretised")
    raw, x = raw_for(unit, 3), torch.randint(256, (3, *SHAPE)).float()
    # The same bins, whether named 0 .. 255 or 0 .. 1; a value between two bins belongs to the nearer one.
    torch.testing.assert_close(levels(raw).log_prob(x), unit(raw).log_prob(x / 255))
    torch.testing.assert_close(levels(raw).log_prob(x), unit(raw).log_prob(((x + 0.3) / 255).clamp(max=1)))
    torch.testing.assert_close(levels(raw).mean, 255 * unit(raw).mean)
    expected = 0.0
    scale = STD_FLOOR + np.logaddexp(0, raw[0, 2:].double().numpy())
    for position in np.ndindex(*SHAPE):
        bins = logistic_bins(raw[0, :2].double().numpy()[position], scale[position], 256)
        expected += math.log(bins[int(x[0][position])])
    assert levels(raw).log_prob(x)[0].item() == pytest.approx(expected, rel=1e-4)


def test_discretised_tails_keep_their_gradient() -> None:
    """The difference of two sigmoids would be log 0 here."""
    head = head_of("unit", shape=(3,), kind="discretised")
    raw = torch.tensor([[-1.0, 1.0, 0.0, -20.0, -20.0, -20.0]], requires_grad=True)
    log_prob = head(raw).log_prob(torch.tensor([[1.0, 0.0, 0.7]]))
    log_prob.sum().backward()
    assert torch.isfinite(log_prob).all()
    assert raw.grad is not None
    assert torch.isfinite(raw.grad).all()
    assert raw.grad[0, 0] > 0 > raw.grad[0, 1]  # towards the data
    # In the tail log p falls with slope 1 / scale.
    assert raw.grad[0, 0].item() == pytest.approx(1 / STD_FLOOR, rel=1e-3)


def test_discretised_samples_have_the_right_frequencies() -> None:
    torch.manual_seed(0)
    p = DiscretisedLogistic(torch.tensor([-0.8, 0.1]), torch.tensor([0.3, 0.2]), 5, 1.0)
    draws = p.sample(torch.Size((20_000,)))
    for column, (location, scale) in enumerate([(-0.8, 0.3), (0.1, 0.2)]):
        counts = [(draws[:, column] == k / 4).float().mean().item() for k in range(5)]
        np.testing.assert_allclose(counts, logistic_bins(location, scale, 5), atol=0.02)


@pytest.mark.parametrize(
    ("values", "levels", "kind"),
    [
        ("binary", None, "bernoulli"),
        ("unit", None, "bernoulli"),
        ("real", None, "gaussian"),
        ("levels", 5, "categorical"),
        ("tokens", 5, "categorical"),
    ],
)
def test_auto(values: str, levels: int | None, kind: str) -> None:
    assert head_of(values, levels).kind == kind


@pytest.mark.parametrize(
    ("values", "kind", "named"),
    [
        ("real", "bernoulli", ("any real numbers", "likelihood.kind=gaussian")),
        ("unit", "categorical", ("values in [0, 1]", "likelihood.kind=bernoulli or gaussian or discretised")),
        ("real", "discretised", ("any real numbers", "likelihood.kind=gaussian")),
        ("levels", "bernoulli", ("whole numbers 0 .. 4", "gaussian or categorical or discretised")),
        ("tokens", "gaussian", ("word numbers 0 .. 4", "likelihood.kind=categorical")),
    ],
)
def test_data_outside_the_support_are_refused(values: str, kind: str, named: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        head_of(values, 5 if values in ("levels", "tokens") else None, kind=kind)
    message = str(caught.value)
    for part in (kind, repr(values), *named):
        assert part in message
    assert "\n" not in message


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"counts.*set likelihood\.kind=gaussian"):
        head_of("counts")
    assert head_of("counts", kind="gaussian").kind == "gaussian"
    with pytest.raises(ConfigError, match="belong to the gaussian likelihood, and this one is bernoulli"):
        head_of("unit", variance="learned")
    with pytest.raises(ConfigError, match="belong to the gaussian"):
        head_of("levels", 4, std=0.5)
    with pytest.raises(ConfigError, match="got levels=None"):
        head_of("levels")
    with pytest.raises(ConfigError, match=r"starts above 0\.001"):
        Likelihood(variance="learned", std=0.001)
    with pytest.raises(ConfigError, match="'std'"):
        Likelihood(std=0)
    with pytest.raises(ConfigError, match="should be 'auto', 'bernoulli', 'gaussian'"):
        Likelihood(kind="gausian")


@pytest.mark.parametrize(
    ("values", "levels", "settings", "wrong", "parts"),
    [
        ("unit", None, {}, 1.3, ("1.3", "bernoulli", "from 0 to 1", "rescale", "likelihood.kind=gaussian")),
        ("binary", None, {}, -0.25, ("-0.25", "bernoulli")),
        ("levels", 5, {}, 5.0, ("5", "categorical", "whole numbers from 0 to 4")),
        ("levels", 5, {}, 2.5, ("2.5", "categorical", "quantise")),
        ("unit", None, {"kind": "discretised"}, 17.0, ("17", "discretised", "from 0 to 1")),
        ("levels", 5, {"kind": "discretised"}, 0.5, ("0.5", "whole numbers")),
        ("real", None, {}, math.nan, ("nan", "missing")),
        ("unit", None, {}, math.inf, ("inf", "infinite")),
    ],
)
def test_observations_outside_the_support(
    values: str, levels: int | None, settings: dict[str, Any], wrong: float, parts: tuple[str, ...]
) -> None:
    head = head_of(values, levels, **settings)
    x = torch.ones(3, *SHAPE)
    check_values(x, head)
    check_values(x.to(torch.uint8), head)
    x[1, 0, 2, 1] = wrong
    with pytest.raises(DataError) as caught:
        check_values(x, head)
    for part in parts:
        assert part in str(caught.value)


def test_decoder_output_of_another_shape_is_refused() -> None:
    head = head_of("real", variance="predicted")
    with pytest.raises(ShapeError, match=r"gaussian.*\(5, 2, 3, 2\): expected \(\.\.\., 4, 3, 2\), 2 parameter"):
        head(torch.zeros(5, 2, 3, 2))


def test_settings_survive_json() -> None:
    likelihood = Likelihood(kind="gaussian", variance="learned", std=0.1)
    assert Likelihood.from_dict(likelihood.to_dict()) == likelihood
