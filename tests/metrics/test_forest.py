"""The forest grown level by level: against scikit-learn's trees, walks down its tables, and loops over rows."""

import tracemalloc

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from unweave.metrics import _forest
from unweave.metrics._forest import Trees, grow, outputs


def whole_tree(bins, target, classes, weights):
    """One tree of rows with given weights, grown to the end."""
    tree, random = Trees(bins, target, classes, weights[None]), np.random.default_rng(0)
    while tree.split(random):
        pass
    return tree


def assert_like_sklearn(tree, bins, target, classes, weights, depths):
    kind = DecisionTreeClassifier if classes else DecisionTreeRegressor
    for depth in depths:
        model = kind(max_depth=depth, random_state=0).fit(bins.astype(np.float32), target, sample_weight=weights)
        expected = model.predict_proba(bins) if classes else model.predict(bins)[:, None]
        np.testing.assert_allclose(outputs([tree], bins, depth), expected, atol=1e-9)
        np.testing.assert_allclose(tree.importance(depth)[0], model.feature_importances_, atol=1e-7)


def node_of(tree, row, root, depth):
    """Walk down the tables, node by node."""
    node = root
    for _ in range(depth):
        if tree.left[node] != node:
            node = (tree.left if row[tree.feature[node]] <= tree.threshold[node] else tree.right)[node]
    return node


def draws(rng, trees, rows):
    return np.stack([np.bincount(rng.integers(rows, size=rows), minlength=rows) for _ in range(trees)])


class TestTree:
    @pytest.mark.parametrize("dense", [0.0, 2.0, np.inf])
    def test_numbers_as_sklearn_splits_them(self, dense, monkeypatch):
        # Many rows in every node: two equally good dimensions, which are left to chance, are rare in small nodes only.
        monkeypatch.setattr(_forest, "DENSE", dense)
        rng = np.random.default_rng(0)
        bins = rng.integers(255, size=(4000, 4)).astype(np.uint8)
        target = np.sin(bins[:, 0] / 20) + bins[:, 1] / 50 + rng.normal(size=4000)
        weights = rng.integers(4, size=4000)
        assert_like_sklearn(whole_tree(bins, target, 0, weights), bins, target, 0, weights, range(1, 6))

    @pytest.mark.parametrize("dense", [0.0, 2.0, np.inf])
    @pytest.mark.parametrize("classes", [2, 3, 60])  # counts of 60 classes are in several words
    def test_classes_as_sklearn_splits_them(self, classes, dense, monkeypatch):
        monkeypatch.setattr(_forest, "DENSE", dense)
        rng = np.random.default_rng(1)
        bins = rng.integers(200, size=(6000, 3)).astype(np.uint8)
        target = ((bins[:, 0] / 200 + (bins[:, 1] / 200) ** 2 + 0.2 * rng.random(6000)) / 2.2 * classes).astype(int)
        target[:classes] = np.arange(classes)
        weights = rng.integers(4, size=6000)
        weights[:classes] = 1
        assert_like_sklearn(whole_tree(bins, target, classes, weights), bins, target, classes, weights, range(1, 5))

    def test_to_the_end_where_nothing_is_left_to_chance(self):
        rng = np.random.default_rng(2)
        bins, target = rng.integers(255, size=(400, 1)).astype(np.uint8), 3 + rng.normal(size=400)
        weights = rng.integers(1, 5, size=400)
        tree = whole_tree(bins, target, 0, weights)
        full = DecisionTreeRegressor(random_state=0).fit(bins, target, sample_weight=weights)
        assert len(tree.ends) == full.get_depth() + 2
        assert len(tree.tree) == full.tree_.node_count
        assert_like_sklearn(tree, bins, target, 0, weights, range(1, full.get_depth() + 1))

    @pytest.mark.parametrize("classes", [0, 5])
    def test_counting_and_sorting_make_the_same_trees(self, classes, monkeypatch):
        rng = np.random.default_rng(3)
        bins = rng.integers([3, 255, 20, 255], size=(900, 4)).astype(np.uint8)
        target = (bins[:, 0] + bins[:, 1] // 86) % 5 if classes else rng.normal(size=900) + bins[:, 1] / 50
        weights, made = draws(rng, 5, 900), []
        for dense in (0.0, 0.5, np.inf):
            monkeypatch.setattr(_forest, "DENSE", dense)
            made.append(Trees(bins, target.astype(np.intp if classes else float), classes, weights))
            random = np.random.default_rng(0)
            while made[-1].split(random):
                pass
        for other in made[1:]:
            for name in ("tree", "feature", "threshold", "left", "right", "value", "gain"):
                np.testing.assert_array_equal(getattr(other, name), getattr(made[0], name), err_msg=name)

    def test_a_split_without_gain_is_made_where_the_targets_differ(self):
        bins = np.array([[0, 0], [0, 9], [9, 0], [9, 9]] * 5, dtype=np.uint8)
        for classes, target in ((2, np.array([0, 1, 1, 0] * 5)), (0, np.array([0.1, 0.7, 0.7, 0.1] * 5))):
            tree = whole_tree(bins, target, classes, np.ones(20, dtype=int))
            assert tree.ends == [0, 1, 3, 7]
            np.testing.assert_allclose(tree.gain[0], 0, atol=1e-12)
            np.testing.assert_array_equal(tree.threshold[:3], 4)  # halfway between the bins that are there
            truth = np.eye(2)[target] if classes else target[:, None]
            np.testing.assert_allclose(outputs([tree], bins, 2), truth, atol=1e-12)

    def test_rows_with_equal_codes_and_targets_are_not_split(self):
        bins = np.zeros((30, 2), dtype=np.uint8)
        tree = whole_tree(bins, np.arange(30.0), 0, np.ones(30, dtype=int))
        assert tree.ends[-1] == 1
        np.testing.assert_allclose(tree.value, 14.5)
        np.testing.assert_array_equal(tree.importance(3), 0)
        bins[:, 0] = np.arange(30)
        assert whole_tree(bins, np.zeros(30), 0, np.ones(30, dtype=int)).ends[-1] == 1

    def test_equal_dimensions_share_the_importance(self):
        rng = np.random.default_rng(4)
        one = rng.integers(255, size=300)
        bins = np.stack([one, rng.integers(255, size=300), one, one], axis=1).astype(np.uint8)
        target = (one > 128) + (one % 50 > 25).astype(int)
        trees, _ = grow(bins, target, 3, draws(rng, 200, 300), rng)
        shares = np.concatenate([some.importance(20) for some in trees]).mean(axis=0)
        np.testing.assert_allclose(shares[[0, 2, 3]], shares[[0, 2, 3]].mean(), atol=0.05)


class TestGrow:
    @pytest.mark.parametrize("classes", [0, 3])
    def test_losses_and_outputs_agree_with_a_walk_down_every_tree(self, classes, monkeypatch):
        monkeypatch.setattr(_forest, "MOST_ITEMS", 120)  # two trees at a time
        rng = np.random.default_rng(5)
        bins = rng.integers(255, size=(80, 3)).astype(np.uint8)
        target = np.clip(bins[:, 0] // 80 + rng.integers(2, size=80), 0, 2).astype(np.intp if classes else float)
        weights = draws(rng, 5, 80)
        trees, losses = grow(bins, target, classes, weights, rng)
        assert [some.ends[1] for some in trees] == [2, 2, 1]
        owners = [(some, root) for some in trees for root in range(some.ends[1])]
        for depth, found in enumerate(losses):
            expected = []
            for n in range(80):
                said = [
                    some.value[node_of(some, bins[n], root, depth)]
                    for (some, root), drawn in zip(owners, weights, strict=True)
                    if drawn[n] == 0
                ]
                if said:
                    truth = np.arange(3) == target[n] if classes else target[n]
                    expected.append(np.sum((np.mean(said, axis=0) - truth) ** 2))
            np.testing.assert_allclose(found, expected, atol=1e-12)
            said = [[some.value[node_of(some, row, root, depth)] for some, root in owners] for row in bins]
            np.testing.assert_allclose(outputs(trees, bins, depth), np.mean(said, axis=1), atol=1e-12)

    def test_importance_is_the_mean_share_of_the_gains_above_a_depth(self):
        rng = np.random.default_rng(6)
        bins = rng.integers(255, size=(200, 3)).astype(np.uint8)
        target = bins[:, 0] / 50 + rng.normal(size=200)
        (trees,), _ = grow(bins, target, 0, draws(rng, 4, 200), rng)
        for depth in (0, 1, 3, 99):
            expected = np.zeros((4, 3))
            for level, (start, end) in enumerate(zip(trees.ends[:-1], trees.ends[1:], strict=True)):
                for node in range(start, end):
                    if level < depth:
                        expected[trees.tree[node], trees.feature[node]] += trees.gain[node]
            expected /= np.maximum(expected.sum(axis=1, keepdims=True), 1e-300)
            np.testing.assert_allclose(trees.importance(depth), expected)

    def test_how_many_trees_grow_at_a_time_changes_nothing_but_chance(self, monkeypatch):
        rng = np.random.default_rng(7)
        bins, target = rng.integers(255, size=(150, 1)).astype(np.uint8), rng.normal(size=150)
        weights, found = draws(rng, 6, 150), []
        for most in (1, 250, 10**6):
            monkeypatch.setattr(_forest, "MOST_ITEMS", most)
            trees, losses = grow(bins, target, 0, weights, np.random.default_rng(0))
            found.append((losses, outputs(trees, bins, 4)))
        for losses, said in found[1:]:
            np.testing.assert_allclose(losses, found[0][0])
            np.testing.assert_allclose(said, found[0][1])

    def test_ends_when_splits_make_it_worse(self):
        rng = np.random.default_rng(8)
        bins = rng.integers(255, size=(2000, 3)).astype(np.uint8)
        _, losses = grow(bins, rng.normal(size=2000), 0, draws(rng, 10, 2000), rng)
        assert len(losses) == 1 + _forest.LEAST_DEPTH
        _, losses = grow(bins, bins[:, 0] + rng.normal(size=2000), 0, draws(rng, 10, 2000), rng)
        best = losses.mean(axis=1).argmin()
        assert best >= 4
        assert len(losses) <= max(1 + best + _forest.PATIENCE, 13)  # log2 2000 is 11

    def test_every_row_in_every_tree_leaves_none_to_rate(self):
        bins = np.arange(4, dtype=np.uint8)[:, None]
        trees, losses = grow(bins, np.arange(4.0), 0, np.ones((2, 4), dtype=int), np.random.default_rng(0))
        assert losses.shape == (1, 0)
        np.testing.assert_allclose(outputs(trees, bins, 0), 1.5)

    def test_memory_is_in_proportion_to_the_items(self):
        rng = np.random.default_rng(9)
        rows, dimensions = 20_000, 40
        bins = rng.integers(255, size=(rows, dimensions)).astype(np.uint8)
        target, weights = bins[:, 0] + rng.normal(size=rows), draws(rng, 2, rows)
        tracemalloc.start()
        grow(bins, target, 0, weights, rng)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # A byte and a number of an item for each dimension, and some numbers for each item; counts of bins are twice as
        # many as items at most. Counts of all nodes, bins and dimensions would be 100 times as much.
        assert peak < np.count_nonzero(weights) * (8 * dimensions + 500)
