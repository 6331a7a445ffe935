"""Rigid poses: `X_ab` is the pose of frame b in frame a."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.rotations import tidy
from mindyn.algebra.values import Array, Value, frozen_array
from mindyn.errors import InputError

ORTHONORMAL: Final = 1e-14
"""Rotations written with few digits are further from orthonormal than this, and are taken as the nearest that is."""


def _nearest_rotation(R: Array) -> Array:
    U, _, Vt = np.linalg.svd(R)
    return frozen_array(U @ Vt, (3, 3), "rotation")


@dataclass(frozen=True, slots=True, eq=False)
class Pose(Value):
    """Pose X_ab: p_a = rotation @ p_b + translation.

    rotation     (3, 3) R_ab
    translation  (3,) origin of b in a, m
    """

    rotation: Array
    translation: Array

    def __init__(self, rotation: ArrayLike | None = None, translation: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        R = frozen_array(np.eye(3) if rotation is None else rotation, (3, 3), "rotation")
        skewness = np.abs(R @ R.T - np.eye(3)).max()
        if skewness > 1e-6 or np.linalg.det(R) < 0:
            raise InputError(f"a rotation must be orthonormal and right-handed, got {R.tolist()}")
        object.__setattr__(self, "rotation", R if skewness <= ORTHONORMAL else _nearest_rotation(R))
        object.__setattr__(self, "translation", frozen_array(translation, (3,), "translation"))

    def __matmul__(self, other: Pose) -> Pose:
        """X_ac = X_ab @ X_bc; an identity leaves the other to the bit."""
        if self.is_identity or other.is_identity:
            return other if self.is_identity else self
        return Pose(tidy(self.rotation @ other.rotation), self.apply(other.translation))

    def apply(self, point: Array) -> Array:
        """Coordinates in a of a point given in b."""
        return np.asarray(self.rotation @ point + self.translation)

    def inverse(self) -> Pose:
        """X_ba."""
        return Pose(self.rotation.T, -(self.rotation.T @ self.translation) + 0.0)

    @property
    def matrix(self) -> Array:
        """The homogeneous 4x4 matrix."""
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = self.rotation, self.translation
        return X

    @property
    def is_identity(self) -> bool:
        """Whether a and b coincide exactly."""
        return bool((self.rotation == np.eye(3)).all() and not self.translation.any())


IDENTITY = Pose()
