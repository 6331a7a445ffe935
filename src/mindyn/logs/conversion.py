"""From logged values to SI values at the joints: q = A_q raw + offset, qd = A_v raw, tau = A_tau raw.

The gear matrix that logs were converted by also says how the drives of a robot that states none are coupled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mindyn.algebra.values import Array, frozen_array
from mindyn.equations.loop_closure import primary_gears
from mindyn.logs.errors import FaultCollector, LogError
from mindyn.logs.metadata import LogMetadata, PerJoint
from mindyn.logs.units import is_current, unit_factor
from mindyn.robots.drive_matrices import MAX_GEAR_CONDITION, gear_condition, gear_matrix
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True, eq=False)
class Conversion:
    """Matrices from logged columns to joint-side SI values.

    matrices  for each signal, A (n, n): G^-1 diag(s) for motion at the motor, G^T diag(s) for torque at the motor,
              diag(s) at the joint; s holds the units' factors and the current gains
    offset    (n,) added to the position, rad or m
    """

    matrices: Mapping[str, Array]
    offset: Array

    def apply(self, signal: str, raw: Array) -> Array:
        """(rows, n) joint-side SI values of logged ones."""
        A = self.matrices[signal]
        diagonal = np.diag(A)
        # A diagonal product is exact per joint and keeps one joint's NaN out of the others.
        values = raw * diagonal if np.array_equal(A, np.diag(diagonal)) else raw @ A.T
        return values + self.offset if signal == "position" else values


def create_conversion(
    statement: LogMetadata, robot: Robot, signals: tuple[str, ...], faults: FaultCollector
) -> Conversion:
    """The conversion that the statement asks for; gears from the statement, else from the robot's drives.

    faults  takes what is missing or wrong; the conversion is of use where it stays empty
    """
    matrices, unsided = {}, False
    for signal in signals:
        scales = faults.of(partial(_unit_scales, signal, statement, robot))
        side = None if unsided else faults.of(partial(statement.side_of, signal))
        unsided = statement.side is None  # said once
        G = faults.of(lambda: motor_gears(statement, robot)) if side == "motor" else np.eye(len(robot.primary_names))
        if scales is not None and G is not None:
            S = np.diag(scales)
            solved = G.T @ S if signal == "torque" else np.linalg.solve(G, S)
            matrices[signal] = np.asarray(S if side == "joint" else solved, dtype=np.float64)
    gains = faults.of(lambda: _drive_gains(statement, robot))
    if "torque" in matrices and gains is not None:
        matrices["torque"] = gains[:, None] * matrices["torque"]
    offset = faults.of(lambda: _position_offset(statement, robot))
    return Conversion(matrices, np.zeros(0) if offset is None else offset)


def _drive_gains(statement: LogMetadata, robot: Robot) -> Array | None:
    return None if statement.drive_gains is None else array_per_joint(statement.drive_gains, robot, "drive_gains")


def motor_gears(statement: LogMetadata, robot: Robot) -> Array:
    """G (n, n) of q_motor = G q_joint; row j is the motor of joint j."""
    n = len(robot.primary_names)
    if statement.gears is not None:
        is_matrix = any(isinstance(row, Sequence) for row in statement.gears)
        stated = frozen_array(statement.gears, (n, n) if is_matrix else (n,), "gears")
        G = stated if is_matrix else np.diag(stated)
    else:
        G = _drive_gears(robot)
    if gear_condition(G) > MAX_GEAR_CONDITION:
        raise LogError(
            f"the gear matrix is singular: joint positions do not follow from motor positions: {G.tolist()}",
            hint="check `gears` of the log, or ratios and couplings of the robot's drives",
        )
    return G


def _drive_gears(robot: Robot) -> Array:
    driven = [drive.joint for drive in robot.drives]
    missing = [name for name in robot.primary_names if name not in driven]
    if missing:
        raise LogError(
            f"the log is motor side, but the robot states no gears for: {', '.join(missing)}",
            hint="state gears = [n ratios] or an n x n matrix in the sidecar file, or drives in the robot file",
        )
    return primary_gears(robot)


def _unit_scales(signal: str, statement: LogMetadata, robot: Robot) -> Array:
    joints = robot.primary_joints
    units = [statement.unit(signal, joint.name) for joint in joints]
    scales = [unit_factor(signal, unit, j.kind, j.name) for unit, j in zip(units, joints, strict=True)]
    if signal != "torque" or not any(map(is_current, units)):
        return np.array(scales)
    if statement.current_gains is None:
        raise LogError(
            f"the torque is a current ({units[0]}), but no gains are stated",
            hint="state current_gains in N m/A (N/A) for each joint, at the side of the torque",
        )
    gains = array_per_joint(statement.current_gains, robot, "current_gains")
    return np.array([s * (g if is_current(u) else 1.0) for s, g, u in zip(scales, gains, units, strict=True)])


def _position_offset(statement: LogMetadata, robot: Robot) -> Array:
    if statement.position_offset is None:
        return np.zeros(len(robot.primary_names))
    units = [unit_factor("position", statement.unit("position", j.name), j.kind, j.name) for j in robot.primary_joints]
    return np.asarray(array_per_joint(statement.position_offset, robot, "position_offset") * np.array(units))


def array_per_joint(stated: PerJoint, robot: Robot, what: str) -> Array:
    """(n,) values of a list in the robot's order or of a table by joint, which must name every joint."""
    if isinstance(stated, Mapping):
        if sorted(stated) != sorted(robot.primary_names):
            raise LogError(
                f"{what} names {', '.join(stated)}; the robot has the joints {', '.join(robot.primary_names)}"
            )
        stated = [stated[name] for name in robot.primary_names]
    return frozen_array(stated, (len(robot.primary_names),), what)


def add_logged_gears(robot: Robot, statements: Sequence[LogMetadata]) -> tuple[Robot, list[str]]:
    """The robot with drives that are coupled as the logs' gear matrices say, and a note; else the robot as it is.

    Rotors and motor friction act on the motors' speeds, which are mixtures of joint speeds where G is not diagonal.
    Of a diagonal G nothing is taken: scaled by a ratio, rotor inertia and friction are the same columns.
    """
    stated = [motor_gears(one, robot) for one in statements if one.gears is not None]
    coupled = [G for G in stated if not np.array_equal(G, np.diag(np.diag(G)))]
    if not coupled or robot.has_dependents:
        return robot, []
    if len(stated) < len(statements) or not all(np.array_equal(G, stated[0]) for G in stated):
        return robot, [
            "the logs state different gears: none of them couples friction and rotors; give the robot drives"
        ]
    G = stated[0]
    if robot.drives:
        same = len(robot.drives) == len(G) and np.allclose(_gears_by_joint(robot), G)
        return robot, [] if same else ["the log's gears are not those of the robot's drives; both were used as stated"]
    if not np.diag(G).all():
        return robot, [
            "the log's gears have a motor that its own joint does not turn: friction and rotors stay uncoupled"
        ]
    drives = tuple(_create_drive(name, j, G, robot.joint_names) for j, name in enumerate(robot.joint_names))
    said = ", ".join(f"{d.joint} with {', '.join(d.coupling)}" for d in drives if d.coupling)
    return replace(robot, drives=drives), [f"friction and rotors are coupled as the log's gears say: {said}"]


def _create_drive(name: str, j: int, G: Array, names: Sequence[str]) -> Drive:
    coupling = {other: float(G[j, k]) for k, other in enumerate(names) if k != j and G[j, k]}
    return Drive(name, float(G[j, j]), coupling, side="motor")


def _gears_by_joint(robot: Robot) -> Array:
    driven = [drive.joint for drive in robot.drives]
    return gear_matrix(robot)[[driven.index(name) for name in robot.joint_names]]
