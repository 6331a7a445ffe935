"""Axes that are nearly, but not quite, parallel: worth a note, since whoever wrote the file may have meant parallel.

Parameters that parallel axes would hide show through the deviation alone. Torques are right either way; a fit can tell
such parameters only as well as the deviation is large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.findings import Finding, Kind, info, summarise
from mindyn.robots.parts import Joint

NEARLY_PARALLEL_RAD: Final = 1e-3
"""Axes within this angle of each other are nearly parallel, rad."""

EXACTLY_PARALLEL_RAD: Final = 1e-13
"""Axes within this angle are parallel: frames put together round by as much, rad."""

AXIS_SUMMARIES: Final = {
    Kind.NEARLY_PARALLEL_AXES: "{count} axes are nearly but not quite parallel to the one before, and some parameters "
    "show through that alone; if parallel is meant, write angles with all digits (snap=True takes up to 1e-5 rad so)"
}
"""Messages for several findings of a kind; see `summarise`."""


def find_nearly_parallel_axes(joints: Sequence[Joint], gravity: Array) -> tuple[Finding, ...]:
    """Find axes nearly parallel to the one before them, or turns about nearly the direction of gravity."""
    place = {joint.child: i for i, joint in enumerate(joints)}
    before = np.array([place.get(joint.parent, -1) for joint in joints])
    in_child = np.array([joint.axis @ joint.tip.rotation for joint in joints])
    in_parent = np.array([joint.origin.rotation @ joint.axis for joint in joints])
    against = np.where(before[:, None] >= 0, in_child[before], _unit_vector(gravity))
    angles = np.linalg.norm(np.cross(in_parent, against), axis=1)
    findings = []
    for joint, other, angle in zip(joints, before.tolist(), angles.tolist(), strict=True):
        if not EXACTLY_PARALLEL_RAD < angle < NEARLY_PARALLEL_RAD or (other < 0 and joint.kind == "prismatic"):
            continue
        what = f"that of {joints[other].name!r}" if other >= 0 else "gravity"
        said = f"the axis of {joint.name!r} is {angle:.1e} rad off being parallel to {what}"
        findings.append(info(Kind.NEARLY_PARALLEL_AXES, f"{said}: some parameters show through that alone"))
    return summarise(findings, AXIS_SUMMARIES)


def _unit_vector(gravity: Array) -> Array:
    """A unit vector; zero, to which nothing is nearly parallel, without gravity."""
    size = float(np.linalg.norm(gravity))
    return np.asarray(gravity / size if size > 0 else gravity)
