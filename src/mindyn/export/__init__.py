"""Writing robots and what is known of them: TOML, URDF, MJCF, MAT, ROS 2 packages, Pinocchio models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.export.mujoco_sysid import SysidStart, sysid_start

__all__ = [  # noqa: RUF022 - in the order of the work
    "sysid_start",
    "SysidStart",
]

__getattr__ = named_lazily(
    __name__,
    {
        "mujoco_sysid": ("sysid_start", "SysidStart"),
    },
)
