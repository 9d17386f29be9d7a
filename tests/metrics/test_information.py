"""I(x; z_d) against closed forms, numerical integration and loops."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from unweave.base.errors import MetricError
from unweave.core.block import Block
from unweave.core.codes import Codes
from unweave.metrics import information
from unweave.metrics._mixture import least_spread, mixture


def information_by_quadrature(means, spreads):
    """1/N sum_n KL(q_n || q), one integral for each row."""

    def density(z):
        return np.mean(stats.norm.pdf(z, means, spreads))

    total = 0.0
    for m, s in zip(means, spreads, strict=True):
        total += integrate.quad(
            lambda z, m=m, s=s: stats.norm.pdf(z, m, s) * (stats.norm.logpdf(z, m, s) - np.log(density(z))),
            m - 7 * s,
            m + 7 * s,
            epsabs=1e-6,
        )[0]
    return total / len(means)


class TestMixture:
    @pytest.mark.parametrize(("least", "most"), [(0.01, 1.0), (0.3, 0.3), (0.05, 0.06)])
    def test_density_agrees_with_a_sum(self, least, most):
        rng = np.random.default_rng(0)
        means, spreads = rng.normal(size=200), np.exp(rng.uniform(np.log(least), np.log(most), 200))
        q = mixture(means, spreads)
        points = np.linspace(means.min(), means.max(), 500)
        expected = np.mean([stats.norm.pdf(points, m, s) for m, s in zip(means, spreads, strict=True)], axis=0)
        np.testing.assert_allclose(np.exp(q.log(points)), expected, atol=5e-5 * expected.max())
        assert q.step * q.density.sum() == pytest.approx(1.0, abs=1e-6)

    def test_single_component_has_gaussian_entropy(self):
        assert mixture(np.array([3.0]), np.array([0.2])).entropy == pytest.approx(
            0.5 * np.log(2 * np.pi * np.e * 0.04), abs=1e-5
        )

    def test_two_components_far_apart(self):
        q = mixture(np.array([0.0, 50.0]), np.array([0.5, 2.0]))
        expected = np.log(2) + 0.5 * np.log(2 * np.pi * np.e) + 0.5 * (np.log(0.5) + np.log(2))
        assert q.entropy == pytest.approx(expected, abs=1e-5)


class TestInformation:
    @pytest.mark.parametrize("spread", [0.1, 0.5, 2.0])
    def test_gaussian_means_have_the_closed_form(self, spread):
        # Means at the quantiles of N(0, 1): q(z) is N(0, 1 + s^2) and I = 1/2 log(1 + 1 / s^2).
        rows = 4000
        means = special.ndtri((np.arange(rows) + 0.5) / rows)[:, None]
        score = information(means, spreads=np.full((rows, 1), spread))
        assert score.value == pytest.approx(0.5 * np.log(1 + 1 / spread**2), abs=3e-3)

    def test_agrees_with_quadrature_for_mixed_spreads(self):
        rng = np.random.default_rng(0)
        means, spreads = rng.normal(size=(8, 2)) * [1, 0.3], np.exp(rng.uniform(-2.5, 0, size=(8, 2)))
        score = information(means, spreads=spreads)
        expected = [information_by_quadrature(means[:, d], spreads[:, d]) for d in range(2)]
        np.testing.assert_allclose(list(score.parts["per_dimension"].values()), expected, atol=2e-5)
        assert score.value == pytest.approx(sum(expected), abs=2e-4)

    def test_rows_told_apart_surely_give_log_n(self):
        means = np.arange(50.0)[:, None] * 100
        score = information(means, spreads=np.ones((50, 1)))
        assert score.value == pytest.approx(np.log(50), abs=1e-4)
        assert score.parts["limit"] == pytest.approx(np.log(50))

    def test_equal_posteriors_say_nothing(self):
        score = information(np.full((30, 2), 4.0), spreads=np.full((30, 2), 0.1))
        assert score.value == pytest.approx(0.0, abs=1e-4)

    def test_shift_and_scale_of_a_dimension_change_nothing(self):
        rng = np.random.default_rng(0)
        means, spreads = rng.normal(size=(500, 2)), rng.uniform(0.05, 1, size=(500, 2))
        scale = np.array([1e-3, 500.0])
        moved = information(means * scale - 7, spreads=spreads * scale)
        assert moved.value == pytest.approx(information(means, spreads=spreads).value, abs=1e-6)

    def test_interval_agrees_with_a_bootstrap(self):
        rng = np.random.default_rng(0)
        means, spreads = rng.normal(size=(400, 2)), rng.uniform(0.1, 1, size=(400, 2))
        low, high = information(means, spreads=spreads).interval
        draws = [rng.integers(400, size=400) for _ in range(200)]
        values = [information(means[rows], spreads=spreads[rows]).value for rows in draws]
        assert (high - low) / (2 * 1.96) == pytest.approx(np.std(values), rel=0.25)

    def test_simplex_block_is_one_variable(self):
        rng = np.random.default_rng(0)
        p = rng.dirichlet([0.3, 0.3, 0.3], size=200)
        p[0] = [1, 0, 0]
        means, spreads = rng.normal(size=(200, 2)), np.full((200, 2), 0.5)
        blocks = (Block("digit", (3,), kind="simplex"), Block("style", (2,)))
        score = information(Codes(blocks, {"digit": p, "style": means}, {"style": spreads}))

        def entropy(q):
            return -sum(x * np.log(x) for x in q if x > 0)

        expected = entropy(p.mean(axis=0)) - np.mean([entropy(row) for row in p])
        assert score.parts["per_dimension"]["digit"] == pytest.approx(expected)
        assert list(score.parts["per_dimension"]) == ["style[0]", "style[1]", "digit"]
        alone = information(means, spreads=spreads)
        assert score.value == pytest.approx(alone.value + expected)

    def test_simplex_vectors_of_entities_and_blocks_without_posterior(self):
        p = np.zeros((40, 2, 2))
        p[:, 0] = [0.5, 0.5]
        p[np.arange(40), 1, np.arange(40) % 2] = 1.0
        blocks = (Block("kind", (2, 2), axes=("entity", "dim"), kind="simplex"), Block("place", (1,)))
        score = information(Codes(blocks, {"kind": p, "place": np.zeros((40, 1))}))
        assert score.parts["per_dimension"] == {"kind[0]": 0.0, "kind[1]": pytest.approx(np.log(2))}
        assert score.settings["left_out"] == ("place",)

    def test_tiny_spreads_are_widened_and_said_so(self):
        rng = np.random.default_rng(0)
        means, spreads = rng.normal(size=(300, 1)), np.full((300, 1), 1e-9)
        score = information(means, spreads=spreads)
        assert score.settings["widened_spreads"] == 300
        assert np.log(300) - 0.1 < score.value <= np.log(300) + 1e-6
        widest = least_spread(means[:, 0], spreads[:, 0])
        assert score.value == pytest.approx(
            information(means, spreads=np.full((300, 1), widest * 1.01)).value, abs=1e-3
        )

    @pytest.mark.parametrize(
        ("means", "spreads", "message"),
        [
            (np.zeros((3, 2)), None, "no spreads"),
            (np.zeros((3, 2)), np.ones((3, 1)), "expected one spread for each code"),
            (np.zeros((3, 2)), np.zeros((3, 2)), r"row 0 of z\[0\] is 0"),
            (np.zeros((3, 2)), np.full((3, 2), np.nan), "is nan"),
        ],
    )
    def test_refuses(self, means, spreads, message):
        with pytest.raises(MetricError, match=message):
            information(means, spreads=spreads)

    def test_refuses_codes_without_posterior_and_off_the_simplex(self):
        with pytest.raises(MetricError, match="no block has a posterior"):
            information(Codes((Block("z", (2,)),), {"z": np.zeros((4, 2))}))
        with pytest.raises(MetricError, match="not on the simplex"):
            information(Codes((Block("c", (2,), kind="simplex"),), {"c": np.ones((4, 2))}))
