"""A two-legged robot as URDF, and its motions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import mindyn
from mindyn.robots.floating_base import to_free_flyer
from mindyn.robots.robot import Robot

RATE_HZ = 100.0
FEET = ("left_foot", "right_foot")


def biped_urdf() -> str:
    """Return a trunk with two legs of a hip and a knee, and a frame at each foot."""
    legs = "".join(_leg(side, y) for side, y in (("left", 0.1), ("right", -0.12)))
    trunk = _link("trunk", "0.02 -0.01 0.05", 4.0, (0.03, 0.001, 0.002, 0.02, -0.001, 0.025))
    return f'<robot name="biped">{trunk}{legs}</robot>'


def _link(name: str, centre: str, mass: float, inertia: tuple[float, ...]) -> str:
    entries = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia, strict=True)
    tensor = " ".join(f'{key}="{value}"' for key, value in entries)
    return (
        f'<link name="{name}"><inertial><origin xyz="{centre}"/><mass value="{mass}"/><inertia {tensor}/></inertial>'
        "</link>"
    )


def _leg(side: str, y: float) -> str:
    limit = '<limit lower="-2" upper="2" effort="30" velocity="10"/>'
    return (
        _link(f"{side}_thigh", "0.01 0.02 -0.1", 0.8, (0.004, 0.0001, 0.0002, 0.005, 0.0, 0.001))
        + _link(f"{side}_shank", "0 0.005 -0.09", 0.3, (0.002, 0.0, 0.0, 0.002, 0.0001, 0.0004))
        + f'<link name="{side}_foot"/><joint name="{side}_hip" type="revolute"><origin xyz="0.01 {y} -0.03" '
        f'rpy="0.1 0 0.2"/><parent link="trunk"/><child link="{side}_thigh"/><axis xyz="1 0 0"/>{limit}</joint>'
        f'<joint name="{side}_knee" type="revolute"><origin xyz="0 0.05 -0.2"/><parent link="{side}_thigh"/>'
        f'<child link="{side}_shank"/><axis xyz="0 1 0"/>{limit}</joint>'
        f'<joint name="{side}_ankle" type="fixed"><origin xyz="0 0 -0.2"/><parent link="{side}_shank"/>'
        f'<child link="{side}_foot"/></joint>'
    )


def load_biped(folder: Path) -> Robot:
    (folder / "biped.urdf").write_text(biped_urdf())
    return mindyn.load_robot(folder / "biped.urdf", root_joint="floating", snap=False)


def random_free_motion(robot: Robot, count: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return positions with quaternions, body twists and their derivatives along a smooth random motion."""
    rng, t = np.random.default_rng(seed), np.arange(count)[:, None, None] / RATE_HZ
    shape = (3, robot.joint_count)
    w, phase, size = rng.uniform(2, 12, shape), rng.uniform(0, 6, shape), rng.uniform(0.1, 0.3, shape)
    return to_free_flyer(robot, *((size * w**k * np.sin(w * t + phase + k * np.pi / 2)).sum(axis=1) for k in range(3)))
