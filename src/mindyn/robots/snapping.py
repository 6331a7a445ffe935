"""Round angles to the multiple of 15 degrees that the author of a file meant, and drop invalid joint limits.

Files round pi: a right angle written as 1.5708 describes a robot whose axes are never exactly parallel, with too many
base parameters. Rotations and axes are rounded while the file is read, so that dynamics, base parameters and export use
the same geometry. Invalid joint limits are dropped with a finding, because dynamics needs no limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import degrees, isfinite, pi
from typing import Final

import numpy as np

from mindyn.foundation.algebra.rotations import (
    GRID_STEP_RAD,
    azimuth_elevation,
    cos_sin,
    grid_cos_sin,
    nearest_rotation,
    nearest_step,
    rot_x,
    rot_y,
    rot_z,
    rpy_from_rotation,
    tidy,
)
from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code, RobotError
from mindyn.foundation.findings import Finding, Kind, info, warning
from mindyn.robots.parts import Limits

SNAP_ANGLE_RAD: Final = 1e-5
"""Angles this close to a multiple of 15 degrees are rounded to it."""

MAX_ANGLE_RAD: Final = 1e6
"""A larger angle has too few digits left to define a direction."""

LARGE_ANGLE_RAD: Final = 2 * pi + 1e-3
"""Files usually contain angles within one turn; a larger one is perhaps in degrees."""

SNAP_SUMMARIES: Final = {
    Kind.LARGE_ANGLE: "{count} angles are larger than one turn: were they written in degrees?",
    Kind.NORMALISED_AXIS: "{count} axes did not have unit length and were normalised",
    Kind.ROUNDED_GEOMETRY: f"{{count}} angles and axes within {SNAP_ANGLE_RAD:g} rad of a multiple of 15 degrees were "
    "taken as that",
}
"""Messages for several findings of a kind; see `summarise`."""

MIN_REPORTED_CHANGE: Final = 1e-15
"""Smallest change of an angle, relative to max(1 rad, angle), that is reported."""


@dataclass(slots=True)
class Snapper:
    """Reader of angles, rotations, axes and limits. If `active`, it rounds; `findings` lists the changes."""

    active: bool = True
    findings: list[Finding] = field(default_factory=list)

    def cos_sin(self, angle: float, what: str) -> tuple[float, float]:
        """Return cos and sin of an angle in rad."""
        if not abs(angle) <= MAX_ANGLE_RAD:
            message = f"{what} is {angle:g} rad; angles of a robot file must be at most {MAX_ANGLE_RAD:g} rad"
            raise RobotError(message, code=Code.OUT_OF_RANGE, subject=what)
        if abs(angle) > LARGE_ANGLE_RAD:
            message = f"{what} is {angle:g} rad, more than one turn"
            self.findings.append(warning(Kind.LARGE_ANGLE, message, "Check that the file does not write it in degrees"))
        step, distance = nearest_step(angle)
        if not self.active or distance > SNAP_ANGLE_RAD:
            return cos_sin(angle)
        if distance > MIN_REPORTED_CHANGE * max(1.0, abs(angle)):
            self._note(f"{what}: {angle:.10g} rad rounded to {degrees(step * GRID_STEP_RAD):g} deg")
        return grid_cos_sin(step)

    def _note(self, sentence: str) -> None:
        self.findings.append(info(Kind.ROUNDED_GEOMETRY, sentence))

    def rpy(self, angles: Array, what: str) -> Array:
        """Return the rotation matrix Rz(yaw) Ry(pitch) Rx(roll)."""
        roll, pitch, yaw = (
            self.cos_sin(angle, f"{what} {name}") for angle, name in zip(angles, ("roll", "pitch", "yaw"), strict=True)
        )
        R = rot_z(*yaw) @ rot_y(*pitch) @ rot_x(*roll)
        return tidy(R) if self.active else R

    def rotation(self, R: Array, what: str) -> Array:
        """Return a rotation given as a matrix or through a quaternion; an exact one is returned bit for bit."""
        R = nearest_rotation(R, what)
        if not self.active:
            return R
        quiet = Snapper()
        snapped = quiet.rpy(np.array(rpy_from_rotation(R)), what)
        if np.abs(snapped - R).max() < 1e-12:
            return tidy(R)
        if np.abs(snapped - R).max() > 3 * SNAP_ANGLE_RAD:
            return R
        self.findings.extend(quiet.findings)
        return snapped

    def axis(self, direction: Array, what: str) -> Array:
        """Return a unit vector along `direction`.

        Report a direction whose length is not one; raise an error if the length is zero.
        """
        vector = frozen_array(direction, (3,), what)
        largest = float(np.abs(vector).max())
        length = largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0
        if length < 1e-12:
            message = f"{what} is zero: {vector.tolist()}; an axis needs a direction, such as 0 0 1"
            raise RobotError(message, code=Code.INVALID_VALUE, subject=what)
        unit = vector if abs(length - 1) < 1e-12 else vector / length
        if abs(length - 1) > 1e-6:
            self.findings.append(info(Kind.NORMALISED_AXIS, f"{what}: length {length:.10g} normalised"))
        return self._snap_axis(unit, what) if self.active else np.asarray(unit)

    def _snap_axis(self, unit: Array, what: str) -> Array:
        azimuth, elevation = azimuth_elevation(unit)
        if nearest_step(elevation)[1] <= SNAP_ANGLE_RAD and nearest_step(elevation)[0] % 12 == 6:
            azimuth = 0.0  # along z the azimuth is noise
        quiet = Snapper()
        (ca, sa), (ce, se) = quiet.cos_sin(azimuth, what), quiet.cos_sin(elevation, what)
        snapped = np.array([ce * ca, ce * sa, se]) + 0.0
        change = float(np.linalg.norm(snapped - unit))
        if change < 1e-12:
            return tidy(unit)
        self._note(f"{what}: {unit.tolist()} rounded to {snapped.round(6).tolist()} ({change:.1e} rad away)")
        return snapped

    def limits(
        self, stated: Mapping[str, float], shown: Mapping[str, str], what: str, *, continuous: bool = False
    ) -> Limits:
        """Return the valid limits of a joint. Drop invalid limits with a finding that quotes them as `shown`."""
        reasons = {key: "it is not a finite number" for key, value in stated.items() if not isfinite(value)}
        for key in ("velocity", "acceleration", "jerk", "effort"):
            if key in stated and key not in reasons and stated[key] <= 0:
                reasons[key] = "it is negative" if stated[key] < 0 else "it allows no motion"
        ends = [stated[key] for key in ("lower", "upper") if key in stated and key not in reasons]
        if len(ends) == 2 and ends[0] >= ends[1]:
            reasons["lower upper"] = (
                "the lower end is above the upper one" if ends[0] > ends[1] else "it allows no motion"
            )
        for keys, why in reasons.items():
            given = ", ".join(f"{key} {shown[key]}" for key in keys.split())
            self.findings.append(info(Kind.DROPPED_LIMIT, f"{what}: limit {given} was dropped: {why}"))
        dropped = {key for keys in reasons for key in keys.split()}
        return Limits(**{key: value for key, value in stated.items() if key not in dropped}, continuous=continuous)


LIMIT_SUMMARIES: Final = {Kind.DROPPED_LIMIT: "{count} invalid joint limits were dropped", **SNAP_SUMMARIES}
"""Messages for several findings of a kind; see `summarise`."""
