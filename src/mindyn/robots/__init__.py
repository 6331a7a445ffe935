"""Robots as frozen values: links, joints, drives, loops; readers; joint frames; bundled robots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.robots.description import Description
    from mindyn.robots.friction_laws import FrictionLaw, asymmetric_coulomb, asymmetric_viscous, stribeck
    from mindyn.robots.loading import ROBOT_FORMATS
    from mindyn.robots.meshes import Meshes, read_meshes
    from mindyn.robots.parts import Frame, Limits, Loop, Mimic, Shape

__all__ = [  # noqa: RUF022 - in the order of the work
    "Frame",
    "Shape",
    "Limits",
    "Loop",
    "Mimic",
    "FrictionLaw",
    "stribeck",
    "asymmetric_coulomb",
    "asymmetric_viscous",
    "Meshes",
    "read_meshes",
    "Description",
    "ROBOT_FORMATS",
]

__getattr__ = named_lazily(
    __name__,
    {
        "parts": ("Frame", "Shape", "Limits", "Loop", "Mimic"),
        "friction_laws": ("FrictionLaw", "stribeck", "asymmetric_coulomb", "asymmetric_viscous"),
        "meshes": ("Meshes", "read_meshes"),
        "description": ("Description",),
        "loading": ("ROBOT_FORMATS",),
    },
)
