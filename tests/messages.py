"""What findings say, as texts."""

from __future__ import annotations


def messages(thing) -> tuple[str, ...]:
    """Message and remedy of every finding of a robot, a log, rows or an estimate; or of findings themselves."""
    return tuple(map(str, getattr(thing, "findings", thing)))
