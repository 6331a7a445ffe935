"""`StepPlan`: the ordered tests of Yoshida's step-by-step method for a robot; as a table and as a file.

Motions of step-by-step tests: breakaways, a constant speed, sines; all other joints are held.

`IdentifiableSubspace`: the combinations of parameters that are known so far, and what further rows add.

Folders of step-by-step tests: the plan, the motions to command, and the recorded logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError, pluralise, unknown_name_error
from mindyn.foundation.files import finish_replacement, replace_folder_files, require_parent, write_file_atomically
from mindyn.foundation.reading import read_json
from mindyn.logs.log import Log
from mindyn.logs.reading import read_log
from mindyn.motions.excitation.motion_files import format_samples
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

CREEP: Final = 1e-3
"""rad/s or m/s: velocity in the log of a breakaway; its sign is the direction in which the joint began to move."""
AT_REST: Final = 1e-9
"""Fraction of its highest speed below which a joint rests: at a reversal friction has no direction."""
BREAKAWAY_S: Final = 1.0
"""Time between the stamps of two breakaways, s; it has no other meaning."""


class Trajectory(NamedTuple):
    """t (N,) s; q, qd, qdd (N, n) rad or m, and per s, s^2."""

    t: Array
    q: Array
    qd: Array
    qdd: Array


@dataclass(frozen=True, slots=True)
class Breakaways:
    """The torque of one joint grows until it begins to move, forwards and backwards, at several positions.

    q          (n,) where joints are held
    joint      number of the joint that begins to move
    positions  rad or m, of that joint
    """

    name: str
    q: tuple[float, ...]
    joint: int
    positions: tuple[float, ...]
    kind: str = "static"

    @property
    def joints(self) -> tuple[int, ...]:
        """Numbers of the moving joints."""
        return (self.joint,)

    def trajectory(self, rate_hz: float) -> Trajectory:  # noqa: ARG002 - instants, at no rate
        """Return one row for each breakaway: forwards, then backwards, position by position."""
        count = 2 * len(self.positions)
        q, qd = np.tile(self.q, (count, 1)), np.zeros((count, len(self.q)))
        q[:, self.joint] = np.repeat(self.positions, 2)
        qd[:, self.joint] = np.tile([CREEP, -CREEP], len(self.positions))
        return Trajectory(BREAKAWAY_S * np.arange(count, dtype=np.float64), q, qd, np.zeros_like(q))


@dataclass(frozen=True, slots=True)
class ConstantSpeed:
    """One joint passes its position in q at a constant speed (rad/s or m/s, signed), halfway through `seconds`."""

    name: str
    q: tuple[float, ...]
    joint: int
    speed: float
    seconds: float
    kind: str = "constant velocity"

    @property
    def joints(self) -> tuple[int, ...]:
        """Numbers of the moving joints."""
        return (self.joint,)

    def trajectory(self, rate_hz: float) -> Trajectory:
        """Return rows at a rate, without the run-up."""
        t = _instants(self.seconds, rate_hz)
        q, qd = np.tile(self.q, (len(t), 1)), np.zeros((len(t), len(self.q)))
        q[:, self.joint] += self.speed * (t - self.seconds / 2)
        qd[:, self.joint] = self.speed
        return Trajectory(t, q, qd, np.zeros_like(q))


@dataclass(frozen=True, slots=True)
class Sines:
    """q_j(t) = q_j - amplitude_j cos(2 pi frequency_j t) of one or two joints, from rest."""

    name: str
    q: tuple[float, ...]
    joints: tuple[int, ...]
    amplitudes: tuple[float, ...]
    frequencies_hz: tuple[float, ...]
    seconds: float
    kind: str = "accelerated"

    def trajectory(self, rate_hz: float) -> Trajectory:
        """Return rows at a rate."""
        t = _instants(self.seconds, rate_hz)
        q, qd = np.tile(self.q, (len(t), 1)), np.zeros((len(t), len(self.q)))
        qdd = np.zeros_like(q)
        for joint, a, f in zip(self.joints, self.amplitudes, self.frequencies_hz, strict=True):
            w = 2 * np.pi * f
            q[:, joint] -= a * np.cos(w * t)
            sine = np.sin(w * t)
            qd[:, joint] = a * w * np.where(np.abs(sine) > AT_REST, sine, 0.0)
            qdd[:, joint] = a * w * w * np.cos(w * t)
        return Trajectory(t, q, qd, qdd)


StepMotion = Breakaways | ConstantSpeed | Sines


def _instants(seconds: float, rate_hz: float) -> Array:
    return np.arange(int(seconds * rate_hz + 1e-6) + 1) / rate_hz


PLAN_FORMAT: Final = "mindyn step plan 1"
MOTIONS: Final[Mapping[str, type[StepMotion]]] = {
    "static": Breakaways,
    "constant velocity": ConstantSpeed,
    "accelerated": Sines,
}
"""Motions by the kind of their test."""


NEW: Final = 1e-6
"""Rows determine a direction if their part outside the known ones is longer than this, relative to the longest row;
columns have unit length over the data. Rounding leaves 1e-13; the weakest one of Yoshida's tests (h5) has 1e-3."""
FAINT: Final = 1e-3
"""Smallest length of a row in comparisons: shorter rows contain only rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class IdentifiableSubspace:
    """L (k, p), orthonormal rows: L (scales * beta) is known.

    scales  (p,) lengths of the columns; parameters are counted in units of 1 / scale
    """

    scales: Array
    L: Array

    @staticmethod
    def of(scales: Array, known: NDArray[np.bool_]) -> IdentifiableSubspace:
        """Return the subspace with the marked parameters known; parameters without any row are in their own units."""
        return IdentifiableSubspace(np.where(scales > 0, scales, 1.0), np.eye(len(scales))[known])

    @property
    def rank(self) -> int:
        """Return the number of known combinations."""
        return len(self.L)

    def scaled(self, A: Array) -> Array:
        """Return rows (m, p) for parameters in units of 1 / scale."""
        return np.asarray(A / self.scales)

    def new(self, A: Array, least: float = NEW) -> tuple[Array, Array, Array]:
        """Return U (m, r), s (r,), N (r, p): U diag(s) N is the part of the scaled rows that is not known."""
        rows = self.scaled(A)
        outside = rows - (rows @ self.L.T) @ self.L
        outside -= (outside @ self.L.T) @ self.L  # once more, for rounding
        U, s, N = np.linalg.svd(outside, full_matrices=False)
        kept = s > least * np.linalg.norm(rows, axis=1).max(initial=FAINT)
        return U[:, kept], s[kept], N[kept]

    def with_directions(self, N: Array) -> IdentifiableSubspace:
        """Return the subspace with further orthonormal directions, orthogonal to the known ones."""
        return IdentifiableSubspace(self.scales, np.vstack([self.L, N]))

    def identifiable(self) -> NDArray[np.bool_]:
        """Return (p,) which parameters are known individually."""
        return np.asarray((self.L**2).sum(axis=0) > 1 - NEW)


@dataclass(frozen=True, slots=True)
class StepTest:
    """A test: the joints that move, the row of the equations of motion that is used, and what it determines.

    kind      one of `MOTIONS`
    moving    joints that move
    row       joint whose torque is used
    varied    held joints whose positions differ among the motions
    motions   each gives one log
    yields      number of parameter combinations that become known
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
        """Return what the test yields, in words."""
        parts = [", ".join(self.determines)] if self.determines else []
        if self.mixes:
            parts.append(f"combinations of {', '.join(self.mixes)}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, repr=False)
class StepPlan(ShortRepr):
    """Tests in the order of their evaluation; each uses the results of earlier ones.

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
        """Return the plan up to a test, to look at the results before the later tests are run."""
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
        """Return the plan of a dictionary written by `to_dict`."""
        if not isinstance(values, Mapping) or values.get("format") != PLAN_FORMAT:
            raise InputError(
                f"not a plan of mindyn: its format is not {PLAN_FORMAT!r}", code=Code.WRONG_FORMAT, subject="format"
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
    """Return the entries with tuples in place of lists, and the others in place of theirs."""
    return {name: tuple(entry) if isinstance(entry, list) else entry for name, entry in values.items()} | others


PLAN: Final = "plan.json"
"""Name of the plan's file in a folder of tests."""


def write_motions(
    plan: StepPlan, folder: str | Path, *, rate_hz: float = 200.0, comments: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Write the plan, and a CSV file of time, position and velocity commands for every motion, in SI units.

    Parameters
    ----------
    plan : StepPlan
        The tests.
    folder : str or Path
        An existing folder.
    rate_hz : float
        Samples per second.
    comments : sequence of str
        Lines at the beginning of every CSV file, such as what was checked.

    Returns
    -------
    tuple of Path
        The written files, the plan first.

    Raises
    ------
    ExportError
        If the folder does not exist.
    """
    files = [f"{name}.motion.csv" for name in plan.motions]
    with _replacing(folder, files) as target:
        for name, motion in plan.motions.items():
            t, q, qd, _ = motion.trajectory(rate_hz)
            text = format_samples(plan.joints, t, {"position": q, "velocity": qd}, comments)
            write_file_atomically(target / f"{name}.motion.csv", text)
        plan.save(target / PLAN)
    return tuple(Path(folder) / name for name in (PLAN, *files))


def write_test_logs(logs: Mapping[str, Log], folder: str | Path, robot: Robot, plan: StepPlan) -> tuple[Path, ...]:
    """Write each log as a CSV file with a sidecar, and the plan, which names the motion of each log.

    Parameters
    ----------
    logs : mapping of motion name to Log
        Logs of some or all motions.
    folder : str or Path
        An existing folder.
    robot : Robot
        The robot of the logs.
    plan : StepPlan
        The tests.

    Returns
    -------
    tuple of Path
        The written files, the plan first.

    Raises
    ------
    InputError
        If the plan has no motion of that name.
    ExportError
        If the folder does not exist.
    """
    plan.require_motions(logs)
    files = [f"{name}.csv{end}" for name in logs for end in ("", ".toml")]
    with _replacing(folder, files) as target:
        for name, log in logs.items():
            # A breakaway is one row, whose velocity gives only the direction.
            accept = ["velocity", "rate"] if isinstance(plan.motions[name], Breakaways) else []
            log.save(target / f"{name}.csv", robot, accept=accept)
        named = {**plan.to_dict(), "logs": {name: f"{name}.csv" for name in logs}}
        write_file_atomically(target / PLAN, json.dumps(named, indent=1) + "\n")
    return tuple(Path(folder) / name for name in (PLAN, *files))


def read_test_logs(folder: str | Path, robot: Robot) -> tuple[StepPlan, dict[str, Log]]:
    """Read the plan of a folder and the logs of its motions.

    The entry "logs" of the plan names the CSV or Parquet file of every motion, each with a sidecar. Motions that it
    does not name have no log.

    Parameters
    ----------
    folder : str or Path
        The folder of the tests.
    robot : Robot
        The robot of the logs.

    Returns
    -------
    tuple of StepPlan and dict of motion name to Log
        The plan, and the logs that the folder has.

    Raises
    ------
    InputError
        If the plan names an unknown motion or a missing file.
    """
    finish_replacement(folder)
    path = Path(folder) / PLAN
    plan = load_plan(path)
    files = read_json(path, "plan of tests", InputError).get("logs", {})
    plan.require_motions(files)
    missing = [file for file in files.values() if not (Path(folder) / file).exists()]
    if missing:
        raise InputError(
            f"{path} names the log {missing[0]!r}, but the folder has no such file",
            code=Code.MISSING_FILE,
            subject=missing[0],
        )
    return plan, {name: read_log(Path(folder) / file, robot) for name, file in files.items()}


def _replacing(folder: str | Path, names: Sequence[str]) -> AbstractContextManager[Path]:
    require_parent(Path(folder) / PLAN)
    return replace_folder_files(folder, [PLAN, *names])
