"""`BaseParameters`: the combinations beta = K phi of standard parameters that the dynamics depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mindyn.algebra.values import Array, content
from mindyn.errors import InputError, RobotError
from mindyn.parameters.labels import parameter_labels
from mindyn.parameters.reading import Coefficients, cleaned, expression
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.robot import Robot

EQUAL_SPACES = 1e-8
"""Two base sets span the same space when the residual of one in the other is smaller, relative to its rows."""


def all_parameters(robot: Robot, *, drives: bool) -> Array:
    """phi (10 n,), with drives followed by the parameters of every drive and the coefficients of extra torques."""
    return np.concatenate([robot.phi, drive_parameters(robot)]) if drives else robot.phi


def same_mechanism(one: Robot, other: Robot) -> bool:
    """Whether two robots have the same joints, drives' gears and gravity, whatever their links weigh."""

    def structure(robot: Robot) -> object:
        joints = [(j.kind, j.parent, j.child, j.origin, j.axis, j.tip) for j in robot.joints]
        gears = [(d.joint, d.ratio, d.coupling, d.side) for d in robot.drives]
        return content([joints, gears, robot.gravity, [e.formula for e in robot.extras]])

    return one is other or structure(one) == structure(other)


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """A minimal set: tau depends on the standard parameters through beta = matrix @ phi alone, and on every beta.

    form       the method that made it: "structural", "lin", ...
    drives     whether drive parameters (four for each drive) stand behind the 10 n link parameters
    matrix     K (count, p), in the source's own link frames
    names      one for each base parameter
    survivors  columns of K that form the identity: these standard parameters stay in place and carry the regrouped
               values, all others may be set to zero; None where the form has no such columns
    notes      what was found near-degenerate, which method was taken and why
    """

    robot: Robot
    form: str
    drives: bool
    matrix: Array
    names: tuple[str, ...]
    survivors: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.matrix.flags.writeable = False

    def __len__(self) -> int:
        return len(self.names)

    @property
    def count(self) -> int:
        """The number of base parameters."""
        return len(self.names)

    @property
    def values(self) -> Array:
        """beta (count,) of the robot's own parameters."""
        return np.asarray(self.matrix @ all_parameters(self.robot, drives=self.drives))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the standard parameters, the columns of `matrix`."""
        return parameter_labels(self.robot, drives=self.drives)

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """Every base parameter as a formula in the standard parameters, with the geometry as numbers."""
        return tuple(expression(Coefficients(self.labels, row)) for row in self.matrix)

    @cached_property
    def embedding(self) -> Array:
        """E (p, count) with K E = 1: phi = E beta has the same dynamics; survivors in place where the form has them."""
        if self.survivors is None:
            # Rounding noise in place of zeros would make a regressor several times as long.
            return cleaned(np.asarray(np.linalg.pinv(self.matrix), dtype=np.float64), noise=1e-13)
        E = np.zeros(self.matrix.shape[::-1])
        E[list(self.survivors), range(self.count)] = 1.0
        return E

    def to(self, other: BaseParameters) -> Array:
        """The nonsingular matrix T with beta_other = T beta, of two sets of one robot.

        Values convert as T @ beta, covariances as T @ covariance @ T.T.
        """
        if self.matrix.shape != other.matrix.shape or self.labels != other.labels:
            raise InputError(
                f"a set of {self.count} parameters over {len(self.labels)} does not convert to one of {other.count} "
                f"over {len(other.labels)}; both must be of one robot, with the same drives and gravity"
            )
        T = np.asarray(other.matrix @ self.embedding)
        residual = np.abs(T @ self.matrix - other.matrix).max() / np.abs(other.matrix).max()
        if residual > EQUAL_SPACES:
            raise RobotError(f"the two sets do not span the same space (residual {residual:.1e}): different robots?")
        return T

    def roles(self) -> dict[str, str]:
        """For every standard parameter: "none" (no effect), "alone" (a base parameter by itself) or "combined"."""
        used = np.abs(self.matrix) > 0
        by_itself = used[used.sum(axis=1) == 1].any(axis=0) & (used.sum(axis=0) == 1)
        kinds = np.where(~used.any(axis=0), "none", np.where(by_itself, "alone", "combined"))
        return dict(zip(self.labels, kinds.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"BaseParameters({self.robot.name!r}, {self.form}, {self.count} of {len(self.labels)})"
