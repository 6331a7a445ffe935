"""`StepPlan`: the tests of Yoshida's step-by-step method for one robot, in order; as a table and as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mindyn.errors import InputError
from mindyn.excitation.step_motions import StepMotion, motion_from_dict, motion_to_dict
from mindyn.files import write_file_atomically
from mindyn.reading import read_json
from mindyn.robots.table import format_table

PLAN_FORMAT: Final = "mindyn step plan 1"
TEST_KINDS: Final = ("static", "constant velocity", "accelerated")


@dataclass(frozen=True, slots=True)
class StepTest:
    """One test: joints that move, the one row of the equations of motion that is used, and what comes of it.

    kind      one of `TEST_KINDS`
    moving    joints that move
    row       joint whose torque is used
    varied    held joints whose positions differ among the motions
    motions   a log is made of each
    yields    number of combinations of parameters that become known
    tells     parameters that are known by themselves from then on
    mixes     parameters in combinations that the test yields, still not known by themselves
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
        """What it yields, in words."""
        parts = [", ".join(self.determines)] if self.determines else []
        if self.mixes:
            parts.append(f"combinations of {', '.join(self.mixes)}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Tests in the order in which they are evaluated; each uses what those before it yield.

    robot      its name
    joints     n names
    form       of the base set (see `base_parameters`)
    drives     whether the base set knows of drives
    names      of the parameters
    left_out   parameters that are taken to be zero
    tests      in order
    intervals  of every accelerated motion over which the equations are integrated
    skipped    tests that would tell nothing, and why
    untold     parameters that the tests leave open
    """

    robot: str
    joints: tuple[str, ...]
    form: str
    drives: bool
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

    def through(self, name: str) -> StepPlan:
        """The plan up to a test, so that what is known by then can be looked at before the others are made."""
        names = [test.name for test in self.tests]
        if name not in names:
            raise InputError(f"the plan has no test {name!r}; it has: {', '.join(names)}")
        return replace(self, tests=self.tests[: names.index(name) + 1])

    def counts(self) -> dict[str, int]:
        """Number of tests of each kind."""
        return {kind: sum(test.kind == kind for test in self.tests) for kind in TEST_KINDS}

    def table(self) -> str:
        """The tests, one line each, and what is skipped or stays open."""
        rows: list[tuple[str, ...]] = [("test", "moving", "row", "held, varied", "motions", "new", "yields")]
        for test in self.tests:
            varied = ", ".join(test.varied) or "-"
            counts = (str(len(test.motions)), str(test.yields))
            rows.append((test.name, ", ".join(test.moving), test.row, varied, *counts, test.outcome()))
        known = len(self.names) - len(self.dropped) - len(self.unidentifiable)
        numbers = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        lines = [f"{len(self.tests)} tests ({numbers}) in {len(self.motions)} motions tell {known} parameters"]
        lines += [f"skipped: {one}" for one in self.skipped]
        lines += [f"taken to be zero: {', '.join(self.dropped)}"] if self.dropped else []
        lines += [f"left open: {', '.join(self.unidentifiable)}"] if self.unidentifiable else []
        return "\n".join([format_table(rows), "", *lines])

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            "format": PLAN_FORMAT,
            "robot": self.robot,
            "joints": list(self.joints),
            "form": self.form,
            "drives": self.drives,
            "names": list(self.names),
            "dropped": list(self.dropped),
            "intervals": self.intervals,
            "skipped": list(self.skipped),
            "unidentifiable": list(self.unidentifiable),
            "tests": [_test_to_dict(test) for test in self.tests],
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> StepPlan:
        """The inverse of `to_dict`."""
        if not isinstance(values, Mapping) or values.get("format") != PLAN_FORMAT:
            raise InputError(f"not a plan of mindyn: its format is not {PLAN_FORMAT!r}")
        lists = ("joints", "names", "dropped", "skipped", "unidentifiable")
        entries: dict[str, Any] = {name: values[name] for name in ("robot", "form", "drives", "intervals")}
        entries |= {name: tuple(values[name]) for name in lists}
        return StepPlan(tests=tuple(_test_from_dict(one) for one in values["tests"]), **entries)

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        write_file_atomically(path, json.dumps(self.to_dict(), indent=1) + "\n")


def load_plan(path: str | Path) -> StepPlan:
    """The plan of a JSON file."""
    values = read_json(Path(path), "plan of tests", InputError)
    try:
        return StepPlan.from_dict(values)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read as a plan of tests: {error}") from error


def _test_to_dict(test: StepTest) -> dict[str, Any]:
    listed = {name: list(getattr(test, name)) for name in ("moving", "varied", "determines", "mixes")}
    motions = [motion_to_dict(motion) for motion in test.motions]
    return {"name": test.name, "kind": test.kind, "row": test.row, "yields": test.yields, **listed, "motions": motions}


def _test_from_dict(values: Mapping[str, Any]) -> StepTest:
    listed = {name: tuple(values[name]) for name in ("moving", "varied", "determines", "mixes")}
    motions = tuple(motion_from_dict(one) for one in values["motions"])
    return StepTest(
        values["name"], values["kind"], row=values["row"], yields=values["yields"], motions=motions, **listed
    )
