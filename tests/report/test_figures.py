"""Figures: what is drawn has the size and place that the numbers say."""

import re

import matplotlib
import numpy as np
import pytest

from unweave.report import figures

NAMES, FACTORS = ["z[0]", "z[1]", "z[2]"], ["x", "y"]


def rectangles(svg: str, colour: str) -> list[tuple[float, float]]:
    """Width and height of the filled paths of a colour, in drawing order."""
    found = []
    for path, style in re.findall(r'<path d="([^"]+)"[^>]*style="([^"]+)"', svg):
        if f"fill: var({colour})" in style:
            points = np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", path), dtype=float)
            found.append(tuple(np.ptp(points, axis=0)))
    return found


def test_squares_of_a_hinton_diagram_have_the_area_of_the_importance():
    importance = np.array([[1.0, 0.25], [0.04, 0.0], [0.64, 0.5]])
    squares = np.array(rectangles(figures.hinton(NAMES, FACTORS, importance), "--second"))
    areas = squares.prod(axis=1)
    np.testing.assert_allclose(squares[:, 0], squares[:, 1], atol=0.03)
    shown = importance.ravel()[importance.ravel() > 0]
    np.testing.assert_allclose(areas / areas[0], shown, atol=0.02)


def test_bars_are_as_high_as_the_information():
    nats = np.array([3.0, 1.5, 0.06])
    svg = figures.information_bars(NAMES, nats, nats > 0.1, "nats")
    used, unused = rectangles(svg, "--accent"), rectangles(svg, "--idle")
    assert used[0][1] / used[1][1] == pytest.approx(2.0, abs=0.02)
    assert unused[0][1] / used[0][1] == pytest.approx(0.02, abs=0.005)


def test_cells_of_the_heat_map_are_as_strong_as_the_share():
    shares = np.array([[1.0, 0.0], [0.3, 0.01], [0.5, 0.62]])
    svg = figures.knowledge_map(NAMES, FACTORS, shares)
    strengths = [float(value) for value in re.findall(r"fill: var\(--accent\); opacity: ([\d.]+)", svg)]
    if len(strengths) < shares.size:  # full strength is written without an opacity
        strengths.insert(0, 1.0)
    np.testing.assert_allclose(strengths, 0.04 + 0.96 * shares.ravel(), atol=0.006)
    words = re.findall(r">(\d+)</text>", svg)
    assert words == ["100", "30", "50", "62"]
    assert "x is known best by z[0]; y is known best by z[2]" in svg


def test_the_running_mean_is_the_mean_of_the_neighbours():
    values = np.random.default_rng(0).normal(size=12)
    found = figures.running_mean(values, 5)
    for place in range(12):
        reach = min(2, place, 11 - place)
        assert found[place] == pytest.approx(values[place - reach : place + reach + 1].mean())


def test_long_names_are_turned_and_many_bars_fit():
    svg = figures.knowledge_map(["a"], ["a very long factor name", "b"], np.ones((1, 2)))
    assert "rotate(-35" in svg
    many = figures.information_bars([f"z[{d}]" for d in range(30)], np.ones(30), np.ones(30, dtype=bool), "nats")
    assert "rotate(-90" in many


def test_a_term_with_gaps_and_a_constant_term():
    steps = np.arange(50.0)
    values = np.where(steps % 5 == 0, 3.0, np.nan)
    assert "ends at 3" in figures.term_curve("player/cost", steps, values)
    assert "ends at 0" in figures.term_curve("zero", steps, np.zeros(50))


def test_words_keep_their_digits_when_places_are_rounded():
    svg = figures.term_curve("temperature", np.arange(5.0), np.linspace(0.6601, 0.6609, 5))
    labels = [label for label in re.findall(r">([\d.]+)</text>", svg) if label.startswith("0.66")]
    assert len(labels) >= 2
    assert len(set(labels)) == len(labels)
    assert not re.search(r' d="[^"]*\.\d{3}', svg)


def test_drawing_leaves_no_state_and_repeats_exactly():
    before = dict(matplotlib.rcParams)
    one, two = (figures.term_curve("kl", np.arange(40.0), np.arange(40.0) ** 2) for _ in range(2))
    assert one == two
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in figures.__dict__
