"""The decomposition adds up to the KL exactly, for any tree, and each part means what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, MultivariateNormal, Normal

from unweave.base.errors import ConfigError, ShapeError, UnweaveError
from unweave.core.distributions import Concrete, normal, standard_normal
from unweave.core.trace import Trace
from unweave.objectives.decomposition import (
    Decomposition,
    FactorisedPrior,
    GaussianPrior,
    Node,
    decompose,
    tree_of_blocks,
    tree_of_elements,
)
from unweave.objectives.elbo import sampled_kl
from unweave.objectives.marginals import Estimator, InferenceMarginal, Leaf


def run(rows: int = 7, samples: int | None = None, dtype: torch.dtype = torch.float64) -> tuple[Trace, Trace, Tensor]:
    """q and p with blocks style (4), colour (2), size (1) and digit (Concrete, 3 categories); the encoder's weight."""
    torch.manual_seed(2)
    weight = torch.randn(5, 17, dtype=dtype, requires_grad=True)
    x = torch.randn(rows, 5, dtype=dtype)
    style, colour, size, digit = (x @ weight).split([8, 4, 2, 3], dim=-1)
    q = Trace(rows=rows, samples=samples)
    for name, raw in (("style", style), ("colour", colour), ("size", size)):
        mean, log_std = raw.chunk(2, dim=-1)
        q.sample(name, normal(mean, (0.3 * log_std).exp()))
    q.sample("digit", Concrete(0.6, digit))
    p = Trace(q.as_given(), rows=rows, samples=samples)
    for name, dims in (("style", 4), ("colour", 2), ("size", 1)):
        p.sample(name, standard_normal(dims, like=x))
    p.sample("digit", Concrete(0.6, torch.zeros(3, dtype=dtype)))
    return q, p, weight


def numbers(site: str, *elements: int) -> tuple[Leaf, ...]:
    return tuple(Leaf(site, e) for e in elements)


DEEP = Node(
    "root",
    (
        Leaf("digit"),
        Node(
            "look",
            (
                Node("shape", (*numbers("style", 0, 1), Node("pose", numbers("style", 2, 3)))),
                Node("paint", numbers("colour", 0, 1)),
                Leaf("size"),
            ),
        ),
    ),
)


@pytest.mark.parametrize("estimator", ["stratified", "weighted"])
@pytest.mark.parametrize("samples", [None, 3])
@pytest.mark.parametrize("tree", ["blocks", "elements", "deep"])
def test_all_weights_one_give_the_sampled_kl(tree: str, samples: int | None, estimator: Estimator) -> None:
    q, p, _ = run(samples=samples)
    nodes = {"blocks": tree_of_blocks(q), "elements": tree_of_elements(q), "deep": DEEP}[tree]
    parts = decompose(q, p, nodes, 100, estimator)
    shape = (7,) if samples is None else (samples, 7)
    for part in (parts.information, parts.between, parts.within, parts.leaves):
        assert part.shape == shape
    torch.testing.assert_close(parts.kl, sampled_kl(q, p), atol=1e-10, rtol=0)


def loop_decomposition(q: Trace, p: Trace, tree: Node, size: int) -> dict[str, list[float]]:
    """Each term of figures 1 and 3 row by row, from densities of single numbers."""
    rows = len(q["style"])

    def site_density(name: str, element: int | None, b: int, other: int) -> float:
        distribution = q.site(name).distribution
        if isinstance(distribution, Concrete):
            return Concrete(distribution.temperature, distribution.logits[other]).log_prob(q[name][b]).item()
        base = distribution.base_dist
        chosen = range(base.loc.shape[1]) if element is None else [element]
        return sum(Normal(base.loc[other, e], base.scale[other, e]).log_prob(q[name][b, e]).item() for e in chosen)

    def leaves(part: Node | Leaf) -> list[Leaf]:
        return [part] if isinstance(part, Leaf) else [leaf for child in part.children for leaf in leaves(child)]

    def log_q(part: Node | Leaf, b: int) -> float:
        total = 0.0
        for other in range(rows):
            weight = 1 / size if other == b else (size - 1) / (size * (rows - 1))
            total += weight * math.exp(sum(site_density(*leaf, b, other) for leaf in leaves(part)))
        return math.log(total)

    def log_p(part: Node | Leaf, b: int) -> float:
        total = 0.0
        for name, element in leaves(part):
            if name == "digit":
                total += Concrete(0.6, torch.zeros(3, dtype=torch.float64)).log_prob(q[name][b]).item()
            else:
                value = q[name][b] if element is None else q[name][b, element]
                total += sum(-0.5 * v * v - 0.5 * math.log(2 * math.pi) for v in value.reshape(-1).tolist())
        return total

    def correlation(node: Node, b: int) -> float:
        of_q = log_q(node, b) - sum(log_q(child, b) for child in node.children)
        return of_q - (log_p(node, b) - sum(log_p(child, b) for child in node.children))

    def inner(node: Node) -> list[Node]:
        below = [child for child in node.children if isinstance(child, Node)]
        return below + [deeper for child in below for deeper in inner(child)]

    terms: dict[str, list[float]] = {"information": [], "between": [], "within": [], "leaves": []}
    for b in range(rows):
        terms["information"].append(sum(site_density(*leaf, b, b) for leaf in leaves(tree)) - log_q(tree, b))
        terms["between"].append(correlation(tree, b))
        terms["within"].append(sum(correlation(node, b) for node in inner(tree)))
        terms["leaves"].append(sum(log_q(leaf, b) - log_p(leaf, b) for leaf in leaves(tree)))
    return terms


@pytest.mark.parametrize("deep", [False, True])
def test_every_term_is_its_loop(deep: bool) -> None:
    q, p, _ = run()
    tree = DEEP if deep else tree_of_blocks(q)
    parts = decompose(q, p, tree, 60)
    for name, values in loop_decomposition(q, p, tree, 60).items():
        expected = torch.tensor(values, dtype=torch.float64)
        torch.testing.assert_close(getattr(parts, name), expected, atol=1e-10, rtol=0)


def test_default_tree_has_blocks_and_their_elements() -> None:
    q, _, _ = run()
    expected = Node(
        "root",
        (
            Node("style", numbers("style", 0, 1, 2, 3)),
            Node("colour", numbers("colour", 0, 1)),
            Leaf("size"),
            Leaf("digit"),
        ),
    )
    assert tree_of_blocks(q) == expected
    assert tree_of_blocks(q, ["digit", "colour"]).children == (Leaf("digit"), expected.children[1])
    assert tree_of_elements(q, ["colour", "digit"]).children == (*numbers("colour", 0, 1), Leaf("digit", 0))


def test_parts_by_name_add_up_and_allow_weights_of_their_own() -> None:
    q, p, _ = run()
    parts = decompose(q, p, DEEP, 100)
    assert set(parts.within_by_node) == {"look", "shape", "pose", "paint"}
    assert list(parts.leaves_by_name) == [
        "digit", "style[0]", "style[1]", "style[2]", "style[3]", "colour[0]", "colour[1]", "size",
    ]  # fmt: skip
    torch.testing.assert_close(torch.stack(list(parts.within_by_node.values())).sum(0), parts.within)
    torch.testing.assert_close(torch.stack(list(parts.leaves_by_name.values())).sum(0), parts.leaves)


def test_a_factorised_prior_has_no_correlation_of_its_own() -> None:
    q, p, _ = run()
    parts = decompose(q, p, tree_of_blocks(q), 100)
    torch.testing.assert_close(parts.prior_correlation, torch.zeros(7, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(parts.total_correlation, parts.between)
    marginal = InferenceMarginal(q, q.names, 100)
    single = sum(marginal.log_prob([Leaf(name)]) for name in q.names)
    torch.testing.assert_close(parts.total_correlation, marginal.log_prob([Leaf(name) for name in q.names]) - single)


def test_one_level_tree_is_beta_tcvae_and_two_levels_refine_it() -> None:
    """TC between all elements = TC between blocks + TC within blocks (eq. 4 with beta = gamma)."""
    q, p, _ = run()
    flat, blocks = decompose(q, p, tree_of_elements(q), 100), decompose(q, p, tree_of_blocks(q), 100)
    torch.testing.assert_close(flat.within, torch.zeros(7, dtype=torch.float64))
    torch.testing.assert_close(flat.between, blocks.between + blocks.within)
    torch.testing.assert_close(flat.information, blocks.information)
    torch.testing.assert_close(flat.leaves, blocks.leaves)


def correlated(count: int) -> Tensor:
    factor = torch.randn(count, count, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    return factor @ factor.T / count + torch.eye(count, dtype=torch.float64)


def log_normal(value: Sequence[float], mean: Tensor, covariance: Tensor) -> float:
    """Textbook density of a joint normal."""
    centred = torch.tensor(value, dtype=torch.float64) - mean
    quadratic = centred @ covariance.inverse() @ centred
    return (-0.5 * (quadratic + covariance.logdet() + len(centred) * math.log(2 * math.pi))).item()


def test_prior_correlated_across_blocks_in_closed_form() -> None:
    """log p(z) - sum_d log p(z_d) of a joint normal over style[0], style[1], colour, with digit independent of it."""
    q, p, _ = run()
    leaves = (*numbers("style", 0, 1, 2, 3), *numbers("colour", 0, 1), *numbers("size", 0))
    mean, covariance = torch.linspace(-1, 1, 7, dtype=torch.float64), correlated(7)
    prior = GaussianPrior(mean, covariance, leaves, rest=FactorisedPrior(p))
    parts = decompose(q, p, tree_of_blocks(q), 100, prior=prior)
    blocks = {"style": [0, 1, 2, 3], "colour": [4, 5], "size": [6]}
    for b in range(7):
        value = [q[name][b, e].item() for name, e in leaves]
        joint = log_normal(value, mean, covariance)
        single = sum(log_normal([value[i] for i in k], mean[k], covariance[k][:, k]) for k in blocks.values())
        assert parts.prior_correlation[b].item() == pytest.approx(joint - single, abs=1e-10)
        assert abs(joint - single) > 1e-2
        inner = 0.0  # (i): the same within the two blocks of several numbers
        for k in (blocks["style"], blocks["colour"]):
            alone = sum(log_normal([value[i]], mean[[i]], covariance[[i]][:, [i]]) for i in k)
            inner += log_normal([value[i] for i in k], mean[k], covariance[k][:, k]) - alone
        factorised = decompose(q, p, tree_of_blocks(q), 100)
        assert (factorised.within - parts.within)[b].item() == pytest.approx(inner, abs=1e-10)
    torch.testing.assert_close(parts.total_correlation - parts.prior_correlation, parts.between)
    everything = torch.stack([q[name][:, e] for name, e in leaves], dim=-1)
    log_prior = MultivariateNormal(mean, covariance).log_prob(everything) + p.log_prob("digit")
    torch.testing.assert_close(parts.kl, q.log_prob() - log_prior, atol=1e-10, rtol=0)


def test_matching_correlations_cost_nothing_between_blocks() -> None:
    """(A) compares the correlation of q(z) with that of the prior: zero on average when q(z) is the prior."""
    covariance = torch.tensor([[1.0, 0.7], [0.7, 1.0]], dtype=torch.float64)
    std, rows = 0.5, 512
    generator = torch.Generator().manual_seed(0)
    factor = torch.linalg.cholesky(covariance - std**2 * torch.eye(2))
    tree = Node("root", (Leaf("a"), Leaf("b")))
    matched, independent = [], []
    for _ in range(8):
        x = torch.randn(rows, 2, dtype=torch.float64, generator=generator) @ factor.T
        z = x + std * torch.randn(rows, 2, dtype=torch.float64, generator=generator)
        q = Trace({"a": z[:, :1], "b": z[:, 1:]}, rows=rows)
        q.sample("a", normal(x[:, :1], std))
        q.sample("b", normal(x[:, 1:], std))
        p = Trace(q.as_given(), rows=rows)
        p.sample("a", standard_normal(1, like=x))
        p.sample("b", standard_normal(1, like=x))
        prior = GaussianPrior(torch.zeros(2, dtype=torch.float64), covariance, [Leaf("a", 0), Leaf("b", 0)])
        matched.append(decompose(q, None, tree, 10**6, prior=prior).between.mean())
        independent.append(decompose(q, p, tree, 10**6).between.mean())
    true_correlation = -0.5 * math.log(1 - 0.7**2)
    assert abs(torch.stack(matched).mean().item()) < 0.05 * true_correlation
    assert torch.stack(independent).mean().item() == pytest.approx(true_correlation, rel=0.05)


def test_multivariate_normal_prior_within_a_block() -> None:
    """A block may have a correlated prior: (i) then takes its correlation away, and all still adds up."""
    q, _, _ = run()
    covariance = correlated(4)
    p = Trace(q.as_given(), rows=7)
    p.sample("style", MultivariateNormal(torch.zeros(4, dtype=torch.float64), covariance))
    p.sample("digit", Concrete(0.6, torch.zeros(3, dtype=torch.float64)))
    tree = tree_of_blocks(q, ["style", "digit"])
    parts = decompose(q, p, tree, 100)
    plain = Trace(q.as_given(), rows=7)
    plain.sample("style", normal(torch.zeros(4, dtype=torch.float64), covariance.diagonal().sqrt()))
    plain.sample("digit", Concrete(0.6, torch.zeros(3, dtype=torch.float64)))
    prior_correlation = p.log_prob("style") - plain.log_prob("style")
    torch.testing.assert_close(parts.within, decompose(q, plain, tree, 100).within - prior_correlation)
    torch.testing.assert_close(parts.kl, sampled_kl(q, p), atol=1e-10, rtol=0)


def test_blocks_with_two_axes_have_named_leaves() -> None:
    q = Trace(rows=4)
    q.sample("entity", Independent(Normal(torch.randn(4, 2, 3, dtype=torch.float64), 1.0), 2))
    p = Trace(q.as_given(), rows=4)
    p.sample("entity", Independent(Normal(torch.zeros(2, 3, dtype=torch.float64), 1.0), 2))
    parts = decompose(q, p, tree_of_blocks(q), 10)
    assert list(parts.leaves_by_name)[-1] == "entity[1,2]"
    torch.testing.assert_close(parts.kl, sampled_kl(q, p))


def test_gradients_of_every_part_reach_the_encoder() -> None:
    q, p, weight = run()
    parts = decompose(q, p, DEEP, 100)
    costs = [parts.information, parts.between, parts.within, parts.leaves, *parts.within_by_node.values()]
    for cost in costs:
        (gradient,) = torch.autograd.grad(cost.mean(), weight, retain_graph=True)
        assert torch.all(torch.isfinite(gradient))
        assert torch.any(gradient != 0)


def test_gradients_of_the_parts_add_up_to_that_of_the_kl() -> None:
    q, p, weight = run()
    (of_parts,) = torch.autograd.grad(decompose(q, p, DEEP, 100).kl.sum(), weight, retain_graph=True)
    (of_kl,) = torch.autograd.grad(sampled_kl(q, p).sum(), weight)
    torch.testing.assert_close(of_parts, of_kl, atol=1e-10, rtol=0)


def test_a_tree_may_cover_a_part_of_the_code() -> None:
    q, p, _ = run()
    parts = decompose(q, p, Node("root", numbers("style", 1, 3)), 100)
    chosen = [1, 3]
    base = q.site("style").distribution.base_dist
    expected = base.log_prob(q["style"]) - Normal(0.0, 1.0).log_prob(q["style"])
    torch.testing.assert_close(parts.kl, expected[:, chosen].sum(-1))


def bad_trees() -> list[tuple[Node, str]]:
    return [
        (Node("root", (Leaf("style"), Leaf("style", 0))), "twice"),
        (Node("root", (Leaf("style", 4),)), "4 elements"),
        (Node("z", (Node("z", (Leaf("style"),)),)), "two nodes called 'z'"),
    ]


@pytest.mark.parametrize(("tree", "message"), bad_trees())
def test_bad_trees_are_refused(tree: Node, message: str) -> None:
    q, p, _ = run()
    with pytest.raises(ConfigError, match=message):
        decompose(q, p, tree, 100)


def test_bad_priors_are_refused() -> None:
    q, p, _ = run()
    with pytest.raises(ConfigError, match="no children"):
        Node("empty", ())
    with pytest.raises(UnweaveError, match="needs a prior"):
        decompose(q, None, tree_of_blocks(q), 100)
    eye = torch.eye(2, dtype=torch.float64)
    with pytest.raises(ShapeError, match=r"expected \(3,\)"):
        GaussianPrior(eye[0], eye, numbers("style", 0, 1, 2))
    with pytest.raises(ConfigError, match="each named once"):
        GaussianPrior(eye[0], eye, [Leaf("style", 0), Leaf("style")])
    with pytest.raises(UnweaveError, match="does not cover"):
        decompose(q, p, tree_of_blocks(q), 100, prior=GaussianPrior(eye[0], eye, numbers("colour", 0, 1)))
    with pytest.raises(UnweaveError, match="not made of single numbers"):
        GaussianPrior(eye[0, :1], eye[:1, :1], [Leaf("digit", 0)]).log_prob(q, [Leaf("digit", 0)])


def test_a_prior_that_depends_on_another_block_is_refused() -> None:
    q, p = Trace(rows=4, samples=2), Trace(rows=4, samples=2)
    for trace in (q, p):
        z = trace.sample("a", normal(torch.zeros(4, 1), 1.0))
        trace.sample("b", normal(torch.zeros(4, 1) if trace is q else z, 1.0))
    with pytest.raises(UnweaveError, match="site 'b' has a prior of batch shape"):
        decompose(q, p, tree_of_blocks(q), 10)


def test_a_prior_that_is_one_piece_needs_a_leaf() -> None:
    q = Trace(rows=4)
    q.sample("z", normal(torch.rand(4, 3), 0.1))
    p = Trace(rows=4)
    p.sample("z", torch.distributions.LowRankMultivariateNormal(torch.zeros(3), torch.ones(3, 1), torch.ones(3)))
    with pytest.raises(UnweaveError, match="one leaf of the tree"):
        decompose(q, p, tree_of_blocks(q), 10)
    assert isinstance(decompose(q, p, Node("root", (Leaf("z"),)), 10), Decomposition)
