"""`ServoSamples`: position servos drawn from the intervals of an estimate, for domain randomisation.

The logarithms of kp, kd, fc and Ia of a joint are normal, with the covariance of the estimate: 95 % of the draws of a
value lie in its interval. Values of one joint vary together, because the scale of kp is common to them and their ratios
are better known than itself. Given and assumed gains stay; values that the logs leave open vary by a factor of 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.servos.joint_tables import STEP_S

if TYPE_CHECKING:
    from mindyn.identification.servos.servo_estimate import ServoEstimate

OPEN_HALF_WIDTH: Final = 1.4
"""Values whose logarithm has a wider interval (a factor of 4, about as wide as the prior) are not determined."""

QUANTITIES: Final = ("stiffness", "damping", "friction", "armature")
TURNING_UNITS: Final = ("N m/rad", "N m s/rad", "N m", "kg m^2")
SLIDING_UNITS: Final = ("N/m", "N s/m", "N", "kg")


@dataclass(frozen=True, eq=False, repr=False)
class ServoSamples:
    """Draws of the servos of an arm.

    Attributes
    ----------
    estimate : ServoEstimate
        The estimate.
    values : ndarray, shape (count, n, 4)
        kp (N m/rad, N/m), kd (N m s/rad, N s/m), fc (N m, N) and armature (kg m^2, kg) of each joint.
    """

    estimate: ServoEstimate
    values: Array

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"ServoSamples({len(self)} servos of {self.estimate.robot.name!r})"

    @cached_property
    def estimates(self) -> tuple[ServoEstimate, ...]:
        """Return the draws as estimates, which `replay_servos` simulates and `write_mjcf` writes."""
        return tuple(
            replace(self.estimate, kp=kp, kd=kd, fc=fc, ia=ia)
            for kp, kd, fc, ia in (draw.T.copy() for draw in self.values)
        )


def sample_servos(estimate: ServoEstimate, count: int, rng: np.random.Generator | int) -> ServoSamples:
    """Draw position servos from the intervals of an estimate.

    Parameters
    ----------
    estimate : ServoEstimate
        From `identify_servos`.
    count : int
        Number of draws.
    rng : numpy.random.Generator or int
        Random numbers, or their seed.

    Returns
    -------
    ServoSamples
        Draws of kp, kd, Coulomb friction and armature of each joint. Masses are those of the robot file.

    Raises
    ------
    InputError
        If the count is not positive.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        message = f"the number of samples must be a whole number of at least 1, got {count!r}"
        raise InputError(message, code=Code.OUT_OF_RANGE, subject="count")
    generator, n = np.random.default_rng(rng), len(estimate.kp)
    values, vectors = np.linalg.eigh(estimate.log_covariance)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    draws = generator.standard_normal((count, n, 4))
    drawn = estimate.values * np.exp(np.einsum("jab,cjb->cja", roots, draws))
    drawn[..., 3] = np.maximum(drawn[..., 3], drawn[..., 0] * STEP_S**2)  # steps of the fit stay stable
    return ServoSamples(estimate, drawn)


def list_servo_ranges(models: ServoSamples) -> list[tuple[str, str, str, float, float, float]]:
    """Return (joint, parameter, unit, value, 5 % and 95 % quantile) of each value of each joint."""
    estimate, rows = models.estimate, []
    low, high = np.quantile(models.values, [0.05, 0.95], axis=0)
    for j, joint in enumerate(estimate.robot.primary_joints):
        units = SLIDING_UNITS if joint.kind == "prismatic" else TURNING_UNITS
        for k, (name, unit) in enumerate(zip(QUANTITIES, units, strict=True)):
            rows.append((joint.name, name, unit, float(estimate.values[j, k]), float(low[j, k]), float(high[j, k])))
    return rows


def complete_log_covariance(covariance: Array, half_widths: Array) -> None:
    """Make the variances of log values (4, 4) those of their 95 % intervals, in place.

    half_widths  (4,) of the intervals of log values; zero for given values, infinite or above `OPEN_HALF_WIDTH` for
                 open ones, which vary by `OPEN_HALF_WIDTH` apart from kp
    """
    for k, half in enumerate(half_widths):
        if half < OPEN_HALF_WIDTH:
            covariance[k, k] = max(covariance[k, k], (half / NORMAL_95) ** 2) if half > 0 else 0.0
        if half == 0:
            covariance[k] = covariance[:, k] = 0.0
    for k, half in enumerate(half_widths):
        if not half < OPEN_HALF_WIDTH:
            along = covariance[0].copy() if k and half_widths[0] < OPEN_HALF_WIDTH else np.zeros(4)
            covariance[k] = covariance[:, k] = along
            covariance[k, k] = along[0] + (OPEN_HALF_WIDTH / NORMAL_95) ** 2
