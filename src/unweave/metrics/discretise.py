"""Discrete versions of codes and factors, and their plug-in entropies and mutual informations in nats.

I(a; b) = sum_ij p_ij log(p_ij / (p_i p_j)) with p_ij the relative frequencies. The plug-in estimate of two independent
columns with m and n values is not zero but about (m - 1)(n - 1) / 2N, so it needs N well above m n rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.base.errors import MetricError

BINS = 20
# A value within rounding of the next bin's edge belongs to that bin; so rescaling a column does not move its rows.
EDGE = 1e-9
MISSING = -1
ROWS_AT_ONCE = 4096


def discretise(column: np.ndarray, bins: int = BINS) -> np.ndarray:
    """(N,) bin 0 .. bins - 1 of each row: equal-width bins between the least and the greatest value; NaN becomes -1.

    A constant column has one bin, 0.
    """
    return discretise_columns(np.asarray(column, dtype=np.float64)[:, None], bins)[:, 0]


def discretise_columns(matrix: np.ndarray, bins: int = BINS) -> np.ndarray:
    """(N, D) bins of each column of an (N, D) matrix, as `discretise` makes them."""
    if bins < 1:
        raise MetricError(f"bins = {bins}: expected at least 1 bin")
    missing = np.isnan(matrix)
    low = np.where(missing, np.inf, matrix).min(axis=0, initial=np.inf)
    high = np.where(missing, -np.inf, matrix).max(axis=0, initial=-np.inf)
    low, high = np.where(low > high, 0.0, low), np.where(low > high, 0.0, high)  # a column without any value
    # Halves first: the range of very large numbers would overflow.
    width = high / 2 - low / 2
    place = (np.where(missing, low, matrix) / 2 - low / 2) / np.where(width > 0, width, 1.0) * bins
    binned = np.clip(np.floor(place + EDGE), 0, bins - 1).astype(np.int64)
    binned[missing] = MISSING
    return binned


def discretise_factors(factors: np.ndarray, discrete: np.ndarray, bins: int = BINS) -> np.ndarray:
    """(N, K) value numbers 0, 1, ... of each factor: its own values if discrete, bins if continuous, -1 if missing.

    factors:  (N, K), NaN where missing
    discrete: (K,) which factors keep their own values
    """
    numbered = discretise_columns(factors, bins)
    for k in np.flatnonzero(discrete):
        present = ~np.isnan(factors[:, k])
        numbered[present, k] = np.unique(factors[present, k], return_inverse=True)[1]
    return numbered


def resolution(factors: np.ndarray, discrete: np.ndarray, most: int = 100) -> tuple[int, ...]:
    """For each factor how finely to bin a code that may know it: 20 bins, or as many as a discrete factor has values.

    With fewer bins than values the information of a binned code stops at log(bins) below the factor's entropy, and
    even a perfect code could not reach it. `most` bounds the number of cells that N rows have to fill.
    """
    values = [len(np.unique(column[~np.isnan(column)])) for column in factors.T]
    return tuple(min(max(BINS, n), most) if kind else BINS for n, kind in zip(values, discrete, strict=True))


def entropy(a: np.ndarray) -> float:
    """H(a) = -sum_i p_i log p_i in nats of the values of an (N,) array."""
    counts = np.unique(np.asarray(a), return_counts=True)[1]
    return float(_entropy_of_counts(counts[None])[0])


def mutual_information(a: np.ndarray, b: np.ndarray) -> float:
    """I(a; b) in nats of two (N,) arrays of discrete values."""
    a = np.unique(np.asarray(a), return_inverse=True)[1]
    b = np.unique(np.asarray(b), return_inverse=True)[1]
    return float(information(a[:, None], b[:, None])[0][0, 0])


def information(code_bins: np.ndarray, factor_bins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(D, K) mutual informations and (K,) entropies of numbered codes and numbered factors, in nats.

    code_bins:   (N, D) numbers 0, 1, ...
    factor_bins: (N, K) numbers 0, 1, ..., -1 where missing; such a row is left out for that factor only
    """
    dimensions = code_bins.shape[1]
    m = int(code_bins.max(initial=0)) + 1
    shift = np.arange(dimensions) * m
    shared, own = np.zeros((dimensions, factor_bins.shape[1])), np.zeros(factor_bins.shape[1])
    for k, factor in enumerate(factor_bins.T):
        rows = factor != MISSING
        codes, factor = (code_bins, factor) if rows.all() else (code_bins[rows], factor[rows])
        n = int(factor.max(initial=0)) + 1
        # One count of all cells (dimension, bin, value), over parts of the rows that stay near the processor.
        joint = np.zeros(dimensions * m * n, dtype=np.int64)
        for start in range(0, len(factor), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            cells = (codes[part] + shift) * n + factor[part, None]
            joint += np.bincount(cells.ravel(), minlength=len(joint))
        joint = joint.reshape(dimensions, m, n)
        own[k] = _entropy_of_counts(joint[0].sum(axis=0)[None])[0]
        of_codes = _entropy_of_counts(joint.sum(axis=2))
        shared[:, k] = of_codes + own[k] - _entropy_of_counts(joint.reshape(dimensions, -1))
    return np.maximum(shared, 0.0), own  # rounding can leave -1e-16


class WeightedInformation:
    """`information` of the same numbered columns for many weights of the rows at once.

    A table of counts is a product of the (cells, N) indicator matrix of the cells (dimension, bin, value), of which
    each row has D, with the weights. Only cells with a row are kept, in this order: those of a bin lie together, and
    so do those of a dimension.
    """

    def __init__(self, code_bins: np.ndarray, factor_bins: np.ndarray):
        """code_bins: (N, D) and factor_bins: (N, K), as for `information`."""
        self.rows, self.dimensions = code_bins.shape
        m = int(code_bins.max(initial=0)) + 1
        shift = np.arange(self.dimensions) * m
        self._tables, self._known = [], np.zeros(0)
        for factor in factor_bins.T:
            present = np.flatnonzero(factor != MISSING)
            n = int(factor.max(initial=0)) + 1
            cells = (code_bins[present] + shift) * n + factor[present, None]  # (N', D)
            kept = np.flatnonzero(np.bincount(cells.ravel(), minlength=self.dimensions * m * n))
            place = np.zeros(self.dimensions * m * n, dtype=np.int32)
            place[kept] = np.arange(len(kept))
            bin_starts = np.flatnonzero(np.diff(kept // n, prepend=-1))
            self._tables.append(
                (
                    indicator(place[cells], len(kept)),
                    None if len(present) == self.rows else present,
                    bin_starts,
                    np.searchsorted(kept, np.arange(self.dimensions) * m * n),
                    np.searchsorted(kept[bin_starts], np.arange(self.dimensions) * m * n),
                    indicator(factor[present, None], n),
                )
            )

    def __call__(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(R, D, K) mutual informations and (R, K) entropies from (N, R) whole float32 weights."""
        shape = (weights.shape[1], self.dimensions, len(self._tables))
        shared, own = np.zeros(shape), np.zeros((shape[0], shape[2]))
        for k, (of_rows, present, bins, by_cell, by_bin, of_values) in enumerate(self._tables):
            used = weights if present is None else weights[present]
            joint, values = of_rows @ used, of_values @ used  # (cells, R), (values, R)
            total = np.maximum(values.sum(axis=0, dtype=np.float64), 1)
            c_log_c = self._c_log_c(int(total.max()))
            own[:, k] = np.log(total) - c_log_c[values.astype(np.intp)].sum(axis=0) / total
            both = np.add.reduceat(c_log_c[joint.astype(np.intp)], by_cell)  # (D, R)
            alone = np.add.reduceat(c_log_c[np.add.reduceat(joint, bins).astype(np.intp)], by_bin)
            shared[:, :, k] = ((both - alone) / total + own[:, k]).T  # H(z_d) + H(v_k) - H(z_d, v_k)
        return np.maximum(shared, 0.0), own

    def _c_log_c(self, most: int) -> np.ndarray:
        """c log c of c = 0 .. most, at least: looked up, because a logarithm for each cell of each draw costs more."""
        if len(self._known) <= most:
            numbers = np.arange(most + 1, dtype=np.float64)
            self._known = numbers * np.log(np.maximum(numbers, 1))
        return self._known


def indicator(cells: np.ndarray, number: int) -> Any:
    """(number, N) sparse matrix of float32 that is 1 where a row is in a cell, from (N, Q) cells of each row.

    Times (N, R) weights it is the weighted count of every cell. Stored by rows of the data, so that the weights are
    read in order; float32 holds whole numbers up to 16 million exactly.
    """
    from scipy import sparse

    rows, of_each = cells.shape
    ends = np.arange(0, rows * of_each + 1, of_each, dtype=np.int64 if rows * of_each > 2**31 - 1 else np.int32)
    ones = np.ones(rows * of_each, dtype=np.float32)
    return sparse.csc_array((ones, cells.ravel().astype(ends.dtype), ends), shape=(number, rows))


def mutual_information_matrix(
    codes: np.ndarray, factors: np.ndarray, discrete_mask: np.ndarray, bins: int | Sequence[int] = BINS
) -> np.ndarray:
    """(D, K) I(z_d; v_k) in nats, codes and continuous factors in equal-width bins, rows missing v_k left out for v_k.

    codes:         (N, D)
    factors:       (N, K), NaN where missing
    discrete_mask: (K,) which factors keep their own values
    bins:          number of bins, or one number per factor
    """
    shared = np.zeros((codes.shape[1], factors.shape[1]))
    for code_bins, factor_bins, columns in binned_pairs(codes, factors, discrete_mask, bins):
        shared[:, columns] = information(code_bins, factor_bins)[0]
    return shared


def binned_pairs(
    codes: np.ndarray,
    factors: np.ndarray,
    discrete_mask: np.ndarray,
    bins: int | Sequence[int] = BINS,
    categories: np.ndarray | None = None,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """What `information` needs, once for each number of bins: code bins (N, D), factor bins (N, K'), the K' columns.

    categories: (D,) which codes are numbers of categories, which need no bins; none unless given
    """
    per_factor = np.broadcast_to(np.asarray(bins, dtype=np.int64), factors.shape[1:])
    pairs = []
    for number in np.unique(per_factor):
        columns = np.flatnonzero(per_factor == number)
        numbered = discretise_factors(factors[:, columns], np.asarray(discrete_mask)[columns], int(number))
        code_bins = discretise_columns(codes, int(number))
        if categories is not None:
            code_bins[:, categories] = codes[:, categories].astype(np.int64)
        pairs.append((code_bins, numbered, columns))
    return pairs


def _entropy_of_counts(counts: np.ndarray) -> np.ndarray:
    """(R,) entropies of R rows of counts: log n - (1/n) sum_i c_i log c_i."""
    total = np.maximum(counts.sum(axis=1), 1)
    return np.log(total) - (counts * np.log(np.maximum(counts, 1))).sum(axis=1) / total
