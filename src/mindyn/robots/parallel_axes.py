"""Report axes that are nearly, but not exactly, parallel, because the author of the file may have meant parallel axes.

Such a robot has parameters that would be unidentifiable with exactly parallel axes. Torques are correct in both cases,
but a fit determines these parameters only as precisely as the deviation from parallel allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, info, summarise
from mindyn.robots.parts import Joint

NEARLY_PARALLEL_RAD: Final = 1e-3
"""Axes within this angle count as nearly parallel."""
EXACTLY_PARALLEL_RAD: Final = 1e-13
"""Axes within this angle count as parallel, because composed frames have this rounding error."""
AXIS_SUMMARIES: Final = {
    Kind.NEARLY_PARALLEL_AXES: "{count} axes are nearly, but not exactly, parallel to the previous one, and some "
    "parameters depend only on the deviation; if you mean parallel, write angles with all digits (snap=True rounds "
    "deviations up to 1e-5 rad)"
}
"""Messages for several findings of a kind; see `summarise`."""


def find_nearly_parallel_axes(joints: Sequence[Joint], gravity: Array) -> tuple[Finding, ...]:
    """Find axes nearly parallel to the previous one, and first revolute axes nearly parallel to gravity."""
    place = {joint.child: i for i, joint in enumerate(joints)}
    before = np.array([place.get(joint.parent, -1) for joint in joints])
    in_child = np.array([joint.axis @ joint.tip.rotation for joint in joints])
    in_parent = np.array([joint.origin.rotation @ joint.axis for joint in joints])
    against = np.where(before[:, None] >= 0, in_child[before], gravity / (np.linalg.norm(gravity) or 1.0))
    angles = np.linalg.norm(np.cross(in_parent, against), axis=1)
    findings = []
    for joint, other, angle in zip(joints, before.tolist(), angles.tolist(), strict=True):
        if not EXACTLY_PARALLEL_RAD < angle < NEARLY_PARALLEL_RAD or (other < 0 and joint.kind == "prismatic"):
            continue
        what = f"that of {joints[other].name!r}" if other >= 0 else "gravity"
        message = f"the axis of {joint.name!r} deviates by {angle:.1e} rad from being parallel to {what}"
        findings.append(info(Kind.NEARLY_PARALLEL_AXES, f"{message}: some parameters depend only on the deviation"))
    return summarise(findings, AXIS_SUMMARIES)
