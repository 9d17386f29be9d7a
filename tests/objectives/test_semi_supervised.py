"""Bounds of partly labelled models against enumeration and quadrature, against M2 by hand, and against Pyro."""

import itertools
import math

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Independent, Normal, OneHotCategorical

from unweave.base.errors import ConfigError, UnweaveError
from unweave.core.batch import Batch
from unweave.core.distributions import Concrete, normal, standard_normal
from unweave.core.trace import Given, Trace
from unweave.objectives.semi_supervised import (
    enumerate_values,
    importance_weighted_bound,
    log_shares,
    log_weights,
    scatter,
    self_normalised_bound,
    split_by_labels,
)

K = 3
X = torch.tensor([[0.3, -0.8], [1.1, 0.4]], dtype=torch.float64)  # (B, 2)
Y = torch.tensor([2, 0])
GRID = torch.linspace(-8, 8, 321, dtype=torch.float64)
STEP = 16 / 320


def one_hot(y):
    return torch.nn.functional.one_hot(torch.as_tensor(y), K).double()


# Conditionals as plain functions of numbers; programs and brute force share them and nothing else. -------------------


def class_logits(x, z=None):
    """(..., K) logits of q(y|x), or of q(y|x,z) with z (..., 1)."""
    base = torch.stack([x[..., 0], x[..., 1], 0.5 * x[..., 0] - x[..., 1]], -1)
    return base if z is None else base + z * torch.tensor([0.9, -0.4, 0.2], dtype=x.dtype)


def style(x, y=None, z1=None):
    """Mean and deviation, each (..., 1), of q(z|x), q(z|x,y) or q(z2|x,y,z1)."""
    mean = 0.4 * x[..., :1] - 0.3 * x[..., 1:]
    if y is not None:
        mean = mean + (y * torch.tensor([0.5, -0.6, 0.1], dtype=x.dtype)).sum(-1, keepdim=True)
    if z1 is not None:
        mean = mean + 0.3 * z1
    return mean, 0.9 + 0.3 * torch.sigmoid(mean)  # wide enough for importance sampling


def picture(y, z, z2=None):
    """(..., 2) mean of p(x|y,z)."""
    shift = y @ torch.tensor([[0.8, -0.5], [-1.0, 0.3], [0.2, 0.9]], dtype=torch.float64)
    total = z if z2 is None else z + 0.7 * z2
    return shift + torch.cat([total, torch.tanh(total) - 0.5 * total], -1)


def log_normal(value, mean, std):
    std = torch.as_tensor(std, dtype=value.dtype)
    return -0.5 * math.log(2 * math.pi) - std.log() - 0.5 * ((value - mean) / std) ** 2


# Programs ------------------------------------------------------------------------------------------------------------


def label_first(q, x):
    y = q.sample("y", Concrete(0.5, class_logits(x)))
    q.sample("z", normal(*style(x, y)))


def style_first(q, x):
    z = q.sample("z", normal(*style(x)))
    q.sample("y", Concrete(0.5, class_logits(x, z)))


def chain(q, x):
    z1 = q.sample("z1", normal(*style(x)))
    y = q.sample("y", Concrete(0.5, class_logits(x, z1)))
    q.sample("z2", normal(*style(x, y, z1)))


PROGRAMS = {"label_first": label_first, "style_first": style_first, "chain": chain}


def generate(p, stages=1):
    y = p.sample("y", Concrete(0.5, torch.zeros(K, dtype=torch.float64)))
    zs = [p.sample(name, standard_normal(1, like=X)) for name in (("z",) if stages == 1 else ("z1", "z2"))]
    y = y.expand(*zs[0].shape[:-1], K)
    p.sample("x", normal(picture(y, *zs), 0.6))


def traces(name, samples, labels=True, repeats=0, seed=0, x=X):
    """q and p with the label observed, drawn, or enumerated with `repeats` draws of everything else."""
    torch.manual_seed(seed)
    given = {}
    if repeats:
        values = enumerate_values({"y": ((), K, True)}, repeats)["y"].double()
        samples = len(values)
        given = {"y": Given(values[:, None].expand(-1, len(x), -1), enumerated=True)}
    elif labels:
        given = {"y": one_hot(Y).expand(samples, -1, -1)}
    q = Trace(given, rows=len(x), samples=samples)
    PROGRAMS[name](q, x)
    p = Trace(q.as_given(x=x), rows=len(x), samples=samples)
    generate(p, stages=2 if name == "chain" else 1)
    return q, p


# Brute force: sums over y, quadrature over z, row by row -------------------------------------------------------------


def grids(name, b):
    """Of row b, for each class y: log q(y, z|x), log q of y given what precedes it, log p(x, y, z), on the grid of z.

    Tensors (K, G) or (K, G, G) for the chain, and the volume of a cell.
    """
    x, z = X[b].expand(len(GRID), 2), GRID[:, None]
    posterior, weight, joint = [], [], []
    for k in range(K):
        y = one_hot(k).expand(len(GRID), K)
        if name == "label_first":
            log_y = class_logits(X[b]).log_softmax(-1)[k].expand(len(GRID))
            log_z = log_normal(z, *style(x, y)).squeeze(-1)
        else:
            log_y = class_logits(x, z).log_softmax(-1)[:, k]
            log_z = log_normal(z, *style(x)).squeeze(-1)
        prior = log_normal(z, 0.0, 1.0).squeeze(-1) - math.log(K)
        if name == "chain":
            z2 = GRID[None, :, None].expand(len(GRID), -1, 1)
            wide_x, wide_y, wide_z = (
                X[b].expand(len(GRID), len(GRID), 2),
                y[:, None].expand(-1, len(GRID), -1),
                z[:, None],
            )
            log_z2 = log_normal(z2, *style(wide_x, wide_y, wide_z)).squeeze(-1)
            likelihood = log_normal(X[b], picture(wide_y, wide_z.expand(-1, len(GRID), -1), z2), 0.6).sum(-1)
            posterior.append(log_z[:, None] + log_y[:, None] + log_z2)
            weight.append(log_y[:, None].expand_as(log_z2))
            joint.append(prior[:, None] + log_normal(z2, 0.0, 1.0).squeeze(-1) + likelihood)
        else:
            posterior.append(log_z + log_y)
            weight.append(log_y)
            joint.append(prior + log_normal(X[b], picture(y, z), 0.6).sum(-1))
    cell = STEP**2 if name == "chain" else STEP
    return torch.stack(posterior), torch.stack(weight), torch.stack(joint), cell


def exact(name, b, y=None):
    """What the estimators tend to: (eq. 8 bound, eq. 7, eq. 9 bound, eq. 9 supervision); the ELBO and log p(x) first
    and third when there is no label."""
    log_q, log_w, log_p, cell = grids(name, b)
    if y is None:
        elbo = (log_q.exp() * (log_p - log_q)).sum() * cell
        return elbo, torch.zeros(()), (log_p.exp().sum() * cell).log(), torch.zeros(())
    log_q, log_w, log_p = log_q[y], log_w[y], log_p[y]
    marginal = log_q.exp().sum() * cell  # q(y|x)
    eq5 = (log_q.exp() * (log_p - log_q)).sum() * cell / marginal
    eq7 = ((log_q - log_w).exp() * log_w).sum() * cell
    return eq5 + eq7, eq7, (log_p.exp().sum() * cell).log(), marginal.log()


@pytest.mark.parametrize("name", PROGRAMS)
def test_labelled_bounds_tend_to_quadrature(name):
    q, p = traces(name, samples=40_000)
    eq8, eq9 = self_normalised_bound(q, p), importance_weighted_bound(q, p)
    for b in range(len(X)):
        bound8, supervision8, bound9, supervision9 = exact(name, b, int(Y[b]))
        assert eq8.bound[b].item() == pytest.approx(float(bound8), abs=0.03)
        assert eq8.supervision[b].item() == pytest.approx(float(supervision8), abs=0.02)
        assert eq9.bound[b].item() == pytest.approx(float(bound9), abs=0.05)
        assert eq9.supervision[b].item() == pytest.approx(float(supervision9), abs=0.02)
        assert bound8 < bound9 - 0.05  # the test tells the two apart


@pytest.mark.parametrize("name", PROGRAMS)
def test_enumerated_bounds_tend_to_quadrature(name):
    q, p = traces(name, samples=None, repeats=15_000)
    elbo, weighted = self_normalised_bound(q, p), importance_weighted_bound(q, p)
    for b in range(len(X)):
        bound, _, evidence, _ = exact(name, b)
        assert weighted.bound[b].item() == pytest.approx(float(evidence), abs=0.05)
        share = log_shares(q).exp().sum(0)[b].item()
        assert share == pytest.approx(1.0, abs=0.02)
        assert elbo.bound[b].item() == pytest.approx(float(bound), abs=0.05)
        assert elbo.supervision[b].item() == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_enumerated_bound_is_unbiased_with_one_draw_of_each_value(name):
    """Also where a variable that is drawn comes before the enumerated one; a ratio of sums would lie far above."""
    count = 20_000
    for b in range(len(X)):
        q, p = traces(name, samples=None, repeats=1, x=X[b].expand(count, 2))
        values = self_normalised_bound(q, p).bound
        error = float(values.std() / count**0.5)
        assert error < 0.1
        assert float(values.mean()) == pytest.approx(float(exact(name, b)[0]), abs=4 * error)


def test_enumeration_is_the_sum_over_the_classes_by_loops():
    """With q(y|x) q(z|x,y) and one z for each class: sum_y q(y|x) [log p(x,y,z_y) - log q(y|x) - log q(z_y|x,y)]."""
    q, p = traces("label_first", samples=None, repeats=1)
    estimate = self_normalised_bound(q, p).bound
    for b in range(len(X)):
        log_y = class_logits(X[b]).log_softmax(-1)
        total = 0.0
        for k in range(K):
            z = q["z"][k, b]
            log_z = log_normal(z, *style(X[b], one_hot(k))).item()
            log_p = log_normal(z, 0.0, 1.0).item() - math.log(K)
            log_p += log_normal(X[b], picture(one_hot(k), z), 0.6).sum().item()
            total += log_y[k].exp().item() * (log_p - log_y[k].item() - log_z)
        assert estimate[b].item() == pytest.approx(total, abs=1e-10)


def test_weights_are_the_products_of_the_labelled_conditionals():
    for name in PROGRAMS:
        q, _ = traces(name, samples=4)
        got = log_weights(q)
        assert got.shape == (4, 2)
        for s, b in itertools.product(range(4), range(2)):
            z = None if name == "label_first" else q["z" if name == "style_first" else "z1"][s, b]
            by_hand = class_logits(X[b], z).softmax(-1)[Y[b]].log()
            assert got[s, b].item() == pytest.approx(by_hand.item(), abs=1e-12)


def test_weights_of_two_labels_one_of_them_real_multiply():
    z = torch.tensor([[0.2], [-1.0]], dtype=torch.float64)
    q = Trace({"y": one_hot(Y), "z": z}, rows=2)
    chain_like = normal(*style(X))
    q.sample("z", chain_like)
    q.sample("y", OneHotCategorical(logits=class_logits(X, z), validate_args=False))
    q.sample("free", standard_normal(1, like=X))
    by_hand = [
        log_normal(z[b], *style(X[b])).item() + class_logits(X[b], z[b]).log_softmax(-1)[Y[b]].item() for b in range(2)
    ]
    assert log_weights(q).squeeze(0).tolist() == pytest.approx(by_hand, abs=1e-12)


def test_without_labels_the_bounds_are_the_elbo_and_iwae():
    q, p = traces("style_first", samples=5, labels=False)
    assert torch.equal(log_weights(q), torch.zeros(5, 2, dtype=torch.float64))
    ratio = p.log_prob() - q.log_prob()
    torch.testing.assert_close(self_normalised_bound(q, p).bound, ratio.mean(0))
    torch.testing.assert_close(importance_weighted_bound(q, p).bound, ratio.logsumexp(0) - math.log(5))
    assert (importance_weighted_bound(q, p).bound > self_normalised_bound(q, p).bound).all()


def test_constant_weights_give_the_objective_of_m2():
    """Kingma et al. 2014, eq. 6 and 9: E_q(z|x,y)[log p(x,y,z) - log q(z|x,y)] + alpha log q(y|x)."""
    q, p = traces("label_first", samples=7)
    got = self_normalised_bound(q, p)
    for b in range(2):
        y = one_hot(Y[b])
        draws = []
        for s in range(7):
            z = q["z"][s, b]
            log_p = -math.log(K) + log_normal(z, 0.0, 1.0).item()
            log_p += log_normal(X[b], picture(y, z), 0.6).sum().item()
            draws.append(log_p - log_normal(z, *style(X[b], y)).item())
        assert got.bound[b].item() == pytest.approx(sum(draws) / 7, abs=1e-10)
        log_class = class_logits(X[b]).log_softmax(-1)[Y[b]].item()
        assert got.supervision[b].item() == pytest.approx(log_class, abs=1e-12)


def test_self_normalised_weights_by_loops():
    """Equation 8 term by term, where weights differ from draw to draw."""
    q, p = traces("style_first", samples=6)
    got, alpha = self_normalised_bound(q, p), 2.5
    for b in range(2):
        w = [class_logits(X[b], q["z"][s, b]).softmax(-1)[Y[b]].item() for s in range(6)]
        normaliser = sum(w) / 6
        total = 0.0
        for s in range(6):
            log_p = sum(p.site(name).log_prob.expand(6, 2)[s, b].item() for name in ("x", "y", "z"))
            log_q = math.log(w[s]) + log_normal(q["z"][s, b], *style(X[b])).item()
            total += w[s] / normaliser * (log_p - log_q) + (1 + alpha) * math.log(w[s])
        assert (got.bound + alpha * got.supervision)[b].item() == pytest.approx(total / 6, abs=1e-10)


def test_gradients_pass_through_the_weights():
    shift = torch.zeros(K, dtype=torch.float64, requires_grad=True)

    def value(move):
        torch.manual_seed(0)
        q = Trace({"y": one_hot(Y).expand(5, -1, -1)}, rows=2, samples=5)
        z = q.sample("z", normal(*style(X)))
        q.sample("y", Concrete(0.5, class_logits(X, z) + z * move))
        p = Trace(q.as_given(x=X), rows=2, samples=5)
        generate(p)
        return self_normalised_bound(q, p).bound.sum()

    value(shift).backward()
    for k in range(K):
        step = 1e-5 * one_hot(k)
        difference = (value(step) - value(-step)).item() / 2e-5
        assert shift.grad[k].item() == pytest.approx(difference, abs=1e-7)
    assert shift.grad.abs().max() > 1e-3


# Enumeration of several variables ------------------------------------------------------------------------------------


def test_all_combinations_appear_equally_often():
    values = enumerate_values({"a": ((), 2, True), "b": ((2,), 3, False)}, repeats=2)
    assert values["a"].shape == (36, 2)
    assert values["b"].shape == (36, 2)
    seen = [(*a, *b) for a, b in zip(values["a"].tolist(), values["b"].tolist(), strict=True)]
    assert {seen.count(one) for one in seen} == {2}
    assert len(set(seen)) == 18
    with pytest.raises(ConfigError, match=r"59049 values together, too many"):
        enumerate_values({"a": ((10,), 3, True)})


def test_enumeration_of_two_variables_and_whole_numbers_against_loops():
    values = enumerate_values({"a": ((), 2, True), "b": ((2,), 3, False)})
    given = {
        name: Given(value[:, None].expand(-1, 1, *value.shape[1:]), enumerated=True) for name, value in values.items()
    }
    logits_a = torch.tensor([[0.3, -0.2]])
    logits_b = torch.tensor([[[0.1, 0.5, -0.3], [1.0, 0.0, 0.2]]])
    q = Trace({**given, "a": Given(given["a"].value.float(), enumerated=True)}, rows=1, samples=18)
    q.sample("a", OneHotCategorical(logits=logits_a, validate_args=False))
    q.sample("b", Independent(Categorical(logits=logits_b), 1))
    assert log_shares(q).exp().sum().item() == pytest.approx(1, abs=1e-6)
    expected = {}
    for a, b1, b2 in itertools.product(range(2), range(3), range(3)):
        expected[a, b1, b2] = (
            logits_a.softmax(-1)[0, a] * logits_b.softmax(-1)[0, 0, b1] * logits_b.softmax(-1)[0, 1, b2]
        ).item()
    for s in range(18):
        key = (int(q["a"][s, 0].argmax()), *q["b"][s, 0].tolist())
        assert log_shares(q)[s, 0].exp().item() == pytest.approx(expected[key], abs=1e-6)


# Rows with different labels ------------------------------------------------------------------------------------------


def test_rows_are_split_by_what_is_labelled():
    x = torch.arange(12.0).reshape(6, 2)
    labels = {
        "a": Given(torch.arange(6.0), torch.tensor([True, False, True, True, False, False])),
        "b": Given(torch.arange(6.0) * 10, torch.tensor([True, True, False, True, False, True])),
    }
    parts = {tuple(part.labels): part for part in split_by_labels(Batch.of(x), labels)}
    assert {names: part.rows.tolist() for names, part in parts.items()} == {
        (): [4],
        ("a",): [2],
        ("b",): [1, 5],
        ("a", "b"): [0, 3],
    }
    assert parts["a", "b"].labels["b"].value.tolist() == [0, 30]
    assert torch.equal(parts["b",].batch.x, x[[1, 5]])
    assert parts["b",].batch.rows == 2
    values = [(part, part.batch.x[:, 0]) for part in parts.values()]
    assert torch.equal(scatter(values, 6), x[:, 0])
    assert scatter(values[:1], 6).count_nonzero() == 1


def test_a_batch_of_one_kind_is_not_copied():
    x = torch.zeros(3, 2)
    (part,) = split_by_labels(Batch.of(x), {"a": Given(torch.zeros(3))})
    assert part.rows is None
    assert part.batch.x is x
    assert list(part.labels) == ["a"]
    (part,) = split_by_labels(Batch.of(x), {})
    assert not part.labels


def test_partly_labelled_groups_are_refused():
    batch = Batch.of(torch.zeros(2, 1), group=torch.tensor([0, 0]))
    with pytest.raises(UnweaveError, match="label whole groups alike"):
        list(split_by_labels(batch, {"a": Given(torch.zeros(2), torch.tensor([True, False]))}))


# Programs that do not fit --------------------------------------------------------------------------------------------


def test_a_variable_that_only_the_generative_program_has_is_named():
    q = Trace(rows=2)
    q.sample("z", normal(*style(X)))
    p = Trace(q.as_given(x=X), rows=2)
    generate(p)
    with pytest.raises(UnweaveError, match="recognition program misses variable 'y'"):
        self_normalised_bound(q, p)


def test_draws_without_a_gradient_are_refused():
    q = Trace(rows=2)
    y = q.sample("y", OneHotCategorical(logits=class_logits(X)))
    q.sample("z", normal(*style(X, y)))
    p = Trace(q.as_given(x=X), rows=2)
    generate(p)
    with pytest.raises(UnweaveError, match="'y' is drawn from a OneHotCategorical"):
        importance_weighted_bound(q, p)


# Pyro ------------------------------------------------------------------------------------------------------------


def test_log_probabilities_and_elbo_equal_pyros():
    """The chain z1, y, z2 as a Pyro model and guide: the same values, the same log-probability of every site."""
    pyro = pytest.importorskip("pyro")
    import pyro.distributions as dist

    def guide(y=None):
        with pyro.plate("rows", len(X)):
            z1 = pyro.sample("z1", dist.Normal(*style(X)).to_event(1))
            # A Pyro guide has no observations: the label's part of q is the weight, beside it.
            pyro.sample("z2", dist.Normal(*style(X, one_hot(Y), z1)).to_event(1))

    def model():
        with pyro.plate("rows", len(X)):
            y = pyro.sample("y", dist.OneHotCategorical(torch.ones(K, dtype=X.dtype) / K), obs=one_hot(Y))
            zero, one = torch.zeros(len(X), 1, dtype=X.dtype), torch.ones(len(X), 1, dtype=X.dtype)
            z1 = pyro.sample("z1", dist.Normal(zero, one).to_event(1))
            z2 = pyro.sample("z2", dist.Normal(zero, one).to_event(1))
            pyro.sample("x", dist.Normal(picture(y, z1, z2), 0.6).to_event(1), obs=X)

    pyro.clear_param_store()
    torch.manual_seed(3)
    guided = pyro.poutine.trace(guide).get_trace()
    modelled = pyro.poutine.trace(pyro.poutine.replay(model, guided)).get_trace()
    guided.compute_log_prob()
    modelled.compute_log_prob()

    drawn = {name: Given(guided.nodes[name]["value"], reused=True) for name in ("z1", "z2")}
    q = Trace({**drawn, "y": one_hot(Y)}, rows=2)
    chain(q, X)
    p = Trace(q.as_given(x=X), rows=2)
    generate(p, stages=2)
    for name in ("z1", "z2"):
        torch.testing.assert_close(q.site(name).log_prob, guided.nodes[name]["log_prob"])
    for name in ("y", "z1", "z2", "x"):
        torch.testing.assert_close(p.site(name).log_prob, modelled.nodes[name]["log_prob"])

    # Equation 9 with one draw is Pyro's ELBO of the observed x and y.
    torch.manual_seed(3)
    loss = pyro.infer.Trace_ELBO(num_particles=1).loss(model, guide)
    assert importance_weighted_bound(q, p).bound.sum().item() == pytest.approx(-loss, abs=1e-9)


def test_enumerated_elbo_equals_pyros():
    """q(y|x) q(z|x) with y summed out: Pyro's TraceEnum_ELBO on the same draws of z."""
    pyro = pytest.importorskip("pyro")
    import pyro.distributions as dist
    from pyro.infer import TraceEnum_ELBO, config_enumerate

    @config_enumerate
    def guide():
        with pyro.plate("rows", len(X)):
            pyro.sample("z", dist.Normal(*style(X)).to_event(1))
            pyro.sample("y", dist.Categorical(logits=class_logits(X)))

    def model():
        with pyro.plate("rows", len(X)):
            zero, one = torch.zeros(len(X), 1, dtype=X.dtype), torch.ones(len(X), 1, dtype=X.dtype)
            z = pyro.sample("z", dist.Normal(zero, one).to_event(1))
            y = one_hot(pyro.sample("y", dist.Categorical(torch.ones(K, dtype=X.dtype) / K)))
            y = y.expand(*torch.broadcast_shapes(y.shape[:-1], z.shape[:-1]), K)
            pyro.sample("x", dist.Normal(picture(y, z.expand(*y.shape[:-1], 1)), 0.6).to_event(1), obs=X)

    pyro.clear_param_store()
    torch.manual_seed(4)
    loss = TraceEnum_ELBO(max_plate_nesting=1).loss(model, guide)
    torch.manual_seed(4)
    z = pyro.poutine.trace(guide).get_trace().nodes["z"]["value"]

    values = enumerate_values({"y": ((), K, True)})["y"].double()
    given = {"y": Given(values[:, None].expand(-1, 2, -1), enumerated=True)}
    q = Trace({**given, "z": Given(z.expand(K, 2, 1), reused=True)}, rows=2, samples=K)
    q.sample("z", normal(*style(X)))
    q.sample("y", Concrete(0.5, class_logits(X)))
    p = Trace(q.as_given(x=X), rows=2, samples=K)
    generate(p)
    assert self_normalised_bound(q, p).bound.sum().item() == pytest.approx(-loss, abs=1e-9)


def test_bernoulli_pictures_equal_pyros():
    pyro = pytest.importorskip("pyro")
    import pyro.distributions as dist

    logits, x = torch.randn(4, 3, dtype=torch.float64), torch.tensor([[0.0, 1, 1]] * 4, dtype=torch.float64)
    p = Trace({"x": x}, rows=4)
    p.sample("x", Independent(Bernoulli(logits=logits), 1))
    traced = pyro.poutine.trace(lambda: pyro.sample("x", dist.Bernoulli(logits=logits).to_event(1), obs=x)).get_trace()
    traced.compute_log_prob()
    torch.testing.assert_close(p.site("x").log_prob.sum(), traced.log_prob_sum())


def test_normal_of_the_test_is_the_librarys():
    value, mean, std = torch.randn(3), torch.randn(3), torch.rand(3) + 0.1
    torch.testing.assert_close(log_normal(value, mean, std), Normal(mean, std).log_prob(value))
