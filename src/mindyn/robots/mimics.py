"""Joints that mimic others: q = A s + b of the joints s that mimic none, chains of mimics multiplied out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mindyn.algebra.values import Array
from mindyn.robots.parts import Mimic

if TYPE_CHECKING:
    from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class MimicMap:
    """q = matrix s + offset: free (f,) the joints s that mimic none, matrix (n, f), offset (n,)."""

    free: tuple[int, ...]
    matrix: Array
    offset: Array

    def fill(self, q: Array) -> Array:
        """Positions (..., n) with those of mimic joints as the others ask."""
        return np.asarray(q[..., list(self.free)] @ self.matrix.T + self.offset)


def mimic_map(robot: Robot) -> MimicMap:
    """The map of a robot's mimic joints: the identity where it has none."""
    n = robot.joint_count
    following = {mimic.joint: mimic for mimic in robot.mimics}
    roots = {name: find_mimic_root(name, following) for name in robot.joint_names}
    free = tuple(i for i, name in enumerate(robot.joint_names) if roots[name][0] == name)
    place = {robot.joint_names[i]: k for k, i in enumerate(free)}
    matrix, offset = np.zeros((n, len(free))), np.zeros(n)
    for i, name in enumerate(robot.joint_names):
        of, multiplier, constant = roots[name]
        matrix[i, place[of]], offset[i] = multiplier, constant
    return MimicMap(free, matrix, offset)


def find_mimic_root(joint: str, following: Mapping[str, Mimic]) -> tuple[str, float, float]:
    """The joint at the end of a chain of mimics, with multiplier and offset: q[joint] = multiplier q[of] + offset.

    following  the mimics by their joints
    """
    multiplier, offset = 1.0, 0.0
    while joint in following:
        mimic = following[joint]
        joint, multiplier, offset = mimic.of, multiplier * mimic.multiplier, multiplier * mimic.offset + offset
    return joint, multiplier, offset


def hold_followers(mimics: Sequence[Mimic], held: Mapping[str, float]) -> tuple[dict[str, float], list[Mimic]]:
    """Positions of the joints that mimic a held one, directly or by a chain; and the mimics that still move.

    held  joints that do not move and their positions: 0 of a fixed joint, which has none
    """
    stopped: dict[str, float] = {}
    moving = []
    following = {mimic.joint: mimic for mimic in mimics if mimic.joint not in held}
    for mimic in following.values():
        of, multiplier, offset = find_mimic_root(mimic.joint, following)
        if of in held:
            stopped[mimic.joint] = multiplier * held[of] + offset
        else:
            moving.append(mimic)
    return stopped, moving


def find_mimic_cycle(mimics: Sequence[Mimic]) -> list[str]:
    """Names of joints that mimic each other in a circle, the first one again last; empty where there is none."""
    following = {mimic.joint: mimic.of for mimic in mimics}
    for start in following:
        way = [start]
        while way[-1] in following:
            way.append(following[way[-1]])
            if way[-1] in way[:-1]:
                return way[way.index(way[-1]) :]
    return []
