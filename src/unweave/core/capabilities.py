"""Capabilities: what a trained system can do. An operation names what it needs; lists and pages show what applies."""

from __future__ import annotations

from typing import Any


class Capability:
    """Base of the markers below."""


class Encodes(Capability):
    """Turns observations into codes: `system.encode(batch)`."""


class Decodes(Capability):
    """Turns codes into observations: `system.render(codes)`."""


class Samples(Capability):
    """Draws codes from its prior: `system.draw(rows, seed)`."""


class Transfers(Capability):
    """Rewrites an observation with another attribute and the same content."""


class Predicts(Capability):
    """Continues a clip or a state beyond what it was given: `system.predict(batch, steps)`."""


class Plans(Capability):
    """Finds actions that reach a goal."""


def capabilities(system: type | Any) -> tuple[type[Capability], ...]:
    """The capabilities of a system or system class, in the order above."""
    cls = system if isinstance(system, type) else type(system)
    return tuple(marker for marker in Capability.__subclasses__() if issubclass(cls, marker))
