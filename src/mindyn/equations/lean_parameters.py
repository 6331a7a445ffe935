"""Link constants for the lean recursion: second moments with Sigma_33 = 0, last frames turned, a length as the unit.

The tensor diag(1, 1, 0) about a revolute axis is the same for every joint angle, so any multiple of it may move from a
link's inertia tensor to the link that carries it. In the second moments Sigma = tr(J)/2 E - J this is Sigma_33.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import atan2

import numpy as np

from mindyn.algebra.inertia import moved_phi, tensor_from_entries
from mindyn.algebra.poses import Pose
from mindyn.algebra.rotations import NOISE, rot_z
from mindyn.algebra.values import Array
from mindyn.robots.joint_frames import Step, WorkingFrames

PRODUCT_ROUNDING = 64 * float(np.finfo(float).eps)

SPIN = np.diag([1.0, 1.0, 0.0])


@dataclass(frozen=True, slots=True)
class LeanLink:
    """Constants of a link in its working frame: mass, first moment (3,), second moments Sigma (3, 3)."""

    mass: float
    moment: Array
    second: Array


def lean_links(phis: Array, steps: tuple[Step, ...]) -> tuple[LeanLink, ...]:
    """Links of parameters (n, 10) that give the same torques, with Sigma_33 = 0 for every revolute joint."""
    tensors = [tensor_from_entries(phi[4:]) for phi in phis]
    sizes = [float(np.abs(J).max()) for J in tensors]  # of what is summed in each link, and of its rounding
    for i in reversed(range(len(steps))):
        if steps[i].kind == "revolute":
            excess = (tensors[i][2, 2] - tensors[i][0, 0] - tensors[i][1, 1]) / 2
            tensors[i] = tensors[i] + excess * SPIN
            _move_to_revolute(tensors, sizes, steps, i, -excess * SPIN)
    return tuple(_link(phi, J, size) for phi, J, size in zip(phis, tensors, sizes, strict=True))


def _move_to_revolute(tensors: list[Array], sizes: list[float], steps: tuple[Step, ...], i: int, tensor: Array) -> None:
    """Add a tensor without mass to the nearest revolute link inwards; translations do not change it."""
    while True:
        tensor = steps[i].rotation @ tensor @ steps[i].rotation.T
        i = steps[i].parent
        if i < 0:
            return
        if steps[i].kind == "revolute":
            tensors[i] = tensors[i] + tensor
            sizes[i] = max(sizes[i], float(np.abs(tensor).max()))
            return


def _link(phi: Array, J: Array, size: float) -> LeanLink:
    second = J.trace() / 2 * np.eye(3) - J
    return LeanLink(float(phi[0]), phi[1:4], _without_noise(second, size))


def _without_noise(values: Array, size: float) -> Array:
    return np.where(np.abs(values) <= PRODUCT_ROUNDING * size, 0.0, values)


def with_last_frames_turned(frames: WorkingFrames, phis: Array) -> tuple[WorkingFrames, Array]:
    """Frames and parameters with last revolute frames turned until their first moment lies on x, where that leaves
    no more numbers than before.
    """
    parents = {step.parent for step in frames.steps}
    steps, turned = list(frames.steps), phis.copy()
    for i, step in enumerate(frames.steps):
        if i in parents or step.kind == "prismatic" or phis[i, 1] == 0 or phis[i, 2] == 0:
            continue
        angle = atan2(phis[i, 2], phis[i, 1])
        turn = Pose(rot_z(np.cos(angle), np.sin(angle)))
        phi = moved_phi(turn.inverse(), phis[i])
        phi[2] = 0.0
        # A turn mixes first moments among themselves, and tensor entries.
        for kind in (slice(1, 4), slice(4, 10)):
            phi[kind] = _without_noise(phi[kind], float(np.abs(phi[kind]).max()))
        if np.count_nonzero(phi) <= np.count_nonzero(phis[i]):
            turned[i] = phi
            steps[i] = replace(step, offset=step.offset + angle, link=turn.inverse() @ step.link)
    return replace(frames, steps=tuple(steps)), turned


def with_length_unit(frames: WorkingFrames, phis: Array) -> tuple[WorkingFrames, Array, float]:
    """Frames and parameters of a robot without slides in a unit of length L, of mass 1/L^2: torques keep their numbers.

    The third value is L in m; forces count in N / L.

    L is the length that occurs most often, so that products with it vanish.
    """
    lengths = np.array([abs(float(x)) for step in frames.steps for x in step.translation if x != 0])
    if not lengths.size or any(step.kind == "prismatic" for step in frames.steps):
        return frames, phis, 1.0
    # Equal lengths may differ by rounding; one unit in the last digits must not make two of them.
    unit = Counter(float(f"{x:.12g}") for x in lengths).most_common(1)[0][0]
    steps = tuple(replace(step, translation=_in_unit(step.translation, unit)) for step in frames.steps)
    scale = np.array([unit**2, *[unit] * 3, *[1.0] * 6])
    return replace(frames, gravity=frames.gravity / unit, steps=steps), phis * scale, unit


def _in_unit(translation: Array, unit: float) -> Array:
    scaled = translation / unit
    return np.where(np.abs(np.abs(scaled) - 1) < NOISE * 10, np.sign(scaled), scaled)
