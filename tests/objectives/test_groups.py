"""Group posteriors against densities multiplied on a grid, loops over members, and closed forms."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from unweave.base.errors import ShapeError
from unweave.base.normals import product_of_normals as product_of_arrays
from unweave.core.distributions import centre, normal, spread, standard_normal
from unweave.core.trace import Trace
from unweave.objectives.elbo import kl
from unweave.objectives.groups import GroupMixture, Shared, group_sizes, group_weights, product_of_normals

GROUP = torch.tensor([0, 1, 1, 0, 2, 1])


@pytest.fixture
def members():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    std = torch.exp(torch.randn(6, 3, generator=generator, dtype=torch.float64))
    return mean, std


def test_product_is_the_densities_multiplied_and_normalised(members):
    mean, std = members
    group_mean, group_std = product_of_normals(mean, std, GROUP)
    grid = torch.linspace(-40, 40, 400_001, dtype=torch.float64)
    step = float(grid[1] - grid[0])
    for g in range(3):
        for d in range(3):
            log_product = sum(Normal(mean[i, d], std[i, d]).log_prob(grid) for i in range(6) if GROUP[i] == g)
            density = (log_product - log_product.max()).exp()
            density = density / (density.sum() * step)
            expected = Normal(group_mean[g, d], group_std[g, d]).log_prob(grid).exp()
            torch.testing.assert_close(density, expected, rtol=1e-8, atol=1e-8)


def test_product_against_loops(members):
    mean, std = members
    group_mean, group_std = product_of_normals(mean, std, GROUP)
    for g in range(3):
        for d in range(3):
            precision = sum(1 / float(std[i, d]) ** 2 for i in range(6) if GROUP[i] == g)
            weighted = sum(float(mean[i, d]) / float(std[i, d]) ** 2 for i in range(6) if GROUP[i] == g)
            assert float(group_mean[g, d]) == pytest.approx(weighted / precision, rel=1e-12)
            assert float(group_std[g, d]) == pytest.approx(precision**-0.5, rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4, 16, 1024])
def test_variance_falls_as_one_over_k(k):
    for single in (0.5, 1.0, 2.0):  # powers of two: the law holds to the last digit
        mean, std = torch.full((k, 1), 0.75), torch.full((k, 1), single)
        group_mean, group_std = product_of_normals(mean, std, torch.zeros(k, dtype=torch.long))
        assert group_mean.item() == 0.75
        assert group_std.item() ** 2 == pytest.approx(single**2 / k, rel=3e-7)
    exact = product_of_normals(mean.double(), std.double(), torch.zeros(k, dtype=torch.long))[1]
    assert exact.item() ** 2 == pytest.approx(4 / k, rel=1e-14)


@pytest.mark.parametrize("log_variance", [-20.0, -16.0, 0.0, 12.0])
def test_ten_thousand_members_in_single_precision(log_variance):
    rng = np.random.default_rng(0)
    count, scale = 10_000, math.exp(log_variance / 2)
    std = (scale * np.exp(rng.normal(size=(count, 2)))).astype(np.float32)
    mean = (3 + std * rng.normal(size=(count, 2))).astype(np.float32)
    group = torch.zeros(count, dtype=torch.long)
    group_mean, group_std = product_of_normals(torch.from_numpy(mean), torch.from_numpy(std), group)
    for d in range(2):
        precision = math.fsum(1 / float(s) ** 2 for s in std[:, d])
        exact = math.fsum(float(m) / float(s) ** 2 for m, s in zip(mean[:, d], std[:, d], strict=True)) / precision
        assert group_std[0, d].item() == pytest.approx(precision**-0.5, rel=1e-4)
        # to within rounding of the mean itself to single precision, or a hundredth of the posterior
        assert abs(group_mean[0, d].item() - exact) < max(1e-6, 0.01 * precision**-0.5)


def test_members_of_unlike_certainty_neither_overflow_nor_vanish():
    std = torch.tensor([[1e-8], [1e-8], [1e8], [1e8]])
    mean = torch.tensor([[2.0], [2.0], [-5.0], [5.0]])
    group_mean, group_std = product_of_normals(mean, std, torch.tensor([0, 1, 0, 2]))
    torch.testing.assert_close(group_mean[:, 0], torch.tensor([2.0, 2.0, 5.0]))
    torch.testing.assert_close(group_std[:, 0], torch.tensor([1e-8, 1e-8, 1e8]))
    mean, std = mean.requires_grad_(), std.requires_grad_()
    sum(part.sum() for part in product_of_normals(mean, std, torch.tensor([0, 1, 0, 2]))).backward()
    assert torch.isfinite(mean.grad).all()
    assert torch.isfinite(std.grad).all()


def test_gradient_of_the_product(members):
    mean, std = (part.clone().requires_grad_() for part in members)
    assert torch.autograd.gradcheck(lambda m, s: product_of_normals(m, s, GROUP), (mean, std))


def test_order_of_rows_and_leading_axes_change_nothing(members):
    mean, std = members
    expected = product_of_normals(mean, std, GROUP)
    shuffled = torch.tensor([5, 2, 0, 4, 3, 1])
    for got, want in zip(product_of_normals(mean[shuffled], std[shuffled], GROUP[shuffled]), expected, strict=True):
        torch.testing.assert_close(got, want)
    stacked = product_of_normals(torch.stack([mean, 2 * mean]), torch.stack([std, std]), GROUP)
    torch.testing.assert_close(stacked[0][1], 2 * expected[0])
    torch.testing.assert_close(stacked[1][1], expected[1])


def test_arrays_and_tensors_agree(members):
    mean, std = members
    rows = [1, 2, 5]
    got_mean, got_std = product_of_arrays(mean.numpy()[rows], std.numpy()[rows])
    want_mean, want_std = product_of_normals(mean, std, GROUP)
    np.testing.assert_allclose(got_mean, want_mean[1], rtol=1e-12)
    np.testing.assert_allclose(got_std, want_std[1], rtol=1e-12)
    stacked = product_of_arrays(mean.numpy().reshape(2, 3, 3), std.numpy().reshape(2, 3, 3))
    np.testing.assert_allclose(stacked[0][1], product_of_arrays(mean.numpy()[3:], std.numpy()[3:])[0])


def test_arrays_without_spreads_are_averaged():
    spreads = np.array([[1.0, np.nan], [2.0, np.nan]])
    mean, spread_ = product_of_arrays(np.array([[0.0, 1.0], [5.0, 4.0]]), spreads)
    np.testing.assert_allclose(mean, [1.0, 2.5])
    np.testing.assert_allclose(spread_, [0.8**0.5, np.nan])


def test_shared_draws_are_equal_within_a_group_and_differ_between(members):
    q = Shared(normal(*product_of_normals(*members, GROUP)), GROUP)
    torch.manual_seed(0)
    for shape in ((), (4,)):
        drawn = q.rsample(shape)
        assert drawn.shape == (*shape, 6, 3)
        for i in range(6):
            for j in range(6):
                assert torch.equal(drawn[..., i, :], drawn[..., j, :]) == bool(GROUP[i] == GROUP[j])


def test_shared_is_the_normal_of_its_rows(members):
    group_mean, group_std = product_of_normals(*members, GROUP)
    q = Shared(normal(group_mean, group_std), GROUP)
    rows = normal(group_mean[GROUP], group_std[GROUP])
    value = torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(q.log_prob(value), rows.log_prob(value))
    torch.testing.assert_close(centre(q), group_mean[GROUP])
    torch.testing.assert_close(spread(q), group_std[GROUP])
    p = standard_normal(3, like=group_mean)
    torch.testing.assert_close(kl_divergence(q, p), kl_divergence(rows, p))
    assert q.expand((2, 6)).rsample().shape == (2, 6, 3)
    torch.manual_seed(0)
    many = q.rsample((20_000,))
    assert ((many.mean(0) - group_mean[GROUP]).abs() < 5 * group_std[GROUP] / math.sqrt(20_000)).all()
    torch.testing.assert_close(many.std(0), group_std[GROUP], atol=0, rtol=0.03)


@pytest.mark.parametrize("samples", [None, 3])
def test_traces_take_group_distributions(members, samples):
    for posterior in (
        Shared(normal(*product_of_normals(*members, GROUP)), GROUP),
        GroupMixture(normal(*members), GROUP),
        GroupMixture(normal(*members), GROUP, shared=True),
    ):
        q = Trace(rows=6, samples=samples)
        q.sample("c", posterior)
        p = Trace(q.as_given(), rows=6, samples=samples)
        p.sample("c", standard_normal(3, like=members[0]))
        divergence = kl(q, p, "c", estimator="auto")
        shape = (6,) if isinstance(posterior, Shared) or samples is None else (3, 6)
        assert divergence.shape == shape
        assert torch.isfinite(divergence).all()


def test_mixture_density_against_loops(members):
    mean, std = members
    q = GroupMixture(normal(mean, std), GROUP)
    value = torch.randn(2, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    got = q.log_prob(value)
    for s in range(2):
        for b in range(6):
            of = [i for i in range(6) if GROUP[i] == GROUP[b]]
            density = sum(math.exp(float(Normal(mean[i], std[i]).log_prob(value[s, b]).sum())) for i in of) / len(of)
            assert float(got[s, b]) == pytest.approx(math.log(density), rel=1e-12)


def test_mixture_of_far_members_stays_finite():
    mean, std = torch.tensor([[0.0], [1000.0], [5.0]]), torch.full((3, 1), 1e-3)
    mean.requires_grad_()
    log_prob = GroupMixture(normal(mean, std), torch.tensor([0, 0, 1])).log_prob(torch.tensor([[0.0], [1000.0], [5.0]]))
    expected = Normal(0.0, 1e-3).log_prob(torch.tensor(0.0))
    torch.testing.assert_close(log_prob, torch.stack([expected - math.log(2), expected - math.log(2), expected]))
    log_prob.sum().backward()
    assert torch.isfinite(mean.grad).all()


@pytest.mark.parametrize("shared", [False, True])
def test_mixture_draws_have_its_moments(members, shared):
    mean, std = members
    q = GroupMixture(normal(mean, std), GROUP, shared)
    torch.manual_seed(0)
    drawn = q.rsample((100_000,))
    for b in range(6):
        of = [i for i in range(6) if GROUP[i] == GROUP[b]]
        first = mean[of].mean(0)
        second = (std[of] ** 2 + mean[of] ** 2).mean(0)
        torch.testing.assert_close(q.mean[b], first)
        torch.testing.assert_close(q.variance[b], second - first**2)
        error = 5 * q.stddev[b] / 300
        assert ((drawn[:, b].mean(0) - first).abs() < error).all()
        torch.testing.assert_close(drawn[:, b].std(0), q.stddev[b], rtol=0.03, atol=0)
    same = torch.equal(drawn[:, 1], drawn[:, 2])
    assert same == shared


def test_mixture_gradient_through_draws_is_that_of_the_expectation(members):
    mean, std = (part.clone().requires_grad_() for part in members)
    torch.manual_seed(0)
    drawn = GroupMixture(normal(mean, std), GROUP).rsample((100_000,))
    (drawn[:, 1] ** 2).sum(-1).mean().backward()
    # E[c^2] of group 1 is the mean over its three members of m^2 + s^2
    weight = (GROUP == 1).double()[:, None] / 3
    torch.testing.assert_close(mean.grad, 2 * members[0] * weight, atol=0.05, rtol=0)
    torch.testing.assert_close(std.grad, 2 * members[1] * weight, atol=0.05, rtol=0.05)


def test_sampled_divergence_of_a_mixture_tends_to_the_integral():
    mean, std = torch.tensor([[-1.0], [2.0]], dtype=torch.float64), torch.tensor([[0.5], [0.8]], dtype=torch.float64)
    q = GroupMixture(normal(mean, std), torch.tensor([0, 0]))
    grid = torch.linspace(-15, 15, 60_001, dtype=torch.float64)
    log_q = torch.stack([Normal(m, s).log_prob(grid) for m, s in zip(mean, std, strict=True)]).logsumexp(0) - math.log(
        2
    )
    exact = (log_q.exp() * (log_q - Normal(0.0, 1.0).log_prob(grid))).sum() * (grid[1] - grid[0])
    torch.manual_seed(0)
    drawn = q.rsample((50_000,))
    sampled = q.log_prob(drawn) - Normal(0.0, 1.0).log_prob(drawn).sum(-1)
    assert abs(sampled.mean() - exact) < 5 * sampled.std() / math.sqrt(sampled.numel())


def test_a_mixture_of_one_is_that_one(members):
    mean, std = members
    alone = torch.arange(6)
    value = torch.zeros(6, 3, dtype=torch.float64)
    torch.testing.assert_close(
        GroupMixture(normal(mean, std), alone).log_prob(value), normal(mean, std).log_prob(value)
    )
    torch.testing.assert_close(product_of_normals(mean, std, alone), (mean, std))


def test_weights_give_means_over_groups():
    cost = torch.tensor([5.0, 1.0, 7.0], dtype=torch.float64)
    weighted = group_weights(GROUP, torch.float64) * cost[GROUP]
    assert weighted.mean().item() == pytest.approx(13 / 3, rel=1e-14)
    assert group_sizes(GROUP).tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (torch.tensor([0, 2, 2]), "group 1 has no member"),
        (torch.tensor([0, -1, 1]), "is negative"),
        (torch.tensor([0.0, 1.0, 1.0]), "one whole number per row"),
        (torch.tensor([[0, 1, 1]]), "one whole number per row"),
        (torch.tensor([0, 1]), "not of 2 rows"),
    ],
)
def test_bad_groups_are_refused(group, words):
    with pytest.raises(ShapeError, match=words):
        product_of_normals(torch.zeros(3, 2), torch.ones(3, 2), group)


def test_only_normals_accumulate():
    with pytest.raises(ShapeError, match="accumulates over normals"):
        Shared(Normal(torch.zeros(3), torch.ones(3)), torch.tensor([0, 1, 2]))
