"""Figures of a report as SVG text to put into a page.

Colours are names (`INK`, `ACCENT`, ...) that become CSS variables of the page, and words stay words in the page's own
font: the same drawing suits a light and a dark page. Figures are objects; no state of matplotlib is left changed.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

# Stand-ins for the CSS variable of the same name: matplotlib wants colours, the page wants variables.
INK, MUTED, RULE, ACCENT, SECOND, ON_ACCENT, IDLE = (f"#00fe{number:02x}" for number in range(1, 8))
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    ACCENT: "--accent",
    SECOND: "--second",
    ON_ACCENT: "--on-accent",
    IDLE: "--idle",
}
SIZE = 9.5
"""Points of the words in a figure; a point is 4/3 pixels on the page."""


def information_bars(names: Sequence[str], nats: np.ndarray, active: np.ndarray, label: str) -> str:
    """Bars of I(x; z_d), in the order given; unused dimensions are grey.

    names:  D dimensions
    nats:   (D,) their information
    active: (D,) which count as used
    label:  what the axis says
    """
    width = float(np.clip(0.95 * len(names) + 0.8, 4.2, 9.9))
    figure, axes = _axes(width, 2.5)
    colours = [ACCENT if used else IDLE for used in active]
    axes.bar(np.arange(len(names)), nats, width=0.68, color=colours)
    top = max(float(np.max(nats, initial=0.0)), 0.1)
    crowded = len(names) > 18
    if not crowded:
        for place, value in enumerate(nats):
            axes.text(place, value + top * 0.025, f"{value:.2f}", ha="center", va="bottom", color=MUTED, size=SIZE - 1)
    axes.set_ylim(0, top * 1.13)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_xticks(np.arange(len(names)), names, rotation=90 if crowded else 0)
    axes.set_ylabel(label)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    told = ", ".join(f"{name} {value:.2f}" for name, value in zip(names, nats, strict=True))
    return _svg(figure, "information", f"Bar chart of the information of each dimension in nats: {told}.")


def knowledge_map(names: Sequence[str], factors: Sequence[str], shares: np.ndarray) -> str:
    """Heat map of what each dimension knows about each factor.

    names:   D dimensions, one row each
    factors: K factors, one column each
    shares:  (D, K) information as a share of the factor's entropy, 0 to 1
    """
    from matplotlib.patches import Rectangle

    figure, axes, _, _ = _matrix(names, factors)
    for d, k in np.ndindex(shares.shape):
        share = float(np.clip(shares[d, k], 0, 1))
        axes.add_patch(Rectangle((k - 0.47, d - 0.45), 0.94, 0.9, facecolor=ACCENT, alpha=0.04 + 0.96 * share, lw=0))
        if share >= 0.02:
            colour = ON_ACCENT if share > 0.6 else INK
            axes.text(k, d, f"{100 * share:.0f}", ha="center", va="center", color=colour, size=SIZE)
    best = [f"{factor} is known best by {names[int(shares[:, k].argmax())]}" for k, factor in enumerate(factors)]
    return _svg(figure, "knowledge", f"Heat map, dimensions by factors, in percent: {'; '.join(best)}.")


def hinton(names: Sequence[str], factors: Sequence[str], importance: np.ndarray) -> str:
    """Hinton diagram: squares whose area is the importance of a dimension for predicting a factor.

    importance: (D, K), not negative; the greatest fills its place
    """
    from matplotlib.patches import Rectangle

    figure, axes, column, row = _matrix(names, factors)
    greatest = max(float(importance.max(initial=0.0)), 1e-12)
    for d, k in np.ndindex(importance.shape):
        axes.add_patch(Rectangle((k - 0.47, d - 0.45), 0.94, 0.9, facecolor=ACCENT, alpha=0.04, lw=0))
        side = 0.8 * min(column, row) * float(np.sqrt(max(float(importance[d, k]), 0.0) / greatest))
        if side > 0.01:
            wide, high = side / column, side / row
            axes.add_patch(Rectangle((k - wide / 2, d - high / 2), wide, high, facecolor=SECOND, lw=0))
    best = [
        f"{factor} is predicted mostly from {names[int(importance[:, k].argmax())]}" for k, factor in enumerate(factors)
    ]
    return _svg(figure, "hinton", f"Hinton diagram, dimensions by factors: {'; '.join(best)}.")


def term_curve(name: str, steps: np.ndarray, values: np.ndarray) -> str:
    """One term over training: what was logged, faint, and its running mean.

    The frame holds everything after the first twentieth of the steps, so that the first drop does not flatten the rest.
    """
    kept = np.isfinite(values)
    steps, values = steps[kept], values[kept]
    figure, axes = _axes(3.3, 1.75)
    if len(values) > 30:
        axes.plot(steps, values, color=ACCENT, linewidth=0.7, alpha=0.3)
        axes.plot(steps, running_mean(values, max(3, len(values) // 25)), color=ACCENT, linewidth=1.6)
    else:
        marker = "o" if len(values) <= 12 else None
        axes.plot(steps, values, color=ACCENT, linewidth=1.6, marker=marker, markersize=3)
    if len(values):
        # Of few rows none is cut off.
        settled = values[steps >= steps[0] + 0.05 * (steps[-1] - steps[0])] if len(values) > 12 else values
        low, high = float(settled.min()), float(settled.max())
        margin = 0.08 * (high - low) or max(abs(high) * 0.05, 0.05)
        axes.set_ylim(low - margin, high + margin)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=4)
    axes.xaxis.set_major_formatter(_thousands)
    axes.yaxis.set_major_formatter(_thousands)
    end = f" It ends at {values[-1]:.4g}." if len(values) else ""
    return _svg(figure, f"term-{name}", f"{name} over training steps.{end}")


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """(n,) mean of the values within half a window on either side, of fewer at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    place = np.arange(len(values))
    reach = np.minimum(window // 2, np.minimum(place, len(values) - 1 - place))  # the same on both sides: no drift
    return (sums[place + reach + 1] - sums[place - reach]) / (2 * reach + 1)


def _thousands(value: float, _: int) -> str:
    if abs(value) >= 1000:
        return f"{value / 1000:g}k"
    return f"{value:g}".replace("-", "−")


def _axes(width: float, height: float) -> tuple[Any, Any]:
    """A figure in inches with one frame drawn as lightly as possible."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(RULE)
    axes.tick_params(colors=RULE, labelcolor=MUTED, labelsize=SIZE, length=3)
    axes.yaxis.label.set(color=MUTED, size=SIZE)
    axes.set_axisbelow(True)
    return figure, axes


def _matrix(names: Sequence[str], factors: Sequence[str]) -> tuple[Any, Any, float, float]:
    """Frame of a matrix, dimensions downwards and factors across, and the width and height of a cell in inches.

    Sizes are fixed in inches, so that two of them side by side agree line by line.
    """
    from matplotlib.figure import Figure

    letter = 0.085  # inches, a generous guess: the page chooses the font
    longest = max((len(factor) for factor in factors), default=0)
    column, row = float(np.clip(letter * longest + 0.12, 0.62, 1.0)), 0.33
    turned = letter * longest > column
    left = 0.11 + letter * max((len(name) for name in names), default=0)
    top = 0.2 + 0.72 * letter * longest if turned else 0.3
    width = left + column * len(factors) + (0.45 if turned else 0.05)
    height = top + row * len(names) + 0.05
    figure = Figure(figsize=(width, height))
    figure.patch.set_alpha(0)
    axes = figure.add_axes((left / width, 0.05 / height, column * len(factors) / width, row * len(names) / height))
    axes.patch.set_alpha(0)
    axes.set_xlim(-0.5, len(factors) - 0.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(factors)), factors, rotation=35 if turned else 0, ha="left" if turned else "center")
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0, labelcolor=INK, labelsize=SIZE)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure, axes, column, row


def _rounded(attribute: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point."""
    return re.sub(r"-?\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", attribute[0])


def _svg(figure: Any, name: str, told: str) -> str:
    """The figure as an <svg> element with `told` for those who cannot see it."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    memory = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(
            memory, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = memory.getvalue()
    text = text[text.index("<svg") :]
    # What belongs to a file of its own goes; what is left inherits the page's font and does not repeat an id.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'\s+xmlns(:\w+)?="[^"]*"|font-family: [^;"]*; ?', "", text)
    referred = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in referred else "", text)
    text = re.sub(r' (?:d|x|y|width|height|transform)="[^"]*"', _rounded, text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    width = re.search(r'width="([\d.]+)pt"', text)
    assert width is not None  # matplotlib always writes one
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r"\s*\n\s*", " ", text)
    label = f'<svg role="img" aria-label="{html.escape(told)}" style="max-width:{float(width[1]) * 4 / 3:.0f}px"'
    return text.replace("<svg", label, 1).strip()
