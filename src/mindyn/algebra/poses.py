"""Rigid poses: `X_ab` is the pose of frame b in frame a."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.rotations import nearest_rotation, tidy
from mindyn.algebra.values import Array, Value, frozen_array


@dataclass(frozen=True, slots=True, eq=False)
class Pose(Value):
    """Pose X_ab: p_a = rotation @ p_b + translation.

    rotation     (3, 3) R_ab, orthonormal to rounding: one written with few digits is projected
    translation  (3,) origin of b in a, m
    """

    rotation: Array
    translation: Array

    def __init__(self, rotation: ArrayLike | None = None, translation: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        R = frozen_array(np.eye(3) if rotation is None else rotation, (3, 3), "rotation")
        nearest = nearest_rotation(R)
        object.__setattr__(self, "rotation", R if nearest is R else frozen_array(nearest, (3, 3), "rotation"))
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
