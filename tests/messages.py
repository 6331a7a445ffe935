"""Messages of findings, as texts."""

from __future__ import annotations


def messages(thing) -> tuple[str, ...]:
    """Return message and remedy of every finding of a robot, log, rows or estimate, or of the given findings."""
    return tuple(map(str, getattr(thing, "findings", thing)))
