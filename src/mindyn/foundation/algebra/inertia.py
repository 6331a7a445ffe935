"""Representations of a rigid body's inertia: 10-vector phi, tensor, 6x6 spatial inertia, 4x4 pseudo-inertia.

phi = (m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz): mass, first moment, inertia tensor about the
frame origin. Off-diagonals are tensor entries: Ixy = -integral of x y dm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import skew
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK, TENSOR_INDICES

_ROWS, _COLUMNS = map(list, zip(*TENSOR_INDICES, strict=True))


def tensor_from_entries(entries: Array) -> Array:
    """Return the symmetric tensor (3, 3, ...) with the entries Ixx, Ixy, Iyy, Ixz, Iyz, Izz (6, ...)."""
    J = np.zeros((3, 3, *entries.shape[1:]))
    J[_ROWS, _COLUMNS] = J[_COLUMNS, _ROWS] = entries
    return J


def tensor_entries(J: Array) -> Array:
    """Return Ixx, Ixy, Iyy, Ixz, Iyz, Izz of a symmetric tensor."""
    return np.asarray(J[_ROWS, _COLUMNS])


def point_tensor(c: Array) -> Array:
    """Return the inertia tensor about the origin of a unit point mass at c: (c.c) E - c c^T."""
    return np.asarray(c @ c * np.eye(3) - np.outer(c, c))


def phi_about_origin(mass: float, com: Array, inertia_com: Array) -> Array:
    """Return phi of a body from its mass, centre of mass and tensor about the centre of mass (Steiner)."""
    J = inertia_com + mass * point_tensor(com)
    return np.concatenate([[mass], mass * np.asarray(com), tensor_entries(J)])


def mass_com_inertia(phi: Array) -> tuple[float, Array, Array]:
    """Return the mass, the centre of mass, and the inertia tensor about the centre of mass. For a massless body, the
    centre of mass is zero and the tensor is unchanged.
    """
    mass, moment, J = float(phi[0]), phi[1:4], tensor_from_entries(phi[4:])
    if mass == 0:
        return 0.0, np.zeros(3), J
    com = moment / mass
    return mass, com, J - mass * point_tensor(com)


def pseudo_inertia(phi: Array) -> Array:
    """Return [[Sigma, mc], [mc^T, m]] (4, 4), Sigma = tr(J)/2 E - J: positive semidefinite iff phi is physical."""
    J = tensor_from_entries(phi[4:])
    P = np.empty((4, 4))
    P[:3, :3] = J.trace() / 2 * np.eye(3) - J
    P[:3, 3] = P[3, :3] = phi[1:4]
    P[3, 3] = phi[0]
    return P


def phi_from_pseudo_inertia(P: Array) -> Array:
    """Return phi of a pseudo-inertia, the inverse of `pseudo_inertia`."""
    J = P[:3, :3].trace() * np.eye(3) - P[:3, :3]
    return np.concatenate([[P[3, 3]], P[:3, 3], tensor_entries(J)])


def spatial_inertia(phi: Array) -> Array:
    """Return the (6, 6) matrix, angular before linear: momentum = spatial_inertia @ (w, v) at the frame origin."""
    C = skew(phi[1:4])
    return np.block([[tensor_from_entries(phi[4:]), C], [C.T, phi[0] * np.eye(3)]])


def transform_phi(X_ab: Pose, phi_b: Array) -> Array:
    """Return phi in frame a of a body that is given in frame b. The pseudo-inertia transforms as X P X^T."""
    X = X_ab.matrix
    return phi_from_pseudo_inertia(X @ pseudo_inertia(phi_b) @ X.T)


_UNIT_PSEUDO_INERTIAS = np.stack([pseudo_inertia(unit) for unit in np.eye(PARAMETERS_PER_LINK)])


def phi_map(X_ab: Pose) -> Array:
    """Return the (10, 10) matrix T with phi_a = T phi_b."""
    if X_ab.is_identity:
        return np.eye(PARAMETERS_PER_LINK)
    X = X_ab.matrix
    return np.stack([phi_from_pseudo_inertia(P) for P in X @ _UNIT_PSEUDO_INERTIAS @ X.T], axis=1)


MOMENT_ROUNDING: Final = 1e-12
"""Rounding error of the tensor about the centre of mass, relative to the entries of phi: it remains after Steiner's
term is subtracted.
"""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Whether a mass distribution with this phi exists.

    status  "consistent" (a solid body), "boundary" (only a point, rod or plate), "inconsistent", "unknown"
    reason  one sentence that names the violated condition, empty if consistent
    """

    status: str
    reason: str = ""

    @property
    def is_feasible(self) -> bool:
        """Whether a mass distribution exists, solid or degenerate."""
        return self.status in ("consistent", "boundary")


def least_moment(phi: Array) -> float | None:
    """Return the least principal moment about the centre of mass, kg m^2; None if the numbers overflow."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inertia_com = mass_com_inertia(phi)[2]
    return float(np.linalg.eigvalsh(inertia_com)[0]) if np.isfinite(inertia_com).all() else None


def check_consistency(phi: Array | None) -> Consistency:
    """Check phi by the principal moments about the centre of mass, and explain a violation in mechanical terms."""
    if phi is None:
        return Consistency("unknown", "the link has no inertial parameters")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mass, com, inertia_com = mass_com_inertia(phi)
    if mass == 0:
        return (
            Consistency("inconsistent", _describe_massless(phi)) if phi.any() else Consistency("boundary", "massless")
        )
    if mass < 0:
        return Consistency("inconsistent", f"the mass is negative: {mass:g} kg")
    if not np.isfinite(inertia_com).all():
        far = f"{mass:g} kg at {', '.join(f'{c:g}' for c in com)} m"
        return Consistency("inconsistent", f"the numbers overflow: {far}")
    moments = np.linalg.eigvalsh(inertia_com)
    slack = moments[0] + moments[1] - moments[2]
    tolerance = MOMENT_ROUNDING * float(np.abs(phi).max())
    if slack < -tolerance or moments[0] < -tolerance:
        values = ", ".join(f"{value:.4g}" for value in moments)
        problem = "are not all positive" if moments[0] < -tolerance else "violate the triangle inequality a + b >= c"
        return Consistency("inconsistent", f"principal moments about the centre of mass ({values}) kg m^2 {problem}")
    if slack <= tolerance:
        return Consistency("boundary", "all mass is in a plane, on a line or at a point")
    return Consistency("consistent")


def _describe_massless(phi: Array) -> str:
    if phi[1:4].any():
        return f"mass is 0 but the first moment is {phi[1:4].tolist()} kg m"
    return "mass is 0 but the inertia tensor is not: perhaps only some of the parameters were published"
