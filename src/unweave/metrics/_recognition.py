"""Is what is in a picture still recognised? A classifier that learned originals names reconstructions.

For reconstructions x^_m of originals x_m with class y_m, and a classifier r that was trained on other originals:

    recognition = 1/M sum_m [ r(x^_m) = y_m ]

The number is worth something only where r names originals it has not seen, so that share is beside it, and shares of
pictures that cannot be right: other rows' reconstructions, and the mean picture.

r is made of two steps without anything to train. A *view* cuts the thing in the picture out and brings it to one size,
so that neither place nor size matter. Its class is that of the most similar view of a training original, by squared
distance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.base.card import Card
from unweave.base.errors import MetricError
from unweave.core.score import Score
from unweave.metrics._interval import bootstrap_interval, generator

RECOGNITION = Card(
    summary="share of reconstructions in which a classifier of originals still sees what the original shows",
    needs="a run on images with a factor of named values",
)
SIDE = 16
"""Pixels of a view, each way."""
MARGIN = 0.1
"""Ground around what is cut out, as a share of its size."""
AT_ONCE = 512


def recognition(
    pictures: Any,
    labels: Any,
    *,
    originals: Any,
    training: Any,
    training_labels: Any,
    cut: bool = True,
    rng: int | np.random.Generator = 0,
) -> Score:
    """Share of pictures that a classifier of originals names as their originals are named.

    pictures:        (M, C, H, W) what is judged, such as reconstructions of the originals
    labels:          (M,) class of each original
    originals:       (M, C, H, W) the originals themselves, unseen in training
    training:        (N, C, H, W) other originals, which the classifier knows
    training_labels: (N,) their classes
    cut:             whether the thing is cut out and brought to one size; False where its place or size is the class
    rng:             of the order in which pictures are exchanged, and of the interval

    Parts: `originals` (share of the originals that are named rightly), `exchanged` (of the pictures in an order where
    none is at its own place, against the labels as they are), `mean_picture` (of the mean training original in
    the place of each), `per_class`, and `confusion` (C, C): true class by named class.
    """
    seen, pictures, originals = (
        _images(values, name)
        for values, name in ((training, "training"), (pictures, "pictures"), (originals, "originals"))
    )
    known, true = np.asarray(training_labels), np.asarray(labels)
    _check(seen, known, pictures, originals, true)
    classes, numbers = np.unique(known, return_inverse=True)
    truth = np.searchsorted(classes, true)
    random, seed = generator(rng)
    views = view(seen, cut)

    def named(images: np.ndarray) -> np.ndarray:
        return _nearest(views, numbers, view(images, cut))

    found = named(pictures)
    right = found == truth
    own = float((named(originals) == truth).mean())
    exchanged = _exchanged(len(truth), random)
    mean = named(seen.mean(axis=0, keepdims=True))[0]
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (truth, found), 1)
    per_class = {
        f"{name:g}" if isinstance(name, float) else str(name): float(line[number] / line.sum())
        for number, (name, line) in enumerate(zip(classes.tolist(), confusion, strict=True))
        if line.sum()
    }
    return Score(
        "recognition",
        float(right.mean()),
        bootstrap_interval(lambda rows: float(right[rows].mean()), len(right), random, bounds=(0.0, 1.0)),
        {
            "originals": own,
            "exchanged": float((found[exchanged] == truth).mean()),
            "mean_picture": float((truth == mean).mean()),
            "per_class": per_class,
            "confusion": confusion,
        },
        {"classes": len(classes), "rows": len(truth), "training": len(known), "cut": cut, "seed": seed},
    )


def view(images: np.ndarray, cut: bool = True) -> np.ndarray:
    """(N, C * SIDE * SIDE) float32 what a classifier sees of (N, C, H, W) images.

    The ground is the median of the pixels at the edge, for each image and channel; what differs from it by at least
    half of the most that any pixel does belongs to the thing. The smallest square around that, wider by `MARGIN` on
    each side, is divided into SIDE x SIDE cells, and each has the mean of image - ground over its area, exactly: with S
    the sums of all pixels above and left of a point, linear between pixels, the sum over a cell from (a, b) to (c, d)
    is S(c, d) - S(a, d) - S(c, b) + S(a, b). Nothing lies beyond the image's edge. An image of one colour has no thing
    and is taken as it is; so is every image with cut=False.
    """
    return np.concatenate(
        [_view(images[start : start + AT_ONCE], cut) for start in range(0, len(images), AT_ONCE)], axis=0
    )


def _view(images: np.ndarray, cut: bool) -> np.ndarray:
    count, channels, height, width = images.shape
    if cut:
        edge = np.concatenate([images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]], axis=2)
        images = images - np.median(edge, axis=2)[:, :, None, None]
        top, left, size = _boxes(np.abs(images).max(axis=1))
    else:
        size = np.full(count, float(max(height, width)))
        top, left = (height - size) / 2, (width - size) / 2
    sums = np.zeros((count, height + 1, width + 1, channels))
    sums[:, 1:, 1:] = np.moveaxis(images, 1, -1).cumsum(axis=1, dtype=np.float64).cumsum(axis=2)
    ends = np.arange(SIDE + 1) / SIDE
    row = np.clip(top[:, None] + size[:, None] * ends, 0, height)
    column = np.clip(left[:, None] + size[:, None] * ends, 0, width)
    y, x = np.minimum(row.astype(np.int64), height - 1), np.minimum(column.astype(np.int64), width - 1)
    down, right = (row - y)[:, :, None, None], (column - x)[:, None, :, None]
    image, y, x = np.arange(count)[:, None, None], y[:, :, None], x[:, None, :]
    upper = sums[image, y, x] * (1 - right) + sums[image, y, x + 1] * right
    lower = sums[image, y + 1, x] * (1 - right) + sums[image, y + 1, x + 1] * right
    cells = np.diff(np.diff(upper * (1 - down) + lower * down, axis=1), axis=2)
    cells /= ((size / SIDE) ** 2)[:, None, None, None]
    return np.moveaxis(cells, -1, 1).reshape(count, -1).astype(np.float32)


def _boxes(away: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N,) top, left and size of the square around what stands out of (N, H, W) distances from the ground."""
    _, height, width = away.shape
    inside = away >= 0.5 * away.max(axis=(1, 2), keepdims=True)  # all of an image of one colour
    rows, columns = inside.any(axis=2), inside.any(axis=1)
    top, bottom = rows.argmax(axis=1), height - rows[:, ::-1].argmax(axis=1)
    left, right = columns.argmax(axis=1), width - columns[:, ::-1].argmax(axis=1)
    size = (1 + 2 * MARGIN) * np.maximum(bottom - top, right - left)
    return (top + bottom - size) / 2, (left + right - size) / 2, size


def _nearest(known: np.ndarray, numbers: np.ndarray, views: np.ndarray) -> np.ndarray:
    """(M,) the class of the known view that is nearest to each."""
    squares = (known**2).sum(axis=1)
    parts = (views[start : start + AT_ONCE] for start in range(0, len(views), AT_ONCE))
    # up to the square of the view itself, the same for all it is compared with
    return np.concatenate([numbers[(squares - 2 * part @ known.T).argmin(axis=1)] for part in parts])


def _exchanged(count: int, rng: np.random.Generator) -> np.ndarray:
    """(M,) an order of rows in which none is at its own place, where there are two."""
    circle = rng.permutation(count)
    order = np.empty(count, dtype=np.int64)
    order[circle] = np.roll(circle, 1)
    return order


def _images(values: Any, name: str) -> np.ndarray:
    images = np.asarray(values, dtype=np.float32)
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or not images.size:
        raise MetricError(f"{name} have shape {np.shape(values)}: expected images (rows, channels, height, width)")
    if not np.isfinite(images).all():
        raise MetricError(f"{name} have pixels that are NaN or infinite: judge only finite images")
    return images


def _check(seen: np.ndarray, known: np.ndarray, pictures: np.ndarray, originals: np.ndarray, true: np.ndarray) -> None:
    if not seen.shape[1:] == pictures.shape[1:] == originals.shape[1:]:
        raise MetricError(
            f"training, originals and pictures have images of {seen.shape[1:]}, {originals.shape[1:]} and "
            f"{pictures.shape[1:]}: expected one shape"
        )
    if len(pictures) != len(originals):
        raise MetricError(f"there are {len(pictures)} pictures and {len(originals)} originals: give each its original")
    for labels, images, name in ((known, seen, "training_labels"), (true, originals, "labels")):
        if labels.shape != (len(images),):
            raise MetricError(f"{name} have shape {labels.shape}: expected ({len(images)},), one for each image")
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise MetricError(f"{name} of row {int(np.isnan(labels).argmax())} is missing: leave such rows out")
    classes = np.unique(known)
    if len(classes) < 2:
        raise MetricError("all training images have one class: there is nothing to tell apart")
    unknown = np.setdiff1d(true, classes)
    if len(unknown):
        raise MetricError(f"no training image has the class {unknown[0]}: the classifier cannot name it")
