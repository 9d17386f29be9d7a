"""The pictures of the HFVAE reproduction: figures 2, 4, 5, 6 and 7 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.studies.reproductions import _hfvae_measures as measures
from unweave.studies.reproductions._hfvae_lab import (
    POSITIONS,
    PRUNED,
    block_of,
    encoded,
    reconstructed,
    removed_and_kept,
    term_panels,
    test_rows,
    thickness_dimension,
)
from unweave.studies.reproductions._hfvae_terms import PANELS
from unweave.studies.reproductions._reproduction import Lab

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK, WARM = "#2b6cb0", "#c8553d"


def draw_terms(lab: Lab, path: Path) -> None:
    figure = _figure(9, 4.6)
    axes = figure.subplots(2, 6, gridspec_kw={"wspace": 0.05}).flat
    for panel, (codes, data) in zip(PANELS, zip(axes, axes, strict=True), strict=True):
        found = term_panels(lab, lab.seeds[0])[panel]
        angle = np.linspace(0, 2 * np.pi, 60)
        ring = np.stack([np.cos(angle), np.sin(angle)])
        for radius in (1, 2):
            codes.plot(*(radius * ring), color="#bbbbbb", linewidth=0.8)
        for mean, spread in zip(np.array(found["means"]), np.array(found["spreads"]), strict=True):
            codes.plot(*(mean[:, None] + spread[:, None] * ring), color=DARK, linewidth=0.7)
        codes.set_title(f"{panel}: z, I = {found['information']:.1f}", fontsize=8)
        data.scatter(*np.array(found["drawn"]).T, s=2, color="#e8b4a8")
        data.scatter(*np.array(found["points"]).T, s=6, color=DARK)
        data.set_title(f"{panel}: x, log p(x) = {found['log_evidence']:.1f}", fontsize=8)
        reach = max(3.2, 1.1 * float(np.abs(found["means"]).max()))
        for axis, limit in ((codes, reach), (data, 2.5)):
            axis.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[], aspect="equal")
    _save(figure, path)


def traversals_of(row: str) -> Callable[[Lab, Path], None]:
    return lambda lab, path: _draw_traversals(lab, row, path)


def _draw_traversals(lab: Lab, row: str, path: Path) -> None:
    run = lab.run(row, lab.seeds[0])
    codes = encoded(run)
    information = measures.data_information(codes)
    style = [name for name in information if name != "digit"]
    order = np.argsort([information[name] for name in style])
    first = codes.take(np.random.default_rng(0).choice(codes.rows, len(style), replace=False))
    pictures = [
        measures.traverse(first.take([place]), block_of(run), int(dimension), POSITIONS, run.system().render)[0]
        for place, dimension in enumerate(order)
    ]
    figure = _figure(7, 4.2)
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [2, 1.2]})
    _show(left, np.stack(pictures))
    left.set_yticks(_middles(len(order)), [style[d] for d in order], fontsize=7)
    left.set_xlabel("-3 to 3", fontsize=8)
    names = [*(style[d] for d in order), "digit"]
    right.barh(names, [information[name] for name in names], color=[DARK] * len(order) + [WARM])
    right.axvline(measures.UNUSED, color="#888888", linewidth=0.8, linestyle=":")
    right.invert_yaxis()
    right.set_xlabel("I(x; z_d), nats", fontsize=8)
    _plain(right)
    _save(figure, path)


def draw_identity(lab: Lab, path: Path) -> None:
    seed = lab.seeds[0]
    figure = _figure(7, 4.4)
    for axes, row, name in zip(figure.subplots(1, 2), ("betavae", "mnist"), ("beta-VAE", "HFVAE"), strict=True):
        run = lab.run(row, seed)
        factors = run.dataset().factors
        assert factors is not None
        labels = factors.values[test_rows(run), 0]
        first = [int(np.flatnonzero(labels == label)[0]) for label in np.unique(labels)]
        dimension, correlation = thickness_dimension(lab, run)
        moved = measures.traverse(
            encoded(run).take(first), block_of(run), dimension, POSITIONS * np.sign(correlation), run.system().render
        )
        own = run.dataset().observations(test_rows(run)[first])[:, None]
        _show(axes, np.concatenate([own, moved], axis=1))
        axes.set_yticks([])
        axes.set_title(f"{name}, dimension {dimension}", fontsize=9)
    _save(figure, path)


def draw_label_information(lab: Lab, path: Path) -> None:
    figure = _figure(7, 2.4)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, row, name in zip(axes, ("betavae", "mnist"), ("beta-VAE", "HFVAE"), strict=True):
        per_seed = []
        for seed in lab.seeds:
            run = lab.run(row, seed)
            factors = run.dataset().factors
            assert factors is not None
            found = measures.label_information(encoded(run), factors.values[test_rows(run), 0])
            category = [found.pop("digit")] if "digit" in found else []
            per_seed.append([*sorted(found.values(), reverse=True), *category])
        mean = np.mean(per_seed, axis=0)
        colours = [DARK] * 10 + [WARM] * (len(mean) - 10)
        axis.bar(range(len(mean)), mean, yerr=np.std(per_seed, axis=0), color=colours, error_kw={"linewidth": 0.8})
        axis.set_xticks(range(len(mean)), [*range(1, 11), *(["c"] if len(mean) > 10 else [])], fontsize=7)
        axis.set_title(name, fontsize=9)
        _plain(axis)
    axes[0].set_ylabel("I(y; z_d), nats", fontsize=8)
    _save(figure, path)


def draw_trade_offs(
    points: Mapping[int, Mapping[str, Sequence[float]]], gaps: Mapping[int, Sequence[float]], path: Path
) -> None:
    """points: seed -> beta = gamma -> (I, TC); gaps: beta -> gap of each seed."""
    figure = _figure(7, 2.8)
    left, right = figure.subplots(1, 2)
    values = list(next(iter(points.values())))
    colours = _shades(len(values))
    for value, colour in zip(values, colours, strict=True):
        found = np.array([of_seed[value] for of_seed in points.values()])
        left.plot(found[:, 0], found[:, 1], "o", color=colour, markersize=5, label=value)
    left.legend(title="beta = gamma", fontsize=6, title_fontsize=6)
    left.set_xlabel("I(x; {z, c}), nats", fontsize=8)
    left.set_ylabel("TC({z, c}), nats", fontsize=8)
    for beta, found_gaps in gaps.items():
        right.plot([beta] * len(found_gaps), found_gaps, "o", color=DARK, markersize=4)
    right.plot(list(gaps), [float(np.mean(found_gaps)) for found_gaps in gaps.values()], color=WARM)
    right.set_xscale("log", base=2)
    right.set_xticks(list(gaps), [str(beta) for beta in gaps])
    right.set_xlabel("beta, at gamma = 3", fontsize=8)
    right.set_ylabel("I(y; c) - max I(y; z_d), nats", fontsize=8)
    for axis in (left, right):
        _plain(axis)
    _save(figure, path)


def draw_unseen(lab: Lab, path: Path) -> None:
    figure = _figure(7, 3.8)
    grid = figure.subplots(2, 2, gridspec_kw={"width_ratios": [2, 1.4]})
    for (pictures, histogram), (row, pruned) in zip(grid, PRUNED.items(), strict=True):
        run = lab.run(row, lab.seeds[0])
        factors = run.dataset().factors
        assert factors is not None
        removed, _, same_digit = removed_and_kept(run, pruned)
        shown = removed[np.linspace(0, len(removed) - 1, 10).astype(int)]
        _show(pictures, np.stack([run.dataset().observations(shown), reconstructed(run, shown)]))
        pictures.set_yticks(_middles(2), ["removed", "decoded"], fontsize=7)
        pictures.set_title(f"trained without {pruned.words}", fontsize=8)
        rows = test_rows(run)
        style = run.encode_rows(rows)[block_of(run)]
        dimension, correlation = measures.most_like(style, factors.column(pruned.factor)[rows])
        for part, name, colour in ((same_digit, "seen", DARK), (removed, "removed", WARM)):
            values = run.encode_rows(part)[block_of(run)][:, dimension] * np.sign(correlation)
            histogram.hist(values, bins=20, density=True, alpha=0.6, color=colour, label=f"{name}, {pruned.digit}")
        histogram.set_title(f"dimension most like {pruned.factor}, r = {abs(correlation):.2f}", fontsize=8)
        histogram.legend(fontsize=6)
        _plain(histogram)
    _save(figure, path)


def _show(axes: Axes, pictures: np.ndarray) -> None:
    """Pictures (rows, columns, 1, H, W) as one grey image."""
    rows, columns, _, height, width = pictures.shape
    joined = pictures[:, :, 0].transpose(0, 2, 1, 3).reshape(rows * height, columns * width)
    axes.imshow(joined, cmap="gray_r", vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def _middles(rows: int, height: int = 28) -> list[float]:
    return [(place + 0.5) * height for place in range(rows)]


def _shades(count: int) -> list[Any]:
    from matplotlib import colormaps

    return [colormaps["viridis"](place) for place in np.linspace(0, 0.9, count)]


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=80, format="png")
