"""Rigid poses: `X_ab` is the pose of frame b in frame a."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.rotations import nearest_rotation, tidy
from mindyn.foundation.algebra.values import Array, Value, frozen_array


@dataclass(frozen=True, slots=True, eq=False)
class Pose(Value):
    """Pose X_ab of frame b in frame a: p_a = rotation @ p_b + translation.

    Parameters
    ----------
    rotation : array_like, shape (3, 3), optional
        R_ab, orthonormal within 1e-6; a matrix written with few digits is projected onto the nearest rotation. The
        default is the identity.
    translation : array_like, shape (3,), default (0, 0, 0)
        Origin of b in a, m.

    Raises
    ------
    InputError
        If the rotation is not orthonormal and right-handed, or a number is not finite.

    Examples
    --------
    >>> Pose(None, (0.0, 0.0, 1.0)).apply([1.0, 0.0, 0.0]).tolist()
    [1.0, 0.0, 1.0]
    """

    rotation: Array
    translation: Array

    def __init__(self, rotation: ArrayLike | None = None, translation: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        R = frozen_array(np.eye(3) if rotation is None else rotation, (3, 3), "rotation")
        nearest = nearest_rotation(R)
        object.__setattr__(self, "rotation", R if nearest is R else frozen_array(nearest, (3, 3), "rotation"))
        object.__setattr__(self, "translation", frozen_array(translation, (3,), "translation"))

    def __matmul__(self, other: Pose) -> Pose:
        """Return X_ac = X_ab @ X_bc. If one pose is the identity, the result is the other pose without rounding."""
        if self.is_identity or other.is_identity:
            return other if self.is_identity else self
        return Pose(tidy(self.rotation @ other.rotation), self.apply(other.translation))

    def apply(self, point: Array) -> Array:
        """Return the coordinates in a of a point given in b.

        Parameters
        ----------
        point : numpy.ndarray, shape (3,)
            Coordinates in b, m.

        Returns
        -------
        numpy.ndarray, shape (3,)
            Coordinates in a, m.
        """
        return np.asarray(self.rotation @ point + self.translation)

    def inverse(self) -> Pose:
        """Return X_ba.

        Returns
        -------
        Pose
            Pose of frame a in frame b.
        """
        return Pose(self.rotation.T, -(self.rotation.T @ self.translation) + 0.0)

    @property
    def matrix(self) -> Array:
        """Homogeneous matrix (4, 4)."""
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = self.rotation, self.translation
        return X

    @property
    def is_identity(self) -> bool:
        """Whether a and b coincide exactly."""
        return bool((self.rotation == np.eye(3)).all() and not self.translation.any())


IDENTITY = Pose()
