"""The exception tree: everything mindyn raises on purpose is a `MindynError`.

A message says what was given, what is valid, and the likely cause. Programs compare `code` and `subject`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar, Final

from mindyn.foundation.hints import Command
from mindyn.foundation.printable import make_printable

LONGEST_MESSAGE: Final = 3000
"""Characters of a message; the middle of a longer one is left out."""
LONGEST_COMPARED_NAME: Final = 200
"""Characters of a name that is compared with known ones."""
LISTED_NAMES: Final = 30
"""Names that a message lists at most."""


class Code(StrEnum):
    """Machine-readable error code. Compare this, not the message, which may change."""

    WRONG_TYPE = "wrong type"
    WRONG_SHAPE = "wrong shape"
    WRONG_UNIT = "wrong unit"
    NOT_FINITE = "not finite"
    OUT_OF_RANGE = "out of range"
    INVALID_VALUE = "invalid value"
    UNKNOWN_NAME = "unknown name"
    DUPLICATE = "duplicate"
    AMBIGUOUS = "ambiguous"
    MISSING_VALUE = "missing value"
    MISSING_FILE = "missing file"
    MISSING_PACKAGE = "missing package"
    DISAGREEMENT = "disagreement"
    UNREADABLE = "unreadable file"
    WRONG_FORMAT = "wrong format"
    TOO_LARGE = "too large"
    UNSAFE_INPUT = "unsafe input"
    UNSUPPORTED = "unsupported"
    NOT_WRITABLE = "not writable"
    TOO_LITTLE_DATA = "too little data"
    NOT_IDENTIFIABLE = "not identifiable"
    NOT_FEASIBLE = "not physically consistent"
    IMPLAUSIBLE = "implausible"
    NOT_CONVERGED = "not converged"
    INACCURATE = "inaccurate"
    UNSAFE_MOTION = "unsafe motion"
    INVALID_STRUCTURE = "invalid structure"
    INTERNAL = "internal"


class MindynError(Exception):
    """Base class of every error that mindyn raises on purpose.

    Parameters
    ----------
    message : str
        What was given, what is valid, and the likely cause. Control characters of names and files become escapes here
        and in the hint; `subject` keeps them.
    hint : str
        What to do next; the command line prints it after the message.
    command : Command, optional
        The command that does it; printed after the hint.
    code : Code, optional
        What is wrong, for programs; each class has a default.
    subject : str
        The name or value at fault: a joint, a column, a key, a file or an argument.
    """

    default_code: ClassVar[Code] = Code.INVALID_VALUE

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        command: Command | None = None,
        code: Code | None = None,
        subject: object = "",
    ) -> None:
        message = make_printable(message, keep="\n")
        super().__init__(message)  # pickle restores the other attributes
        self.message = shorten_text(message)
        proposal = "" if command is None else str(command)
        self.hint = shorten_text(make_printable(": ".join(filter(None, (hint, proposal))), keep="\n"))
        self.command = command
        self.code = self.default_code if code is None else code
        self.subject = shorten_text(str(subject), LONGEST_COMPARED_NAME)

    def fill_command(self, **known: object) -> None:
        """Put words that the raiser did not know (ROBOT, LOG) into the proposed command."""
        if self.command is not None:
            before, self.command = str(self.command), self.command.fill(**known)
            shown, proposal = (make_printable(text, keep="\n") for text in (before, str(self.command)))
            self.hint = self.hint.replace(shown, proposal)

    def to_dict(self) -> dict[str, Any]:
        """Return the error for JSON."""
        command = None if self.command is None else ["mindyn", *self.command]
        return {
            "message": self.message,
            "hint": self.hint,
            "command": command,
            "code": str(self.code),
            "subject": self.subject,
        }

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class RobotError(MindynError):
    """A robot's structure is impossible: zero axis, negative mass, cycle, two roots, ..."""

    default_code = Code.INVALID_STRUCTURE

    def with_hint(self, hint: str) -> RobotError:
        """Return the error with a hint, unless it already has one."""
        return self if self.hint else type(self)(self.message, hint=hint, code=self.code, subject=self.subject)


class NearlyDegenerateError(RobotError):
    """The geometry is so close to a special geometry that a method cannot decide which parameters the dynamics depend
    on.
    """

    default_code = Code.INACCURATE


class RobotFileError(RobotError):
    """A robot file cannot be read: it has another format, or is truncated, unsafe, too large or unsupported."""

    default_code = Code.UNREADABLE


class UnknownNameError(MindynError):
    """A name does not exist; the message lists the names that do."""

    default_code = Code.UNKNOWN_NAME


class InputError(MindynError):
    """An argument has the wrong shape, type or value (NaN, infinite, out of range)."""


class MissingPhysicsError(MindynError):
    """A computation needs masses, inertias or other physical values that the robot does not have."""

    default_code = Code.MISSING_VALUE


class MissingExtraError(MindynError):
    """An optional package that is needed is not installed."""

    default_code = Code.MISSING_PACKAGE


class UnsafeMotionError(MindynError):
    """A motion would hit something or break a limit, or a moving link has no volume that could be checked."""

    default_code = Code.UNSAFE_MOTION


class ExportError(MindynError):
    """A file cannot be written: its format cannot express the robot, or there is no such folder."""

    default_code = Code.NOT_WRITABLE


class ImplausibleModelError(ExportError):
    """A real robot could not have the links of this model: a mass, a centre of mass or the inertia matrix is
    implausible.
    """

    default_code = Code.IMPLAUSIBLE


def shorten_text(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return the text; for a long text, only its beginning and its end."""
    if len(text) <= longest:
        return text
    omitted = f" ... ({len(text) - longest} characters omitted) ... "
    return text[: longest * 2 // 3] + omitted + text[len(text) - longest // 3 :]


def list_names(names: Iterable[str], most: int = LISTED_NAMES) -> str:
    """Return `a, b, c`. If there are many names, return the first ones and the number of further names."""
    given = list(names)
    shown = ", ".join(shorten_text(str(name), 100) for name in given[:most])
    return f"{shown} and {len(given) - most} more" if len(given) > most else shown


def pluralise(count: int, noun: str) -> str:
    """Return `1 log`, `2 logs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


LISTED_HINT = "use one of the listed names, spelled as listed"


def suggest_name(given: object, valid: Iterable[str], otherwise: str = LISTED_HINT) -> str:
    """Return a hint with the name that is most similar to the given one; `otherwise` if none is similar."""
    # A long text is not a mistyped name, and the comparison takes quadratic time.
    near = (
        get_close_matches(str(given), [str(name) for name in valid], n=1)
        if len(str(given)) <= LONGEST_COMPARED_NAME
        else []
    )
    return f"did you mean {near[0]!r}?" if near else otherwise


def unknown_name_error(kind: str, given: object, valid: Iterable[str], has: str = "the model has") -> UnknownNameError:
    """Return the error `no joint 'elbow2'; the model has: shoulder, elbow, wrist`."""
    names = tuple(valid)
    hint = suggest_name(given, names) if names else ""
    message = f"no {kind} {shorten_text(str(given), 100)!r}; {has}: {list_names(names) or 'none'}"
    return UnknownNameError(message, hint=hint, subject=given)


def require_choice(value: object, valid: Iterable[str], what: str, error: type[MindynError] = InputError) -> None:
    """Raise an error of that class if the value is not one of `valid`."""
    names = tuple(valid)
    if value not in names:
        message = f"{what} must be one of {', '.join(names)}; got {value!r}"
        raise error(message, hint=suggest_name(value, names), code=Code.UNKNOWN_NAME, subject=value)
