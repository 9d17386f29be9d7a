"""What the HFVAE reproduction measures on codes and pictures; no runs and no files here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn

from unweave.core.codes import Codes
from unweave.metrics import METRICS
from unweave.metrics.discretise import mutual_information, mutual_information_matrix

UNUSED = 0.1  # nats; a dimension with less information about x is pruned
Render = Callable[[Codes], np.ndarray]


def label_information(codes: Codes, labels: np.ndarray) -> dict[str, float]:
    """I(y; v) in nats of labels y (N,) with each variable v: real dimensions in 20 bins, a simplex block's category.

    Both are taken at the centre of the posterior: the mean of z_d, the most probable category.
    """
    found: dict[str, float] = {}
    for block in codes.blocks:
        values = codes[block.name].reshape(codes.rows, -1)
        if block.kind == "simplex":
            found[block.name] = mutual_information(values.argmax(axis=1), labels)
        else:
            shared = mutual_information_matrix(values, labels[:, None], np.array([True]))[:, 0]
            found.update(zip(block.columns, shared.tolist(), strict=True))
    return found


def label_gap(information: Mapping[str, float], category: str) -> float:
    """I(y; c) - max_d I(y; z_d), section 5.4: what the category knows beyond the best continuous dimension."""
    return information[category] - max(value for name, value in information.items() if name != category)


def data_information(codes: Codes) -> dict[str, float]:
    """I(x; v) in nats of each variable, from the mixture of all posteriors of the codes."""
    return dict(METRICS["information"](codes).parts["per_dimension"])


def count_unused(information: Mapping[str, float], category: str) -> int:
    """How many continuous dimensions carry less than 0.1 nats."""
    return sum(value < UNUSED for name, value in information.items() if name != category)


def least_used(information: Mapping[str, float], category: str) -> float:
    """The information of the used continuous dimension (0.1 nats or more) that has least; 0 when none is used."""
    used = [value for name, value in information.items() if name != category and value >= UNUSED]
    return min(used, default=0.0)


def information_and_correlation(codes: Codes, seed: int) -> tuple[float, float]:
    """I(x; {z, c}) and TC({z, c}) in nats, with q(z, c) the mixture of the posteriors of all codes."""
    score = METRICS["total_correlation"](codes, estimator="mixture", rng=seed)
    return float(score.parts["information"]), float(score.parts["mixture"])


def most_like(values: np.ndarray, measured: np.ndarray) -> tuple[int, float]:
    """The column of (N, D) values with the largest |correlation| with measured (N,), and its correlation with sign."""
    spread = values.std(axis=0)
    centred = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    correlation = centred.T @ (measured - measured.mean()) / (len(measured) * measured.std())
    best = int(np.abs(correlation).argmax())
    return best, float(correlation[best])


def traverse(codes: Codes, block: str, dimension: int, positions: np.ndarray, render: Render) -> np.ndarray:
    """(N, P, *shape) pictures of each code with one dimension of a block moved to each position (P,)."""
    pictures = []
    for position in positions:
        values = np.array(codes[block])
        values[:, dimension] = position
        pictures.append(render(codes.replace(**{block: values})))
    return np.stack(pictures, axis=1)


class DigitClassifier:
    """A dense network that names the class of a picture, trained on real ones.

    pictures: (N, *shape), labels: (N,) classes 0, 1, ...
    """

    def __init__(self, pictures: np.ndarray, labels: np.ndarray, seed: int = 0, epochs: int = 3, hidden: int = 256):
        x = torch.from_numpy(np.ascontiguousarray(pictures.reshape(len(pictures), -1), dtype=np.float32))
        y = torch.from_numpy(labels.astype(np.int64))
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = nn.Sequential(nn.Linear(x.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, int(y.max()) + 1))
        optimiser = torch.optim.Adam(self.network.parameters(), lr=2e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(x), generator=generator).split(128):
                loss = nn.functional.cross_entropy(self.network(x[rows]), y[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    @torch.no_grad()
    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """(...,) classes of pictures (..., C, H, W)."""
        flat = torch.from_numpy(np.ascontiguousarray(pictures, dtype=np.float32)).flatten(pictures.ndim - 3)
        return np.asarray(self.network(flat).argmax(-1).numpy())


def kept_identity(
    labels: np.ndarray, still: np.ndarray, moved: np.ndarray, classify: Callable[[np.ndarray], np.ndarray]
) -> float:
    """Per cent of traversed pictures that are still classified as the digit they began as.

    labels: (N,) true digits
    still:  (N, *shape) reconstructions. Only digits that are recognised here count, so that what is measured is what
            the traversal changes, not how well a model reconstructs
    moved:  (N, P, *shape) traversals
    """
    recognised = classify(still) == labels
    if not recognised.any():
        return 0.0
    return 100.0 * float((classify(moved[recognised]) == labels[recognised, None]).mean())


def squared_errors(pictures: np.ndarray, reconstructions: np.ndarray) -> np.ndarray:
    """(N,) mean squared error per pixel of each picture."""
    difference = (pictures - reconstructions).reshape(len(pictures), -1)
    return np.asarray((difference**2).mean(axis=1))


def unseen_ratio(removed: np.ndarray, same_value: np.ndarray, same_digit: np.ndarray) -> float:
    """Error of the removed combination over that of what was seen of either half of it.

    removed:    errors of, for example, thick 7s
    same_value: errors of thick digits that are no 7s;   same_digit: of 7s that are not thick. Both count equally.
    """
    return float(removed.mean() / (0.5 * (same_value.mean() + same_digit.mean())))
