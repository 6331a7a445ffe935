"""Rotations, poses and the forms of a rigid body's inertia, in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.algebra.poses import Pose

__all__ = [
    "Pose",
]

__getattr__ = named_lazily(
    __name__,
    {
        "poses": ("Pose",),
    },
)
