"""`InertiaFamily`: the inertia matrices M(q; beta) of one mechanism, linear in its base parameters beta."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import InputError, MissingPhysicsError
from mindyn.estimators.estimate import Estimate
from mindyn.identifiability.base_sets import base_parameters
from mindyn.identifiability.random_states import characteristic_length
from mindyn.kernels.model import Model, compile_model
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters
from mindyn.robots.parts import Joint
from mindyn.robots.robot import Robot

Subject = Estimate | Robot | tuple[Robot | BaseParameters, ArrayLike]
"""Values in question: an estimate, a robot with known parameters, or base values with their robot or base set."""


UNREACHABLE_INERTIA: Final = 1e12
"""kg m^2 in place of an inertia at positions that loops cannot take: never the smallest."""


@dataclass(frozen=True, eq=False)
class InertiaFamily:
    """M(q; beta) of the parameters of `base`, in kg m^2 throughout.

    Displacements of prismatic joints count in units of the robot's own length, so that S M S, S = diag(scales), has one
    unit and one smallest eigenvalue. Robots with parallelograms move by their primary joints.
    """

    base: BaseParameters

    @cached_property
    def model(self) -> Model:
        """Kernels with beta as an input."""
        return compile_model(self.base.robot, drives=self.base.drives, base=self.base, parameters="base")

    @cached_property
    def joints(self) -> tuple[Joint, ...]:
        """The joints whose positions are q."""
        robot = self.base.robot
        return robot.primary_joints

    @cached_property
    def scales(self) -> Array:
        """(n,): 1 for revolute joints, the robot's length in m for prismatic ones."""
        length = characteristic_length(self.base.robot)
        return np.array([1.0 if joint.kind == "revolute" else length for joint in self.joints])

    @cached_property
    def moving(self) -> NDArray[np.intp]:
        """Joints on whose positions M depends."""
        columns = self.model.casadi("inertia_matrix").jac_sparsity(0, 0).get_col()
        found = np.unique(np.asarray(columns, dtype=np.intp))
        if is_affine(self.base.robot):
            return found
        primary = home_closure(self.base.robot).primary
        return np.flatnonzero(np.isin(primary, found))

    def _close_loops(self, q: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Positions for the kernels, and which rows are configurations: through loops, where these close."""
        if is_affine(self.base.robot):
            return q, np.ones(q.shape[:-1], dtype=np.bool_)
        closure = home_closure(self.base.robot)
        rows = q.reshape(-1, q.shape[-1])
        found, reached = closure.find_reachable(rows)
        found[~reached] = closure.home
        return found.reshape(*q.shape[:-1], -1), reached.reshape(q.shape[:-1])

    def matrices(self, q: Array, beta: Array) -> Array:
        """S M S (..., n, n) at q (..., n); where loops do not close there is no configuration, and no small M."""
        positions, closed = self._close_loops(q)
        M = np.asarray(self.model.inertia_matrix(positions, beta) * self.scales * self.scales[:, None])
        return np.where(closed[..., None, None], M, UNREACHABLE_INERTIA * np.eye(len(self.scales)))

    def slopes(self, q: Array, beta: Array, u: Array) -> Array:
        """Gradients (N, n) of u^T S M S u by q, at q and directions u (N, n)."""
        v = u * self.scales
        positions, closed = self._close_loops(q)
        found = self.model.adjoint("inertia_matrix")(positions, beta, v[:, :, None] * v[:, None, :])
        if not is_affine(self.base.robot):
            found = found[:, list(home_closure(self.base.robot).primary)]
        return np.where(closed[:, None], found, 0.0)

    def rows(self, q: Array, u: Array) -> Array:
        """(N, count) with u^T S M(q; beta) S u = rows @ beta, at q and directions u (N, n)."""
        v, rest = u * self.scales, np.zeros_like(u)
        positions, _ = self._close_loops(q)
        Y = self.model.regressor(positions, rest, v) - self.model.regressor(positions, rest, rest)
        return np.asarray(np.einsum("kj,kjp->kp", v, Y))


@dataclass(frozen=True, slots=True, eq=False)
class FamilyMember:
    """The member of a family that a subject is: its values, and how they follow from the subject's.

    values  (count,) of family.base
    chart   (count, p) with values = chart @ beta, beta (p,) all parameters of the subject
    """

    family: InertiaFamily
    values: Array
    chart: Array


def find_member(subject: Subject, *, drives: bool | None = None) -> FamilyMember:
    """The inertia matrix in question: of the chain alone, or with the drives' rotors.

    drives  None: with drives where the subject's values contain them
    """
    if isinstance(subject, Estimate):
        return _build_member(subject.base, subject.beta, drives)
    if isinstance(subject, Robot):
        with_drives = bool(subject.drives) if drives is None else drives
        base = base_parameters(subject, drives=with_drives)
        return _build_member(base, base.values, drives)
    if isinstance(subject, tuple) and len(subject) == 2:
        base, values = _pair_values(*subject, drives)
        return _build_member(base, values, drives)
    raise InputError(
        f"values of {type(subject).__name__} cannot be judged",
        hint="give an Estimate, a Robot with known parameters, or a pair (robot or base set, base values)",
    )


def _build_member(base: BaseParameters, beta: Array, drives: bool | None) -> FamilyMember:
    """Chain alone from values with drives: rotor inertias that have parameters of their own become zero."""
    first = np.eye(base.count, len(beta))
    if drives and not base.drives:
        raise MissingPhysicsError(
            f"the values are of the kinematic chain of {base.robot.name!r} alone: they contain no rotor inertia",
            hint="leave drives=False, or estimate with drives",
        )
    if drives is None or drives == base.drives:
        return FamilyMember(InertiaFamily(base), np.asarray(beta[: base.count]), first)
    chain = base_parameters(base.robot, drives=False)
    links = base.robot.joint_count * PARAMETERS_PER_LINK
    chart = chain.matrix @ base.embedding[:links] @ first
    return FamilyMember(InertiaFamily(chain), chart @ beta, chart)


def _pair_values(of: Robot | BaseParameters, values: ArrayLike, drives: bool | None) -> tuple[BaseParameters, Array]:
    beta = np.asarray(values, dtype=np.float64)
    if not np.isfinite(beta).all():
        raise InputError(f"base value {int(np.argmin(np.isfinite(beta)))} is not finite")
    sets = [of] if isinstance(of, BaseParameters) else _base_sets(of, drives)
    for base in sets:
        if beta.shape == (base.count,):
            return base, beta
    counts = " or ".join(f"{base.count} ({'with' if base.drives else 'without'} drives)" for base in sets)
    raise InputError(f"base values of shape {beta.shape} given; the robot has {counts} base parameters")


def _base_sets(robot: Robot, drives: bool | None) -> list[BaseParameters]:
    """The base sets that values may be of: a chain's values serve no question with drives."""
    chain = [] if drives else [base_parameters(robot)]
    return chain + ([base_parameters(robot, drives=True)] if robot.drives else [])
