"""`Statement`: what a log's columns mean, in the words of its sidecar file and its caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from mindyn.logs.findings import FINDINGS, LogError
from mindyn.logs.units import UNITS
from mindyn.reading import read_toml

SIGNALS: Final = ("position", "velocity", "acceleration", "torque")
ColumnNames = str | Sequence[str] | Mapping[str, str]
SEPARATORS: Final = (",", ";", "\t", " ")
"""Of text files, in the order in which they are tried: names may hold spaces."""
MOST_SKIPPED: Final = 1000
"""Lines that may stand between the names of a text file and its numbers."""
PerJoint = Mapping[str, float] | Sequence[float]


@dataclass(frozen=True, slots=True)
class Statement:
    """What the columns of a log mean; the keys of its sidecar TOML file.

    columns          time and, for each signal (position, velocity, acceleration, torque), a pattern ("q{i}" counts
                     joints from 1, "q{i0}" from 0, "{joint}.position" is by name), n names in the robot's order, a
                     table joint -> column, or the name of one array with a column for each of `joints`
    units            unit of time and of each signal (see `units.UNITS`); for one signal, also a table joint -> unit
    side             "motor" or "joint", for all signals or for each in a table; column j is then the motor of joint j
    joints           joint names in the order of an array's columns, or in that in which patterns count
    files            signal -> another file, beside the log, that holds its columns row by row
    gears            G of q_motor = G q_joint: n ratios or an n x n matrix in the robot's order; else the robot's drives
    current_gains    N m/A (N/A) at the torque's side, in the robot's order or by joint
    position_offset  added to the joint's position, in the position's unit, in the robot's order or by joint
    rate_hz          rows are uniform at this rate (then no time column is read)
    topic            JointState topic of a bag
    separator        between the cells of a text file: ",", ";", "\\t" or " " (any number of blanks); else told from it
    decimal          of the numbers of a text file: "." or ","; else told from its first row
    skip_rows        lines of a text file after its line of names that are left out, such as one of units
    accept           findings that are right in this log (see `findings.FINDINGS`)
    """

    columns: Mapping[str, ColumnNames] = field(default_factory=dict)
    units: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    side: str | Mapping[str, str] | None = None
    joints: Sequence[str] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    gears: Sequence[float] | Sequence[Sequence[float]] | None = None
    current_gains: PerJoint | None = None
    position_offset: PerJoint | None = None
    rate_hz: float | None = None
    topic: str | None = None
    separator: str | None = None
    decimal: str | None = None
    skip_rows: int = 0
    accept: Sequence[str] = ()

    def __post_init__(self) -> None:
        _require_known("columns", self.columns, ("time", *SIGNALS))
        _require_known("units", self.units, tuple(UNITS))
        _require_known("files", self.files, SIGNALS)
        _require_known("accept", self.accept, FINDINGS)
        for signal, side in (self.side or {}).items() if isinstance(self.side, Mapping) else [("", self.side)]:
            _require_known("side", [signal] if signal else [], SIGNALS)
            if side not in (None, "motor", "joint"):
                raise LogError(f'side = {side!r}: state "motor" or "joint"')
        if self.separator not in (None, *SEPARATORS):
            raise LogError(f"separator = {self.separator!r}; it may be: {', '.join(map(repr, SEPARATORS))}")
        if self.decimal not in (None, ".", ","):
            raise LogError(f'decimal = {self.decimal!r}; it may be: ".", ","')
        if type(self.skip_rows) is not int or not 0 <= self.skip_rows <= MOST_SKIPPED:
            raise LogError(f"skip_rows = {self.skip_rows!r} must be a number of lines, at most {MOST_SKIPPED}")
        if self.rate_hz is not None and not self.rate_hz > 0:
            raise LogError(f"rate_hz = {self.rate_hz!r} must be positive")

    def unit(self, signal: str, joint: str) -> str:
        """The stated unit of a signal of a joint; refuses to guess one."""
        stated = self.units.get(signal)
        if isinstance(stated, Mapping):
            stated = stated.get(joint)
        if stated is None:
            example = next(iter(UNITS[signal]))
            raise LogError(
                f"no unit is stated for {signal}" + (f" of joint {joint!r}" if joint else ""),
                hint=f'state units.{signal} = "{example}" (or {", ".join(list(UNITS[signal])[1:])}) {WHERE}',
            )
        return stated

    def side_of(self, signal: str) -> str:
        """Whether a signal was measured at the motor or at the joint; refuses to guess."""
        side = self.side.get(signal) if isinstance(self.side, Mapping) else self.side
        if side is None:
            raise LogError(
                f"the side of {signal} is not stated: motor values differ from joint values by the gears",
                hint=f'state side = "motor" or "joint", or side.{signal} = ..., {WHERE}',
            )
        return side

    def merged(self, over: Mapping[str, Any]) -> Statement:
        """The statement with the keys of `over` put above it; the tables columns, units and files key by key."""
        valid = [entry.name for entry in fields(self)]
        _require_known("the log's statement", over, valid)
        values = {name: getattr(self, name) for name in valid}
        for name, value in over.items():
            both = isinstance(value, Mapping) and isinstance(values[name], Mapping)
            values[name] = {**values[name], **value} if both else value
        return Statement(**values)


WHERE: Final = "in the log's sidecar file or in the call"


def _require_known(what: str, given: Mapping[str, Any] | Sequence[str], valid: Sequence[str]) -> None:
    for key in given:
        if key not in valid:
            raise LogError(f"{what} has no entry {key!r}; it may have: {', '.join(valid)}")


def sidecar_path(path: Path) -> Path | None:
    """`run1.parquet.toml` or `run1.log.toml` beside `run1.parquet`; None when there is neither."""
    candidates = (path.with_name(path.name + ".toml"), path.with_name(path.stem + ".log.toml"))
    try:
        found = [candidate for candidate in candidates if candidate.exists()]
    except (OSError, ValueError):  # a name that the system does not take: the log itself is refused for it
        return None
    if len(found) > 1:
        raise LogError(f"{path.name} has two sidecar files, {found[0].name} and {found[1].name}; keep one")
    return found[0] if found else None


def read_sidecar(path: Path) -> Mapping[str, Any]:
    """The keys of the log's sidecar file; empty when it has none."""
    sidecar = sidecar_path(path)
    if sidecar is None:
        return {}
    return read_toml(sidecar, "sidecar file", LogError)
