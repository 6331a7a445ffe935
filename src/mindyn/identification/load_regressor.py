"""`LoadRegressor`: the regressor of a robot that carries a load on a link.

A load adds Y_load(q, qd, qdd) phi_load to the torque; phi_load are its ten parameters in the frame of the link that
carries it.
"""

from __future__ import annotations

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.kernels.model import compile_model
from mindyn.parameters.parameter import Parameter
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot


def payload_columns(robot: Robot, link: str) -> slice:
    """Return the numbers of the columns of a link's ten parameters among all standard parameters."""
    first = PARAMETERS_PER_LINK * robot.link_index(link)
    return slice(first, first + PARAMETERS_PER_LINK)


class LoadRegressor(Regressor):
    """Regressor with ten additional columns for every joint: those of a load on a link.

    phi  (10,) parameters of the load, needed if friction grows with the load of the joints
    """

    def __init__(self, plain: Regressor, link: str, phi: Array | None = None) -> None:
        super().__init__(plain.robot, plain.friction, plain.base, plain.kernel)
        self._model, self._load_columns, self._phi = compile_model(plain.robot), payload_columns(plain.robot, link), phi
        first = self.count
        parts = zip(LINK_PARAMETERS, LINK_PARAMETER_UNITS, strict=True)
        added = tuple(Parameter(f"load_{name}", "link", link, unit, name) for name, unit in parts)
        self.parameters = (*self.parameters, *added)
        self.names = (*self.names, *(parameter.name for parameter in added))
        extra = np.arange(first, first + PARAMETERS_PER_LINK)
        self.columns = tuple(np.concatenate([columns, extra]) for columns in self.columns)

    def parts(
        self, q: Array, qd: Array, qdd: Array, directions: Array | None = None, out: Array | None = None
    ) -> list[list[Array]]:
        """Return the columns of the robot, then those of the load."""
        columns = super().parts(q, qd, qdd, directions, out)
        Y = self._load_part(q, qd, qdd)
        for joint, arrays in enumerate(columns):
            arrays.append(Y[:, joint])
        return columns

    def _load_part(self, q: Array, qd: Array, qdd: Array) -> Array:
        return self._model.standard_regressor(q, qd, qdd)[:, :, self._load_columns]

    def carried_torque(self, q: Array, qd: Array, qdd: Array) -> Array | None:
        """Return the torque of the load, or None if the load is unknown."""
        return None if self._phi is None else np.asarray(self._load_part(q, qd, qdd) @ self._phi)
