"""Knobs: what of a code can be turned by itself, how much each one knows, and what becomes of the codes."""

from unweave.knobs.grid import at_most_pictures, render_grid
from unweave.knobs.information import in_order, information
from unweave.knobs.knob import Knob, Names, find_columns, find_knobs, knobs, time_axis

__all__ = [
    "Knob",
    "Names",
    "at_most_pictures",
    "find_columns",
    "find_knobs",
    "in_order",
    "information",
    "knobs",
    "render_grid",
    "time_axis",
]
