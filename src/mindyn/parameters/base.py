"""`BaseParameters`: the combinations beta = K phi of standard parameters that the dynamics depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mindyn.algebra.values import Array, hashable_content
from mindyn.errors import InputError, NearlyDegenerateError, RobotError
from mindyn.pages.notebook import NotebookDisplay
from mindyn.parameters.formula_text import DISPLAY_TOLERANCE, EXACT_TOLERANCE, Coefficients, expression
from mindyn.parameters.labels import parameter_labels
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.robot import Robot
from mindyn.robots.scale import length_unit

PRINT_NOISE = 1e-10
"""Coefficients this close to 0, 1 and halves are shown as those; values are never computed from what is shown."""

EQUAL_SPACES = 1e-8
"""Two base sets span the same space when the residual of one in the other is smaller, relative to its rows."""


def all_parameters(robot: Robot, *, drives: bool) -> Array:
    """phi (10 n,), with drives followed by the parameters of every drive and the coefficients of extra torques."""
    return np.concatenate([robot.phi, drive_parameters(robot)]) if drives else robot.phi


def has_same_mechanism(one: Robot, other: Robot) -> bool:
    """Whether two robots have the same joints, drives' gears and gravity, whatever their links weigh."""

    def structure(robot: Robot) -> object:
        joints = [(j.kind, j.parent, j.child, j.origin, j.axis, j.tip) for j in robot.joints]
        gears = [(d.joint, d.ratio, d.coupling, d.side) for d in robot.drives]
        return hashable_content([joints, gears, robot.gravity, [e.formula for e in robot.extras]])

    return one is other or structure(one) == structure(other)


def parameter_sizes(robot: Robot, *, drives: bool) -> Array:
    """(p,) powers of two: sizes of standard parameters by the robot's own length, of drives' by one."""
    L = length_unit(robot)
    links = np.tile([1.0, *[L] * 3, *[L**2] * 6], robot.joint_count)
    return np.concatenate([links, np.ones(len(parameter_labels(robot, drives=drives)) - len(links))])


def round_coefficients(robot: Robot, matrix: Array, *, drives: bool, noise: float = PRINT_NOISE) -> Array:
    """K as a person wants to read it: coefficients within `noise` of 0 (in the robot's own length), 1 and halves."""
    sizes = parameter_sizes(robot, drives=drives)
    # A row has the size of its largest term; a coefficient below `noise` of that is as good as none.
    terms = np.abs(matrix) * sizes
    shown = np.where(terms <= noise * terms.max(axis=1, keepdims=True, initial=0.0), 0.0, matrix)
    near = np.round(shown * 2) / 2
    return np.where(np.abs(shown - near) <= noise * np.abs(near), near + 0.0, shown)


def remove_rounding(robot: Robot, matrix: Array) -> Array:
    """K of link parameters without what rounding alone has left in place of zeros and halves."""
    return round_coefficients(robot, matrix, drives=False, noise=64 * float(np.finfo(float).eps))


def _smallest_right_inverse(matrix: Array, sizes: Array) -> Array:
    """E with K E = 1 and the smallest E in units of the parameters' sizes, by QR of scaled rows."""
    scaled = matrix * sizes
    rows = np.linalg.norm(scaled, axis=1)
    Q, R = np.linalg.qr((scaled / np.maximum(rows, 1e-300)[:, None]).T)
    if not (np.abs(np.diag(R)) > np.finfo(float).eps).all():
        raise NearlyDegenerateError(
            "parameters of this set depend on each other up to rounding: the geometry is nearly degenerate",
            hint='use form="structural", or load with snap=True if the file rounds its angles',
        )
    E = Q @ np.linalg.inv(R).T
    # Rounding noise in place of zeros would make a regressor several times as long.
    E = np.where(np.abs(E) <= 1e-14 * np.abs(E).max(axis=0, initial=0.0), 0.0, E)
    return np.asarray(E * sizes[:, None] / rows)


@dataclass(frozen=True, eq=False)
class BaseParameters(NotebookDisplay):
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
        """Every base parameter as a formula in the standard parameters, with the geometry as numbers to 1e-12."""
        return self._formulas(EXACT_TOLERANCE)

    @property
    def shown_expressions(self) -> tuple[str, ...]:
        """The same with six digits, to read."""
        return self._formulas(DISPLAY_TOLERANCE)

    def _formulas(self, within: float) -> tuple[str, ...]:
        shown = round_coefficients(self.robot, self.matrix, drives=self.drives)
        return tuple(expression(Coefficients(self.labels, row), within) for row in shown)

    @cached_property
    def embedding(self) -> Array:
        """E (p, count) with K E = 1: phi = E beta has the same dynamics; survivors in place where the form has them."""
        if self.survivors is None:
            return _smallest_right_inverse(self.matrix, parameter_sizes(self.robot, drives=self.drives))
        E = np.zeros(self.matrix.shape[::-1])
        E[list(self.survivors), range(self.count)] = 1.0
        return E

    def transform_to(self, other: BaseParameters) -> Array:
        """The nonsingular matrix T with beta_other = T beta, of two sets of one robot.

        Values convert as T @ beta, covariances as T @ covariance @ T.T.
        """
        if self.matrix.shape != other.matrix.shape or self.labels != other.labels:
            raise InputError(
                f"a set of {self.count} parameters over {len(self.labels)} does not convert to one of {other.count} "
                f"over {len(other.labels)}; both must be of one robot, with the same drives and gravity"
            )
        T = np.asarray(other.matrix @ self.embedding)
        sizes = parameter_sizes(self.robot, drives=self.drives)
        wanted = other.matrix * sizes
        missing = np.linalg.norm((T @ self.matrix) * sizes - wanted, axis=1)
        residual = float((missing / np.maximum(np.linalg.norm(wanted, axis=1), 1e-300)).max(initial=0.0))
        if residual > EQUAL_SPACES:
            raise RobotError(f"the two sets do not span the same space (residual {residual:.1e}): different robots?")
        return T

    def roles(self) -> dict[str, str]:
        """For every standard parameter: "none" (no effect), "alone" (a base parameter by itself) or "combined"."""
        used = round_coefficients(self.robot, self.matrix, drives=self.drives) != 0
        by_itself = used[used.sum(axis=1) == 1].any(axis=0) & (used.sum(axis=0) == 1)
        kinds = np.where(~used.any(axis=0), "none", np.where(by_itself, "alone", "combined"))
        return dict(zip(self.labels, kinds.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"BaseParameters({self.robot.name!r}, {self.form}, {self.count} of {len(self.labels)})"
