"""mindyn, minimal dynamics: the smallest model that explains a robot arm, and the fastest code that evaluates it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindyn.equations.catalogue import equation
    from mindyn.errors import MindynError
    from mindyn.export.mjcf_writer import write_mjcf
    from mindyn.export.toml_writer import write_toml
    from mindyn.export.urdf_writer import write_urdf
    from mindyn.kernels.model import Model, compile_model
    from mindyn.robots.loading import bundled_robots, load_robot
    from mindyn.robots.parts import Drive, Frame, Joint, Limits, Link, Loop, Shape
    from mindyn.robots.robot import Robot

__version__ = "0.1.0"

_HOMES = {
    "mindyn.equations.catalogue": ("equation",),
    "mindyn.errors": ("MindynError",),
    "mindyn.export.mjcf_writer": ("write_mjcf",),
    "mindyn.export.toml_writer": ("write_toml",),
    "mindyn.export.urdf_writer": ("write_urdf",),
    "mindyn.kernels.model": ("Model", "compile_model"),
    "mindyn.robots.loading": ("bundled_robots", "load_robot"),
    "mindyn.robots.parts": ("Drive", "Frame", "Joint", "Limits", "Link", "Loop", "Shape"),
    "mindyn.robots.robot": ("Robot",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - in the order of the work
    "load_robot",
    "bundled_robots",
    "Robot",
    "Link",
    "Joint",
    "Limits",
    "Frame",
    "Shape",
    "Drive",
    "Loop",
    "equation",
    "compile_model",
    "Model",
    "write_toml",
    "write_urdf",
    "write_mjcf",
    "MindynError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import mindyn` costs nothing heavy."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'mindyn' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
