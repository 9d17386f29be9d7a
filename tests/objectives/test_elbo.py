"""The evidence lower bound: closed forms against sampling, and errors that say what to do."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, MultivariateNormal

from unweave.base.errors import ConfigError, UnknownNameError, UnweaveError
from unweave.core.distributions import Concrete, normal, standard_normal
from unweave.core.trace import Trace
from unweave.objectives.elbo import kl, kl_elements, reconstruction, sampled_kl


def run(samples: int | None = None, rows: int = 5) -> tuple[Trace, Trace, list[Tensor]]:
    """Traces q and p with a normal block "style" (3 dims) and a Concrete block "digit" (4 categories)."""
    torch.manual_seed(0)
    mean = torch.randn(rows, 3, dtype=torch.float64, requires_grad=True)
    log_std = torch.randn(rows, 3, dtype=torch.float64).mul(0.3).requires_grad_()
    logits = torch.randn(rows, 4, dtype=torch.float64, requires_grad=True)
    q = Trace(rows=rows, samples=samples)
    q.sample("style", normal(mean, log_std.exp()))
    q.sample("digit", Concrete(0.7, logits))
    p = Trace(q.as_given(x=torch.zeros(rows, 2, dtype=torch.float64)), rows=rows, samples=samples)
    style = p.sample("style", standard_normal(3, like=mean))
    p.sample("digit", Concrete(0.7, torch.zeros(4, dtype=torch.float64)))
    p.sample("x", normal(style[..., :2], 0.5))
    return q, p, [mean, log_std, logits]


def test_analytic_kl_is_the_textbook_formula() -> None:
    q, p, (mean, log_std, _) = run()
    expected = 0.5 * (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std)
    torch.testing.assert_close(kl_elements(q, p, "style"), expected)
    torch.testing.assert_close(kl(q, p, "style"), expected.sum(-1))


def test_sampled_kl_agrees_with_the_analytic_one_on_average() -> None:
    q, p, _ = run(samples=40_000)
    sampled = sampled_kl(q, p, "style")
    error = sampled.std(0) / math.sqrt(len(sampled))
    assert sampled.shape == (40_000, 5)
    assert torch.all((sampled.mean(0) - kl(q, p, "style")).abs() < 4 * error)


def test_sampled_kl_is_the_difference_of_log_probabilities_of_all_shared_sites() -> None:
    q, p, _ = run()
    assert "x" not in q
    torch.testing.assert_close(sampled_kl(q, p), q.log_prob("style", "digit") - p.log_prob("style", "digit"))


def test_auto_samples_only_where_there_is_no_closed_form() -> None:
    q, p, _ = run()
    torch.testing.assert_close(kl(q, p, estimator="auto"), kl(q, p, "style") + sampled_kl(q, p, "digit"))


def test_concrete_has_no_closed_form_and_the_error_says_what_to_do() -> None:
    q, p, _ = run()
    with pytest.raises(ConfigError, match=r"site 'digit' has no closed-form KL.*estimator='sampled'"):
        kl(q, p)


def test_categorical_kl_is_the_enumerated_sum() -> None:
    probs = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], dtype=torch.float64)
    q, p = Trace(rows=2), Trace(rows=2)
    q.sample("y", Categorical(probs=probs))
    p.sample("y", Categorical(probs=torch.full((3,), 1 / 3, dtype=torch.float64)))
    expected = [sum(v * math.log(3 * v) for v in row) for row in probs.tolist()]
    torch.testing.assert_close(kl(q, p), torch.tensor(expected, dtype=torch.float64))


def test_correlated_normal_prior_has_a_closed_form() -> None:
    q, _, (mean, log_std, _) = run()
    factor = torch.tensor([[1.0, 0, 0], [0.5, 1.0, 0], [-0.3, 0.2, 0.8]], dtype=torch.float64)
    covariance = factor @ factor.T
    p = Trace(q.as_given(), rows=5)
    p.sample("style", MultivariateNormal(torch.zeros(3, dtype=torch.float64), covariance))
    variance = (2 * log_std).exp()
    precision = covariance.inverse()
    for b in range(5):
        trace = (precision @ torch.diag(variance[b])).trace()
        expected = 0.5 * (trace + mean[b] @ precision @ mean[b] - 3 + covariance.logdet() - variance[b].log().sum())
        torch.testing.assert_close(kl(q, p, "style")[b], expected)


def test_elements_of_a_block_with_two_axes_are_flat() -> None:
    mean = torch.arange(24.0).reshape(2, 3, 4)
    q, p = Trace(rows=2), Trace(rows=2)
    q.sample("entity", torch.distributions.Independent(torch.distributions.Normal(mean, 1.0), 2))
    p.sample("entity", torch.distributions.Independent(torch.distributions.Normal(torch.zeros(3, 4), 1.0), 2))
    torch.testing.assert_close(kl_elements(q, p, "entity"), mean.reshape(2, 12).square() / 2)


def test_a_posterior_that_ignores_x_still_has_one_cost_per_row() -> None:
    q, p = Trace(rows=6), Trace(rows=6)
    q.sample("z", normal(torch.ones(2), 1.0))
    p.sample("z", standard_normal(2))
    torch.testing.assert_close(kl(q, p), torch.ones(6))
    assert kl_elements(q, p, "z").shape == (6, 2)


def many_sites(samples: int | None = None) -> tuple[Trace, Trace, list[Tensor]]:
    """Five factorised normals of one shape in q and in p, as the steps of a sequence are."""
    torch.manual_seed(1)
    parameters = [torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True) for _ in range(10)]
    q = Trace(rows=4, samples=samples)
    for t, (mean, log_std) in enumerate(parameters[:5]):
        q.sample(f"z[{t}]", normal(mean, log_std.exp()))
    p = Trace(q.as_given(), rows=4, samples=samples)
    for t, (mean, log_std) in enumerate(parameters[5:]):
        p.sample(f"z[{t}]", normal(mean, log_std.exp()))
    return q, p, parameters


def test_kl_of_many_sites_is_the_sum_of_each() -> None:
    q, p, parameters = many_sites()
    together, apart = kl(q, p), sum(kl(q, p, f"z[{t}]") for t in range(5))
    torch.testing.assert_close(together, apart)
    assert together.shape == (4,)
    for found, expected in zip(
        torch.autograd.grad(together.square().sum(), parameters, retain_graph=True),
        torch.autograd.grad(apart.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)


def test_kl_of_sites_that_are_not_alike_is_the_sum_of_each() -> None:
    q, p, _ = many_sites()
    q.sample("w", normal(torch.ones(4, 2, dtype=torch.float64), 0.5))  # of another size
    p.sample("w", standard_normal(2, like=torch.zeros((), dtype=torch.float64)))  # without a batch axis
    torch.testing.assert_close(kl(q, p), kl(q, p, "w") + sum(kl(q, p, f"z[{t}]") for t in range(5)))
    wide = torch.arange(24.0).reshape(2, 3, 4)
    q, p = Trace(rows=2), Trace(rows=2)
    for name in ("a", "b"):  # normals whose event has two axes
        q.sample(name, torch.distributions.Independent(normal(wide, 1.0).base_dist, 2))
        p.sample(name, torch.distributions.Independent(normal(torch.zeros_like(wide), 1.0).base_dist, 2))
    torch.testing.assert_close(kl(q, p), wide.square().sum((1, 2)))


def test_sites_of_different_sizes_in_q_and_p_are_refused() -> None:
    q, p = Trace(rows=4), Trace(rows=4)
    for name in ("a", "b"):
        q.sample(name, normal(torch.zeros(4, 3), 1.0))
        p.sample(name, normal(torch.zeros(4, 1), 1.0))
    with pytest.raises(UnweaveError, match=r"event shape \(3,\), the prior \(1,\)"):
        kl(q, p)


def test_reconstruction_is_the_negative_log_likelihood() -> None:
    q, p, _ = run(samples=3)
    residual = (0 - q["style"][..., :2]) / 0.5
    expected = (0.5 * residual.square() + math.log(0.5 * math.sqrt(2 * math.pi))).sum(-1)
    torch.testing.assert_close(reconstruction(p), expected)
    assert reconstruction(p).shape == (3, 5)


def test_gradients_reach_the_encoder() -> None:
    q, p, parameters = run()
    for cost in (kl(q, p, estimator="auto"), sampled_kl(q, p)):
        for gradient in torch.autograd.grad(cost.sum(), parameters, retain_graph=True):
            assert torch.all(gradient != 0)


def test_other_values_in_p_than_in_q_are_refused() -> None:
    q, _, _ = run()
    p = Trace(rows=5)
    p.sample("style", standard_normal(3, like=q["style"]))
    with pytest.raises(UnweaveError, match="another value in p than in q"):
        sampled_kl(q, p)


def test_observed_sites_have_to_be_named() -> None:
    labels = {"y": torch.tensor([0, 1])}
    q, p = Trace(labels, rows=2), Trace(labels, rows=2)
    for trace in (q, p):
        trace.sample("y", Categorical(logits=torch.zeros(2, 3)))
    with pytest.raises(UnweaveError, match="observed in q"):
        kl(q, p)
    assert torch.equal(kl(q, p, "y"), torch.zeros(2))


def test_nothing_shared_unknown_sites_and_estimators_are_errors() -> None:
    q, p, _ = run()
    with pytest.raises(UnweaveError, match="no site that p has"):
        kl(q, Trace())
    with pytest.raises(UnknownNameError, match="did you mean 'style'"):
        kl(q, p, "stile")
    with pytest.raises(ConfigError, match="choose 'analytic'"):
        kl(q, p, estimator="exact")  # type: ignore[arg-type]
