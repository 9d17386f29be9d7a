"""A random forest of binned codes, all trees grown together, one level of nodes after the other.

An item is a row in the bootstrap sample of a tree, with how often it was drawn as its weight. Every node is split where

    gain = sum_c L_c^2 / L + sum_c R_c^2 / R - sum_c S_c^2 / W

is greatest: W, L and R are the weights of the node and of its two sides, S_c, L_c and R_c their sums of target c. The
targets of a class are 1 for its rows and 0 for others, which makes this the decrease of W times the Gini impurity; a
number is a target of its own, which makes it the decrease of the squared error. A number is taken from the mean of its
node, for which S = 0. Only nodes whose targets are all equal, or whose codes are, are not split. All dimensions compete
for every split: with a random part of them a useless one must sometimes be taken.

Sums are whole numbers, which are exact in any order and cumulate several times as fast as floats do: numbers are
rounded to 36 bits or so of the greatest of their node, and counts of several classes share a 64-bit word.
"""

from __future__ import annotations

import numpy as np

MOST_ITEMS = 2**16  # of the trees that are grown together: what is done with them stays in the processor's cache
DENSE = 2.0  # a level is counted by bins if it has at most so many cells, nodes times bins, for each item
BINS = 256
EXACT_BITS = 53  # of whole numbers in a float
TIE, ROUNDING = 1e-9, 1e-13  # of a gain, and of the weight of a node
PATIENCE, STANDARD_ERRORS, LEAST_DEPTH = 3, 4.0, 6


class Trees:
    """T trees that grow together, as tables of their nodes; a node's number is its place in them.

    tree, feature, threshold: (nodes,) its tree; the dimension it is split by, and the last bin that goes left
    left, right:              (nodes,) numbers of its two sides, its own if it is not split
    value, gain:              (nodes, C) mean target; (nodes,) gain of its split, 0 if it is not split
    ends:                     nodes down to each level
    """

    def __init__(self, bins: np.ndarray, target: np.ndarray, classes: int, weights: np.ndarray):
        """Roots only.

        bins:    (n, D) numbers of bins, less than 256
        target:  (n,) class of each row, 0 .. classes - 1, or numbers if `classes` is 0
        weights: (T, n) how often each tree has drawn each row
        """
        of_tree, row = np.nonzero(weights)
        self.classes = classes
        self.bins = np.ascontiguousarray(bins[row].T)  # (D, items)
        self.target, self.weight = target[row], weights[of_tree, row].astype(np.int64)
        # Words (words, items) whose sums are compared. Numbers: the weight and, anew in every level, the number.
        # Classes: fields of so many bits that each can hold all rows, of the weight and of all classes but the last.
        self.bits = int(weights.sum(axis=1).max()).bit_length()
        self.fields, self.mask = EXACT_BITS // self.bits, (1 << self.bits) - 1
        self.precision = 2.0 ** (self.bits - EXACT_BITS)  # of numbers, in the greatest of their node
        self.words = np.zeros((-(-classes // self.fields) if classes else 2, len(row)), dtype=np.int64)
        self.words[0] = self.weight
        for c in range(classes - 1):
            self.words[(c + 1) // self.fields] += (self.target == c) * self.weight << self._shift(c + 1)
        self.tree, self.feature, self.threshold, self.left, self.right = (np.zeros(0, dtype=np.intp) for _ in range(5))
        self.value, self.gain, self.ends = np.zeros((0, max(classes, 1))), np.zeros(0), [0]
        # Nodes of the last level that may be split, how many items each has, and these items node by node.
        self.open, self.sizes, self.live = (np.zeros(0, dtype=np.intp) for _ in range(3))
        self.live_weight, self.live_target = self.weight[:0], self.target[:0]
        # For each dimension the items by node of the level before and by bin, and the side of it that each is on now:
        # 0 left, 1 right, 2 no more to be split.
        self.orders: list[np.ndarray] = []
        self.side = np.zeros(len(row), dtype=np.uint8)
        self._add(np.arange(len(weights)), np.arange(len(row)), np.bincount(of_tree, minlength=len(weights)))

    def split(self, random: np.random.Generator) -> bool:
        """Split all nodes of the last level that can be. False if there are none."""
        nodes, live = len(self.sizes), self.live
        if not nodes:
            return False
        starts = np.cumsum(self.sizes) - self.sizes
        node = np.repeat(np.arange(nodes), self.sizes)
        edge = np.zeros(len(node), dtype=bool)
        edge[starts - 1] = True  # the last item of each node
        words, unit = self._words_of_live(starts)
        totals = np.add.reduceat(words, starts, axis=1)  # (words, nodes)
        before = np.cumsum(totals, axis=1) - totals
        weight, whole = totals[0] & self.mask, self._squares(totals) if self.classes else 0.0
        if nodes * BINS > DENSE * len(live) and not self.orders:
            key = (node << 40) | live  # node, bin, item
            keys = (key | bins.take(live).astype(np.int64) << 32 for bins in self.bins)
            self.orders = [np.sort(one).astype(np.uint32) for one in keys]
            self.side[:] = 0  # they are in order already
        if self.orders and not self.classes:
            self.words[1, live] = words[1]
        base, counted = node << 8, words if self.orders else words.astype(np.float64)
        best, ties = np.full(nodes, -1.0), np.zeros(nodes)
        feature, threshold = np.zeros((2, nodes), dtype=np.intp)
        for d in range(len(self.bins)):
            at, bins, sums = self._sorted_cells(d, node, edge) if self.orders else self._counted_cells(d, base, counted)
            last = np.append(np.flatnonzero(at[1:] != at[:-1]), len(at) - 1)  # cell of each node
            cells = np.diff(last, prepend=-1)
            worth = self._worth(sums, before, totals, cells)
            worth[last] = -1.0  # nothing is right of it
            top = np.maximum.reduceat(worth, last + 1 - cells)
            gain = np.where(top < 0, -1.0, np.maximum(top - whole, 0.0))
            # Of equal gains, common in small nodes, each is as likely to be taken: to take the first would favour it.
            slack = TIE * np.abs(gain) + ROUNDING * weight
            better, tied = gain > best + slack, (gain >= 0) & (np.abs(gain - best) <= slack)
            ties = np.where(better, 1, ties + tied)
            taken = better | (tied & (random.random(nodes) * ties < 1))
            best, feature = np.where(taken, gain, best), np.where(taken, d, feature)
            found = np.flatnonzero(worth == np.repeat(np.where(taken, top, np.inf), cells))
            found = found[::-1]  # of several in a node the first is kept
            threshold[at[found]] = (bins[found].astype(np.intp) + bins[found + 1]) // 2
        if (best < 0).all():  # codes are equal in every node
            self.sizes = self.sizes[:0]
            return False
        self._divide(node, best, feature, threshold, unit)
        return True

    def down(self, bins: np.ndarray, rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """(m,) nodes one level below `nodes` (m,) that rows are in; `rows` (m,) are numbers of rows of `bins`."""
        left = bins[rows, self.feature[nodes]] <= self.threshold[nodes]
        return np.where(left, self.left[nodes], self.right[nodes])

    def importance(self, depth: int) -> np.ndarray:
        """(T, D) share of each dimension in the gain of the splits above a depth; zeros for a tree without a split."""
        trees, dimensions = self.ends[1], len(self.bins)
        above = slice(self.ends[min(depth, len(self.ends) - 1)])
        place = self.tree[above] * dimensions + self.feature[above]
        gains = np.bincount(place, self.gain[above], trees * dimensions).reshape(trees, dimensions)
        totals = gains.sum(axis=1, keepdims=True)
        return gains / np.where(totals > 0, totals, 1.0)

    def _worth(self, sums: list[np.ndarray], before: np.ndarray, totals: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """(m,) sum_c L_c^2 / L + sum_c R_c^2 / R if a node is split right of each of m cells; 0 if nothing is there.

        sums:           words cumulated over the cells, each (m,)
        before, totals: (words, nodes) the same before the first cell of a node; words of whole nodes
        cells:          (nodes,) how many cells each node has
        """
        if self.classes:
            lefts = [cumulated - np.repeat(first, cells) for cumulated, first in zip(sums, before, strict=True)]
            rights = [np.repeat(total, cells) - left for total, left in zip(totals, lefts, strict=True)]
            return self._squares(lefts) + self._squares(rights)
        left, whole = sums[0] - np.repeat(before[0], cells), np.repeat(totals[0], cells)
        # L_1 = -R_1 and 1 / L + 1 / R = W / LR. Numbers of the nodes before sum to 0.
        return (sums[1] * self.precision) ** 2 * whole / np.maximum(left * (whole - left), 1)

    def _squares(self, words: np.ndarray | list[np.ndarray]) -> np.ndarray:
        """(m,) sum_c S_c^2 / W of classes from sums of words, each (m,); 0 if W is."""
        weight = words[0] & self.mask
        squares, rest = np.zeros(weight.shape, dtype=np.int64), weight
        for field in range(1, self.classes):
            count = words[field // self.fields] >> self._shift(field) & self.mask
            squares += count * count
            rest = rest - count
        return (squares + rest * rest) / np.maximum(weight, 1)

    def _shift(self, field: int) -> int:
        return self.bits * (field % self.fields)

    def _words_of_live(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(words, m) of the live items, numbers taken from the mean of their node; (nodes,) a factor of its gains.

        starts: (nodes,) place of the first item of each
        """
        if self.classes:
            return self.words.take(self.live, axis=1), np.ones(len(starts))
        weight, target = self.live_weight, self.live_target
        far = target - np.repeat(self.value[self.open, 0], self.sizes)
        most = np.maximum.reduceat(np.abs(far), starts)
        whole = np.rint(far / np.repeat(most, self.sizes) / self.precision).astype(np.int64)
        words = np.stack([weight, weight * whole])
        words[1, starts] -= np.add.reduceat(words[1], starts)  # what rounding leaves: the sum of a node is to be 0
        return words, most**2

    def _counted_cells(
        self, d: int, base: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The cells, bins of nodes, that have items: their nodes, bins, and words cumulated over all cells so far.

        base: (m,) number of the first cell of the node of each live item
        """
        key = base + self.bins[d].take(self.live)
        counted = [np.bincount(key, word) for word in words]
        cells = np.flatnonzero(counted[0])
        return cells >> 8, cells & 255, [np.cumsum(sums.take(cells).astype(np.int64)) for sums in counted]

    def _sorted_cells(
        self, d: int, node: np.ndarray, edge: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The same from items in order of node and bin, for nodes of so few items that most cells have none."""
        order = self.orders[d].astype(np.intp)
        side = self.side.take(order)
        # Left sides have the lower numbers: taking them out first leaves items in order of node and bin.
        order = np.concatenate([order.take(np.flatnonzero(side == 0)), order.take(np.flatnonzero(side == 1))])
        self.orders[d] = order.astype(np.uint32)
        bins = self.bins[d].take(order)
        ends = edge.copy()
        ends[:-1] |= bins[1:] != bins[:-1]
        cells = np.flatnonzero(ends)
        return node.take(cells), bins.take(cells), [np.cumsum(word.take(order)).take(cells) for word in self.words]

    def _divide(
        self, node: np.ndarray, best: np.ndarray, feature: np.ndarray, threshold: np.ndarray, unit: np.ndarray
    ) -> None:
        """Make the next level of the best splits of live nodes; all arguments but `node` of live items are (nodes,)."""
        split = best >= 0
        parents, number, begin = self.open[split], int(split.sum()), len(self.tree)
        self.feature[parents], self.threshold[parents] = feature[split], threshold[split]
        self.gain[parents] = (best * unit)[split]
        self.left[parents] = np.arange(begin, begin + number)
        self.right[parents] = self.left[parents] + number
        code = self.bins.take(np.repeat(feature * len(self.weight), self.sizes) + self.live)
        right = code > np.repeat(threshold, self.sizes)
        child = np.where(split, np.cumsum(split) - 1, -1)[node]
        place = np.concatenate([np.flatnonzero((child >= 0) & ~right), np.flatnonzero((child >= 0) & right)])
        self.side[self.live] = 2
        self._add(
            np.tile(self.tree[parents], 2),
            self.live[place],
            np.bincount((child + number * right)[place], minlength=2 * number),
        )
        self.side[self.live] = np.repeat(self.open >= begin + number, self.sizes)

    def _add(self, tree: np.ndarray, items: np.ndarray, sizes: np.ndarray) -> None:
        """New nodes of trees (nodes,) whose items, `sizes` (nodes,) many of each, come one after the other."""
        new = np.arange(len(self.tree), len(self.tree) + len(sizes))
        starts, node = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
        weight, target = self.weight[items], self.target[items]
        if self.classes:
            counts = np.bincount(node * self.classes + target, weight, len(sizes) * self.classes)
            sums = counts.reshape(-1, self.classes)
        else:
            sums = np.add.reduceat(weight * target, starts)[:, None]
        value = sums / np.add.reduceat(weight, starts)[:, None]
        mixed = np.maximum.reduceat(target, starts) > np.minimum.reduceat(target, starts)
        live = slice(None) if mixed.all() else np.flatnonzero(mixed[node])
        self.open, self.sizes = new[mixed], sizes[mixed]
        self.live, self.live_weight, self.live_target = items[live], weight[live], target[live]
        self.tree, self.value = np.concatenate([self.tree, tree]), np.concatenate([self.value, value])
        self.feature, self.threshold = (np.append(old, np.zeros_like(new)) for old in (self.feature, self.threshold))
        self.left, self.right = np.append(self.left, new), np.append(self.right, new)
        self.gain = np.append(self.gain, np.zeros(len(new)))
        self.ends.append(len(self.tree))


def grow(
    bins: np.ndarray, target: np.ndarray, classes: int, weights: np.ndarray, random: np.random.Generator
) -> tuple[list[Trees], np.ndarray]:
    """Trees; and (depths, n') squared errors of the forest cut at depth 0, 1, ..., of n' rows that a tree has not seen.

    A tree cut at depth d is the tree grown to depth d, so one forest is enough to try all depths. For classes it is the
    squared error of their shares (Brier): unlike the error rate it gets worse with every split that is mere chance.

    At depth log2 n the leaves of an even tree have one row. Trees are grown no further if the least error is before
    that, nor when three levels have not made it less or one has made it more by four standard errors.

    Arguments as in `Trees`; `random` decides between equal gains.
    """
    step = max(1, MOST_ITEMS // max(1, int(np.count_nonzero(weights) / len(weights))))
    groups = [weights[start : start + step] for start in range(0, len(weights), step)]
    trees = [Trees(bins, target, classes, group) for group in groups]
    places, rows = zip(*(np.nonzero(group == 0) for group in groups), strict=True)
    votes = np.bincount(np.concatenate(rows), minlength=len(bins))
    rated = votes > 0
    truth = (target[:, None] == np.arange(classes) if classes else target[:, None])[rated]
    nodes = list(places)  # at first the roots, which have the numbers of the trees
    limit = int(np.ceil(np.log2(len(bins)))) + 1
    losses: list[np.ndarray] = []
    while rated.any():
        said = np.zeros((len(bins), truth.shape[1]))
        for some, row, node in zip(trees, rows, nodes, strict=True):
            for c in range(truth.shape[1]):
                said[:, c] += np.bincount(row, some.value[node, c], len(bins))
        losses.append(((said[rated] / votes[rated, None] - truth) ** 2).sum(axis=1))
        depth, best = len(losses) - 1, int(np.argmin([loss.mean() for loss in losses]))
        worse = losses[depth] - losses[best]
        surely = worse.mean() > STANDARD_ERRORS * worse.std() / np.sqrt(len(worse))
        if (depth == limit and best < depth) or (depth >= LEAST_DEPTH and (depth - best >= PATIENCE or surely)):
            break
        grown = [some.split(random) for some in trees]
        if not any(grown):
            break
        nodes = [some.down(bins, row, node) for some, row, node in zip(trees, rows, nodes, strict=True)]
    return trees, np.array(losses) if losses else np.zeros((1, 0))


def outputs(trees: list[Trees], bins: np.ndarray, depth: int) -> np.ndarray:
    """(m, C) mean over trees of the value of the node that each of m rows is in at a depth."""
    total, number = np.zeros((len(bins), trees[0].value.shape[1])), 0
    for some in trees:
        node = np.repeat(np.arange(some.ends[1]), len(bins))
        rows = np.tile(np.arange(len(bins)), some.ends[1])
        for _ in range(depth):
            node = some.down(bins, rows, node)
        total += some.value[node].reshape(-1, *total.shape).sum(axis=0)
        number += some.ends[1]
    return total / number
