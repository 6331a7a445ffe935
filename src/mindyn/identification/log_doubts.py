"""What an estimate says against its own log: torque left unexplained, energy from friction, inertia below zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate, unfiltered_prediction
from mindyn.logs.samples import Samples

UNEXPLAINED: Final = 1 / 3
"""Share of a joint's rms torque that is too much: fits of sound logs of four real arms leave 1 to 31 %, of logs with
a torque reversed mostly 40 % or more at that joint or a neighbour."""
SENSED: Final = 0.01
"""... where it is more than this part of the largest joint's torque: below, cables and sensors make it, as at the wrist
of a sound LWR4+, whose joint 6 leaves 39 % of 0.7 N m beside 26 N m."""
NOTICEABLE: Final = 0.1
"""Share of the joint's power that friction gives or takes, or of its torque that inertia makes. Sound logs of real and
simulated arms: friction takes power, or gives 2 % of it; with a torque reversed it gives 14 to 100 %. Negative inertia
alone is weaker evidence: a wrist held by gravity shows -14 % in a sound log."""
COMPARED_ROWS: Final = 2000
FEWEST_ROWS: Final = 10
"""Rows for each parameter below which signs of friction and inertia say nothing."""


TOUCH_S: Final = 0.1
"""s over which residuals are averaged, and that a touch lasts at least."""
TOUCHED: Final = (8.0, 0.4, 0.05)
"""Residuals in robust deviations from which an arm may be touched; share of the residuals' power in such stretches, and
at most of the rows, for it to be said. Sound logs of measured and random arms have at most 0.15 of the power there,
three pushes in 30 s 0.8."""


def sign_doubts(found: Estimate, samples: Samples) -> list[str]:
    """Sentences on torques that seem reversed: of a log that can identify its robot, else signs mean nothing.

    samples  of the training logs, or of stretches of them: motion, and torque as logged
    """
    return _reversed_notes(found, _thinned(samples)) if len(samples) > FEWEST_ROWS * len(found.beta) else []


def _thinned(samples: Samples) -> Samples:
    rows = np.arange(0, len(samples), 1 + len(samples) // COMPARED_ROWS)
    return replace(samples.take(rows), usable=None)


def unexplained_doubts(found: Estimate, samples: Samples) -> list[str]:
    """A sentence on torque that the fit does not explain; samples as for `sign_doubts`."""
    shares = zip(samples.joint_names, _unexplained(found, samples), strict=True)
    large = [f"{name} ({100 * share:.0f} %)" for name, share in shares if share > UNEXPLAINED]
    if not large:
        return []
    return [
        f"much of the torque stays unexplained at {', '.join(large)}; check the sign of the torque, the order of the "
        "columns, units, side and gears, whether the log is of this robot, and whether it carried a load or has a "
        "spring that the robot does not state"
    ]


def touch_doubts(found: Estimate, samples: Samples) -> list[str]:
    """A sentence where most of what the fit misses lies in few short stretches; samples as for `sign_doubts`."""
    width = max(1, round(TOUCH_S * samples.rate_hz))
    left = samples.tau - unfiltered_prediction(found.regressor, found.beta, samples)
    if len(left) < width:
        return []
    smooth = uniform_filter1d(left, width, axis=0)
    smooth = smooth - np.median(smooth, axis=0)
    deviations = 1.4826 * np.median(np.abs(smooth), axis=0)
    beyond = (deviations > 0) & (np.abs(smooth) > TOUCHED[0] * deviations)
    edges = np.flatnonzero(np.diff(beyond.any(axis=1), prepend=False, append=False)).reshape(-1, 2)
    stretches = [slice(a, b) for a, b in edges.tolist() if b - a >= width]
    rows = np.zeros(len(left), dtype=np.bool_)
    for one in stretches:
        rows[one] = True
    power = (smooth**2 / np.maximum((smooth**2).mean(axis=0), 1e-300)).sum(axis=1)
    share = float(power[rows].sum() / max(power.sum(), 1e-300))
    if share < TOUCHED[1] or rows.mean() > TOUCHED[2]:
        return []
    joints = [name for name, hit in zip(samples.joint_names, beyond[rows].any(axis=0), strict=True) if hit]
    where = "one short stretch" if len(stretches) == 1 else f"{len(stretches)} short stretches"
    return [
        f"{100 * share:.0f} % of what the model misses lies in {where} of the logs, at {', '.join(joints)}: was the "
        "arm touched, or did it strike something? mindyn contact shows when; leave that out, and identify again"
    ]


def _unexplained(found: Estimate, samples: Samples) -> Array:
    """(n,) rms of what lasts from row to row in the residuals, so that white noise has no part, to the rms torque.

    Zero where it is within what sensors make.
    """
    residuals = samples.tau - unfiltered_prediction(found.regressor, found.beta, samples)
    same = samples.segments[1:] == samples.segments[:-1]
    lasting = np.maximum(0.0, (residuals[1:] * residuals[:-1])[same].sum(axis=0) / max(1, same.sum()))
    power = (samples.tau**2).mean(axis=0)
    large = (power > 0) & (lasting > SENSED**2 * power.max())
    return np.asarray(np.sqrt(np.where(large, lasting / np.where(large, power, 1.0), 0.0)))


def _reversed_notes(found: Estimate, samples: Samples) -> list[str]:
    """Joints that friction drives, or whose inertia is negative while no friction vouches for the torque's sign."""
    given, negative = _friction_gives(found, samples), _inertia_is_negative(found, samples)
    driven = given > NOTICEABLE
    against = driven | (negative & (given > -NOTICEABLE))
    return [
        f"the torque of joint {name} may have the wrong sign, or its columns be another joint's: "
        + ("friction drives it instead of braking it" if driven[j] else "its inertia comes out negative")
        for j, name in enumerate(samples.joint_names)
        if against[j]
    ]


def _friction_gives(found: Estimate, samples: Samples) -> Array:
    """(n,) power that the friction found gives to the joint, as a share of the power of its torque."""
    of_friction = [one.brakes for one in found.parameters]
    friction = unfiltered_prediction(found.regressor, np.where(of_friction, found.beta, 0.0), samples)
    power = np.abs(samples.tau * samples.qd).sum(axis=0)
    given = -(friction * samples.qd).sum(axis=0)
    return np.asarray(np.where(power > 0, given / np.where(power > 0, power, 1.0), 0.0))


def _inertia_is_negative(found: Estimate, samples: Samples) -> NDArray[np.bool_]:
    """(n,) whether the diagonal entry of the inertia matrix is below zero at every sample, by a noticeable torque."""
    coasting = replace(samples, qdd=np.zeros_like(samples.q))
    rest = unfiltered_prediction(found.regressor, found.beta, coasting)
    flags = []
    for j in range(samples.q.shape[1]):
        pushed = np.zeros_like(samples.q)
        pushed[:, j] = 1.0
        M_jj = (unfiltered_prediction(found.regressor, found.beta, replace(samples, qdd=pushed)) - rest)[:, j]
        torque, least = np.linalg.norm(M_jj * samples.qdd[:, j]), NOTICEABLE * np.linalg.norm(samples.tau[:, j])
        flags.append(bool(M_jj.max() < 0 and torque > least))
    return np.array(flags)
