"""The inference marginal against loops, against the whole data set, and against correlated Gaussians."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, MultivariateNormal

from unweave.base.errors import ConfigError, ShapeError, UnknownNameError, UnweaveError
from unweave.core.distributions import Concrete, normal
from unweave.core.trace import Trace
from unweave.objectives.marginals import (
    InferenceMarginal,
    Leaf,
    anchor_information,
    map_parameters,
    pairwise_log_prob,
)

STYLE = [Leaf("style", e) for e in range(3)]


def run(rows: int = 6, samples: int | None = None, dtype: torch.dtype = torch.float64) -> tuple[Trace, list[Tensor]]:
    """q with a normal block "style" (3 dims) and a Concrete block "digit" (4 categories), and its parameters."""
    torch.manual_seed(1)
    mean = torch.randn(rows, 3, dtype=dtype, requires_grad=True)
    std = (torch.rand(rows, 3, dtype=dtype) + 0.3).requires_grad_()
    logits = torch.randn(rows, 4, dtype=dtype, requires_grad=True)
    q = Trace(rows=rows, samples=samples)
    q.sample("style", normal(mean, std))
    q.sample("digit", Concrete(0.7, logits))
    return q, [mean, std, logits]


def density(z: float, mean: float, std: float) -> float:
    return math.exp(-0.5 * ((z - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))


def pair(q: Trace, b: int, other: int, elements: list[int]) -> float:
    """q(z_elements^b | x^other) of the style block, number by number."""
    base = q.site("style").distribution.base_dist
    product = 1.0
    for e in elements:
        product *= density(q["style"][b, e].item(), base.loc[other, e].item(), base.scale[other, e].item())
    return product


@pytest.mark.parametrize("elements", [[0], [1, 2], [0, 1, 2]])
def test_stratified_estimate_is_the_triple_loop(elements: list[int]) -> None:
    rows, size = 6, 50
    q, _ = run(rows)
    marginal = InferenceMarginal(q, ["style"], size)
    got = marginal.log_prob([STYLE[e] for e in elements])
    for b in range(rows):
        total = pair(q, b, b, elements) / size
        for other in range(rows):
            if other != b:
                total += (size - 1) / (size * (rows - 1)) * pair(q, b, other, elements)
        assert got[b].item() == pytest.approx(math.log(total), abs=1e-12)


@pytest.mark.parametrize("elements", [[2], [0, 1, 2]])
def test_weighted_estimate_is_the_loop(elements: list[int]) -> None:
    rows, size = 6, 50
    q, _ = run(rows)
    got = InferenceMarginal(q, ["style"], size, "weighted").log_prob([STYLE[e] for e in elements])
    for b in range(rows):
        total = sum(pair(q, b, other, elements) for other in range(rows)) / (size * rows)
        assert got[b].item() == pytest.approx(math.log(total), abs=1e-12)


def data_set_mixture(q: Trace, b: int) -> float:
    """log 1/N sum_n q(z^b | x_n) of both blocks together, with the batch as the data set."""
    rows = len(q["style"])
    digit = q.site("digit").distribution
    assert isinstance(digit, Concrete)
    total = 0.0
    for n in range(rows):
        concrete = Concrete(digit.temperature, digit.logits[n]).log_prob(q["digit"][b]).exp().item()
        total += pair(q, b, n, [0, 1, 2]) * concrete / rows
    return math.log(total)


def test_the_estimate_is_exact_when_the_batch_is_the_data_set() -> None:
    q, _ = run(rows=6)
    everything = [*STYLE, Leaf("digit")]
    stratified = InferenceMarginal(q, ["style", "digit"], 6).log_prob(everything)
    exact = InferenceMarginal(q, ["style", "digit"], estimator="exact").log_prob(everything)
    for b in range(6):
        assert stratified[b].item() == pytest.approx(data_set_mixture(q, b), abs=1e-12)
        assert exact[b].item() == pytest.approx(data_set_mixture(q, b), abs=1e-12)


def widespread_weights(rows: int, size: int) -> Tensor:
    """The weights of popular code: strides one short of the diagonal put each special weight into one column."""
    others = rows - 1
    weights = torch.full((rows, rows), 1 / others, dtype=torch.float64)
    weights[:, 0] = 1 / size
    weights[:, 1] = (size - others) / (size * others)
    weights[others - 1, 0] = (size - others) / (size * others)
    return weights


def test_widespread_weights_fail_where_ours_are_exact() -> None:
    q, _ = run(rows=6)
    marginal = InferenceMarginal(q, ["style", "digit"], 6)
    table = marginal.pairwise(marginal.leaves)
    wrong = (table + widespread_weights(6, 6).log()).logsumexp(-1)
    exact = torch.tensor([data_set_mixture(q, b) for b in range(6)], dtype=torch.float64)
    assert (wrong - exact).abs().max() > 0.05
    torch.testing.assert_close(marginal.log_prob(marginal.leaves), exact)


def test_the_own_weight_sits_on_the_diagonal() -> None:
    q, _ = run(rows=6)
    weights = InferenceMarginal(q, ["style"], 50).log_weights.exp()
    torch.testing.assert_close(weights.diagonal(), torch.full((6,), 1 / 50, dtype=torch.float64))
    torch.testing.assert_close(weights.sum(1), torch.ones(6, dtype=torch.float64))
    column = weights.clone()
    column[:, 0] = 1 / 50
    column[:, 1:] = weights[0, 1]
    marginal = InferenceMarginal(q, ["style"], 50)
    wrong = (marginal.pairwise(STYLE) + column.log()).logsumexp(-1)
    assert (wrong - marginal.log_prob(STYLE)).abs().max() > 0.05


def gaussian_total_correlation(covariance: Tensor) -> float:
    return 0.5 * (covariance.diagonal().log().sum() - covariance.logdet()).item()


def test_bias_on_correlated_gaussians_shrinks_with_the_batch() -> None:
    """x ~ N(0, C) and q(z|x) = N(x, s^2 I) give q(z) = N(0, C + s^2 I), whose total correlation is known."""
    std = 0.5
    covariance = torch.tensor([[1.0, 0.6, 0.3], [0.6, 1.0, 0.4], [0.3, 0.4, 1.0]], dtype=torch.float64)
    truth = gaussian_total_correlation(covariance + std**2 * torch.eye(3))
    factor = torch.linalg.cholesky(covariance)
    generator = torch.Generator().manual_seed(0)

    def bias(rows: int) -> float:
        estimates = []
        for _ in range(8192 // rows):
            x = torch.randn(rows, 3, dtype=torch.float64, generator=generator) @ factor.T
            q = Trace({"z": x + std * torch.randn(x.shape, dtype=torch.float64, generator=generator)}, rows=rows)
            q.sample("z", normal(x, std))
            marginal = InferenceMarginal(q, ["z"], 10**6)
            joint, single = marginal.log_prob([Leaf("z")]), marginal.log_prob_elements().sum(-1)
            estimates.append((joint - single).mean())
        return abs(torch.stack(estimates).mean().item() - truth)

    small, middle, large = bias(32), bias(128), bias(512)
    assert truth == pytest.approx(0.1904, abs=1e-4)
    assert middle < 0.6 * small
    assert large < 0.6 * middle
    assert large < 0.2 * truth


def test_log_prob_of_a_part_matches_single_elements_and_whole_sites() -> None:
    q, _ = run()
    marginal = InferenceMarginal(q, ["style", "digit"], 40)
    single = marginal.log_prob_elements()
    assert marginal.leaves == (*STYLE, Leaf("digit", 0))
    for column, leaf in enumerate(marginal.leaves):
        torch.testing.assert_close(marginal.log_prob([leaf]), single[:, column])
    torch.testing.assert_close(marginal.log_prob([Leaf("style")]), marginal.log_prob(STYLE))
    torch.testing.assert_close(marginal.log_prob([("style", 1)]), single[:, 1])  # type: ignore[list-item]


def test_conditional_is_the_posterior_and_the_diagonal_of_the_table() -> None:
    q, _ = run()
    marginal = InferenceMarginal(q, ["style", "digit"], 40)
    torch.testing.assert_close(marginal.conditional(marginal.leaves), q.log_prob("style", "digit"))
    torch.testing.assert_close(marginal.conditional(STYLE[1:]), marginal.pairwise(STYLE[1:]).diagonal())


def test_samples_are_treated_one_by_one() -> None:
    q, _ = run(samples=3)
    marginal = InferenceMarginal(q, ["style", "digit"], 40)
    assert marginal.log_prob_elements().shape == (3, 6, 4)
    got = marginal.log_prob(marginal.leaves)
    for s in range(3):
        one = Trace({name: q[name][s] for name in q.names}, rows=6)
        for name in q.names:
            one.sample(name, q.site(name).distribution)
        again = InferenceMarginal(one, ["style", "digit"], 40)
        torch.testing.assert_close(got[s], again.log_prob(again.leaves))


def test_any_distribution_will_do() -> None:
    """A multivariate normal is one element, a categorical one element, a block of two axes is flattened."""
    torch.manual_seed(0)
    q = Trace(rows=4)
    means = torch.randn(4, 2)
    q.sample("full", MultivariateNormal(means, torch.eye(2) + 0.5))
    q.sample("kind", Categorical(logits=torch.randn(4, 3)))
    q.sample("grid", torch.distributions.Independent(torch.distributions.Normal(torch.randn(4, 2, 3), 1.0), 2))
    q.sample("skewed", torch.distributions.Independent(torch.distributions.Laplace(torch.randn(4, 2), 1.0), 1))
    marginal = InferenceMarginal(q, q.names, 9)
    assert len(marginal.leaves) == 1 + 1 + 6 + 2
    table = marginal.pairwise([Leaf("full"), Leaf("kind"), Leaf("grid"), Leaf("skewed")])
    for b in range(4):
        for other in range(4):
            expected = MultivariateNormal(means[other], torch.eye(2) + 0.5).log_prob(q["full"][b])
            for name, kind in (("grid", torch.distributions.Normal), ("skewed", torch.distributions.Laplace)):
                loc = q.site(name).distribution.base_dist.loc[other]
                expected = expected + kind(loc, 1.0).log_prob(q[name][b]).sum()
            expected = expected + q.site("kind").distribution.logits[other, q["kind"][b]]
            torch.testing.assert_close(table[b, other], expected)


def test_single_precision_is_close_to_double_for_narrow_posteriors() -> None:
    torch.manual_seed(0)
    mean = 3 * torch.randn(32, 5)
    q32, q64 = Trace(rows=32), Trace(rows=32)
    q32.sample("z", normal(mean, 0.02))
    q64 = Trace({"z": q32["z"].double()}, rows=32)
    q64.sample("z", normal(mean.double(), 0.02))
    got, expected = (InferenceMarginal(q, ["z"], 1000).log_prob([Leaf("z")]) for q in (q32, q64))
    torch.testing.assert_close(got.double(), expected, atol=2e-3, rtol=0)


def test_anchor_information_of_a_part() -> None:
    q, parameters = run()
    marginal = InferenceMarginal(q, ["style", "digit"], 6)
    anchors = [Leaf("style", 0), Leaf("digit")]
    information = anchor_information(marginal, anchors)
    own = normal(*(parameter[:, :1] for parameter in parameters[:2])).log_prob(q["style"][:, :1])
    own = own + q.site("digit").log_prob
    torch.testing.assert_close(information, own - marginal.log_prob(anchors))
    assert torch.all(information <= math.log(6) + 1e-9)  # an example is never known better than by name
    assert all(g is not None for g in torch.autograd.grad(information.sum(), parameters))


def test_gradients_reach_the_encoder() -> None:
    q, parameters = run()
    marginal = InferenceMarginal(q, ["style", "digit"], 40)
    for cost in (marginal.log_prob(marginal.leaves), marginal.log_prob_elements()):
        for gradient in torch.autograd.grad(cost.sum(), parameters, retain_graph=True):
            assert torch.all(torch.isfinite(gradient))
            assert torch.any(gradient != 0)
    # log q(z|x) of a normal is the same wherever its mean is, so that only the standard deviations see it.
    of_mean, of_std = torch.autograd.grad(marginal.conditional(STYLE).sum(), parameters[:2])
    torch.testing.assert_close(of_mean, torch.zeros_like(of_mean))
    torch.testing.assert_close(of_std, -1 / parameters[1])


def test_gradient_of_the_fast_normal_formula() -> None:
    """The hand-written pairwise density has the derivatives of a numerical check, sampling included."""
    noise = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def cost(mean: Tensor, std: Tensor) -> Tensor:
        q = Trace({"z": mean + std * noise}, rows=4)
        q.sample("z", normal(mean, std))
        return InferenceMarginal(q, ["z"], 20).log_prob([Leaf("z")])

    mean = torch.randn(4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    assert torch.autograd.gradcheck(cost, (mean, torch.full((4, 2), 0.6, dtype=torch.float64, requires_grad=True)))


def test_errors_teach() -> None:
    q, _ = run(rows=6)
    with pytest.raises(ConfigError, match="5 observations and the batch 6"):
        InferenceMarginal(q, ["style"], 5)
    with pytest.raises(ConfigError, match="needs the size"):
        InferenceMarginal(q, ["style"])
    with pytest.raises(ConfigError, match="whole data set of 7"):
        InferenceMarginal(q, ["style"], 7, "exact")
    with pytest.raises(ConfigError, match="choose 'stratified'"):
        InferenceMarginal(q, ["style"], 7, "mws")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least two"):
        InferenceMarginal(run(rows=1)[0], ["style"], 7)
    with pytest.raises(UnweaveError, match="at least one site"):
        InferenceMarginal(q, [], 7)
    marginal = InferenceMarginal(q, ["style"], 7)
    with pytest.raises(UnknownNameError, match="no element 3"):
        marginal.log_prob([Leaf("style", 3)])
    with pytest.raises(UnknownNameError, match="unknown site 'digit'"):
        marginal.log_prob([Leaf("digit")])
    with pytest.raises(UnweaveError, match="given twice"):
        marginal.log_prob([Leaf("style"), Leaf("style", 0)])
    with pytest.raises(UnweaveError, match="no leaf given"):
        marginal.log_prob([])


def test_sites_of_other_rows_or_that_depend_on_draws_are_refused() -> None:
    q = Trace(samples=2)
    z = q.sample("z", normal(torch.zeros(4, 1), 1.0))
    q.sample("w", normal(z, 1.0))
    with pytest.raises(UnweaveError, match="depends on another draw"):
        InferenceMarginal(q, ["z", "w"], 10)
    q = Trace()
    q.sample("group", normal(torch.zeros(2, 1), 1.0))
    q.sample("z", normal(torch.zeros(4, 1), 1.0))
    with pytest.raises(ShapeError, match="different numbers of rows"):
        InferenceMarginal(q, ["group", "z"], 10)


@pytest.mark.parametrize(
    "distribution",
    [
        normal(torch.randn(3, 2), 0.5),
        Concrete(0.5, torch.randn(3, 4)),
        Categorical(probs=torch.tensor([[0.2, 0.8]] * 3)),
        MultivariateNormal(torch.zeros(3, 2), covariance_matrix=torch.eye(2)),
        torch.distributions.Independent(torch.distributions.Laplace(torch.randn(3, 2), 1.0), 1),
    ],
    ids=lambda d: type(d).__name__,
)
def test_parameters_of_a_distribution_can_be_changed(distribution: torch.distributions.Distribution) -> None:
    """Gathering from several processes rebuilds distributions: with reversed rows it must be the same one, reversed."""
    value = distribution.sample()
    distribution.log_prob(value)  # fills in derived parameters, which must not be passed on
    turned = map_parameters(distribution, lambda parameter: parameter.flip(0))
    torch.testing.assert_close(turned.log_prob(value.flip(0)), distribution.log_prob(value).flip(0))


# Products of matrices, and a memory of posteriors ---------------------------------------------------------------------


def memory_of(q: Trace, rows: slice) -> dict[str, torch.distributions.Distribution]:
    """The posteriors of some rows, as a memory holds them."""
    return {site.name: map_parameters(site.distribution, lambda value: value.detach()[rows]) for site in q.sites()}


@pytest.mark.parametrize("part", [["style"], ["digit"], ["style", "digit"]])
@pytest.mark.parametrize("samples", [None, 3])
def test_products_of_matrices_equal_the_table_of_elements(part: list[str], samples: int | None) -> None:
    q, parameters = run(rows=7, samples=samples)
    marginal = InferenceMarginal(q, ["style", "digit"], 50)
    product = marginal.pairwise([leaf for leaf in marginal.leaves if leaf.site in part])
    table = sum(pairwise_log_prob(q.site(name)).sum(-1) for name in part)
    torch.testing.assert_close(product, table, rtol=1e-11, atol=1e-11)
    inputs = [p for p, name in zip(parameters, ["style", "style", "digit"], strict=True) if name in part]
    weight = torch.randn(product.shape, dtype=torch.float64)
    for here, there in zip(
        torch.autograd.grad((weight * product).sum(), inputs, retain_graph=True),
        torch.autograd.grad((weight * table).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)


def test_products_survive_the_narrowest_posteriors() -> None:
    """Single precision, means around 3 and the smallest standard deviation a head gives: squares of 10^8 cancel."""
    generator = torch.Generator().manual_seed(0)
    mean = 3 * torch.randn(16, 10, generator=generator)
    q = Trace({"z": mean + 3e-4 * torch.randn(16, 10, generator=generator)}, rows=16)
    q.sample("z", normal(mean, torch.full_like(mean, 3e-4)))
    got = InferenceMarginal(q, ["z"], 100).pairwise([Leaf("z")]).diagonal()
    base = q.site("z").distribution.base_dist
    exact = torch.distributions.Normal(base.loc.double(), base.scale.double()).log_prob(q["z"].double()).sum(-1)
    torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-4)


def test_a_memory_joins_the_mixture_of_parts_and_leaves_single_numbers_to_the_batch() -> None:
    rows, kept, size = 5, 4, 60
    q, _ = run(rows + kept)
    near = Trace({"style": q["style"][:rows], "digit": q["digit"][:rows]}, rows=rows)
    for site in q.sites():
        near.sample(site.name, map_parameters(site.distribution, lambda value: value[:rows]))
    marginal = InferenceMarginal(near, ["style", "digit"], size, memory=memory_of(q, slice(rows, None)))
    columns = rows + kept
    for elements in ([0, 1], [0, 1, 2]):
        got = marginal.log_prob([STYLE[e] for e in elements])
        for b in range(rows):
            total = pair(q, b, b, elements) / size
            total += sum(
                (size - 1) / (size * (columns - 1)) * pair(q, b, other, elements)
                for other in range(columns)
                if other != b
            )
            assert got[b].item() == pytest.approx(math.log(total), abs=1e-11)
    plain = InferenceMarginal(near, ["style", "digit"], size)
    torch.testing.assert_close(marginal.log_prob([STYLE[0]]), plain.log_prob([STYLE[0]]))
    assert marginal.pairwise(STYLE).shape == (rows, rows)


def test_a_memory_that_is_the_rest_of_the_data_makes_the_estimate_exact() -> None:
    q, _ = run(rows=9)
    near = Trace({"style": q["style"][:4], "digit": q["digit"][:4]}, rows=4)
    for site in q.sites():
        near.sample(site.name, map_parameters(site.distribution, lambda value: value[:4]))
    marginal = InferenceMarginal(near, ["style", "digit"], 9, memory=memory_of(q, slice(4, None)))
    got = marginal.log_prob([*STYLE, Leaf("digit")])
    for b in range(4):
        assert got[b].item() == pytest.approx(data_set_mixture(q, b), abs=1e-11)


def test_a_memory_receives_no_gradient_and_its_batch_does() -> None:
    q, parameters = run(rows=8)
    marginal = InferenceMarginal(q, ["style", "digit"], 40, memory=memory_of(q, slice(0, 3)))
    marginal.log_prob([*STYLE, Leaf("digit")]).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in parameters)


def test_bad_memories_are_refused() -> None:
    q, _ = run()
    with pytest.raises(UnweaveError, match="every site"):
        InferenceMarginal(q, ["style", "digit"], 40, memory={"style": q.site("style").distribution})
    with pytest.raises(UnweaveError, match="exact"):
        InferenceMarginal(q, ["style", "digit"], estimator="exact", memory=memory_of(q, slice(None)))
    with pytest.raises(ConfigError, match="observations"):
        InferenceMarginal(q, ["style", "digit"], 8, memory=memory_of(q, slice(None)))
