"""A torque from which gravity was taken out before it was logged, told by the motion alone.

Controllers that compensate gravity log what is left: commands of a torque-controlled arm, external torques. Any masses
explain such a torque badly, and better where nothing has weight: gravity and inertia share their parameters, so that
a torque without gravity asks for links without moments and with inertia.

    with weight      tau = Y(q, qd, qdd) beta
    without weight   tau = (Y(q, qd, qdd) - Y(q, 0, 0)) beta        of the columns of links and rotors
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.identification.identifiable import Fitted, SmoothRows, smooth_rows, surely_less
from mindyn.identification.stated_inertials import ABSENT_GRAVITY, Suspicion
from mindyn.logs.samples import Samples

VISIBLE: Final = 0.1
"""m/s^2 as part of g by which the weight of a moment must vary at some joint, in N m for each kg m, to be asked for."""
WEIGHTLESS: Final = 0.8
"""Part of the rms residual, geometric mean over the joints, that is left without weight where gravity is called absent:
with weight in the torque it is several times as large, not smaller."""


def absent_gravity(found: Estimate, samples: Samples) -> list[Suspicion]:
    """Gravity that the torque surely does not hold; none where it does, or where it would not show.

    found    values that the data ask for by themselves
    samples  of the logs, or of stretches of them
    """
    smooth = None if found.robot.loops else smooth_rows(found, samples)
    if smooth is None:
        return []
    whole, rest = _columns(found, smooth)
    size = float(np.linalg.norm(found.robot.gravity))
    if not size > 0 or float(rest.std(axis=0).max(initial=0.0)) < VISIBLE * size:
        return []
    stated, weightless = replace(smooth, Y=whole).left(smooth.tau), replace(smooth, Y=whole - rest).left(smooth.tau)
    part = _part(weightless, stated)
    if part < WEIGHTLESS and surely_less(weightless, stated):
        seen = f"explained with {100 * part:.0f} % of the error where nothing has weight"
        return [Suspicion("gravity", (), 0.0, f"the torque has no gravity in it ({seen}): {ABSENT_GRAVITY}")]
    return []


def _columns(found: Estimate, smooth: SmoothRows) -> tuple[Array, Array]:
    """(N, n, p) all columns of the estimate, and what of those of links and rotors is there at rest."""
    q, qd, _, directions = smooth.motion
    regressor, still = found.regressor, np.zeros_like(qd)
    whole = regressor.dense(regressor.parts(*smooth.motion))
    rest = regressor.dense(regressor.parts(q, still, still, directions))
    rest[:, :, ~regressor.rigid] = 0.0
    return np.asarray(whole), np.asarray(rest)


def _part(left: Fitted, stated: Fitted) -> float:
    ratios = left[1] / np.maximum(stated[1], 1e-300)
    return float(np.exp(0.5 * np.log(np.maximum(ratios, 1e-300)).mean()))
