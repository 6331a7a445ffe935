"""`Information`: the data in the form that least squares needs, one R factor for each joint; they can be added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array, ShortRepr
from mindyn.errors import Code, InputError
from mindyn.regression.accumulators import triangle_of

RANK_TOLERANCE: Final = 1e-9
"""A singular value of the column-scaled stack below this part of the largest is zero: rounding of the QR is 1e-14, the
structural base set has none that small on exciting data, and a joint that stands still gives exact zeros."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Information(ShortRepr):
    """R factors of [Y_i | tau_i] for each joint i: R_i^T R_i = [Y_i | tau_i]^T [Y_i | tau_i].

    joint_names  n names
    names        of the p parameters
    columns      for each joint the numbers of its p_i parameters
    factors      for each joint R_i (p_i + 1, p_i + 1); its last column holds Q^T tau
    counts       rows of each joint
    unforced     joints of a floating base: a torque that is always zero is measured there, elsewhere it is not logged
    """

    joint_names: tuple[str, ...]
    names: tuple[str, ...]
    columns: tuple[NDArray[np.intp], ...]
    factors: tuple[Array, ...]
    counts: tuple[int, ...]
    unforced: tuple[str, ...] = ()

    def __add__(self, other: Information) -> Information:
        """Return the information of both."""
        return add_information((self, other))

    def stacked(self, weights: Array | None = None) -> tuple[Array, Array]:
        """Return R (rows, p) and z (rows,) with |R beta - z|^2 = sum_i weights_i |Y_i beta - tau_i|^2."""
        weights = np.ones(len(self.factors)) if weights is None else weights
        blocks = []
        for columns, factor, weight in zip(self.columns, self.factors, weights, strict=True):
            block = np.zeros((len(factor), len(self.names) + 1))
            block[:, [*columns, -1]] = np.sqrt(weight) * factor
            blocks.append(block)
        R = np.vstack(blocks)
        return R[:, :-1], R[:, -1]

    def unused_columns(self, weights: Array) -> tuple[Array, Array] | None:
        """Return R and z of the joints without weight; None if every joint has a weight."""
        return None if weights.all() else self.stacked(np.equal(weights, 0.0).astype(np.float64))

    def residuals(self, beta: Array) -> Array:
        """Return the sum of squared residuals (..., n) of every joint for beta (..., p)."""
        errors = []
        for columns, factor in zip(self.columns, self.factors, strict=True):
            error = beta[..., columns] @ factor[:, :-1].T - factor[:, -1]
            errors.append(np.einsum("...k,...k->...", error, error))
        return np.stack(errors, axis=-1)

    def torques(self) -> Array:
        """Return the sum of squared torques (n,) of every joint."""
        return np.array([float(factor[:, -1] @ factor[:, -1]) for factor in self.factors])

    def measured(self) -> NDArray[np.bool_]:
        """(n,) whether the torque of every joint is measured: it is not always zero, or the joint is `unforced`."""
        return np.asarray((self.torques() > 0) | np.isin(self.joint_names, self.unforced))

    def torque_sizes(self) -> Array:
        """(n,) `torques`; that of the largest where it is zero."""
        torques = self.torques()
        return np.where(torques > 0, torques, torques.max() or 1.0)

    def without_torques(self, joints: Sequence[bool]) -> Information:
        """Return the information with zero torque of the marked joints."""
        factors = [np.array(triangle) for triangle in self.factors]
        for factor, gone in zip(factors, joints, strict=True):
            factor[:, -1] *= not gone
        return replace(self, factors=tuple(factors))

    def condition_number(self, weights: Array | None = None) -> float:
        """Return the condition number with columns of unit length; infinite if parameters are unidentifiable."""
        s = np.linalg.svd(_scale_columns(self.stacked(weights)[0])[0], compute_uv=False)
        return float(s[0] / s[-1]) if s[-1] > RANK_TOLERANCE * s[0] else float("inf")

    def unidentifiable(self, weights: Array | None = None) -> dict[str, tuple[str, ...]]:
        """Return the unidentifiable parameters, each with the others that it is combined with."""
        V = null_space(self.stacked(weights)[0])
        touched = np.abs(V) > 1e-6
        names_by_joint = {}
        for k in np.flatnonzero(touched.any(axis=1)):
            mixed = touched[:, touched[k]].any(axis=1)
            names_by_joint[self.names[k]] = tuple(self.names[j] for j in np.flatnonzero(mixed) if j != k)
        return names_by_joint


IDLE_JOINT_WEIGHT: Final = 1e-4
"""Weight of a joint without torque, relative to that of the largest torque; it bounds combinations that the other
joints leave open."""
MIN_RELATIVE_RESIDUAL: Final = 1e-4
"""Smallest residual relative to a joint's torque: exact data have no deviation that could give a weight."""


def joint_weights(information: Information, beta: Array) -> Array:
    """Return 1 / mean squared residual of each joint, (n,).

    A joint whose torque is zero in every row has `IDLE_JOINT_WEIGHT` times the weight that the largest torque has by
    its size.
    """
    torques, measured = information.torques(), information.measured()
    counts = np.maximum(information.counts, 1)  # a held trunk has no rows of its base
    least = MIN_RELATIVE_RESIDUAL**2 * information.torque_sizes()
    variances = np.maximum(information.residuals(beta), least) / counts
    idle = IDLE_JOINT_WEIGHT / max(float((torques / counts).max()), 1e-300)
    return np.where(measured, 1 / np.where(measured, variances, 1.0), idle)


def add_information(parts: Sequence[Information]) -> Information:
    """Return the information of all parts, which have the same joints and parameters, added in this order."""
    first = parts[0]
    if any((part.joint_names, part.names) != (first.joint_names, first.names) for part in parts):
        raise InputError(
            "information of different joints or parameters cannot be combined",
            code=Code.DISAGREEMENT,
            subject="information",
        )
    if len(parts) == 1:
        return first
    joints = range(len(first.factors))
    factors = tuple(triangle_of(np.vstack([part.factors[j] for part in parts])) for j in joints)
    return replace(first, factors=factors, counts=tuple(sum(part.counts[j] for part in parts) for j in joints))


def null_space(R: Array) -> Array:
    """Return directions (p, k) of scaled parameters that no row of R depends on."""
    scaled, _ = _scale_columns(R)
    _, s, Vt = np.linalg.svd(scaled, full_matrices=True)
    rank = int((s > RANK_TOLERANCE * s[0]).sum()) if len(s) and s[0] > 0 else 0
    return np.asarray(Vt[rank:].T)


def identifiable_directions(R: Array) -> Array:
    """Return B (p, k) with beta = B @ gamma, the complement of `null_space`: the identifiable directions.

    Orthonormal for parameters in units of 1 / the length of their column of R.
    """
    (_, scales), hidden = _scale_columns(R), null_space(R)
    return np.asarray(np.linalg.svd(hidden)[0][:, hidden.shape[1] :] / scales[:, None])


def _scale_columns(R: Array) -> tuple[Array, Array]:
    scales = np.linalg.norm(R, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    return R / scales, scales


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The least-squares solution and its unscaled covariance.

    beta     (p,) shortest in scaled columns if the data do not determine all directions
    inverse  (p, p) pseudo-inverse of R^T R
    rank     number of identifiable directions
    """

    beta: Array
    inverse: Array
    rank: int


def solve(R: Array, z: Array, then: tuple[Array, Array] | None = None) -> Solution:
    """Return the minimiser of |R beta - z|, by the singular values of the column-scaled R.

    then  R2, z2 of rows without weight: of all minimisers, take the one with the smallest |R2 beta - z2|
    """
    scaled, scales = _scale_columns(R)
    U, s, Vt = np.linalg.svd(scaled, full_matrices=False)
    kept = s > RANK_TOLERANCE * s[0]
    root = Vt[kept].T / s[kept] / scales[:, None]
    beta = root @ (U[:, kept].T @ z)
    hidden = null_space(R) / scales[:, None] if then is not None else np.zeros((len(beta), 0))
    if then is not None and hidden.size:
        beta = beta + hidden @ solve(then[0] @ hidden, then[1] - then[0] @ beta).beta
    return Solution(beta, root @ root.T, int(kept.sum()))
