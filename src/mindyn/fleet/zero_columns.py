"""Columns d tau / d q0: the torque caused by an offset q0 of a joint zero, at the values of the type."""

from __future__ import annotations

from typing import Any, Final

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import compile_model
from mindyn.regression.regressor import Parts, Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

ZERO_PREFIX: Final = "zero of "
"""Prefix of the joint in the name of a column."""


class ZeroRegressor(Regressor):
    """Regressor with n more columns: tau = Y beta + (d tau / d q)(reference) q0, q0 = true minus logged position.

    reference  (p,) values at which the derivative is evaluated
    zeros      names of the joints whose zero affects the torque

    Robots whose joints depend on one another (loops, mimics) have no such columns.
    """

    def __init__(self, robot: Robot, settings: EquationSettings, reference: Array) -> None:
        super().__init__(robot, settings.shape)
        self.reference = np.ascontiguousarray(reference[: self.base.count])
        self.plain_count = self.count
        self.zeros: tuple[str, ...] = ()
        if robot.has_dependents:
            return
        self._slopes = Kernel(_build_slopes(robot, self), shared=["beta"], compact=["slopes"], matrices=["slopes"])
        rows, by = np.divmod(self._slopes.nonzeros("slopes"), len(self.joint_names))
        seen = np.unique(by)
        self.zeros = tuple(self.joint_names[j] for j in seen)
        self._slope_starts = np.searchsorted(rows, np.arange(self.joint_count + 1))
        number = {int(j): self.plain_count + k for k, j in enumerate(seen)}
        self.columns = tuple(
            np.asarray(
                [*known, *(number[int(j)] for j in by[self._slope_starts[i] : self._slope_starts[i + 1]])],
                dtype=np.intp,
            )
            for i, known in enumerate(self.columns)
        )
        self.names = (*self.names, *(f"{ZERO_PREFIX}{joint}" for joint in self.zeros))

    @property
    def count(self) -> int:
        """Return the number of columns."""
        return len(self.names)

    def parts(
        self, q: Array, qd: Array, qdd: Array, directions: Array | None = None, out: Array | None = None
    ) -> Parts:
        """Return the columns of the regressor, followed by those of the zeros."""
        columns = super().parts(q, qd, qdd, directions, out)
        if self.zeros:
            slopes = self._slopes(q, qd, qdd, self.reference)
            for joint, arrays in enumerate(columns):
                arrays.append(slopes[:, self._slope_starts[joint] : self._slope_starts[joint + 1]])
        return columns

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor."""
        return ZeroRegressor, (self.robot, EquationSettings(friction=self.friction), self.reference)


def _build_slopes(robot: Robot, regressor: Regressor) -> Any:
    """Return the `casadi.Function` (q, qd, qdd, beta) -> d (Y beta) / d q."""
    Y = compile_model(robot, drives=regressor.base.drives, base=regressor.base).casadi("regressor")
    motion = [casadi.SX.sym(name, len(robot.joint_names)) for name in ("q", "qd", "qdd")]
    beta = casadi.SX.sym("beta", regressor.base.count)
    slopes = casadi.cse(casadi.jacobian(Y(*motion) @ beta, motion[0]))
    return casadi.Function("zero_columns", [*motion, beta], [slopes], ["q", "qd", "qdd", "beta"], ["slopes"])
