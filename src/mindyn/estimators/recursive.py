"""`RecursiveLeastSquares`: the estimate kept up to date sample by sample; equal to the batch result to rounding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import LeastSquares
from mindyn.regression.information import Information
from mindyn.regression.regressor import ExtraColumn, Regressor
from mindyn.regression.triangles import Triangle
from mindyn.robots.robot import Robot

WAITING_ROWS: Final = 128
"""Samples that wait to be factored together: 3 us of a sample's work is then the kernel and the copy of its row, the
rest its share of the QR. The estimate asked for in between counts them too."""


class RecursiveLeastSquares:
    """Online least squares in square-root form: R factors for each joint, rows weighted by forgetting^age.

    forgetting  weight of a sample relative to the next one; 1: none is forgotten, and the result is the batch's
    weights     as in `LeastSquares`
    """

    def __init__(
        self,
        robot: Robot,
        *,
        forgetting: float = 1.0,
        weights: str | tuple[float, ...] = "joint",
        extra: Sequence[ExtraColumn] = (),
    ) -> None:
        if not 0 < forgetting <= 1:
            raise InputError(f"forgetting = {forgetting!r} must lie in (0, 1]")
        self.forgetting = forgetting
        self.settings = LeastSquares(weights=weights, extra=tuple(extra))  # type: ignore[arg-type]
        self.regressor = Regressor(robot, extra=extra)
        self.count = 0
        self._bound = self.regressor.kernel.bind()
        self._q, self._qd, self._qdd = self._bound.inputs
        self._row, self._run = self._bound.outputs[0], self._bound.run
        width, n = len(self._row), robot.joint_count
        self._rows = np.zeros((WAITING_ROWS, width))
        self._torques = np.zeros((WAITING_ROWS, n))
        self._motions = np.zeros((WAITING_ROWS, 3, n))
        self._waiting = 0
        starts = np.cumsum([0, *(len(c) - self._extra_count(i) for i, c in enumerate(self.regressor.columns))])
        self._slices = [slice(int(a), int(b)) for a, b in pairwise(starts)]
        self._triangles = [Triangle(self.regressor.width(i) + 1, WAITING_ROWS) for i in range(n)]

    def update(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, tau: ArrayLike) -> None:
        """Takes in one sample, arrays (n,)."""
        self._q[:], self._qd[:], self._qdd[:] = q, qd, qdd
        k = self._waiting
        self._torques[k] = tau
        if self._run():
            self._refuse()
        self._rows[k] = self._row
        if self.regressor.extra:
            self._motions[k] = self._bound.inputs
        self._waiting = k + 1
        self.count += 1
        if self._waiting == WAITING_ROWS:
            self._factor()

    @property
    def information(self) -> Information:
        """R factors of all samples so far."""
        self._factor()
        factors = tuple(triangle.R for triangle in self._triangles)
        counts = (self.count,) * len(factors)
        return Information(
            self.regressor.robot.joint_names, self.regressor.names, self.regressor.columns, factors, counts
        )

    @property
    def beta(self) -> Array:
        """The values found so far."""
        return self.estimate().beta

    def estimate(self) -> Estimate:
        """The estimate from all samples so far; refuses while there are fewer samples than parameters of a joint."""
        widest = max(len(columns) for columns in self.regressor.columns)
        if self.count <= widest:
            raise InputError(f"too few rows: {self.count} samples so far, more than {widest} are needed")
        found = self.settings.fit(self.regressor.robot, self.information)
        return found.with_provenance(estimator="recursive least squares", forgetting=self.forgetting)

    def _factor(self) -> None:
        m, self._waiting = self._waiting, 0
        if not m:
            return
        ages = np.sqrt(self.forgetting) ** np.arange(m - 1, -1, -1.0)[:, None]
        q, qd, qdd = self._motions[:m].transpose(1, 0, 2)
        for joint, (triangle, place) in enumerate(zip(self._triangles, self._slices, strict=True)):
            name = self.regressor.robot.joint_names[joint]
            extra = [one.function(q, qd, qdd)[:, None] for one in self.regressor.extra if one.joint == name]
            parts = [self._rows[:m, place], *extra, self._torques[:m, joint : joint + 1]]
            triangle.R *= np.sqrt(self.forgetting) ** m
            triangle.append([part * ages for part in parts] if self.forgetting < 1 else parts)

    def _extra_count(self, joint: int) -> int:
        name = self.regressor.robot.joint_names[joint]
        return sum(one.joint == name for one in self.regressor.extra)

    def _refuse(self) -> None:
        for name, values in zip(("q", "qd", "qdd"), self._bound.inputs, strict=True):
            if not np.isfinite(values).all():
                joint = self.regressor.robot.joint_names[int(np.argmin(np.isfinite(values)))]
                raise InputError(f"{name} of joint {joint!r} is not finite at sample {self.count}")
