"""`BaseParameters`: the combinations beta = K phi of standard parameters that determine the dynamics.

Standard and drive parameters have names such as `Izz3`, `mcx3`, `Im2` (rotor inertia), `fv2`, `fc2` and `fo2`.

Base parameters are shown as formulas such as `Izz1 + Iyy2 + 0.8636 mcx3`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array, hashable_content
from mindyn.foundation.errors import Code, InputError, NearlyDegenerateError, RobotError
from mindyn.foundation.notation import DRIVE_PARAMETERS, LINK_PARAMETERS
from mindyn.foundation.pages.notebook_display import NotebookDisplay
from mindyn.robots.drive_matrices import drive_parameters
from mindyn.robots.robot import Robot
from mindyn.robots.scale import length_unit

EXACT_TOLERANCE: Final = 1e-12
"""Relative rounding of factors in text that programs read."""
DISPLAY_TOLERANCE: Final = 5e-6
"""Relative rounding of factors in text that people read: six digits."""


def list_terms(labels: Sequence[str], factors: Array) -> list[tuple[float, str]]:
    """Return nonzero factors (p,) with their labels.

    Plain sums come first, then terms with lengths or angles, each in order.
    """
    terms = [(float(c), label) for c, label in zip(factors, labels, strict=True) if c != 0]
    return sorted(terms, key=lambda term: abs(term[0]) != 1)


def number_text(value: float, within: float) -> str:
    """Return the shortest text of a number that has at least six digits and a relative error of at most `within`."""
    for digits in range(6, 17):
        text = f"{value:.{digits}g}"
        if abs(float(text) - value) <= within * abs(value):
            return text
    return repr(value)


def format_sum(parts: Iterable[tuple[float, str]], join: str, within: float = DISPLAY_TOLERANCE) -> str:
    """Return a sum of factors times terms as text; each factor has a relative error of at most `within`."""
    text = ""
    for factor, term in parts:
        size = "" if abs(factor) == 1 else f"{number_text(abs(factor), within)}{join}"
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{sign}{size}{term}"
    return text or "0"


PRINT_NOISE = 1e-10
"""Coefficients this close to 0, 1/2 or 1 are printed as these numbers; printed coefficients are never computed with."""

EQUAL_SPACES = 1e-8
"""Two base sets span the same space if the residual of one in the other is smaller, relative to its rows."""


def all_parameters(robot: Robot, *, with_drives: bool) -> Array:
    """Return phi (10 n,). With `with_drives`, the drive parameters and the coefficients of extra torques follow."""
    return np.concatenate([robot.phi, drive_parameters(robot)]) if with_drives else robot.phi


def has_same_mechanism(first: Robot, other: Robot) -> bool:
    """Return whether two robots have the same joints, gears and gravity; link parameters may differ."""

    def structure(robot: Robot) -> object:
        joints = [(j.kind, j.parent, j.child, j.origin, j.axis, j.tip) for j in robot.joints]
        gears = [(d.joint, d.ratio, d.coupling, d.side) for d in robot.drives]
        return hashable_content([joints, gears, robot.gravity, [e.formula for e in robot.extras]])

    return first is other or structure(first) == structure(other)


def parameter_sizes(robot: Robot, *, with_drives: bool) -> Array:
    """Return a typical size (p,) of each parameter, a power of two: from the robot's length for links, 1 for drives."""
    L = length_unit(robot)
    links = np.tile([1.0, *[L] * 3, *[L**2] * 6], len(robot.joints))
    return np.concatenate([links, np.ones(len(parameter_labels(robot, with_drives=with_drives)) - len(links))])


def round_coefficients(robot: Robot, matrix: Array, *, with_drives: bool, noise: float = PRINT_NOISE) -> Array:
    """Return K for display: coefficients that differ by at most `noise` from 0, 1 or a half are rounded, in the robot's
    length unit.
    """
    sizes = parameter_sizes(robot, with_drives=with_drives)
    # A row has the size of its largest term; a coefficient below `noise` of that counts as zero.
    terms = np.abs(matrix) * sizes
    shown = np.where(terms <= noise * terms.max(axis=1, keepdims=True, initial=0.0), 0.0, matrix)
    near = np.round(shown * 2) / 2
    return np.where(np.abs(shown - near) <= noise * np.abs(near), near + 0.0, shown)


def remove_rounding(robot: Robot, matrix: Array) -> Array:
    """Return K of link parameters, with rounding errors near zero and near multiples of one half removed."""
    return round_coefficients(robot, matrix, with_drives=False, noise=64 * float(np.finfo(float).eps))


def _smallest_right_inverse(matrix: Array, sizes: Array) -> Array:
    """Return the smallest E with K E = 1, measured in typical sizes of the parameters, by QR of scaled rows."""
    scaled = matrix * sizes
    rows = np.linalg.norm(scaled, axis=1)
    Q, R = np.linalg.qr((scaled / np.maximum(rows, 1e-300)[:, None]).T)
    if not (np.abs(np.diag(R)) > np.finfo(float).eps).all():
        raise NearlyDegenerateError(
            "parameters of this set are linearly dependent up to rounding: the geometry is nearly degenerate",
            hint='use form="structural", or load with snap=True if the file rounds its angles',
            code=Code.INACCURATE,
            subject="matrix",
        )
    E = Q @ np.linalg.inv(R).T
    # Rounding noise instead of zeros would make a regressor several times as long.
    E = np.where(np.abs(E) <= 1e-14 * np.abs(E).max(axis=0, initial=0.0), 0.0, E)
    return np.asarray(E * sizes[:, None] / rows)


@dataclass(frozen=True, eq=False)
class BaseParameters(NotebookDisplay):
    """A minimal parameter set beta = matrix @ phi.

    The torque depends on the standard parameters phi only through beta, and on every entry of beta.

    Attributes
    ----------
    robot : Robot
        Robot of the set.
    form : str
        Method of the set: "structural", "lin", ...
    with_drives : bool
        Whether drive parameters (four for each drive) follow the 10 n link parameters.
    matrix : ndarray, shape (count, p)
        K, in the link frames of the source.
    names : tuple of str
        Name of each base parameter.
    survivors : tuple of int or None
        Columns of K that form the identity: these standard parameters stay in place and carry the regrouped values, and
        all others may be set to zero. None if the form has no such columns.
    notes : tuple of str
        Nearly degenerate geometry, and which method was used and why.
    """

    robot: Robot
    form: str
    with_drives: bool
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
        """Number of base parameters."""
        return len(self.names)

    @property
    def values(self) -> Array:
        """beta (count,) that follows from the robot's standard parameters."""
        return np.asarray(self.matrix @ all_parameters(self.robot, with_drives=self.with_drives))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the standard parameters, which are the columns of `matrix`."""
        return parameter_labels(self.robot, with_drives=self.with_drives)

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """Each base parameter as a formula in the standard parameters, with geometry as numbers accurate to 1e-12."""
        return self._formulas(EXACT_TOLERANCE)

    @property
    def shown_expressions(self) -> tuple[str, ...]:
        """Formulas with six digits, for display."""
        return self._formulas(DISPLAY_TOLERANCE)

    def _formulas(self, within: float) -> tuple[str, ...]:
        shown = round_coefficients(self.robot, self.matrix, with_drives=self.with_drives)
        return tuple(format_sum(list_terms(self.labels, row), " ", within) for row in shown)

    @cached_property
    def embedding(self) -> Array:
        """E (p, count) with K E = 1: phi = E beta has the same dynamics.

        If there are survivors, E keeps them in place.
        """
        if self.survivors is None:
            return _smallest_right_inverse(self.matrix, parameter_sizes(self.robot, with_drives=self.with_drives))
        E = np.zeros(self.matrix.shape[::-1])
        E[list(self.survivors), range(self.count)] = 1.0
        return E

    def transform_to(self, other: BaseParameters) -> Array:
        """Return the nonsingular matrix T with beta_other = T beta, for two sets of the same robot.

        Values convert as T @ beta, covariances as T @ covariance @ T.T.

        Parameters
        ----------
        other : BaseParameters
            The set to convert to.

        Returns
        -------
        ndarray, shape (count, count)

        Raises
        ------
        InputError
            If the sets belong to different mechanisms or span different spaces.
        """
        if self.matrix.shape != other.matrix.shape or self.labels != other.labels:
            raise InputError(
                f"a set of {self.count} combinations of {len(self.labels)} parameters cannot be converted to one of "
                f"{other.count} combinations of {len(other.labels)}; both must belong to the same robot, with the same "
                "drives and gravity",
                code=Code.DISAGREEMENT,
                subject="other",
            )
        T = np.asarray(other.matrix @ self.embedding)
        sizes = parameter_sizes(self.robot, with_drives=self.with_drives)
        wanted = other.matrix * sizes
        missing = np.linalg.norm((T @ self.matrix) * sizes - wanted, axis=1)
        residual = float((missing / np.maximum(np.linalg.norm(wanted, axis=1), 1e-300)).max(initial=0.0))
        if residual > EQUAL_SPACES:
            raise RobotError(
                f"the two sets do not span the same space (residual {residual:.1e}): different robots?",
                code=Code.DISAGREEMENT,
                subject="other",
            )
        return T

    def roles(self) -> dict[str, str]:
        """Return for each standard parameter "none" (no effect), "alone" (a base parameter by itself) or "combined"."""
        used = round_coefficients(self.robot, self.matrix, with_drives=self.with_drives) != 0
        by_itself = used[used.sum(axis=1) == 1].any(axis=0) & (used.sum(axis=0) == 1)
        kinds = np.where(~used.any(axis=0), "none", np.where(by_itself, "alone", "combined"))
        return dict(zip(self.labels, kinds.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"BaseParameters({self.robot.name!r}, {self.form}, {self.count} of {len(self.labels)})"


DRIVE_SYMBOLS: Final[Mapping[str, str]] = {"rotor_inertia": "Im", "viscous": "fv", "coulomb": "fc", "offset": "fo"}


def parameter_labels(robot: Robot, *, with_drives: bool) -> tuple[str, ...]:
    """Return the symbol and joint number of every parameter in the order of phi; with `with_drives`, those of drives
    follow.
    """
    links = [f"{symbol}{i + 1}" for i in range(len(robot.joints)) for symbol in LINK_PARAMETERS]
    numbers = [robot.joint_index(drive.joint) + 1 for drive in robot.drives] if with_drives else []
    extras = [extra.name for extra in robot.extras] if with_drives else []
    return (*links, *(f"{DRIVE_SYMBOLS[name]}{i}" for i in numbers for name in DRIVE_PARAMETERS), *extras)
