"""Errors that teach: what was wrong, what was expected, what to do. One line each.

Every error a user can cause derives from `UnweaveError` and from the builtin a caller would expect, so that
`except ValueError` keeps working. The command line prints the line and exits with code 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UnweaveError(Exception):
    """Anything the caller can mend; the message is one line that says how."""


class ArgumentError(UnweaveError, TypeError):
    """A function was called with an argument it does not have, or with one of another type."""


class ConfigError(UnweaveError, ValueError):
    """A setting has a value it cannot have."""


class DataError(UnweaveError, ValueError):
    """Data that cannot be used as they are: shape, range, missing values, damaged file."""


class ShapeError(UnweaveError, ValueError):
    """A tensor has another shape than the place it was put in expects."""


class MetricError(UnweaveError, ValueError):
    """A score cannot be computed from these codes and factors."""


class RunError(UnweaveError, RuntimeError):
    """A run directory is missing, damaged, of another system or of a newer version."""


class PlaceError(UnweaveError, OSError):
    """A result cannot be written where it was to go."""


class TrainingError(UnweaveError, ArithmeticError):
    """Training cannot go on: a term became NaN or infinite."""


class DeviceError(UnweaveError, RuntimeError):
    """An accelerator was asked for that this machine does not have."""


class MissingExtraError(UnweaveError, ImportError):
    """An optional dependency is absent; the message names the extra to install."""


class UnknownNameError(UnweaveError, KeyError):
    """A name that no registry, mapping or configuration knows."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would put the message in quotes


def nearest(name: str, known: Iterable[str], limit: int = 3, cutoff: float = 0.5) -> tuple[str, ...]:
    """The known names most like `name`, best first; empty when nothing is as similar as `cutoff` (1 is equal)."""
    lowered = {candidate.lower(): candidate for candidate in known}
    return tuple(lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=limit, cutoff=cutoff))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """`unknown score 'migg': did you mean 'mig'?`, with all names when few or none is near."""
    known = tuple(known)
    close = nearest(name, known)
    if close:
        hint = "did you mean " + " or ".join(repr(match) for match in close) + "?"
    elif known:
        hint = "known: " + ", ".join(sorted(known))
    else:
        hint = f"there is no {kind} to choose from"
    return UnknownNameError(f"unknown {kind} {name!r}: {hint}")
