"""`StepPlan`: the ordered tests of Yoshida's step-by-step method for a robot; as a table and as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from mindyn.foundation.algebra.values import ShortRepr
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, InputError, pluralise, shorten_text, unknown_name_error
from mindyn.foundation.safe_reading import read_json
from mindyn.motions.step_plans.step_motions import Breakaways, ConstantSpeed, Sines, StepMotion
from mindyn.robots.table import format_table

PLAN_FORMAT: Final = "mindyn step plan 1"
MOTIONS: Final[Mapping[str, type[StepMotion]]] = {
    "static": Breakaways,
    "constant velocity": ConstantSpeed,
    "accelerated": Sines,
}
"""Classes of motions by the kind of their test."""


@dataclass(frozen=True, slots=True)
class StepTest:
    """A test: the joints that move, the row of the equations of motion that is used, and what it determines.

    kind      one of `MOTIONS`
    moving    joints that move
    row       joint whose torque is used
    varied    held joints whose positions differ among the motions
    motions   motions of the test; each gives one log
    yields      number of combinations of parameters that become known
    determines  parameters that become known individually
    mixes       parameters in these combinations that are not yet known individually
    """

    name: str
    kind: str
    moving: tuple[str, ...]
    row: str
    varied: tuple[str, ...]
    motions: tuple[StepMotion, ...]
    yields: int
    determines: tuple[str, ...]
    mixes: tuple[str, ...]

    def outcome(self) -> str:
        """Return a text on what the test determines."""
        parts = [", ".join(self.determines)] if self.determines else []
        if self.mixes:
            parts.append(f"combinations of {', '.join(self.mixes)}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, repr=False)
class StepPlan(ShortRepr):
    """Tests in the order of their evaluation. The evaluation of a test uses the results of earlier tests.

    Attributes
    ----------
    robot : str
        Name of the robot.
    joints : tuple of str
        Names of the n joints.
    form : str
        Form of the base set (see `base_parameters`).
    with_drives : bool
        Whether the base set includes drives.
    names : tuple of str
        Names of the parameters.
    dropped : tuple of str
        Parameters that are taken as zero.
    tests : tuple of StepTest
        The tests in order.
    intervals : int
        Number of intervals over which the equations of an accelerated motion are integrated.
    skipped : tuple of str
        Tests that would add no information, and why.
    unidentifiable : tuple of str
        Parameters that the tests do not determine.
    """

    robot: str
    joints: tuple[str, ...]
    form: str
    with_drives: bool
    names: tuple[str, ...]
    dropped: tuple[str, ...]
    tests: tuple[StepTest, ...]
    intervals: int
    skipped: tuple[str, ...] = ()
    unidentifiable: tuple[str, ...] = ()

    @property
    def motions(self) -> dict[str, StepMotion]:
        """All motions by name, in order."""
        return {motion.name: motion for test in self.tests for motion in test.motions}

    def require_motions(self, names: Iterable[str]) -> None:
        """Raise `UnknownNameError` if a name is not that of a motion."""
        for name in names:
            if name not in self.motions:
                raise unknown_name_error("motion", name, self.motions, "the plan has")

    def through(self, name: str) -> StepPlan:
        """Return the plan up to a test, so that its result can be examined before the later tests are run."""
        names = [test.name for test in self.tests]
        if name not in names:
            raise unknown_name_error("test", name, names, "the plan has")
        return replace(self, tests=self.tests[: names.index(name) + 1])

    def counts(self) -> dict[str, int]:
        """Return the number of tests of each kind."""
        return {kind: sum(test.kind == kind for test in self.tests) for kind in MOTIONS}

    def table(self) -> str:
        """Return a table of the tests, and list skipped tests and undetermined parameters."""
        rows: list[tuple[str, ...]] = [("test", "moving", "row", "held, varied", "motions", "new", "yields")]
        for test in self.tests:
            varied = ", ".join(test.varied) or "-"
            counts = (str(len(test.motions)), str(test.yields))
            rows.append((test.name, ", ".join(test.moving), test.row, varied, *counts, test.outcome()))
        known = len(self.names) - len(self.dropped) - len(self.unidentifiable)
        numbers = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        motions = pluralise(len(self.motions), "motion")
        lines = [f"{pluralise(len(self.tests), 'test')} ({numbers}) in {motions} determine {known} parameters"]
        lines += [f"skipped: {reason}" for reason in self.skipped]
        lines += [f"taken as zero: {', '.join(self.dropped)}"] if self.dropped else []
        lines += [f"not determined: {', '.join(self.unidentifiable)}"] if self.unidentifiable else []
        return "\n".join([format_table(rows), "", *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return {"format": PLAN_FORMAT, **asdict(self)}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> StepPlan:
        """Return the plan from a dictionary that `to_dict` wrote."""
        if not isinstance(values, Mapping) or values.get("format") != PLAN_FORMAT:
            given = values.get("format") if isinstance(values, Mapping) else type(values).__name__
            raise InputError(
                f"not a plan of mindyn: its format is {shorten_text(repr(given), 100)}, not {PLAN_FORMAT!r}",
                hint="pass the plan that mindyn step-by-step plan wrote",
                code=Code.WRONG_FORMAT,
                subject="format",
            )
        tests = tuple(
            StepTest(**_freeze(test, motions=tuple(MOTIONS[one["kind"]](**_freeze(one)) for one in test["motions"])))
            for test in values["tests"]
        )
        entries = {entry.name: values[entry.name] for entry in fields(StepPlan)}
        return StepPlan(**_freeze(entries, tests=tests))

    def save(self, path: str | Path) -> Path:
        """Write the plan to a JSON file and return its path."""
        return write_file_atomically(path, json.dumps(self.to_dict(), indent=1) + "\n")


def load_plan(path: str | Path) -> StepPlan:
    """Load a plan of tests from a JSON file.

    Parameters
    ----------
    path : str or Path
        A file that `StepPlan.save` or `write_motions` wrote.

    Returns
    -------
    StepPlan
        The plan.

    Raises
    ------
    InputError
        If the file is not a plan of tests.
    """
    values = read_json(Path(path), "plan of tests", InputError)
    try:
        return StepPlan.from_dict(values)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read as a plan of tests: {error}", code=Code.UNREADABLE, subject=Path(path).name
        ) from error


def _freeze(values: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    """Return the entries with lists replaced by tuples."""
    return {name: tuple(entry) if isinstance(entry, list) else entry for name, entry in values.items()} | others
