"""`RecursiveLeastSquares`: update the estimate sample by sample; equal to the batch result to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.least_squares import LeastSquares, Weights
from mindyn.regression.friction import Friction
from mindyn.regression.information import Information, Triangle
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot

WAITING_ROWS: Final = 128
"""Number of samples that are collected and then factored together, so that the kernel and the QR process a block. An
estimate that is read before includes the waiting samples without changing the state.
"""
SIGNALS: Final = ("q", "qd", "qdd", "tau")


def require_sample(names: Sequence[str], count: int, *signals: ArrayLike) -> Array:
    """Return q, qd, qdd and tau of one sample as an array (4, n).

    Raise an error if an array has another shape or is not finite.
    """
    try:
        sample = np.array([np.asarray(signal, dtype=np.float64).reshape(len(names)) for signal in signals])
    except (TypeError, ValueError) as error:
        raise InputError(
            f"sample {count}: q, qd, qdd and tau must each be {len(names)} numbers, one for each joint: "
            f"{', '.join(names)}",
            code=Code.WRONG_SHAPE,
            subject="sample",
        ) from error
    if not np.isfinite(sample).all():
        signal, joint = np.argwhere(~np.isfinite(sample))[0]
        raise InputError(
            f"{SIGNALS[signal]} of joint {names[joint]!r} is not finite at sample {count}",
            code=Code.NOT_FINITE,
            subject=names[joint],
        )
    return sample


class RecursiveLeastSquares:
    """Online least squares in square-root form: R factors for each joint, rows weighted by forgetting^age.

    Reading `beta`, `information` or `estimate()` never changes later results.

    Parameters
    ----------
    robot : Robot
        Robot of the samples.
    forgetting : float
        Weight of a sample relative to the next one. With 1, the result equals that of a batch fit.
    weights : "joint", "ordinary" or tuple of float
        As in `LeastSquares`.
    friction : Friction
        Shape of the friction columns; the direction "stop", which depends on the previous motion, is not supported.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        forgetting: float = 1.0,
        weights: Weights | tuple[float, ...] = "joint",
        friction: Friction = PLAIN_FRICTION,
    ) -> None:
        require_number(forgetting, "forgetting", "(0, 1]")
        if friction.direction == "stop":
            raise InputError(
                'friction direction "stop" remembers the motion before a sample; use "tanh" or "sign"',
                code=Code.UNSUPPORTED,
                subject="stop",
            )
        self.regressor, self.forgetting, self.count = Regressor(robot, friction), forgetting, 0
        self.settings = LeastSquares(weights=weights)
        self._triangles = [Triangle(self.regressor.width(i) + 1) for i in range(self.regressor.joint_count)]
        self._waiting: list[Array] = []

    def update(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, tau: ArrayLike) -> None:
        """Add one sample, arrays (n,)."""
        self._waiting.append(require_sample(self.regressor.joint_names, self.count, q, qd, qdd, tau))
        self.count += 1
        if len(self._waiting) == WAITING_ROWS:
            self._triangles, self._waiting = self._triangles_so_far(), []

    @property
    def information(self) -> Information:
        """R factors of all samples so far.

        Numbers of rows are weighted in the same way as the squares in the factors.
        """
        factors = tuple(triangle.R for triangle in self._triangles_so_far())
        kept = 1 - self.forgetting
        count = self.count if not kept else max(1, round((1 - self.forgetting**self.count) / kept))
        names, counts = self.regressor.joint_names, (count,) * len(factors)
        return Information(names, self.regressor.names, self.regressor.columns, factors, counts)

    @property
    def beta(self) -> Array:
        """Values so far."""
        return self.estimate().beta

    def estimate(self) -> Estimate:
        """Return the estimate from all samples so far. Raise an error while there are too few samples."""
        widest = max(len(columns) for columns in self.regressor.columns)
        if self.count <= widest:
            raise InputError(
                f"too few rows: {self.count} samples so far, more than {widest} are needed",
                code=Code.TOO_LITTLE_DATA,
                subject="samples",
            )
        settings = EquationSettings(friction=self.regressor.friction, drive_parameters="stated")
        fitted = self.settings.fit(Rows.of_information(self.regressor, self.information, settings))
        return fitted.with_provenance(method="recursive least squares").with_notes(forgetting=self.forgetting)

    def _triangles_so_far(self) -> list[Triangle]:
        """Return the R factors including the waiting samples; the stored factors do not change."""
        m, triangles = len(self._waiting), [copy(triangle) for triangle in self._triangles]
        if not m:
            return triangles
        regressor = self.regressor
        q, qd, qdd, tau = np.ascontiguousarray(np.array(self._waiting).transpose(1, 0, 2))
        directions = regressor.directions(q, qd, np.zeros(m, dtype=np.int64), 1.0)
        ages = np.sqrt(self.forgetting) ** np.arange(m - 1, -1, -1.0)[:, None]
        for joint, parts in enumerate(regressor.parts(q, qd, qdd, directions)):
            rows = [*parts, tau[:, joint : joint + 1]]
            weighted = [part * ages for part in rows] if self.forgetting < 1 else rows
            triangles[joint].append(weighted, faded=float(np.sqrt(self.forgetting) ** m))
        return triangles
