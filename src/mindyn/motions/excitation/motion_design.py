"""`MotionDesign`: a motion that is safe to run, its use of the limits, and the expected accuracy of its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.significance import MAX_WELL_DETERMINED_DEVIATION, relative_deviation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import UnsafeMotionError, pluralise
from mindyn.foundation.findings import Finding, Kind, Severity, name_warnings
from mindyn.foundation.pages.notebook_display import NotebookDisplay, Page, draw_page
from mindyn.motions.excitation.better_motions import Lever, describe_levers
from mindyn.motions.excitation.body_pairs import Encounters
from mindyn.motions.excitation.limits import MotionLimits
from mindyn.motions.excitation.motion_check import CHECK_HZ as PATH_HZ
from mindyn.motions.excitation.motion_check import PathCheck, check_path
from mindyn.motions.excitation.motion_safety import Safety, SafetySettings
from mindyn.motions.excitation.motions import CHECK_HZ, ApproachPath, Motion, Run, sample_times
from mindyn.motions.excitation.volumes import Capsule
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot
from mindyn.robots.table import format_table

ENDS_S: Final = 10.0
"""s at both ends of a long motion that are checked at the full rate, because the motion is faded in and out there."""
CHECKED: Final = 80_000
CHECKED_PER_CYCLE: Final = 200
"""Numbers of instants at which the rest of a long motion is checked: in total, and per cycle of its fastest function.
With 200 per cycle, a peak between two instants is underestimated by a fraction of 1.2e-4. Checking 600 s of a PUMA 560
at 1 kHz takes 0.7 s.
"""


REHEARSAL_SPEED: Final = 0.25
"""m/s: reduced manual speed (ISO 10218-1), which no volume exceeds in the rehearsal."""
SHARED: Final = ("position", "velocity", "acceleration", "jerk", "torque")
"""Kinds of limits for which only the largest used fraction is reported."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Predicted accuracy of every parameter after identification from a log of the motion and earlier logs.

    names       names of the base parameters
    units       units of the base parameters
    values      beta (p,) of the prior model; None if there is none
    deviations  (p,) standard deviations
    excitation  (p,) rms torque of one unit of the parameter, in standard deviations of the torque noise
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Array | None
    deviations: Array
    excitation: Array

    @property
    def relative(self) -> Array | None:
        """(p,) standard deviation relative to the value; NaN if the value is not significantly different from zero."""
        return None if self.values is None else relative_deviation(self.values, self.deviations)

    def rows(self) -> list[tuple[str, ...]]:
        """Return name, prior value, standard deviation, unit, relative deviation and excitation of each parameter."""
        count, relative = len(self.names), self.relative
        values = ["-"] * count if self.values is None else [f"{value:.4g}" for value in self.values]
        parts = np.full(count, np.nan) if relative is None else relative
        shown = [f"{100 * part:.2g} %" if np.isfinite(part) else "-" for part in parts]
        deviations, excitation = [f"{x:.2g}" for x in self.deviations], [f"{x:.3g}" for x in self.excitation]
        return list(zip(self.names, values, deviations, self.units, shown, excitation, strict=True))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MotionDesign(NotebookDisplay):
    """A motion within all limits, checked at 1 kHz (see `check_times`), and the predicted accuracy of its log.

    Attributes
    ----------
    robot : Robot
        Robot with the drives whose parameters are to be estimated.
    motion : Motion
        Start, coefficients and family.
    limits : MotionLimits
        Limits that the motion keeps.
    criterion : str
        The criterion that was minimised.
    criteria : mapping of str to float
        All criteria by name: "condition" is the number itself, the others are as `Criterion` defines them.
    prediction : Prediction
        Predicted accuracy of the parameters, for a log at `rate_hz` with torque noise `noise`.
    used : mapping of str to float
        Largest fraction of every limit that the motion uses, at most 1.
    noise : ndarray, shape (n,)
        Standard deviation of the torque noise, in N m or N.
    rate_hz : float
        Sample rate of the log.
    status : str
        How the search ended.
    findings : tuple of Finding
        Findings on what was guessed, excluded or not checked.
    parts : mapping of str to float
        Fractions of the robot's "velocity" and "acceleration" limits that `limits` allow; 1 if missing.
    approach : ApproachPath or None
        Path from home to the start; None if no home was given.
    safety : SafetySettings or None
        Obstacles, floor and volumes; None if not known.
    capsules : tuple of Capsule
        Capsules that contain the links.
    check : PathCheck or None
        Distances and speeds along the whole run, with approach and return; None if not computed.
    encounters : Encounters or None
        Pairs of volumes whose distances were checked; None if nothing was checked.
    is_start_given : bool
        Whether the position at which the motion begins was prescribed.
    levers : tuple of Lever
        Number of parameters that faster or longer versions of this motion would determine.
    is_interrupted : bool
        Whether Ctrl-C ended the search.
    """

    robot: Robot
    motion: Motion
    limits: MotionLimits
    criterion: str
    criteria: Mapping[str, float]
    prediction: Prediction
    used: Mapping[str, float]
    noise: Array
    rate_hz: float
    status: str
    findings: tuple[Finding, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    approach: ApproachPath | None = None
    safety: SafetySettings | None = None
    capsules: tuple[Capsule, ...] = ()
    check: PathCheck | None = None
    encounters: Encounters | None = None
    is_start_given: bool = False
    levers: tuple[Lever, ...] = ()
    is_interrupted: bool = False

    @property
    def shares(self) -> dict[str, float]:
        """Largest used fraction of the robot's limits, by kind: position, velocity, ..., gap, wall."""
        shares: dict[str, float] = {}
        for label, value in self.used.items():
            kind = "wall" if label.endswith("wall") else label.split(" of ")[0]
            shares[kind] = max(shares.get(kind, 0.0), value * self.parts.get(kind, 1.0))
        return shares

    @property
    def seconds(self) -> float:
        """Duration of the motion."""
        return self.motion.seconds

    @property
    def condition_number(self) -> float:
        """Condition number of the weighted regressor with columns of unit length."""
        return self.criteria["condition"]

    def __repr__(self) -> str:
        parts = (f"{self.seconds:g} s", f"condition number {self.condition_number:.3g}", *self.errors)
        return f"MotionDesign({self.robot.name!r}, {', '.join(parts)})"

    @property
    def errors(self) -> tuple[str, ...]:
        """Sentences on why the motion must not be played: "NOT CHECKED: floor, self-collision"."""
        return tuple(finding.message for finding in self.findings if finding.severity is Severity.ERROR)

    def plot(self, meshes: Meshes | None = None) -> Page:
        """Return a page of the motion and its limits; notebooks show it and `.save(path)` writes it."""
        return draw_page("motion_page", self, meshes)

    def run(self, speed: float = 1.0) -> Run:
        """Return the run for a controller: from home, the motion, and back. A `speed` below 1 slows the run down."""
        return Run(self.robot.primary_names, self.motion, self.approach, speed)

    def reference(self, t: float) -> tuple[Array, Array, Array]:
        """Return q, qd, qdd (n,) at time t, the reference of a controller."""
        return self.motion(t)

    def sample(self, rate_hz: float) -> tuple[Array, Array, Array, Array]:
        """Return q, qd, qdd (N, n) and t (N,) from 0 to the end."""
        return self.motion.sample(rate_hz)

    @property
    def headline(self) -> str:
        """One sentence on what was checked, the smallest distance, and what was guessed or not checked."""
        checked = "; ".join([*self.errors, "Nothing was checked" if self.check is None else self.check.headline])
        start = ", ".join(f"{n} = {q:.3f}" for n, q in zip(self.robot.primary_names, self.motion.start, strict=True))
        way = f"approach not checked: begins at {start}" if self.approach is None else "approach and return checked"
        return f"{checked}; {way}{name_warnings(self.findings)}."

    @property
    def rehearsal_speed(self) -> float:
        """Fraction of the designed speed at which no volume is faster than `REHEARSAL_SPEED`."""
        return 1.0 if self.check is None or not self.check.speed else min(1.0, REHEARSAL_SPEED / self.check.speed)

    @property
    def determined_count(self) -> int | None:
        """Number of parameters that a log will determine to 10 % or better; None without prior values."""
        relative = self.prediction.relative
        return None if relative is None else int(np.sum(relative <= MAX_WELL_DETERMINED_DEVIATION))

    def summary(self) -> tuple[str, ...]:
        """Return sentences on the duration, the predicted accuracy, the used limits, and how the search ended."""
        lines = [self.headline, f"A motion of {self.seconds:g} s for {self.robot.name}, {self._describe_limits()}."]
        relative = self.prediction.relative
        if relative is not None:
            clear = self.determined_count
            lines.append(
                f"A log of it at {self.rate_hz:g} Hz will determine {clear} of {len(relative)} parameters to "
                f"{100 * MAX_WELL_DETERMINED_DEVIATION:g} % or better{self._describe_levers()}."
            )
        lines.append(f"It uses at most these fractions of the robot's limits: {self._whole_limits()}.")
        if self.check is not None and self.check.fastest:
            lines.append(f"The fastest point, of {self.check.fastest}, reaches {self.check.speed:.3g} m/s.")
        return (*lines, f"{self.status[:1].upper()}{self.status[1:]}.")

    def _describe_levers(self) -> str:
        """Return what a faster or longer motion would determine, as the rest of a sentence."""
        speed = np.inf if self.safety is None else self.safety.tip_speed
        described = describe_levers(self.levers, speed, self.seconds)
        return f"; {described}" if described else ""

    def _describe_limits(self) -> str:
        """Return "within all limits", but only if every check was made."""
        if self.errors:
            return f"within the limits of the joints only; {'; '.join(self.errors)}"
        unchecked = () if self.check is None else self.check.unchecked
        if self.check is None or unchecked:
            left = f"{pluralise(len(unchecked), 'pair')} of links not checked" if unchecked else "no distance checked"
            return f"within the limits of the joints; {left}"
        return "within all limits"

    def _whole_limits(self) -> str:
        return ", ".join(f"{kind} {100 * value:.0f} %" for kind, value in self.shares.items() if kind in SHARED)

    def table(self) -> str:
        """Return a table of the parameters with their predicted accuracy, and of the limits that are nearly reached."""
        rows = [("parameter", "prior value", "std. dev.", "unit", "relative", "excitation"), *self.prediction.rows()]
        nearest = sorted(self.used.items(), key=lambda pair: -pair[1])[:8]
        used = ", ".join(f"{label} {100 * value:.1f} %" for label, value in nearest)
        lines = [f"used of limits: {used}", f"fraction of the robot's limits: {self._whole_limits()}"]
        if self.parts:
            requested = " and ".join(f"{100 * part:g} % of {kind}" for kind, part in self.parts.items())
            lines[1] += f" (at most {requested} requested)"
        return "\n".join([format_table(rows), "", *lines, self.status])

    def to_dict(self) -> dict[str, Any]:
        """Return the design for JSON."""
        from mindyn.motions.excitation.motion_files import coefficients_of

        relative = self.prediction.relative
        return {
            "robot": self.robot.name,
            "headline": self.headline,
            "errors": list(self.errors),
            **coefficients_of(self),
            "criterion": self.criterion,
            "criteria": dict(self.criteria),
            "levers": [lever.to_dict() for lever in self.levers],
            "rate_hz": self.rate_hz,
            "noise": self.noise.tolist(),
            "parameters": {
                "name": list(self.prediction.names),
                "value": None if self.prediction.values is None else self.prediction.values.tolist(),
                "deviation": [float(d) if np.isfinite(d) else None for d in self.prediction.deviations],
                "relative": None if relative is None else [float(r) if np.isfinite(r) else None for r in relative],
                "excitation": self.prediction.excitation.tolist(),
            },
            "limits": self.limits.to_dict(),
            "used": dict(self.used),
            "parts": dict(self.parts),
            "status": self.status,
            "findings": [finding.to_dict() for finding in self.findings],
            "check": None if self.check is None else self.check.to_dict(),
        }

    def write(
        self,
        path: str | Path,
        *,
        rate_hz: float | None = None,
        meshes: Meshes | None = None,
    ) -> list[Path]:
        """Write one file, with a format by its suffix, or all files into a folder.

        Return the files that were written.

        Samples are those of `run()`, which begins and ends at home if home was given. A rehearsal is written too: the
        same path, so slow that no volume exceeds 0.25 m/s.

        .csv     samples at rate_hz (by default the rate of the log)
        .json    coefficients
        .yaml    ROS 2 trajectory_msgs/JointTrajectory at rate_hz
        .script  URScript: servoj at rate_hz, for arms of Universal Robots; stops unless they are at the start
        .html    the plot; with `meshes` from `read_meshes`, it shows the shapes of the links
        """
        from mindyn.motions.excitation.motion_files import write_design

        return write_design(self, Path(path), self.rate_hz if rate_hz is None else rate_hz, meshes)


def check_times(seconds: float, cycles: float) -> Array:
    """Return the times (N,) of the check: at `CHECK_HZ`, with a bounded number between the ends of a long motion."""
    every = sample_times(seconds, CHECK_HZ)
    count = int(max(CHECKED, CHECKED_PER_CYCLE * cycles))
    if len(every) - 1 <= count + 2 * ENDS_S * CHECK_HZ:
        return every
    ends = every <= ENDS_S, every >= seconds - ENDS_S
    return np.concatenate([every[ends[0]], np.linspace(ENDS_S, seconds - ENDS_S, count)[1:-1], every[ends[1]]])


def check_design(design: MotionDesign, safety: Safety, on_the_way: Safety, tip_speed: float) -> MotionDesign:
    """Return the design with the check of its whole run. Raise an error if a distance or the tip speed is violated.

    on_the_way  checks of approach and return, which begin and end at home and may be nearer to something there
    """
    run = design.run()
    t = sample_times(run.seconds, PATH_HZ)
    check = check_path(on_the_way.encounters, [(run.derivative(t, 0), t)], len(safety.volumes.unknown))
    findings = [*check.findings, *speed_findings(check, tip_speed)]
    if on_the_way.encounters is not safety.encounters:
        inside = sample_times(design.seconds, PATH_HZ)
        findings += violations(check_path(safety.encounters, [(design.motion.derivative(inside, 0), None)], 0))
    require_safe(findings)
    if design.approach is None:
        sentence = "the way to the start position and back is not checked; no file moves the robot there"
        remedy = "Set home in the limits file, so that a path from there is planned and checked"
        findings.append(Finding(Kind.UNCHECKED_APPROACH, Severity.WARNING, sentence, remedy))
    return replace(design, findings=(*design.findings, *findings), check=check, encounters=safety.encounters)


def speed_findings(check: PathCheck, tip_speed: float) -> list[Finding]:
    """Return a finding if a point of the arm is too fast."""
    if check.speed <= tip_speed * (1 + 1e-6):
        return []
    sentence = f"{check.fastest} moves at {check.speed:.3g} m/s; at most {tip_speed:g} m/s is allowed"
    return [Finding(Kind.LIMIT_VIOLATED, Severity.ERROR, sentence, "Lower the velocity limits, or raise --tip-speed")]


def violations(check: PathCheck) -> list[Finding]:
    """Return the findings about distances that are too small."""
    return [finding for finding in check.findings if finding.kind is Kind.DISTANCE_VIOLATED]


def require_safe(findings: Sequence[Finding]) -> None:
    """Raise an `UnsafeMotionError` that lists every finding of severity error."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        raise UnsafeMotionError(
            "; ".join(error.message for error in errors), hint=errors[0].remedy, subject=errors[0].kind
        )


def check_finding(times: Array) -> tuple[Finding, ...]:
    """Return a finding if the limits of a long motion were not checked at `CHECK_HZ` throughout."""
    step = float(np.diff(times).max(initial=0.0))
    if step < 1.5 / CHECK_HZ:
        return ()
    sentence = (
        f"because the motion is long, its limits are checked at {CHECK_HZ:g} Hz for {ENDS_S:g} s at both ends, and "
        f"every {1e3 * step:.3g} ms between"
    )
    return (Finding(Kind.COARSE_CHECK, Severity.INFO, sentence, value=step, unit="s"),)
