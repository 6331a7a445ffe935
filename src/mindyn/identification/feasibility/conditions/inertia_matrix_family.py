"""`InertiaMatrixFamily`: the inertia matrices M(q; beta) of one mechanism, linear in its base parameters beta."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.equations.closed_motion import is_affine
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.equations.identifiability.random_states import characteristic_length
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.kernels.model import Model, compile_model
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.robots.parts import Joint
from mindyn.robots.robot import Robot

Subject = Estimate | Robot | tuple[Robot | BaseParameters, ArrayLike]
"""Values to check: an estimate, a robot with known parameters, or base values with their robot or base set."""


UNREACHABLE_INERTIA: Final = 1e12
"""Placeholder for the inertia where loops cannot close, kg m^2; so large that it is never the smallest."""


@dataclass(frozen=True, eq=False)
class InertiaMatrixFamily:
    """Inertia matrices M(q; beta) of the parameters of `base`, in kg m^2 throughout.

    Displacements of prismatic joints are in units of the robot's length, so that all entries of S M S, S =
    diag(scales), have the same unit. Robots with parallelograms are described by their primary joints.
    """

    base: BaseParameters

    @cached_property
    def model(self) -> Model:
        """Return kernels that take beta as an input."""
        return compile_model(self.base.robot, with_drives=self.base.with_drives, base=self.base, parameters="base")

    @cached_property
    def joints(self) -> tuple[Joint, ...]:
        """Return the joints whose positions are q."""
        return self.base.robot.primary_joints

    @cached_property
    def scales(self) -> Array:
        """Return the scales (n,): 1 for revolute joints, the length of the robot in m for prismatic ones."""
        length = characteristic_length(self.base.robot)
        return np.array([1.0 if joint.kind == "revolute" else length for joint in self.joints])

    @cached_property
    def moving(self) -> NDArray[np.intp]:
        """Return the indices of the joints on whose positions M depends."""
        columns = self.model.casadi("inertia_matrix").jac_sparsity(0, 0).get_col()
        joints = np.unique(np.asarray(columns, dtype=np.intp))
        if is_affine(self.base.robot):
            return joints
        primary = home_closure(self.base.robot).primary
        return np.flatnonzero(np.isin(primary, joints))

    def _close_loops(self, q: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return positions for the kernels, and for each row whether the loops close there."""
        if is_affine(self.base.robot):
            return q, np.ones(q.shape[:-1], dtype=np.bool_)
        closure = home_closure(self.base.robot)
        rows = q.reshape(-1, q.shape[-1])
        positions, reached = closure.find_reachable(rows)
        positions[~reached] = closure.home
        return positions.reshape(*q.shape[:-1], -1), reached.reshape(q.shape[:-1])

    def matrices(self, q: Array, beta: Array) -> Array:
        """Return S M S (..., n, n) at q (..., n), with large inertias at positions where loops do not close."""
        positions, closed = self._close_loops(q)
        M = np.asarray(self.model.inertia_matrix(positions, beta) * self.scales * self.scales[:, None])
        return np.where(closed[..., None, None], M, UNREACHABLE_INERTIA * np.eye(len(self.scales)))

    def gradients(self, q: Array, beta: Array, u: Array) -> Array:
        """Return the gradients (N, n) of u^T S M S u with respect to q, at q and directions u (N, n)."""
        v = u * self.scales
        positions, closed = self._close_loops(q)
        gradients = self.model.adjoint("inertia_matrix")(positions, beta, v[:, :, None] * v[:, None, :])
        if not is_affine(self.base.robot):
            gradients = gradients[:, list(home_closure(self.base.robot).primary)]
        return np.where(closed[:, None], gradients, 0.0)

    def rows(self, q: Array, u: Array) -> Array:
        """Return rows (N, count) with u^T S M(q; beta) S u = rows @ beta, at q and directions u (N, n)."""
        v, rest = u * self.scales, np.zeros_like(u)
        positions, _ = self._close_loops(q)
        Y = self.model.regressor(positions, rest, v) - self.model.regressor(positions, rest, rest)
        return np.asarray(np.einsum("kj,kjp->kp", v, Y))


def resolve_subject(subject: Subject) -> tuple[InertiaMatrixFamily, Array]:
    """Return the inertia matrices of what is checked, as a family, and its base values.

    Rotors are included if the values of the subject contain them.
    """
    if isinstance(subject, Estimate):
        return InertiaMatrixFamily(subject.base), subject.base_values
    if isinstance(subject, Robot):
        base = base_parameters(subject, with_drives=bool(subject.drives))
        return InertiaMatrixFamily(base), base.values
    if isinstance(subject, tuple) and len(subject) == 2:
        return _pair_values(*subject)
    raise InputError(
        f"the subject must be an Estimate, a Robot or a pair, got {type(subject).__name__}",
        hint="give an Estimate, a Robot with known parameters, or a pair (robot or base set, base values)",
        code=Code.WRONG_TYPE,
        subject=type(subject).__name__,
    )


def _pair_values(robot_or_base: Robot | BaseParameters, values: ArrayLike) -> tuple[InertiaMatrixFamily, Array]:
    """Return the family with as many base parameters as there are values: with drives, or of the chain alone."""
    beta = np.array(values, dtype=np.float64)
    if not np.isfinite(beta).all():
        number = int(np.argmin(np.isfinite(beta)))
        raise InputError(f"base value {number} is not finite", code=Code.NOT_FINITE, subject=number)
    if isinstance(robot_or_base, BaseParameters):
        sets = [robot_or_base]
    else:
        choices = (False, True) if robot_or_base.drives else (False,)
        sets = [base_parameters(robot_or_base, with_drives=drives) for drives in choices]
    for base in sets:
        if beta.shape == (base.count,):
            return InertiaMatrixFamily(base), beta
    counts = " or ".join(f"{base.count} ({'with' if base.with_drives else 'without'} drives)" for base in sets)
    raise InputError(
        f"the robot has {counts} base parameters, got base values of shape {beta.shape}",
        code=Code.WRONG_SHAPE,
        subject="values",
    )
