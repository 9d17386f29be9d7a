"""DCI: hand-made importance matrices, each predictor against its slow twin, known answers of the whole score."""

import subprocess
import sys

import joblib
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

from unweave.base.errors import MetricError
from unweave.metrics import dci_boosted, dci_forest, dci_lasso, disentanglement_completeness
from unweave.metrics._forest import grow, outputs
from unweave.metrics._importance import (
    PENALTIES,
    Boosted,
    Forest,
    _best_depth,
    bin_edges,
    gains,
    lasso,
    to_bins,
)
from unweave.metrics.dci import _jackknife

ALL = [dci_lasso, dci_forest, dci_boosted]
MODULE = sys.modules[_jackknife.__module__]
SCRIPT = """
import threading

import joblib
import numpy as np

import unweave.metrics.dci
from unweave.metrics import dci_forest

unweave.metrics.dci.WORTH_PROCESSES = 0.0
print("once")
rng = np.random.default_rng(0)
codes, found = rng.normal(size=(60, 2)), []


def score(jobs):
    found.append(dci_forest(codes, codes[:, :1], trees=2, jobs=jobs).to_dict())


score(1)
score(2)
thread = threading.Thread(target=score, args=(2,))
thread.start()
thread.join()
print(found[0] == found[1] == found[2])
imported = "(__import__('unweave.metrics.dci'), 'torch' in __import__('sys').modules)[1]"
workers = joblib.Parallel(2, prefer="processes", max_nbytes=None)  # as the score has it: the same processes
print(workers(joblib.delayed(eval)(imported) for _ in range(2)))
"""


def grid_of(*sizes):
    return np.stack(np.meshgrid(*map(range, sizes), indexing="ij"), axis=-1).reshape(-1, len(sizes)).astype(float)


def entropy_shares(row):
    """1 - entropy in base len(row), by a loop."""
    total, left = sum(row), 1.0
    for value in row:
        if value > 0:
            left += value / total * np.log(value / total) / np.log(len(row))
    return left


def exact_forest_importance(codes, target, classify, seed):
    """Importances of scikit-learn's forest, grown to the end and cut at the depth that its unseen rows ask for."""
    kind = RandomForestClassifier if classify else RandomForestRegressor
    model = kind(10, max_features=None, random_state=seed).fit(codes, target)
    truth = target[:, None] == model.classes_ if classify else target[:, None]
    most = max(estimator.get_depth() for estimator in model.estimators_)
    total, votes = np.zeros((most + 1, *truth.shape)), np.zeros(len(codes))
    depths = []
    for estimator, drawn in zip(model.estimators_, model.estimators_samples_, strict=True):
        tree = estimator.tree_
        split = np.flatnonzero(tree.children_left >= 0)
        above, depth = np.zeros((2, tree.node_count), dtype=int)
        for node in split:  # parents come before their children
            for child in (tree.children_left[node], tree.children_right[node]):
                above[child], depth[child] = node, depth[node] + 1
        unseen = np.setdiff1d(np.arange(len(codes)), drawn)
        node = tree.apply(codes[unseen])
        for level in range(most, -1, -1):
            node = np.where(depth[node] > level, above[node], node)
            total[level, unseen] += tree.value[node, 0]
        votes[unseen] += 1
        depths.append(depth)
    rated = votes > 0
    cut = _best_depth(((total[:, rated] / votes[rated, None] - truth[rated]) ** 2).sum(axis=2))
    shares = []
    for estimator, depth in zip(model.estimators_, depths, strict=True):
        tree, share = estimator.tree_, np.zeros(codes.shape[1])
        impurity = tree.weighted_n_node_samples * tree.impurity
        for node in np.flatnonzero((tree.children_left >= 0) & (depth < cut)):
            left, right = tree.children_left[node], tree.children_right[node]
            share[tree.feature[node]] += impurity[node] - impurity[left] - impurity[right]
        shares.append(share / share.sum())
    return np.mean(shares, axis=0)


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
    def test_importances_and_predictions_are_those_of_the_forest_cut_at_the_chosen_depth(self, classify):
        rng = np.random.default_rng(1)
        codes = rng.normal(size=(250, 3))
        target = np.round(codes[:, 0] ** 2 + 0.3 * rng.normal(size=250)).clip(0, 3)
        importance, guess = Forest(10)(codes, target, classify, codes[:50], 3)
        edges = [bin_edges(column) for column in codes.T]
        random = np.random.default_rng(3)
        weights = np.array([np.bincount(random.integers(250, size=250), minlength=250) for _ in range(10)])
        bins, number = to_bins(codes, edges), target.astype(int) if classify else target
        (trees,), losses = grow(bins, number, 4 if classify else 0, weights, random)
        depth = _best_depth(losses)
        assert depth > 1
        np.testing.assert_allclose(importance, trees.importance(depth).mean(axis=0))
        said = outputs([trees], bins[:50], depth)
        np.testing.assert_allclose(guess, said.argmax(axis=1) if classify else said[:, 0])

    def test_depth_is_the_least_within_one_standard_error_of_the_best(self):
        losses = np.random.default_rng(0).normal(size=(6, 400)) + np.array([[9], [5], [3.06], [3.0], [3.1], [3.4]])
        errors = [row.mean() for row in losses]
        allowed = min(errors) + losses[np.argmin(errors)].std() / 20
        assert _best_depth(losses) == next(d for d, error in enumerate(errors) if error <= allowed)
        assert _best_depth(losses[[3, 2, 3]] + [[0.05], [0], [0]]) == 0  # not four standard errors better
        assert _best_depth(np.zeros((3, 1))) == 0

    def test_seeds_reproduce(self):
        rng = np.random.default_rng(0)
        codes = rng.normal(size=(200, 3))
        target = codes[:, 0] + codes[:, 1] + rng.normal(size=200)
        one, same, other = (Forest(5)(codes, target, False, codes, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one[0], same[0])
        np.testing.assert_array_equal(one[1], same[1])
        assert (one[0] != other[0]).any()

    @pytest.mark.parametrize("classify", [True, False])
    def test_bins_and_limited_depth_give_what_exact_trees_grown_to_the_end_give(self, classify):
        rng = np.random.default_rng(2)
        codes = rng.normal(size=(3000, 4))
        target = np.round(2 * codes[:, 0] + np.sin(3 * codes[:, 1]) + 0.5 * rng.normal(size=3000)).clip(-3, 3)
        exact = [exact_forest_importance(codes.astype(np.float32), target, classify, seed) for seed in range(6)]
        found = [Forest(10)(codes, target, classify, codes[:9], seed)[0] for seed in range(6)]
        error = np.sqrt((np.var(exact, axis=0, ddof=1) + np.var(found, axis=0, ddof=1)) / 6)
        assert (np.abs(np.mean(found, axis=0) - np.mean(exact, axis=0)) < 4 * error + 1e-4).all()

    def test_a_chain_of_splits_is_grown_to_its_end(self):
        # Targets 4^0, 4^1, ...: each split cuts the greatest off, so the best depth is far beyond log2 n.
        codes = np.repeat(np.arange(40.0), 25)[:, None]
        target = np.repeat(4.0 ** np.arange(40), 25)
        importance, guess = Forest(10)(codes, target, False, codes, 0)
        assert importance[0] == 1.0
        np.testing.assert_allclose(guess, target)

    def test_bins_hold_the_values_or_even_shares_of_the_rows(self):
        rng = np.random.default_rng(0)
        few, many = rng.integers(200, size=1000) / 7, rng.normal(size=10_000)
        binned = to_bins(few[:, None], [bin_edges(few)])[:, 0]
        np.testing.assert_array_equal(binned, np.unique(few, return_inverse=True)[1])
        binned = to_bins(many[:, None], [bin_edges(many)])[:, 0].astype(int)
        counts = np.bincount(binned)
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
        importance, _ = Forest(10)(rng.normal(size=(300, 5)), rng.integers(3, size=300), True, np.zeros((2, 5)), 0)
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
        importance, guess = Boosted(100)(codes, target, False, codes, 0)
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

    @pytest.mark.parametrize("score", [dci_forest, dci_boosted])
    def test_processes_change_nothing(self, score, monkeypatch):
        rng = np.random.default_rng(0)
        factors = np.stack([rng.integers(3, size=200), rng.normal(size=200)], axis=1)
        codes = factors + rng.normal(size=(200, 2))
        threads = score(codes, factors, jobs=2, trees=10)
        monkeypatch.setattr(MODULE, "WORTH_PROCESSES", 0.0)
        for jobs in (1, 2):
            assert score(codes, factors, jobs=jobs, trees=10).to_dict() == threads.to_dict()

    def test_only_much_work_is_for_processes(self, monkeypatch):
        asked = []
        parallel = joblib.Parallel

        def note(jobs, prefer, **settings):
            asked.append(prefer)
            return parallel(1)

        monkeypatch.setattr(joblib, "Parallel", note)
        rng = np.random.default_rng(0)
        codes, factors = rng.normal(size=(60, 2)), rng.normal(size=(60, 1))
        dci_boosted(codes, factors, trees=2)
        monkeypatch.setattr(Boosted, "seconds", lambda *_: 2.0)  # of each of five fits
        dci_boosted(codes, factors, trees=2)
        dci_lasso(codes, factors)
        assert asked == ["threads", "processes", "threads"]

    @pytest.mark.parametrize("given", ["a file", "standard input"])
    def test_processes_start_from_scripts_without_a_guard_and_from_threads(self, given, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(SCRIPT)
        command = [sys.executable, str(script) if given == "a file" else "-"]
        done = subprocess.run(command, input=SCRIPT, capture_output=True, text=True, timeout=250, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["once", "True", "[False, False]"]
        assert not done.stderr

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
        low, high = _jackknife(values, 0.52, 100)
        assert low == pytest.approx(0.52 - 2.7764451 * variance**0.5)
        assert high == pytest.approx(0.52 + 2.7764451 * variance**0.5)
        assert _jackknife([0.9, 1.0], 1.0, 100)[1] == 1.0
        assert _jackknife([1.0] * 5, 1.0, 60) == pytest.approx((0.05 ** (1 / 60), 1.0))  # folds that all agree

    @pytest.mark.parametrize("score", ALL)
    def test_a_value_made_by_one_factor_alone_says_so(self, score):
        rng = np.random.default_rng(0)
        known, unknown = rng.normal(size=(200, 2)), rng.integers(2, size=200)
        factors = {"known": known[:, 0], "other": known[:, 1]}
        assert "note" not in score(known, factors).settings
        if score is dci_lasso:  # trees fit noise, so that no factor is without any importance
            found = score(known[:, :1], {"known": known[:, 0], "unknown": np.where(unknown, 1.0, -1.0)})
            assert found.settings["note"] == "only 'known' of 2 factors is predicted: no dimension can matter for two"

    def test_refuses(self):
        rng = np.random.default_rng(0)
        with pytest.raises(MetricError, match="has 6 values: 5 folds need at least 10"):
            dci_lasso(rng.normal(size=(6, 2)), rng.normal(size=(6, 1)))
        with pytest.raises(MetricError, match="folds = 1"):
            dci_lasso(rng.normal(size=(60, 2)), rng.normal(size=(60, 1)), folds=1)
