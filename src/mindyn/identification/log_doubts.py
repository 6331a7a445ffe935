"""What an estimate says against its own log: torque left unexplained, energy from friction, inertia below zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
