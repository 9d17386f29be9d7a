"""The Concrete distribution against torch's own and against its normalisation; elements, centre, spread."""

import math

import pytest
import torch
from torch.distributions import (
    Categorical,
    Independent,
    MultivariateNormal,
    Normal,
    OneHotCategorical,
    RelaxedOneHotCategorical,
)

from unweave.core.distributions import (
    Concrete,
    Delta,
    FewPassNormal,
    centre,
    elementwise_log_prob,
    normal,
    spread,
    standard_normal,
)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_concrete_density_equals_torchs(temperature):
    torch.manual_seed(0)
    logits = torch.randn(7, 4, dtype=torch.float64)
    ours = Concrete(temperature, logits)
    value = ours.rsample((5,))
    theirs = RelaxedOneHotCategorical(torch.tensor(temperature, dtype=torch.float64), logits=logits)
    torch.testing.assert_close(ours.log_prob(value), theirs.log_prob(value))


def test_concrete_density_integrates_to_one():
    # Two categories: the simplex is an interval, and the integral a sum over a fine grid.
    # Substituting sigmoid(t) for the first coordinate keeps the ends, where the density is steep, well resolved.
    t = torch.linspace(-40, 40, 20_001, dtype=torch.float64)
    grid = t.sigmoid()
    value = torch.stack([grid, (-t).sigmoid()], -1)
    density = Concrete(0.7, torch.tensor([0.3, -0.4], dtype=torch.float64)).log_prob(value).exp()
    assert torch.trapezoid(density * grid * (-t).sigmoid(), t).item() == pytest.approx(1.0, abs=1e-8)


def test_concrete_category_frequencies():
    torch.manual_seed(0)
    probabilities = torch.tensor([0.1, 0.2, 0.7])
    draws = Concrete(0.1, probabilities.log()).rsample((40_000,)).argmax(-1)
    torch.testing.assert_close(draws.bincount(minlength=3) / 40_000, probabilities, atol=0.01, rtol=0)


def test_concrete_stays_finite_when_coordinates_underflow():
    torch.manual_seed(0)
    logits = torch.randn(64, 10, requires_grad=True)
    distribution = Concrete(0.01, logits)
    value = distribution.rsample()
    assert (value == 0).any()  # the hard case is there
    log_prob = distribution.log_prob(value)
    log_prob.sum().backward()
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(logits.grad).all()


def test_concrete_expands_like_any_distribution():
    wide = Concrete(0.5, torch.zeros(3)).expand(torch.Size((4,)))
    assert wide.batch_shape == (4,)
    assert wide.rsample().shape == (4, 3)


@pytest.mark.parametrize(
    ("distribution", "elements"),
    [
        (normal(torch.randn(6, 3), 0.5), 3),
        (Concrete(0.5, torch.randn(6, 4)), 1),
        (Categorical(logits=torch.randn(6, 4)), 1),
        (MultivariateNormal(torch.randn(6, 2), torch.eye(2)), 1),
        (Independent(Normal(torch.zeros(6, 2, 3), 1.0), 2), 6),
    ],
)
def test_elements_sum_to_the_log_probability(distribution, elements):
    value = distribution.sample()
    parts = elementwise_log_prob(distribution, value)
    assert parts.shape == (6, elements)
    torch.testing.assert_close(parts.sum(-1), distribution.log_prob(value))


def test_centre_and_spread():
    d = normal(torch.full((2, 3), 1.5), 0.25)
    assert torch.equal(centre(d), torch.full((2, 3), 1.5))
    assert torch.equal(spread(d), torch.full((2, 3), 0.25))
    assert spread(Concrete(0.5, torch.zeros(2, 3))) is None


def test_the_centre_has_the_shape_of_a_draw():
    logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]])
    for distribution in (Categorical(logits=logits), Independent(Categorical(logits=logits), 1)):
        assert centre(distribution).tolist() == [1, 0]
        assert centre(distribution).shape == distribution.sample().shape
    torch.testing.assert_close(centre(OneHotCategorical(logits=logits)), logits.softmax(-1))


def test_delta_is_its_value():
    value = torch.randn(4, 3, requires_grad=True)
    delta = Delta(value)
    assert delta.batch_shape == (4,)
    assert torch.equal(delta.rsample((2,)), value.expand(2, 4, 3))
    assert torch.equal(centre(delta), value)
    assert spread(delta) is None
    assert delta.log_prob(value).tolist() == [0.0] * 4
    other = value.detach().clone()
    other[1, 2] += 1
    assert delta.log_prob(other).tolist() == [0.0, -math.inf, 0.0, 0.0]
    delta.rsample().sum().backward()
    assert torch.equal(value.grad, torch.ones(4, 3))
    assert Delta(torch.zeros(3)).expand(torch.Size((5,))).rsample().shape == (5, 3)


def test_standard_normal_density():
    assert standard_normal(2).log_prob(torch.zeros(2)).item() == pytest.approx(-math.log(2 * math.pi))


@pytest.mark.parametrize("shapes", [((4, 3), (4, 3)), ((4, 3), ()), ((4, 3), (3,)), ((), (4, 3)), ((4, 1), (3,))])
@pytest.mark.parametrize("expanded", [False, True])
def test_normal_in_few_passes_is_torchs(shapes, expanded):
    torch.manual_seed(0)
    loc, scale = (torch.rand(shape, dtype=torch.float64).add(0.5).requires_grad_() for shape in shapes)
    value = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    ours, theirs = FewPassNormal(loc, scale, validate_args=False), torch.distributions.Normal(loc, scale)
    if expanded:
        ours, theirs = ours.expand((2, 4, 3)), theirs.expand((2, 4, 3))
    assert ours.batch_shape == theirs.batch_shape
    assert torch.equal(ours.variance, theirs.variance)
    torch.testing.assert_close(ours.log_prob(value), theirs.log_prob(value))
    for found, expected in zip(
        *(torch.autograd.grad(each.log_prob(value).square().sum(), [loc, scale, value]) for each in (ours, theirs)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)
    other = FewPassNormal(2 * loc, 3 * scale, validate_args=False)
    expected = torch.distributions.kl_divergence(theirs, torch.distributions.Normal(2 * loc, 3 * scale))
    torch.testing.assert_close(torch.distributions.kl_divergence(ours, other), expected)
