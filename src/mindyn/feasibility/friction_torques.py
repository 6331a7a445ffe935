"""Friction of an estimate beyond what drives state, as extra torques of a robot.

Friction k acts on the speed u = w . qd (w: what the motor turns with the joints, joint side) with a direction s, the
sign of u or what the fit took for it, and its torque on joint j is value * w_j * law(u, s, load)
(`mindyn.robots.friction_laws`); the load is the one that the gear has of all joints, l . load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

import numpy as np

from mindyn.algebra.values import Array
from mindyn.parameters.parameter import Kind, friction_label, joint_side_parameters
from mindyn.regression.friction import Friction
from mindyn.robots.drive_matrices import friction_matrix, load_shares
from mindyn.robots.friction_laws import FRICTION_LAWS
from mindyn.robots.parts import ExtraTorque
from mindyn.robots.robot import Robot


def friction_torques(
    robot: Robot, friction: Friction, values: Mapping[tuple[Kind, str, str], float], *, fitted: bool
) -> list[ExtraTorque]:
    """Friction shapes and joint-side friction; with `fitted` Coulomb friction too, turning over as in the fit.

    values  of the fit's parameters by their place
    """
    width = friction.width if fitted and friction.direction == "tanh" else 0.0
    made: list[ExtraTorque] = []
    taken = {one.name for one in robot.extras}
    shares = load_shares(robot) if friction.needs_load else None
    for source, wanted, shape, weights, value in _terms(robot, friction, values, coulomb=width > 0):
        for j in np.flatnonzero(weights) if value else ():
            joint = robot.joint_names[j]
            u = _sum(weights, int(j), "qd")
            load = "load" if shares is None or source < 0 else _sum(shares[:, source], int(j), "load")
            formula = FRICTION_LAWS[shape].text(u, f"tanh({u} / {width!r})" if width else f"sign({u})", load)
            name = wanted if wanted.endswith(joint) else f"{wanted}_on_{joint}"
            name = next(one for k in count(1) if (one := name if k == 1 else f"{name}_{k}") not in taken)
            taken.add(name)
            made.append(ExtraTorque(name, joint, formula, float(value * weights[j])))
    return made


def _terms(
    robot: Robot, friction: Friction, values: Mapping[tuple[Kind, str, str], float], *, coulomb: bool
) -> Iterator[tuple[int, str, str, Array, float]]:
    """Number of the drive (-1: none), name, shape, w (n,) and value of every friction."""
    for k, (drive, row) in enumerate(zip(robot.drives, friction_matrix(robot), strict=True)):
        joint, scale = drive.joint, drive.ratio if drive.side == "motor" else 1.0
        if coulomb:
            value = abs(scale) * values.get(("coulomb", joint, "fc"), 0.0)
            yield k, f"coulomb_{joint}", "direction", row / scale, value
        for shape in friction.shapes:
            yield k, f"{shape}_{joint}", shape, row / scale, values.get(("friction", joint, friction_label(shape)), 0.0)
    for joint in friction.joint_side:
        unit = np.eye(robot.joint_count)[robot.joint_index(joint)]
        for one, shape in zip(joint_side_parameters(robot, joint), ("speed", "direction"), strict=True):
            yield -1, f"{one.name}_{joint}", shape, unit, values.get(one.place, 0.0)


def _sum(weights: Array, joint: int, variable: str) -> str:
    """The weighted sum of a variable over joints as a formula of one of them: its own, or a sum by number."""
    if np.count_nonzero(weights) == 1 and weights[joint]:
        return variable if weights[joint] == 1.0 else f"({float(weights[joint])!r} * {variable})"
    return "(" + " + ".join(f"{float(w)!r} * {variable}{j + 1}" for j, w in enumerate(weights) if w) + ")"
