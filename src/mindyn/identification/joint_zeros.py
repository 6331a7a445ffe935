"""A joint's zero told by the motion alone, whatever the links weigh: the zero with which any masses explain the torque.

A zero that is off turns all links beyond the joint. Free parameters of these links take up most of it, all of it at a
first joint that stands upright and at a last one; between them the links' couplings do not turn along, and the torque
of an accurate log fits no masses at all. So it needs no inertials of a file, and it needs a log whose residuals are
small beside what the couplings make: torque sensors rather than currents through gears.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.identification.identifiable import Fitted, SmoothRows, smooth_rows, surely_less
from mindyn.identification.stated_inertials import LEAST_ZERO_DEG, Suspicion
from mindyn.kernels.threads import of_each
from mindyn.logs.samples import Samples

TRIED_DEG: Final = (-135.0, -90.0, -45.0, -20.0, -10.0, 10.0, 20.0, 45.0, 90.0, 135.0, 180.0)
STEPS_DEG: Final = (5.0, 2.5)
CURED: Final = 0.65
"""Part of the rms residual, geometric mean over the joints, that is left where a zero is called wrong. The best other
zero of sound measured logs leaves 0.8 (an LWR4+ whose joints follow single sines) and more; a shoulder's zero 10
degrees off 0.27 (Panda) to 0.77, 90 degrees off 0.08 to 0.37."""
ALIKE: Final = 1.02
"""Joints whose zeros leave up to this multiple of the least residual are named beside the best."""


def zeros(found: Estimate, samples: Samples) -> list[Suspicion]:
    """The zero that is surely another than stated; none where the stated ones fit as well, or nothing tells.

    found    values that the data ask for by themselves
    samples  of the logs, or of stretches of them
    """
    joints = found.robot.primary_joints
    smooth = None if found.robot.loops else smooth_rows(found, samples)
    asked = [j for j, joint in enumerate(joints[:-1]) if joint.kind != "prismatic"]
    if smooth is None or len(asked) < 2:
        return []
    stated = smooth.left(smooth.tau)
    if not (stated[1] > 0).all():
        return []
    best = dict(zip(asked, of_each(lambda joint: _best(found, smooth, joint), asked), strict=True))
    joint = min(best, key=lambda j: _part(best[j][1], stated))
    degrees, left = best[joint]
    least = _part(left, stated)
    if least > CURED or abs(degrees) < LEAST_ZERO_DEG[0] or not surely_less(left, stated):
        return []
    names = found.regressor.joint_names
    near = [j for j in asked if j != joint and _part(best[j][1], stated) < ALIKE * least]
    alike = [f"{names[j]} ({best[j][0]:+.0f})" for j in near]
    others = f"; the same of {', '.join(alike)} would explain as much" if alike else ""
    sentence = (
        f"whatever the links weigh, the torque fits where joint {names[joint]} stands {degrees:+.0f} degrees from "
        f"where the log has it ({100 * least:.0f} % of the error is left){others}: is its zero that of the "
        "robot's file? state position_offset, or check the direction of its axis"
    )
    return [Suspicion("joint zero", (names[joint],), float(np.deg2rad(degrees)), sentence)]


def _best(found: Estimate, smooth: SmoothRows, joint: int) -> tuple[float, Fitted]:
    """The zero of a joint that fits best, in degrees, and what it leaves."""

    def left(degrees: float) -> Fitted:
        return smooth.moved(found, joint, float(np.deg2rad(degrees))).left(smooth.tau)

    tried = {degrees: left(degrees) for degrees in TRIED_DEG}
    for step in STEPS_DEG:
        best = min(tried, key=lambda degrees: _size(tried[degrees]))
        tried |= {near: left(near) for near in (best - step, best + step)}
    best = min(tried, key=lambda degrees: _size(tried[degrees]))
    return best, tried[best]


def _size(left: Fitted) -> float:
    return float(np.log(np.maximum(left[1], 1e-300)).sum())


def _part(left: Fitted, stated: Fitted) -> float:
    """Geometric mean over the joints of the rms residual, as part of the stated one."""
    ratios: Array = left[1] / stated[1]
    return float(np.exp(0.5 * np.log(np.maximum(ratios, 1e-300)).mean()))
