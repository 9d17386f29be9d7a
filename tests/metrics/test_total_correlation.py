"""TC against closed forms, enumeration and a double loop."""

import numpy as np
import pytest
from scipy import special, stats

from unweave.base.errors import MetricError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.metrics import information, total_correlation
from unweave.metrics._posterior import check_posterior
from unweave.metrics.total_correlation import joint_log_density


def correlated(rows, rho, rng):
    """Rows of two standard normals whose sample correlation is exactly rho."""
    z = rng.normal(size=(rows, 2))
    z -= z.mean(axis=0)
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / rows)).T
    return z @ np.array([[1, rho], [0, np.sqrt(1 - rho**2)]])


class TestGaussian:
    @pytest.mark.parametrize("rho", [0.0, 0.5, -0.9])
    def test_two_dimensions_have_the_closed_form(self, rho):
        codes = correlated(500, rho, np.random.default_rng(0)) * [1, 100] + [3, -5]
        score = total_correlation(codes)
        assert score.value == pytest.approx(-0.5 * np.log(1 - rho**2), abs=1e-9)
        assert score.settings["estimator"] == "gaussian"
        assert score.interval[0] <= score.value <= score.interval[1]

    def test_is_sum_of_marginal_entropies_minus_joint_entropy(self):
        rng = np.random.default_rng(0)
        codes = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
        covariance = np.cov(codes.T, ddof=0)
        apart = sum(stats.norm(scale=np.sqrt(v)).entropy() for v in np.diag(covariance))
        together = stats.multivariate_normal(np.zeros(4), covariance).entropy()
        assert total_correlation(codes, repeats=2).value == pytest.approx(apart - together)

    def test_spreads_are_part_of_q(self):
        means = correlated(400, 0.8, np.random.default_rng(0))
        score = total_correlation(means, spreads=np.ones((400, 2)), estimator="gaussian")
        assert score.value == pytest.approx(-0.5 * np.log(1 - 0.4**2))  # variance 1 + 1, covariance 0.8

    def test_constant_dimensions_and_a_single_one_add_nothing(self):
        codes = correlated(100, 0.5, np.random.default_rng(0))
        padded = np.insert(codes, 1, 7.0, axis=1)
        assert total_correlation(padded).value == pytest.approx(total_correlation(codes).value)
        assert total_correlation(padded).settings["variables"] == ("z[0]", "z[2]")
        assert total_correlation(codes[:, :1]).value == 0.0

    def test_refuses_linear_dependence(self):
        codes = np.random.default_rng(0).normal(size=(50, 2))
        with pytest.raises(MetricError, match="infinite"):
            total_correlation(np.c_[codes, codes.sum(axis=1)])
        with pytest.raises(MetricError, match="fewer rows than dimensions"):
            total_correlation(np.random.default_rng(0).normal(size=(3, 5)))
        with pytest.raises(MetricError, match="expected 'gaussian' or 'mixture'"):
            total_correlation(codes, estimator="exact")

    def test_interval_agrees_with_repeated_samples(self):
        def draw(seed):
            rng = np.random.default_rng(seed)
            return rng.normal(size=(300, 2)) @ np.array([[1, 0.7], [0, 0.7]])

        low, high = total_correlation(draw(0)).interval
        values = [total_correlation(draw(seed), repeats=2).value for seed in range(200)]
        assert (high - low) / 4 == pytest.approx(np.std(values), rel=0.35)


class TestMixture:
    def test_joint_density_agrees_with_a_double_loop(self):
        rng = np.random.default_rng(0)
        p = rng.dirichlet([1, 1, 1], size=9)
        p[0] = [0, 1, 0]
        blocks = (Block("c", (3,), kind="simplex"), Block("z", (2,)))
        means, spreads = rng.normal(size=(9, 2)) + 20, rng.uniform(0.1, 1, size=(9, 2))
        posterior = check_posterior(Codes(blocks, {"c": p, "z": means}, {"z": spreads}))
        z, c = means + spreads * rng.normal(size=(9, 2)), np.array([1, 0, 1, 2, 0, 1, 2, 2, 0])
        joint, own = joint_log_density(posterior, z, [c])
        for n in range(9):
            terms = [
                p[m, c[n]] * stats.norm.pdf(z[n, 0], means[m, 0], spreads[m, 0])
                * stats.norm.pdf(z[n, 1], means[m, 1], spreads[m, 1])
                for m in range(9)
            ]  # fmt: skip
            assert joint[n] == pytest.approx(np.log(np.mean(terms)))
            assert own[n] == pytest.approx(np.log(terms[n]))

    def test_gaussian_posteriors_have_the_closed_form(self):
        rng = np.random.default_rng(0)
        means = correlated(3000, 0.8, rng)
        score = total_correlation(means, spreads=np.full((3000, 2), 0.5))
        expected = -0.5 * np.log(1 - (0.8 / 1.25) ** 2)
        assert score.settings["estimator"] == "mixture"
        assert score.value == pytest.approx(expected, abs=0.04)
        assert score.interval[0] < expected < score.interval[1]
        assert score.parts["gaussian"] == pytest.approx(expected)
        assert score.parts["own_share"] < 0.1

    def test_sees_dependence_without_correlation(self):
        angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
        means = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        spreads = np.full((2000, 2), 0.1)
        score = total_correlation(means, spreads=spreads)
        assert score.parts["gaussian"] == pytest.approx(0.0, abs=1e-9)
        assert score.value > 0.5

    def test_independent_codes_score_near_zero(self):
        rng = np.random.default_rng(1)
        score = total_correlation(rng.normal(size=(3000, 2)), spreads=np.ones((3000, 2)))
        assert score.value < 0.02
        assert "note" not in score.settings

    def test_information_of_dimensions_is_joint_information_plus_tc(self):
        rng = np.random.default_rng(0)
        means = correlated(1500, 0.6, rng)
        spreads = rng.uniform(0.3, 0.8, size=(1500, 2))
        tc = total_correlation(means, spreads=spreads)
        parts = information(means, spreads=spreads).value
        assert tc.parts["information"] + tc.parts["mixture"] == pytest.approx(parts, abs=0.05)
        # I(x; z) of all dimensions from q(z), by a plain sum over fresh draws
        z = means + spreads * np.random.default_rng(5).normal(size=means.shape)
        logs = stats.norm.logpdf(z[:, None], means[None], spreads[None]).sum(axis=2)
        joint = np.mean(np.diag(logs) - special.logsumexp(logs, axis=1) + np.log(1500))
        assert tc.parts["information"] == pytest.approx(joint, abs=0.06)

    def test_categories_have_their_enumerated_tc(self):
        # a in {0, 1} fair and sure; b equals a with probability 0.9: TC = I(a; b) = log 2 - H(0.9)
        a = np.eye(2)[np.arange(4000) % 2]
        b = 0.8 * a + 0.1
        blocks = (Block("a", (2,), kind="simplex"), Block("b", (2,), kind="simplex"))
        score = total_correlation(Codes(blocks, {"a": a, "b": b}))
        expected = np.log(2) + 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
        assert score.value == pytest.approx(expected, abs=0.04)
        assert score.settings["variables"] == ("a", "b")

    def test_too_few_rows_are_noted(self):
        rng = np.random.default_rng(0)
        score = total_correlation(rng.normal(size=(200, 10)), spreads=np.full((200, 10), 0.1))
        assert score.parts["own_share"] > 0.9
        assert score.parts["information"] == pytest.approx(score.parts["limit"], abs=0.1)
        assert "too high" in score.settings["note"]

    def test_subset_of_rows(self):
        rng = np.random.default_rng(0)
        means, spreads = correlated(3000, 0.8, rng), np.full((3000, 2), 0.5)
        score = total_correlation(means, spreads=spreads, rows=1000)
        assert score.settings["rows"] == 1000
        assert score.value == pytest.approx(total_correlation(means, spreads=spreads).value, abs=0.1)
