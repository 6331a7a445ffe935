"""The essential parameter space: the identifiable part of the standard parameters, by singular values.

[Sheu & Walker 1991, section 3.1] The essential space is the span of the rows of energy differences (or torques) at
random states. The orthogonal complement of this space are the parameter changes without effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.identifiability.random_states import RowSource, characteristic_length, sample_rows, typical_rates
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.values import Array, ShortRepr, frozen_array
from mindyn.foundation.errors import Code, NearlyDegenerateError, RobotError, unknown_name_error
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import parameter_labels
from mindyn.robots.robot import Robot

ZERO_SINGULAR_VALUE = float(np.sqrt(np.finfo(float).eps))
"""Singular values below this fraction of the largest are zero [Klema & Laub 1980, in Sheu & Walker]."""

MIN_RELATIVE_SINGULAR_VALUE = 1e-6
"""If the smallest singular value, relative to the largest, is below this, positions beyond the limits of a loop are
drawn too.
"""

MIN_VALID_FRACTION = 0.1
"""A declared formula must have a value at this fraction of random poses."""

SAMPLED_ROUNDING = 1e-12
"""Singular values below this fraction of the largest are rounding: regressors of up to 30 joints leave 1e-14."""

CLEAR_GAP, UNCLEAR_GAP = 1e-4, 0.1
"""Ratio of the first dropped to the last kept singular value: above the first a note is added, above the second an
error is raised.
"""


@dataclass(frozen=True, slots=True, repr=False)
class EssentialSpace(ShortRepr):
    """The space of identifiable parameter combinations of a robot.

    Attributes
    ----------
    basis : ndarray, shape (k, p)
        Orthonormal rows V_1^T.
    null : ndarray, shape (p - k, p)
        Orthonormal rows V_2^T: changes without effect.
    sizes : ndarray, shape (p,)
        Typical size of each parameter's column.
    singular_values : ndarray
        Singular values of the sampled rows, after division of each column by its `sizes` entry.
    gap : float
        First dropped over last kept singular value.
    """

    basis: Array
    null: Array
    sizes: Array
    singular_values: Array
    gap: float

    @property
    def dimension(self) -> int:
        """k, the number of base parameters."""
        return len(self.basis)

    def vector(self, phi: ArrayLike) -> Array:
        """Return the essential parameter vector V_1 V_1^T phi: the smallest phi with the same dynamics."""
        return np.asarray(self.basis.T @ (self.basis @ np.asarray(phi, dtype=np.float64)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on whether the dimension is clear, from the gap between kept and dropped singular values."""
        k, s = self.dimension, self.singular_values
        last = f"{s[k - 1] / s[0]:.1e}"
        text = f"{k} singular values, the smallest {last} of the largest; the first dropped one is {self.gap:.1e} of it"
        return (text if self.gap < CLEAR_GAP else f"{text}: the count is not clear, the geometry is nearly degenerate",)


def constraint_matrix(robot: Robot, relations: Sequence[Mapping[str, float]], *, with_drives: bool = False) -> Array:
    """Return C (c, p) with C phi = 0 from relations between parameters.

    Parameters
    ----------
    robot : Robot
        The robot.
    relations : sequence of dict
        Coefficients by parameter label: {"Ixx6": 1, "Iyy6": -1} says that link 6 is symmetric.
    with_drives : bool
        Whether drive parameters follow the link parameters.

    Returns
    -------
    ndarray, shape (c, p)
        One row for each relation.

    Raises
    ------
    UnknownNameError
        If a label does not exist.
    """
    labels = parameter_labels(robot, with_drives=with_drives)
    C = np.zeros((len(relations), len(labels)))
    for row, relation in zip(C, relations, strict=True):
        for label, factor in relation.items():
            if label not in labels:
                raise unknown_name_error("parameter", label, labels)
            row[labels.index(label)] = factor
    return C


def essential_space(
    robot: Robot,
    source: RowSource = "energy",
    *,
    constraints: ArrayLike | None = None,
    with_drives: bool = False,
    rng: int = 0,
) -> EssentialSpace:
    """Compute the essential parameter space of a robot, with or without loops.

    Parameters
    ----------
    robot : Robot
        The robot.
    source : {"energy", "torque"}
        Rows of energy differences or of torques; both have the same row space [Sheu & Walker 1991, theorem 2.1].
    constraints : array_like, shape (c, p), optional
        C: only parameters with C phi = 0 are considered (see `constraint_matrix`).
    with_drives : bool
        Whether drive parameters follow the link parameters.
    rng : int
        Seed of the random states.

    Returns
    -------
    EssentialSpace
        Orthonormal bases, singular values, and the essential vector of given parameters.

    Raises
    ------
    NearlyDegenerateError
        If the dimension of the space is not clear.

    Examples
    --------
    >>> import mindyn
    >>> from mindyn.equations import essential_space
    >>> essential_space(mindyn.load_robot("puma560")).dimension
    36
    """
    parameters = len(parameter_labels(robot, with_drives=with_drives))
    C = np.zeros((0, parameters))
    if constraints is not None:
        C = frozen_array(constraints, (np.shape(constraints)[0], parameters), "constraints")
    rows, rates = Regressors(robot, with_drives), typical_rates(robot)
    for is_inside in (True, False) if robot.has_dependents else (False,):
        H = sample_rows(rows, source, parameters=parameters, seed=rng, rates=rates, within_limits=is_inside)
        H = select_valid_rows(H, robot)
        H = H - H @ np.linalg.pinv(C) @ C
        # Within narrow limits the functions of a loop hardly differ; beyond the limits they are the same functions.
        space = compute_row_space(H, typical_sizes(robot, H), unclear=1.0 if is_inside else UNCLEAR_GAP)
        if space.singular_values[space.dimension - 1] > MIN_RELATIVE_SINGULAR_VALUE * space.singular_values[0]:
            break
    return space


def select_valid_rows(H: Array, robot: Robot) -> Array:
    """Return the rows at which every declared formula has a finite value.

    A spring, for example, may have no value at configurations that it cannot reach.
    """
    lost = ~np.isfinite(H)
    kept = H[~lost.any(axis=1)]
    for extra, column in zip(reversed(robot.extras), reversed(range(H.shape[1])), strict=False):
        valid_count = int((kept[:, column] != 0).sum())
        if lost[:, column].any() and valid_count < MIN_VALID_FRACTION * (valid_count + lost[:, column].sum()):
            raise RobotError(
                f"the extra torque {extra.name!r} = {extra.formula} is rarely defined: at {valid_count} of "
                f"{valid_count + lost[:, column].sum()} random poses",
                hint="write the formula so that it is defined for all positions of its joint",
                code=Code.NOT_FINITE,
                subject=extra.name,
            )
    return kept


def typical_sizes(robot: Robot, H: Array) -> Array:
    """Return typical sizes (p,) of the columns: from the robot's length for links, from the column itself for
    drives.
    """
    length, links = characteristic_length(robot), PARAMETERS_PER_LINK * len(robot.joints)
    pattern = np.tile([length**2, *(length,) * 3, *(1.0,) * 6], len(robot.joints))
    common = np.sqrt((np.square(H[:, :links] / pattern)).mean()) or 1.0
    drive_sizes = np.sqrt(np.square(H[:, links:]).mean(axis=0))
    return np.concatenate([pattern * common, np.where(drive_sizes > 0, drive_sizes, 1.0)])


def compute_row_space(
    H: Array, sizes: Array, zero: float = ZERO_SINGULAR_VALUE, unclear: float = UNCLEAR_GAP
) -> EssentialSpace:
    """Return the row space of H (m, p) with columns of typical sizes (p,); its dimension follows from the largest gap.

    zero     singular values above this fraction of the largest are kept
    unclear  raise an error if the first dropped value is more than this fraction of the last kept one
    """
    # Scaling does not change the row space; without it, units and loops near a singular pose would blur the gap.
    scaled = H / sizes
    scaled = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-300)
    _, s, Vt = np.linalg.svd(scaled, full_matrices=len(H) < H.shape[1])
    # Functions of a long chain or of a loop with one degree of freedom differ less and less: if small values and
    # rounding are clearly separated, by more than the values on both sides of `zero`, that gap determines the rank.
    first, last = (int((s > level * s[0]).sum()) for level in (zero, min(zero, SAMPLED_ROUNDING)))
    gaps = [float(s[r] / s[r - 1]) for r in range(first, min(last + 1, len(s)))] or [0.0]
    further = int(np.argmin(gaps)) if min(gaps) < CLEAR_GAP else 0
    rank, gap = first + further, gaps[further]
    if gap > unclear:
        near = ", ".join(f"{value / s[0]:.1e}" for value in s[max(0, rank - 3) : rank + 3])
        raise NearlyDegenerateError(
            f"the number of base parameters is not clear: around {rank} the singular values are {near} of the largest",
            hint="the geometry is nearly degenerate; load with snap=True, or use form='structural'",
            subject=rank,
        )
    Q, _ = np.linalg.qr((Vt[:rank] * sizes).T, mode="complete")
    return EssentialSpace(Q[:, :rank].T, Q[:, rank:].T, sizes, s, gap)
