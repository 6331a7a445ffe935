"""Snapping: angles written with few digits are taken as the multiple of 15 degrees that was meant.

Files round pi; a right angle written 1.5708 makes a robot whose axes are never quite parallel, and whose base
parameters are then too many. Snapping acts on the rotations and axes of a file as they are read, so that one
geometry serves dynamics, base parameters and export.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import degrees, pi
from typing import Final

import numpy as np

from mindyn.algebra.rotations import (
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
from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import RobotError
from mindyn.findings import Finding, Kind, info, warning

SNAP_ANGLE_RAD: Final = 1e-5
"""Angles this close to a multiple of 15 degrees are taken as that multiple, rad."""

MAX_ANGLE_RAD: Final = 1e6
"""Of larger angles so few digits are left that no direction is meant by them, rad."""

LARGE_ANGLE_RAD: Final = 2 * pi + 1e-3
"""rad; files write angles within a turn, so that one beyond it is perhaps in degrees."""

SNAP_SUMMARIES: Final = {
    Kind.LARGE_ANGLE: "{count} angles are of more than a turn: were they written in degrees?",
    Kind.NORMALISED_AXIS: "{count} axes were not of unit length and were normalised",
    Kind.ROUNDED_GEOMETRY: f"{{count}} angles and axes within {SNAP_ANGLE_RAD:g} rad of a multiple of 15 degrees were "
    "taken as that",
}
"""Messages for several findings of a kind; see `summarise`."""

MIN_REPORTED_CHANGE: Final = 1e-15
"""A smaller change than this, relative to the angle's own size, is not worth a note, rad."""


@dataclass(slots=True)
class Snapper:
    """Reads angles, rotations and axes; with `active`, snaps them; keeps `findings` on what it changed."""

    active: bool = True
    findings: list[Finding] = field(default_factory=list)

    def cos_sin(self, angle: float, what: str) -> tuple[float, float]:
        """cos and sin of an angle in rad."""
        if not abs(angle) <= MAX_ANGLE_RAD:
            raise RobotError(f"{what} is {angle:g} rad; a file of a robot has angles of at most {MAX_ANGLE_RAD:g} rad")
        if abs(angle) > LARGE_ANGLE_RAD:
            message = f"{what} is {angle:g} rad, more than a turn"
            self.findings.append(warning(Kind.LARGE_ANGLE, message, "Check that the file does not write it in degrees"))
        step, distance = nearest_step(angle)
        if not self.active or distance > SNAP_ANGLE_RAD:
            return cos_sin(angle)
        if distance > MIN_REPORTED_CHANGE * max(1.0, abs(angle)):
            self._note(f"{what}: {angle:.10g} rad taken as {degrees(step * GRID_STEP_RAD):g} deg")
        return grid_cos_sin(step)

    def _note(self, sentence: str) -> None:
        self.findings.append(info(Kind.ROUNDED_GEOMETRY, sentence))

    def rpy(self, angles: Array, what: str) -> Array:
        """Rotation matrix Rz(yaw) Ry(pitch) Rx(roll)."""
        roll, pitch, yaw = (
            self.cos_sin(angle, f"{what} {name}") for angle, name in zip(angles, ("roll", "pitch", "yaw"), strict=True)
        )
        R = rot_z(*yaw) @ rot_y(*pitch) @ rot_x(*roll)
        return tidy(R) if self.active else R

    def rotation(self, R: Array, what: str) -> Array:
        """A rotation given as a matrix, or through a quaternion; kept bit by bit where it is exact already."""
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
        """A unit vector along `direction`; a length other than one is reported, zero refused."""
        vector = frozen_array(direction, (3,), what)
        largest = float(np.abs(vector).max())
        length = largest * float(np.linalg.norm(vector / largest)) if largest > 0 else 0.0
        if length < 1e-12:
            raise RobotError(f"{what} is zero: {vector.tolist()}; an axis needs a direction, such as 0 0 1")
        unit = vector if abs(length - 1) < 1e-12 else vector / length
        if abs(length - 1) > 1e-6:
            self.findings.append(info(Kind.NORMALISED_AXIS, f"{what}: length {length:.10g} normalised"))
        return self._snapped_axis(unit, what) if self.active else np.asarray(unit)

    def _snapped_axis(self, unit: Array, what: str) -> Array:
        azimuth, elevation = azimuth_elevation(unit)
        if nearest_step(elevation)[1] <= SNAP_ANGLE_RAD and nearest_step(elevation)[0] % 12 == 6:
            azimuth = 0.0  # along z the azimuth is noise
        quiet = Snapper()
        (ca, sa), (ce, se) = quiet.cos_sin(azimuth, what), quiet.cos_sin(elevation, what)
        snapped = np.array([ce * ca, ce * sa, se]) + 0.0
        change = float(np.linalg.norm(snapped - unit))
        if change < 1e-12:
            return tidy(unit)
        self._note(f"{what}: {unit.tolist()} taken as {snapped.round(6).tolist()} ({change:.1e} rad away)")
        return snapped
