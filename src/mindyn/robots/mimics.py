"""Mimic joints: q = A s + b, where s are the positions of the free joints.

A joint may mimic a joint that mimics another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.robots.parts import Mimic

if TYPE_CHECKING:
    from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class MimicMap:
    """Map q = matrix s + offset: free (f,) indices of the joints s that mimic no other, matrix (n, f), offset (n,)."""

    free: tuple[int, ...]
    matrix: Array
    offset: Array

    def fill(self, q: Array) -> Array:
        """Return positions (..., n) with those of the mimic joints computed from the free joints."""
        return np.asarray(q[..., list(self.free)] @ self.matrix.T + self.offset)


def mimic_map(robot: Robot) -> MimicMap:
    """Return the map of a robot's mimic joints; the map is the identity if there are none."""
    n = len(robot.joints)
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
    """Return the free joint `of` that a chain of mimics follows, with q[joint] = multiplier q[of] + offset.

    following  mimics by their joints
    """
    multiplier, offset = 1.0, 0.0
    while joint in following:
        mimic = following[joint]
        joint, multiplier, offset = mimic.of, multiplier * mimic.multiplier, multiplier * mimic.offset + offset
    return joint, multiplier, offset


def hold_followers(mimics: Sequence[Mimic], held: Mapping[str, float]) -> tuple[dict[str, float], list[Mimic]]:
    """Return the positions of joints that mimic a held joint, also through a chain, and the mimics that still move.

    held  joints that do not move, and their positions: 0 for a fixed joint
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
    """Return the names of joints that mimic each other in a cycle, with the first name repeated at the end; empty if
    there is no cycle.
    """
    following = {mimic.joint: mimic.of for mimic in mimics}
    for start in following:
        path = [start]
        while path[-1] in following:
            path.append(following[path[-1]])
            if path[-1] in path[:-1]:
                return path[path.index(path[-1]) :]
    return []
