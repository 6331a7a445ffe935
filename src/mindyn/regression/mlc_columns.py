"""Columns of Lin's minimal linear combinations (MLC), as the derivative of his recursion."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import casadi

from mindyn.equations.catalogue import equation
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.kernels.kernel import Kernel
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.lin import LinStructure, lin_base, lin_base_with_drives, lin_structure
from mindyn.robots.robot import Robot


@lru_cache(maxsize=4)
def lin_columns(robot: Robot) -> tuple[BaseParameters, Kernel]:
    """Return Lin's base set, followed by drive parameters if the robot has drives, and Y with tau = Y w."""
    base = lin_base_with_drives(robot) if robot.drives else lin_base(robot)
    return base, Kernel(mlc_regressor(lin_structure(robot), base), compact=["Y"], matrices=["Y"])


def mlc_regressor(structure: LinStructure, base: BaseParameters) -> Any:
    """Return the `casadi.Function` (q, qd, qdd) -> Y (n, count) with tau = Y w [Lin 1995, eq. 57-92 and 94-116].

    Columns of drive parameters, if the base set has them, are those of the structural set.
    """
    n, count = len(structure.joints), len(structure.layout)
    motion = [casadi.SX.sym(name, n) for name in ("q", "qd", "qdd")]
    mlc = casadi.SX.sym("mlc", count)
    Y = casadi.jacobian(mlc_inverse_dynamics(structure, mlc, *motion), mlc)
    if base.drives:
        Y = casadi.horzcat(Y, equation(base.robot, "regressor", drives=True)(*motion)[:, count:])
    return casadi.Function("mlc_regressor", motion, [casadi.cse(Y)], ["q", "qd", "qdd"], ["Y"])
