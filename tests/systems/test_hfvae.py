"""The HFVAE: blocks of mixed kinds, every term against loops, priors that do not factorise, a third level."""

import math

import numpy as np
import pytest
import torch

from unweave.base.errors import ConfigError
from unweave.core.batch import Batch
from unweave.core.codes import Codes
from unweave.systems.hfvae import BlockPlan, HFVAEConfig, parse_blocks

ONES = {"alpha": 1, "beta": 1, "gamma": 1}
MIXED = "shape=concrete(3), style=normal(2)"


def log_concrete(y, log_pi, t):
    """Maddison et al. 2017, eq. 10, for lists of K numbers."""
    k = len(y)
    log_scale = math.log(math.factorial(k - 1)) + (k - 1) * math.log(t)
    elements = sum(lp - (t + 1) * math.log(v) for lp, v in zip(log_pi, y, strict=True))
    return log_scale + elements - k * math.log(sum(math.exp(lp) * v**-t for lp, v in zip(log_pi, y, strict=True)))


class Slow:
    """Log-densities of single variables of a pass, by loops. A part is a list of (block, dimension or None)."""

    def __init__(self, bench, system, size=40, noise=1):
        self.bench, self.system, self.size = bench, system, size
        self.x = bench.batch().observations
        self.rows = len(self.x)
        with torch.no_grad():
            features = system.encoder(self.x)
            self.outputs = {plan.name: system.heads[plan.name].linear(features) for plan in system.plans}
            torch.manual_seed(noise)
            q = system.posterior(bench.batch())
            self.z = {plan.name: q[plan.name] for plan in system.plans}
            self.decoded = system.decoder(torch.cat(list(self.z.values()), -1))

    def log_q_single(self, b, of, block, d):
        output, z = self.outputs[block][of], self.z[block][b]
        if d is None:
            return log_concrete(z.tolist(), torch.log_softmax(output, 0).tolist(), self.system.temperature)
        dims = len(output) // 2
        return self.bench.log_normal(float(z[d]), float(output[d]), math.exp(float(output[dims + d]) / 2))

    def log_posterior(self, b, of, part):
        return sum(self.log_q_single(b, of, block, d) for block, d in part)

    def log_marginal(self, b, part):
        own, others = 1 / self.size, (self.size - 1) / (self.size * (self.rows - 1))
        return math.log(
            sum((own if of == b else others) * math.exp(self.log_posterior(b, of, part)) for of in range(self.rows))
        )

    def log_prior(self, b, part):
        """Of single, independent variables: standard normal or uniform Concrete."""
        total = 0.0
        for block, d in part:
            z = self.z[block][b]
            if d is None:
                total += log_concrete(z.tolist(), [-math.log(len(z))] * len(z), self.system.temperature)
            else:
                total += self.bench.log_normal(float(z[d]), 0.0, 1.0)
        return total

    def log_likelihood(self, b):
        return sum(
            self.bench.log_normal(float(x), float(m), 1.0) for x, m in zip(self.x[b], self.decoded[b], strict=True)
        )

    def mean(self, value):
        return sum(value(b) for b in range(self.rows)) / self.rows


SHAPE, STYLE = [("shape", None)], [("style", 0), ("style", 1)]


def test_terms_against_loops(bench):
    settings = {"blocks": MIXED, "alpha": 0.5, "beta": 5, "gamma": 2, "temperature": 0.8}
    system = bench.system("hfvae", settings)
    terms, slow = bench.objective(system), Slow(bench, system)
    everything = SHAPE + STYLE

    def between(b):
        return slow.log_marginal(b, everything) - slow.log_marginal(b, SHAPE) - slow.log_marginal(b, STYLE)

    def within(b):
        return slow.log_marginal(b, STYLE) - sum(slow.log_marginal(b, [e]) for e in STYLE)

    expected = {
        "reconstruction": slow.mean(lambda b: -slow.log_likelihood(b)),
        "information": slow.mean(lambda b: slow.log_posterior(b, b, everything) - slow.log_marginal(b, everything)),
        "between_blocks": slow.mean(between),
        "within_blocks": slow.mean(within),
        "dimension_kl": slow.mean(
            lambda b: sum(slow.log_marginal(b, [e]) - slow.log_prior(b, [e]) for e in everything)
        ),
    }
    assert list(terms) == list(expected)
    for name, value in expected.items():
        assert terms.mean(name).item() == pytest.approx(value, abs=1e-8), name
    weights = {"reconstruction": 1, "information": 0.5, "between_blocks": 5, "within_blocks": 2, "dimension_kl": 1}
    total = sum(weights[name] * value for name, value in expected.items())
    assert terms.total().item() == pytest.approx(total, abs=1e-8)
    assert min(abs(expected["between_blocks"]), abs(expected["within_blocks"])) > 1e-4


@pytest.mark.parametrize("estimator", ["stratified", "weighted"])
@pytest.mark.parametrize(
    ("blocks", "rho"),
    [
        (MIXED, 0.0),
        ("z=normal(4)", 0.0),
        ("a=concrete(2), b=concrete(4), c=normal(1)", 0.0),
        ("a=normal(2), k=concrete(3), b=normal(2)", 0.7),
        ("a=normal(2 + 3), k=concrete(3)", 0.0),
        ("a=normal(1 + 2), b=normal(3)", -0.5),
    ],
)
def test_all_weights_one_is_the_elbo(bench, blocks, rho, estimator):
    settings = {**ONES, "blocks": blocks, "prior_correlation": rho, "estimator": estimator}
    system, batch = bench.system("hfvae", settings), bench.batch()
    total = bench.objective(system).total()
    torch.manual_seed(1)
    q = system.posterior(batch)
    p = system.joint(q.as_given(x=batch.observations), batch)
    elbo = (p.log_prob() - q.log_prob()).mean()
    torch.testing.assert_close(total, -elbo, rtol=1e-10, atol=1e-10)


def test_correlated_prior_enters_between_blocks(bench):
    """(A) is the correlation in q less the correlation in p, here between pairs (a_i, b_i) with correlation rho."""
    rho = 0.6
    settings = {"blocks": "a=normal(2), b=normal(2)", "prior_correlation": rho}
    system = bench.system("hfvae", settings)
    terms, slow = bench.objective(system), Slow(bench, system)
    first, second = [("a", 0), ("a", 1)], [("b", 0), ("b", 1)]

    def log_pair(u, v):
        """Density of a standard normal pair with correlation rho."""
        quadratic = (u * u - 2 * rho * u * v + v * v) / (1 - rho**2)
        return -math.log(2 * math.pi) - 0.5 * math.log(1 - rho**2) - 0.5 * quadratic

    def between(b):
        in_q = slow.log_marginal(b, first + second) - slow.log_marginal(b, first) - slow.log_marginal(b, second)
        joint = sum(log_pair(float(slow.z["a"][b, i]), float(slow.z["b"][b, i])) for i in range(2))
        return in_q - (joint - slow.log_prior(b, first) - slow.log_prior(b, second))

    assert terms.mean("between_blocks").item() == pytest.approx(slow.mean(between), abs=1e-9)
    plain = bench.system("hfvae", {"blocks": settings["blocks"]})
    plain.load_state_dict(system.state_dict())
    assert abs(bench.objective(plain).mean("between_blocks") - terms.mean("between_blocks")) > 0.01


def test_draws_have_the_priors_correlation(bench):
    system = bench.system("hfvae", {"blocks": "a=normal(2), b=normal(2)", "prior_correlation": -0.8}).float()
    codes = system.draw(4000, seed=0).flat()[0]
    expected = np.eye(4)
    expected[[0, 1, 2, 3], [2, 3, 0, 1]] = -0.8
    np.testing.assert_allclose(np.cov(codes.T), expected, atol=0.1)


def test_third_level_splits_within_blocks(bench):
    flat = bench.system("hfvae", {"blocks": "a=normal(4), k=concrete(3)"})
    split = bench.system("hfvae", {"blocks": "a=normal(3 + 1), k=concrete(3)", "gamma": 2, "delta": 7})
    split.load_state_dict(flat.state_dict())
    one, two = bench.objective(flat), bench.objective(split)
    torch.testing.assert_close(one["within_blocks"], two["within_blocks"] + two["within_groups"])
    slow = Slow(bench, split)
    group = [("a", 0), ("a", 1), ("a", 2)]
    within_groups = slow.mean(lambda b: slow.log_marginal(b, group) - sum(slow.log_marginal(b, [e]) for e in group))
    assert two.mean("within_groups").item() == pytest.approx(within_groups, abs=1e-9)
    assert (two.weights["within_blocks"], two.weights["within_groups"]) == (2, 7)
    assert "within_groups" not in list(one)


def test_anchors_are_charged_less(bench):
    settings = {"blocks": MIXED, "anchors": ["style[1]", "shape"], "anchor": "linear(0, 2, 10)"}
    system = bench.system("hfvae", settings)
    slow, part = Slow(bench, system), [("style", 1), ("shape", None)]
    information = slow.mean(lambda b: slow.log_posterior(b, b, part) - slow.log_marginal(b, part))
    for step, weight in ((0, 0.0), (5, -1.0), (20, -2.0)):
        terms = bench.objective(system, step=step)
        assert terms.mean("anchor_information").item() == pytest.approx(information, abs=1e-9)
        assert terms.weights["anchor_information"] == weight


def test_temperature_follows_the_systems_step_in_both_programs(bench):
    system = bench.system("hfvae", {"blocks": MIXED, "temperature": "linear(1, 0.2, 100)"})
    batch = bench.batch()
    for step, temperature in ((0, 1.0), (50, 0.6), (100, 0.2), (900, 0.2)):
        system.step = step
        q = system.posterior(batch)
        p = system.joint(q.as_given(x=batch.observations), batch)
        for trace in (q, p):
            assert trace.site("shape").distribution.temperature == pytest.approx(temperature)
        terms = bench.objective(system, step=step)
        assert terms.diagnostics["temperature"].item() == pytest.approx(temperature)


def test_cold_draws_are_nearly_one_hot(bench):
    system = bench.system("hfvae", {"blocks": MIXED, "temperature": "linear(5, 0.05, 10)"}).float()
    warm = system.draw(200, seed=0)["shape"].max(1).mean()
    system.step = 10
    cold = system.draw(200, seed=0)["shape"].max(1).mean()
    assert warm < 0.7 < 0.95 < cold


def test_codes_and_pictures_have_the_declared_blocks(bench):
    system = bench.system("hfvae", {"blocks": MIXED}).float()
    codes = system.encode(Batch.of(bench.batch().observations.float()))
    assert [(b.name, b.shape, b.kind) for b in codes.blocks] == [("shape", (3,), "simplex"), ("style", (2,), "real")]
    np.testing.assert_allclose(codes["shape"].sum(1), 1, rtol=1e-5)
    one_hot = Codes(codes.blocks, {"shape": np.eye(3), "style": np.zeros((3, 2))})
    pictures = system.render(one_hot)
    assert pictures.shape == (3, 5)
    assert not np.allclose(pictures[0], pictures[1])


def test_every_head_learns_from_the_loss_and_the_decoder_from_the_reconstruction(bench):
    system = bench.system("hfvae", {"blocks": "a=normal(2), k=concrete(3), b=normal(2)"})
    bench.objective(system).total().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in system.parameters())
    system.zero_grad(set_to_none=True)
    bench.objective(system).mean("between_blocks").backward()
    assert all(head.linear.weight.grad.abs().sum() > 0 for head in system.heads.values())
    assert all(parameter.grad is None for parameter in system.decoder.parameters())


def test_single_variables_have_nothing_within(bench):
    system = bench.system("hfvae", {"blocks": "k=concrete(4), s=normal(1)"})
    assert torch.equal(bench.objective(system)["within_blocks"], torch.zeros(6, dtype=torch.float64))


def test_blocks_are_read():
    assert parse_blocks(" a = normal( 5+5 ),k=concrete(3)") == (
        BlockPlan("a", "normal", (5, 5)),
        BlockPlan("k", "concrete", (3,)),
    )
    config = HFVAEConfig().override({"blocks": "digit=concrete(10), style=normal(10)"})
    assert HFVAEConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ("", "cannot read the block ''"),
        ("style", "write name=normal"),
        ("style=normal", "write name=normal"),
        ("style=normal(3.5)", "write name=normal"),
        ("style=norma(3)", "did you mean 'normal'"),
        ("style=gamma(3)", "unknown kind 'gamma'"),
        ("style=normal(3), style=normal(2)", "two blocks are called 'style'"),
        ("x=normal(3)", "x is the observation"),
        ("2d=normal(3)", "begin with a letter"),
        ("style=normal(0)", "at least one"),
        ("style=normal(3 + 0)", "at least one"),
        ("shape=concrete(1)", "2 or more"),
        ("shape=concrete(2 + 2)", "one category out of K"),
        ("style=normal(3),", "cannot read the block ''"),
    ],
)
def test_bad_blocks_are_explained_in_one_line(blocks, message):
    with pytest.raises(ConfigError) as error:
        HFVAEConfig(blocks=blocks)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior_correlation": 0.5}, "two normal blocks of one size"),
        ({"prior_correlation": 0.5, "blocks": "a=normal(2), b=normal(3)"}, "a=normal(2), b=normal(3)"),
        ({"prior_correlation": 1.0, "blocks": "a=normal(2), b=normal(2)"}, "less than 1"),
        ({"anchors": ["styl[0]"]}, "did you mean 'style[0]'"),
        ({"anchors": ["style[10]"]}, "no column 'style[10]'"),
        ({"anchors": ["shape[0]"]}, "no column 'shape[0]'"),
        ({"anchors": ["style", "style[3]"]}, "twice"),
        ({"anchor": 1.0}, "no anchors"),
        ({"temperature": 0.0}, "above 0"),
        ({"temperature": "linear(1, 0, 100)"}, "above 0"),
    ],
)
def test_settings_that_do_not_fit_are_explained(settings, message):
    with pytest.raises(ConfigError) as error:
        HFVAEConfig(**settings)
    assert message in str(error.value)


def test_batch_of_one_is_refused(bench):
    with pytest.raises(ConfigError, match="batch of one"):
        bench.objective(bench.system("hfvae"), bench.batch(rows=1))
