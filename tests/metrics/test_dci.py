"""DCI: hand-made importance matrices, each predictor against its slow twin, known answers of the whole score."""

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Lasso
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from unweave.core.errors import MetricError
from unweave.metrics import dci_boosted, dci_forest, dci_lasso, disentanglement_completeness
from unweave.metrics._importance import (
    PENALTIES,
    _best_depth,
    _importance_to_depth,
    _losses_by_depth,
    bin_edges,
    boosted,
    forest,
    gains,
    lasso,
    to_bins,
)
from unweave.metrics.dci import _jackknife

ALL = [dci_lasso, dci_forest, dci_boosted]


def grid_of(*sizes):
    return np.stack(np.meshgrid(*map(range, sizes), indexing="ij"), axis=-1).reshape(-1, len(sizes)).astype(float)


def entropy_shares(row):
    """1 - entropy in base len(row), by a loop."""
    total, left = sum(row), 1.0
    for value in row:
        if value > 0:
            left += value / total * np.log(value / total) / np.log(len(row))
    return left


class TestImportanceMatrix:
    def test_one_to_one_is_perfect(self):
        shares = disentanglement_completeness(np.diag([1.0, 5.0, 2.0])[:, [2, 0, 1]])
        assert shares.disentanglement == shares.completeness == 1.0
        np.testing.assert_allclose(shares.weights, [1 / 8, 5 / 8, 2 / 8])

    def test_even_is_nothing(self):
        shares = disentanglement_completeness(np.full((4, 3), 0.2))
        assert shares.disentanglement == pytest.approx(0)
        assert shares.completeness == pytest.approx(0)

    def test_one_dimension_for_two_of_four_factors_scores_half(self):
        # H_4 of (1/2, 1/2, 0, 0) is log 2 / log 4 = 1/2; each factor is in one dimension only.
        shares = disentanglement_completeness([[1, 1, 0, 0], [0, 0, 3, 3]])
        np.testing.assert_allclose(shares.per_dimension, [0.5, 0.5])
        np.testing.assert_allclose(shares.per_factor, 1.0)
        assert shares.disentanglement == pytest.approx(0.5)

    def test_two_dimensions_for_one_factor_are_disentangled_but_incomplete(self):
        shares = disentanglement_completeness([[1, 0], [1, 0], [0, 1], [0, 1]])
        assert shares.disentanglement == 1.0
        assert shares.completeness == pytest.approx(0.5)

    def test_agrees_with_loops(self):
        importance = np.random.default_rng(0).gamma(0.5, size=(6, 4))
        shares = disentanglement_completeness(importance)
        rows = [entropy_shares(row) for row in importance]
        columns = [entropy_shares(column) for column in importance.T]
        np.testing.assert_allclose(shares.per_dimension, rows)
        np.testing.assert_allclose(shares.per_factor, columns)
        weighted = sum(row * values.sum() for row, values in zip(rows, importance, strict=True)) / importance.sum()
        assert shares.disentanglement == pytest.approx(weighted)
        assert shares.completeness == pytest.approx(sum(columns) / 4)

    def test_unused_dimension_has_no_weight_and_unknown_factor_counts(self):
        shares = disentanglement_completeness([[1, 0], [0, 0]])
        assert shares.disentanglement == 1.0
        assert shares.completeness == 0.5
        nothing = disentanglement_completeness(np.zeros((3, 2)))
        assert nothing.disentanglement == nothing.completeness == 0.0

    def test_single_factor_and_single_dimension(self):
        assert disentanglement_completeness([[1.0], [2.0]]).disentanglement == 1.0
        assert disentanglement_completeness([[1.0, 2.0]]).completeness == 1.0

    @pytest.mark.parametrize("bad", [[[1, -1]], [[np.nan]], np.zeros((0, 2)), [1, 2]])
    def test_refuses(self, bad):
        with pytest.raises(MetricError, match="importances"):
            disentanglement_completeness(bad)


class TestLasso:
    def test_agrees_with_a_loop_over_penalties_and_folds(self):
        rng = np.random.default_rng(0)
        codes = rng.normal(size=(120, 4)) * [1, 5, 0.1, 1] + 3
        target = 2 * codes[:, 0] + 0.1 * codes[:, 1] + rng.normal(size=120) * 2
        importance, guess = lasso(codes, target, False, codes[:10], seed=5)

        x, y = (codes - codes.mean(0)) / codes.std(0), (target - target.mean()) / target.std()
        errors = np.zeros((len(PENALTIES), 5))
        for i, penalty in enumerate(PENALTIES):
            for j, (train, test) in enumerate(KFold(5, shuffle=True, random_state=5).split(x)):
                model = Lasso(penalty, tol=1e-10).fit(x[train], y[train])
                errors[i, j] = ((model.predict(x[test]) - y[test]) ** 2).mean()
        best = errors.mean(1).argmin()
        allowed = errors[best].mean() + errors[best].std(ddof=1) / np.sqrt(5)
        penalty = next(p for p, e in zip(PENALTIES, errors.mean(1), strict=True) if e <= allowed)
        assert PENALTIES[-1] < penalty < PENALTIES[0]  # a choice was made
        model = Lasso(penalty, tol=1e-10).fit(x, y)
        np.testing.assert_allclose(importance, np.abs(model.coef_), atol=1e-4)
        np.testing.assert_allclose(guess, model.predict(x[:10]) * target.std() + target.mean(), atol=1e-2)

    def test_nothing_to_explain_gives_no_weight(self):
        rng = np.random.default_rng(0)
        importance, guess = lasso(rng.normal(size=(300, 5)), rng.normal(size=300) + 7, False, np.zeros((2, 5)), 0)
        assert (importance == 0).all()
        np.testing.assert_allclose(guess, 7, atol=0.3)


class TestForest:
    @pytest.mark.parametrize("classify", [True, False])
    def test_cut_trees_are_the_trees_grown_to_that_depth(self, classify):
        rng = np.random.default_rng(0)
        codes = rng.normal(size=(2000, 4))  # many rows: two equally good splits of a node are left to chance
        target = np.round(codes[:, 0] + 0.5 * codes[:, 1] + rng.normal(size=2000))
        kind = RandomForestClassifier if classify else RandomForestRegressor
        full = kind(5, max_features=None, random_state=3).fit(codes, target)
        for depth in (0, 1, 3, 50):
            cut = np.mean([_importance_to_depth(tree.tree_, depth) for tree in full.estimators_], axis=0)
            grown = kind(5, max_features=None, random_state=3, max_depth=max(depth, 1)).fit(codes, target)
            np.testing.assert_allclose(cut, grown.feature_importances_ if depth else 0.0, atol=1e-7)

    @pytest.mark.parametrize("classify", [True, False])
    def test_depth_and_predictions_agree_with_a_refit_at_every_depth(self, classify):
        rng = np.random.default_rng(1)
        codes = rng.normal(size=(250, 3))
        target = np.round(codes[:, 0] ** 2 + 0.3 * rng.normal(size=250)).clip(0, 3)
        codes = codes.argsort(axis=0).argsort(axis=0).astype(float)  # fewer than 255 whole numbers: bins change nothing
        kind = RandomForestClassifier if classify else RandomForestRegressor
        full = kind(10, max_features=None, random_state=3).fit(codes, target)
        losses = []
        for depth in range(1, 30):
            model = kind(10, max_features=None, random_state=3, max_depth=depth).fit(codes, target)
            seen = [set(drawn) for drawn in model.estimators_samples_]
            said = [tree.predict_proba(codes) if classify else tree.predict(codes) for tree in model.estimators_]
            row_losses = []
            for n in range(250):
                unseen = [guess[n] for guess, drawn in zip(said, seen, strict=True) if n not in drawn]
                if unseen:
                    truth = (model.classes_ == target[n]) if classify else target[n]
                    row_losses.append(np.sum((np.mean(unseen, axis=0) - truth) ** 2))
            losses.append(row_losses)
            if depth > max(tree.tree_.max_depth for tree in full.estimators_):
                break
        losses = np.array(losses)
        best = losses.mean(1).argmin()
        allowed = losses[best].mean() + losses[best].std() / np.sqrt(losses.shape[1])
        expected = 1 + int(np.flatnonzero(losses.mean(1) <= allowed)[0])
        assert _best_depth(_losses_by_depth(full, codes.astype(np.float32), target, classify)) == expected
        assert expected > 1
        importance, guess = forest(10)(codes, target, classify, codes[:50], 3)
        model = kind(10, max_features=None, random_state=3, max_depth=expected).fit(codes, target)
        np.testing.assert_allclose(importance, model.feature_importances_, atol=1e-7)
        np.testing.assert_allclose(guess, model.predict(codes[:50]))

    @pytest.mark.parametrize("classify", [True, False])
    def test_losses_agree_with_a_walk_down_every_tree(self, classify):
        rng = np.random.default_rng(1)
        codes = rng.normal(size=(80, 3)).astype(np.float32)
        target = np.round(codes[:, 0] + 0.5 * rng.normal(size=80)).clip(-1, 1).astype(float)
        kind = RandomForestClassifier if classify else RandomForestRegressor
        model = kind(4, max_features=None, random_state=3).fit(codes, target)
        losses = _losses_by_depth(model, codes, target, classify)
        assert len(losses) == 1 + max(tree.tree_.max_depth for tree in model.estimators_)
        for depth, found in enumerate(losses):
            expected = []
            for n in range(80):
                said = []
                for estimator, drawn in zip(model.estimators_, model.estimators_samples_, strict=True):
                    tree, node = estimator.tree_, 0
                    for _ in range(depth):
                        if tree.children_left[node] >= 0:
                            left = codes[n, tree.feature[node]] <= tree.threshold[node]
                            node = tree.children_left[node] if left else tree.children_right[node]
                    if n not in drawn:
                        said.append(tree.value[node, 0])
                if said:
                    truth = (model.classes_ == target[n]) if classify else target[n]
                    expected.append(np.sum((np.mean(said, axis=0) - truth) ** 2))
            np.testing.assert_allclose(found, expected)

    @pytest.mark.parametrize("classify", [True, False])
    def test_bins_and_limited_depth_give_what_exact_trees_grown_to_the_end_give(self, classify):
        rng = np.random.default_rng(2)
        codes = rng.normal(size=(3000, 4))
        target = np.round(2 * codes[:, 0] + np.sin(3 * codes[:, 1]) + 0.5 * rng.normal(size=3000)).clip(-3, 3)
        kind = RandomForestClassifier if classify else RandomForestRegressor
        exact = []
        for seed in range(6):
            full = kind(10, max_features=None, random_state=seed).fit(codes, target)
            depth = _best_depth(_losses_by_depth(full, codes.astype(np.float32), target, classify))
            exact.append(np.mean([_importance_to_depth(tree.tree_, depth) for tree in full.estimators_], axis=0))
        found = [forest(10)(codes, target, classify, codes[:9], seed)[0] for seed in range(6)]
        error = np.sqrt((np.var(exact, axis=0, ddof=1) + np.var(found, axis=0, ddof=1)) / 6)
        assert (np.abs(np.mean(found, axis=0) - np.mean(exact, axis=0)) < 4 * error + 1e-4).all()

    def test_a_chain_of_splits_is_grown_to_its_end(self):
        # Targets 4^0, 4^1, ...: each split cuts the greatest off, so the best depth is far beyond log2 n.
        codes = np.repeat(np.arange(40.0), 25)[:, None]
        target = np.repeat(4.0 ** np.arange(40), 25)
        importance, guess = forest(10)(codes, target, False, codes, 0)
        assert importance[0] == 1.0
        np.testing.assert_allclose(guess, target)

    def test_bins_hold_the_values_or_even_shares_of_the_rows(self):
        rng = np.random.default_rng(0)
        few, many = rng.integers(200, size=1000) / 7, rng.normal(size=10_000)
        binned = to_bins(few[:, None], [bin_edges(few)])[:, 0]
        np.testing.assert_array_equal(binned, np.unique(few, return_inverse=True)[1])
        binned = to_bins(many[:, None], [bin_edges(many)])[:, 0]
        counts = np.bincount(binned.astype(int))
        assert len(counts) == 255
        assert counts.min() >= 38
        assert counts.max() <= 41
        assert (np.diff(binned[np.argsort(many)]) >= 0).all()
        heavy = np.concatenate([np.zeros(9000), many[:1000]])  # one value has most of the rows and a bin of its own
        binned = to_bins(heavy[:, None], [bin_edges(heavy)])[:, 0]
        assert len(set(binned[heavy == 0])) == 1
        assert not set(binned[heavy == 0]) & set(binned[heavy > 0.3])

    def test_nothing_to_explain_makes_no_split(self):
        rng = np.random.default_rng(0)
        importance, _ = forest(10)(rng.normal(size=(300, 5)), rng.integers(3, size=300), True, np.zeros((2, 5)), 0)
        assert (importance == 0).all()


class TestBoosted:
    def test_gains_of_one_tree_are_the_importances_of_a_decision_tree(self):
        # With squared error the gain of a split is the decrease of the squared error, which a tree's importances share
        # out. This guards the private attribute that the gains are read from.
        rng = np.random.default_rng(0)
        codes = rng.integers(40, size=(800, 5)).astype(float)
        target = codes[:, 0] + 0.3 * (codes[:, 1] - 20) ** 2 + rng.normal(size=800)
        one = HistGradientBoostingRegressor(
            max_iter=1, max_depth=3, max_leaf_nodes=None, min_samples_leaf=1, early_stopping=False
        ).fit(codes, target)
        tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(codes, target)
        np.testing.assert_allclose(gains(one), tree.feature_importances_, atol=1e-4)
        assert (gains(one) > 0.05).sum() == 1 + (np.sort(gains(one))[-2] > 0.05)

    def test_close_to_exact_gradient_boosting(self):
        rng = np.random.default_rng(0)
        codes = rng.normal(size=(1000, 4))
        target = codes[:, 0] + codes[:, 1] ** 2 + 0.3 * rng.normal(size=1000)
        importance, guess = boosted(100)(codes, target, False, codes, 0)
        exact = GradientBoostingRegressor().fit(codes, target)
        np.testing.assert_allclose(importance, exact.feature_importances_, atol=0.02)
        assert np.corrcoef(guess, exact.predict(codes))[0, 1] > 0.99

    def test_gains_of_classes_sum_over_their_trees(self):
        rng = np.random.default_rng(0)
        codes = rng.normal(size=(400, 3))
        model = HistGradientBoostingClassifier(max_iter=3).fit(codes, np.digitize(codes[:, 1], [-0.5, 0.5]))
        expected = np.zeros(3)
        for iteration in model._predictors:
            assert len(iteration) == 3
            for tree in iteration:
                for node in tree.nodes:
                    if not node["is_leaf"]:
                        expected[node["feature_idx"]] += node["gain"]
        np.testing.assert_allclose(gains(model), expected / expected.sum())
        assert gains(model)[1] > 0.9


class TestScore:
    @pytest.mark.parametrize("score", ALL)
    def test_perfect_codes_score_one(self, score):
        factors = grid_of(3, 6, 20)
        result = score(factors[:, ::-1] * [3, -1, 0.1] + 5, factors)
        assert result.value == pytest.approx(1.0, abs=1e-6)
        assert result.parts["completeness"] == pytest.approx(1.0, abs=1e-6)
        assert result.parts["informativeness"] > 0.98
        np.testing.assert_array_equal(result.parts["importance"].argmax(axis=0), [2, 1, 0])

    @pytest.mark.parametrize("score", ALL)
    def test_noise_scores_near_zero(self, score):
        rng = np.random.default_rng(0)
        factors = np.stack([rng.integers(3, size=600), rng.integers(30, size=600), rng.normal(size=600)], axis=1)
        result = score(rng.normal(size=(600, 6)), factors)
        assert result.value < 0.05
        assert result.parts["completeness"] < 0.05
        np.testing.assert_allclose(result.parts["error_per_factor"][1:], 1.0, atol=0.15)

    @pytest.mark.parametrize("score", ALL)
    def test_rotation_and_duplicates(self, score):
        rng = np.random.default_rng(0)
        factors = rng.normal(size=(600, 2))
        turned = factors @ np.array([[1, 1], [1, -1]]) / np.sqrt(2)
        assert score(turned, factors).value < 0.2
        doubled = np.concatenate([factors, factors], axis=1) + 0.3 * rng.normal(size=(600, 4))
        result = score(doubled, factors)
        assert result.value > 0.75
        assert result.parts["completeness"] < 0.6

    def test_informativeness_is_error_on_rows_not_trained_on(self):
        rng = np.random.default_rng(0)
        factors = np.stack([rng.normal(size=1500), rng.integers(2, size=1500)], axis=1)
        codes = factors + np.array([0.75, 0.5]) * rng.normal(size=(1500, 2))
        result = dci_lasso(codes, factors)
        # Var(factor | code) / Var(factor) = 1 - 1 / (1 + 0.75^2) = 0.36
        assert result.parts["nrmse"]["factor[0]"] == pytest.approx(0.6, abs=0.03)
        assert result.parts["accuracy"] == {}
        result = dci_forest(codes, factors, trees=5)
        # Best accuracy of two classes one apart with deviation 0.5 is Phi(1) = 0.841
        assert 0.80 < result.parts["accuracy"]["factor[1]"] < 0.87
        error = [result.parts["nrmse"]["factor[0]"], 1 - result.parts["accuracy"]["factor[1]"]]
        np.testing.assert_allclose(result.parts["error_per_factor"], error)
        assert result.parts["informativeness"] == pytest.approx(1 - np.mean(error))

    @pytest.mark.parametrize("score", ALL)
    def test_missing_values_and_constant_dimension(self, score):
        rng = np.random.default_rng(0)
        factors = np.stack([rng.integers(4, size=400), rng.normal(size=400)], axis=1)
        codes = np.concatenate([factors, np.ones((400, 1))], axis=1)
        factors[rng.random(factors.shape) < 0.2] = np.nan
        result = score(codes, factors)
        assert result.value > 0.99
        np.testing.assert_array_equal(result.parts["importance"][2], 0)

    def test_many_valued_factors_are_regressed(self):
        factors = grid_of(5, 12)
        assert set(dci_forest(factors, factors, trees=2).parts["accuracy"]) == {"factor[0]"}
        assert set(dci_forest(factors, factors, trees=2, most_classes=12).parts["nrmse"]) == set()
        named = dci_boosted(
            factors, factors, names=["a", "b"], kinds=["continuous", "discrete"], trees=5, most_classes=20
        )
        assert (*named.parts["nrmse"], *named.parts["accuracy"]) == ("a", "b")

    @pytest.mark.parametrize("score", ALL)
    def test_threads_change_nothing_and_classes_may_have_any_values(self, score):
        rng = np.random.default_rng(0)
        factors = rng.integers(3, size=(300, 2))
        codes = factors + rng.normal(size=(300, 2))
        few = {} if score is dci_lasso else {"trees": 10}
        one, two = score(codes, factors, jobs=1, **few), score(codes, factors, jobs=2, **few)
        assert one.to_dict() == two.to_dict()
        halves = score(codes, factors / 2, kinds=["discrete", "discrete"], jobs=1, **few)
        assert halves.value == pytest.approx(one.value, abs=1e-6)

    def test_interval_is_as_wide_as_repeated_samples_differ(self):
        def draw(seed):
            rng = np.random.default_rng(seed)
            factors = rng.normal(size=(300, 2))
            return dci_lasso(factors @ (np.eye(2) + 0.3) + 0.5 * rng.normal(size=(300, 2)), factors, jobs=1)

        results = [draw(seed) for seed in range(20)]
        values = np.array([result.value for result in results])
        halves = np.array([(high - low) / 2 for low, high in (result.interval for result in results)])
        assert 0.6 < np.sqrt((halves**2).mean()) / 2.776 / values.std(ddof=1) < 1.8
        middle = values.mean()
        assert sum(low <= middle <= high for low, high in (result.interval for result in results)) >= 17

    def test_jackknife_formula(self):
        values = [0.5, 0.6, 0.4, 0.55, 0.45]
        variance = 4 / 5 * sum((v - 0.5) ** 2 for v in values)
        low, high = _jackknife(values, 0.52)
        assert low == pytest.approx(0.52 - 2.7764451 * variance**0.5)
        assert high == pytest.approx(0.52 + 2.7764451 * variance**0.5)
        assert _jackknife([0.9, 1.0], 1.0)[1] == 1.0

    def test_refuses(self):
        rng = np.random.default_rng(0)
        with pytest.raises(MetricError, match="has 6 values: 5 folds need at least 10"):
            dci_lasso(rng.normal(size=(6, 2)), rng.normal(size=(6, 1)))
        with pytest.raises(MetricError, match="folds = 1"):
            dci_lasso(rng.normal(size=(60, 2)), rng.normal(size=(60, 1)), folds=1)
