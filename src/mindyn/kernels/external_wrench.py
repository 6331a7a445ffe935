"""Compute the wrench at a link from the external torques on the joints: tau_ext = J^T w.

J (6, n) is the Jacobian of the link in its own axes. If C is the covariance of the joint torques, the best estimate and
its covariance are

    w = (J C^-1 J^T)^-1 J C^-1 tau_ext,   cov(w) = (J C^-1 J^T)^-1

Wrenches with J^T w = 0 cause no joint torque: the structure of the robot carries them in this posture, so that joint
torques do not determine them. Moments and forces are compared in the robot's unit of length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.requirements import require_shape
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.robots.scale import length_unit

if TYPE_CHECKING:
    from mindyn.kernels.model import Model

ContactKind = Literal["surface", "point"]
"""Whether a contact exerts a force and a moment, or only a force at the origin of its frame."""
MIN_SINGULAR_RATIO: Final = 1e-3
"""Singular value of J^T relative to the largest below which a direction is unobservable: an error of a joint torque
would appear a thousand times larger in the wrench."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExternalWrench(ShortRepr):
    """Wrench of the environment on a link, at its origin and in its axes; moment before force.

    Attributes
    ----------
    link : str
    wrench : ndarray, shape (..., 6)
        Moment (N m) and force (N); zero along unobservable directions.
    covariance : ndarray, shape (..., 6, 6)
        Covariance of the observable part.
    unobservable : ndarray, shape (..., 6, 6)
        Orthogonal projector onto the directions that the posture does not observe, with moments in units of the robot's
        length.
    """

    link: str
    wrench: Array
    covariance: Array
    unobservable: Array

    @property
    def deviations(self) -> Array:
        """Standard deviations (..., 6). Components that unobservable directions change have infinite deviations."""
        variances = np.maximum(np.diagonal(self.covariance, axis1=-2, axis2=-1), 0.0)
        hidden = np.diagonal(self.unobservable, axis1=-2, axis2=-1) > 1e-9
        return np.where(hidden, np.inf, np.sqrt(variances))

    @property
    def unobservable_count(self) -> Array:
        """Number (...) of independent directions that the posture does not observe."""
        return np.asarray(np.rint(np.trace(self.unobservable, axis1=-2, axis2=-1)).astype(int))

    def unobservable_directions(self) -> Array:
        """Return the directions (k, 6) of a single posture, each of unit length."""
        values, vectors = np.linalg.eigh(self.unobservable)
        return np.asarray(vectors.T[values > 0.5])


def estimate_wrench(
    model: Model,
    tau_ext: ArrayLike,
    q: ArrayLike,
    link: str,
    torque_deviations: ArrayLike = 1.0,
    contact: ContactKind = "surface",
) -> ExternalWrench:
    """Return the wrench; `Model.external_wrench` documents the parameters."""
    require_choice(contact, ("surface", "point"), "contact")
    J = frame_jacobian(model, q, link)
    tau, sigma = np.asarray(tau_ext, dtype=np.float64), np.asarray(torque_deviations, dtype=np.float64)
    shape = (*J.shape[:-2], J.shape[-1])
    require_shape(tau.shape, shape, "tau_ext")
    if not np.isfinite(tau).all() or not (np.isfinite(sigma) & (sigma > 0)).all():
        raise InputError(
            "external torques must be finite, and their standard deviations positive",
            code=Code.NOT_FINITE,
            subject="tau_ext",
        )
    L = length_unit(model.robot)
    units = np.array([L, L, L, 1.0, 1.0, 1.0])  # w = units * x, x all in N
    free = np.array([contact == "surface"] * 3 + [True] * 3)
    weighted = np.swapaxes(J, -1, -2) * (units * free) / (sigma * np.ones(shape[-1]))[..., :, None]
    U, s, Vt = np.linalg.svd(weighted, full_matrices=True)
    s = np.concatenate([s, np.zeros((*s.shape[:-1], 6 - s.shape[-1]))], axis=-1)
    seen = s > MIN_SINGULAR_RATIO * s[..., :1]
    inverse = np.where(seen, 1 / np.where(seen, s, 1.0), 0.0)
    count = min(6, shape[-1])
    along = np.einsum("...ji,...j->...i", U, tau / sigma)[..., :count]
    x = np.einsum("...ji,...j->...i", Vt[..., :count, :], inverse[..., :count] * along)
    covariance = np.einsum("...ki,...k,...kj->...ij", Vt, inverse**2, Vt)
    hidden = np.einsum("...ki,...k,...kj->...ij", Vt, 1.0 - seen, Vt)
    # A point contact has no moment: these directions are excluded, not unobservable.
    hidden = np.where(np.outer(free, free), hidden, 0.0)
    return ExternalWrench(link, units * x, units[:, None] * covariance * units, hidden)


def frame_jacobian(model: Model, q: ArrayLike, link: str) -> Array:
    """Return J (..., 6, n) of a link or frame with (w, v) = J qd, in its own axes."""
    R_inverse = np.swapaxes(model.forward_kinematics(q, link)[..., :3, :3], -1, -2)
    J = model.geometric_jacobian(q, link)
    return np.concatenate([R_inverse @ J[..., :3, :], R_inverse @ J[..., 3:, :]], axis=-2)
