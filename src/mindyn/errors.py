"""The exception tree: everything mindyn raises on purpose is a `MindynError`.

A message says what was given, what would do, and the likeliest cause.
"""

from __future__ import annotations

from collections.abc import Iterable


class MindynError(Exception):
    """Base class of every error that mindyn raises on purpose.

    `hint` is a sentence on what to do next; the command line prints it after the message.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class RobotError(MindynError):
    """A robot's structure is impossible: zero axis, negative mass, cycle, two roots, ..."""


class RobotFileError(RobotError):
    """A robot file cannot be read: not the format it claims, truncated, unsafe, too large, unsupported."""


class UnknownNameError(MindynError):
    """A name does not exist; the message lists the names that do."""


class InputError(MindynError):
    """An argument has the wrong shape, type or value (NaN, infinite, out of range)."""


class MissingPhysicsError(MindynError):
    """A computation needs physical values that the robot does not state."""


class MissingExtraError(MindynError):
    """An optional package is needed that is not installed."""


class ExportError(MindynError):
    """A file cannot be written: its format cannot say what is asked, the robot is not physical, no such folder."""


def unknown_name(kind: str, given: str, valid: Iterable[str], *, owner: str = "the model has") -> UnknownNameError:
    """`no joint 'elbow2'; the model has: shoulder, elbow, wrist`."""
    names = ", ".join(valid)
    return UnknownNameError(f"no {kind} {given!r}; {owner}: {names or 'none'}")
