"""Design questions: what mass added to a robot changes in its base parameters and in its torques.

[Sheu & Walker 1991, section 6] The change of the standard parameters, projected on what the dynamics can show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.inertia import consistency_of, moved_phi, phi_about_origin
from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError
from mindyn.identifiability.random_states import regressors_of
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters

Motion = tuple[ArrayLike, ArrayLike, ArrayLike]
"""q, qd, qdd (N, joints), of the primary joints where the robot has loops."""

UNSEEN = 1e-12
"""A change of base parameters that is smaller, relative to that of the standard ones, is none."""


@dataclass(frozen=True, slots=True)
class DesignChange:
    """What an added body changes.

    names   of the base parameters
    phi     (10,) the body's standard parameters in the frame of the link that carries it
    beta    (count,) change of the base parameters
    torque  (N, joints) change of the torques along the motion, N m (N)
    """

    names: tuple[str, ...]
    phi: Array
    beta: Array
    torque: Array

    @property
    def is_seen(self) -> bool:
        """Whether any motion at all shows the body."""
        return bool(np.abs(self.beta).max(initial=0.0) > UNSEEN * np.abs(self.phi).max(initial=0.0))

    @property
    def rms_torque(self) -> Array:
        """(joints,) rms of the change along the motion, N m (N)."""
        return np.asarray(np.sqrt((self.torque**2).mean(axis=0)))

    @property
    def changed(self) -> dict[str, float]:
        """The base parameters that change, by name."""
        threshold = UNSEEN * float(np.abs(self.phi).max(initial=0.0))
        return {name: float(d) for name, d in zip(self.names, self.beta, strict=True) if abs(d) > threshold}


def added_point_mass(
    base: BaseParameters, place: str, mass: float, position: ArrayLike, motion: Motion
) -> DesignChange:
    """What a point mass (kg) at `position` (3,) of a link or frame changes."""
    return added_body(base, place, mass, position, np.zeros((3, 3)), motion)


def added_body(
    base: BaseParameters, place: str, mass: float, com: ArrayLike, inertia: ArrayLike, motion: Motion
) -> DesignChange:
    """What a body changes: `mass` kg, centre `com` (3,) in a link or frame, tensor `inertia` (3, 3) about it."""
    body = phi_about_origin(
        float(frozen_array(mass, (), "mass")), frozen_array(com, (3,), "com"), frozen_array(inertia, (3, 3), "inertia")
    )
    verdict = consistency_of(body)
    if not verdict.possible:
        raise InputError(f"no body can have these parameters: {verdict.reason}")
    index, X = base.robot.locate(place)
    if index < 0:
        raise InputError(f"a body on the root {base.robot.root.name!r} has no effect on the dynamics")
    phi = moved_phi(X, body)
    block = slice(PARAMETERS_PER_LINK * index, PARAMETERS_PER_LINK * (index + 1))
    q, qd, qdd = (np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in motion)
    Y = regressors_of(base.robot).torque_rows(q, qd, qdd)[:, :, block]
    return DesignChange(base.names, phi, np.asarray(base.matrix[:, block] @ phi), np.asarray(Y @ phi))
