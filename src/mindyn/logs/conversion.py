"""Convert logged values to SI values at the joints: q = A_q raw + offset, qd = A_v raw, tau = A_tau raw.

If the robot has no drives, the gear matrix of a log also gives the coupling of its drives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mindyn.foundation.algebra.values import Array, frozen_array
from mindyn.foundation.errors import Code
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import UNKNOWN, LogMetadata, PerJoint, PerJointGain
from mindyn.logs.servo_presets import TICK, preset_of, register_factor
from mindyn.logs.units import CURRENT_UNITS, unit_factor
from mindyn.robots.drive_matrices import MAX_GEAR_CONDITION, gear_condition, gear_matrix
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True, eq=False)
class Conversion:
    """Matrices from logged columns to joint-side SI values.

    matrices  for each signal, A (n, n): G^-1 diag(s) for motion at the motor, G^T diag(s) for torque at the motor,
              diag(s) at the joint; s holds the units' factors and the current gains
    offset    (n,) added to the position, its target and the motor position, rad or m
    """

    matrices: Mapping[str, Array]
    offset: Array

    def apply(self, signal: str, raw: Array) -> Array:
        """Return joint-side SI values (rows, n) of logged values."""
        A = self.matrices[signal]
        diagonal = np.diag(A)
        # A diagonal product is exact for each joint and keeps a joint's NaN out of the other joints.
        values = raw * diagonal if np.array_equal(A, np.diag(diagonal)) else raw @ A.T
        return values + self.offset if signal in ("position", "target", "motor_position") else values


def create_conversion(metadata: LogMetadata, robot: Robot, signals: Sequence[str]) -> Conversion:
    """Create the conversion. Gears come from the metadata or, if the metadata have none, from the robot's drives."""
    matrices = {}
    for signal in signals:
        A = np.diag(_unit_scales(signal, metadata, robot))
        if metadata.side_of(signal) == "motor":
            G = motor_gears(metadata, robot)
            A = np.asarray(G.T @ A if signal == "torque" else np.linalg.solve(G, A), dtype=np.float64)
        matrices[signal] = A
    return Conversion(matrices, _position_offset(metadata, robot))


def motor_gears(metadata: LogMetadata, robot: Robot) -> Array:
    """Return G (n, n) of q_motor = G q_joint; row j belongs to the motor of joint j."""
    n = robot.joint_count
    if metadata.gears is not None:
        is_matrix = any(isinstance(row, Sequence) for row in metadata.gears)
        gears = frozen_array(metadata.gears, (n, n) if is_matrix else (n,), "gears")
        G = gears if is_matrix else np.diag(gears)
    else:
        G = _drive_gears(robot)
    if gear_condition(G) > MAX_GEAR_CONDITION:
        raise LogError(
            f"the gear matrix is singular and does not determine the joint positions: {G.tolist()}",
            hint="check `gears` of the log, or ratios and couplings of the robot's drives",
            code=Code.INVALID_VALUE,
            subject="gears",
        )
    return G


def _drive_gears(robot: Robot) -> Array:
    from mindyn.equations.loop_closure import primary_gears

    driven = [drive.joint for drive in robot.drives]
    missing = [name for name in robot.primary_names if name not in driven]
    if missing:
        raise LogError(
            f"the log has values at the motor side, but the robot has no gears for: {', '.join(missing)}",
            hint="set gears = [n ratios] or an n x n matrix in the sidecar file, or add drives to the robot file",
            code=Code.MISSING_VALUE,
            subject="gears",
        )
    return primary_gears(robot)


def _unit_scales(signal: str, metadata: LogMetadata, robot: Robot) -> Array:
    joints = robot.primary_joints
    units = [metadata.unit(signal, joint.name) for joint in joints]
    scales = []
    for unit, joint in zip(units, joints, strict=True):
        factor = register_factor(signal, unit, metadata.servo, joint.name)
        scales.append(unit_factor(signal, unit, joint.kind, joint.name) if factor is None else factor)
    if signal != "torque" or not set(units) & set(CURRENT_UNITS):
        return np.array(scales)
    if metadata.current_gains is None:
        raise LogError(
            f"the torque is a current ({units[0]}), but current_gains is missing",
            hint='set current_gains in N m/A (N/A) for each joint, at the side of the torque, or = "unknown"',
            code=Code.MISSING_VALUE,
            subject="current_gains",
        )
    gains = gains_per_joint(metadata.current_gains, robot.primary_names, "current_gains")
    if np.isnan(gains).any() and metadata.side_of("torque") == "motor":
        G = motor_gears(metadata, robot)
        if not np.array_equal(G, np.diag(np.diag(G))):
            raise LogError(
                "gains of currents at motors that move several joints cannot be estimated",
                hint="give current_gains in N m/A for each motor",
                code=Code.UNSUPPORTED,
                subject="current_gains",
            )
    gains = np.where(np.isnan(gains), 1.0, gains)
    return np.array([s * (g if u in CURRENT_UNITS else 1.0) for s, g, u in zip(scales, gains, units, strict=True)])


def _position_offset(metadata: LogMetadata, robot: Robot) -> Array:
    if metadata.position_offset is None:
        return _middle_of_registers(metadata, robot)
    offset = array_per_joint(metadata.position_offset, robot.primary_names, "position_offset")
    return np.asarray(offset * _unit_scales("position", metadata, robot))


def _middle_of_registers(metadata: LogMetadata, robot: Robot) -> Array:
    """Return the offset (n,) that makes the middle of position registers zero. The offset is zero for other units."""
    offset = np.zeros(robot.joint_count)
    for j, joint in enumerate(robot.primary_joints):
        preset = preset_of(metadata.servo, joint.name)
        if preset is not None and metadata.unit("position", joint.name) == TICK:
            offset[j] = -preset.zero_tick * 2 * np.pi / preset.ticks_per_turn
    return offset


def array_per_joint(values: PerJoint, joints: Sequence[str], what: str) -> Array:
    """Return values (n,) from a list in the robot's order, or from a table that names every joint."""
    if isinstance(values, Mapping):
        if sorted(values) != sorted(joints):
            missing = [name for name in joints if name not in values]
            unknown = [name for name in values if name not in joints]
            parts = [f"no value for {', '.join(missing)}"] if missing else []
            parts += [f"the robot has no joint {', '.join(unknown)}"] if unknown else []
            hint = f"give one value for each of {', '.join(joints)}"
            raise LogError(f"{what}: {'; '.join(parts)}", hint=hint, code=Code.DISAGREEMENT, subject=what)
        values = [values[name] for name in joints]
    return frozen_array(values, (len(joints),), what)


def gains_per_joint(values: PerJointGain, joints: Sequence[str], what: str) -> Array:
    """Return gains (n,) like `array_per_joint`, with NaN for unknown gains."""
    if isinstance(values, str):
        return np.full(len(joints), np.nan)
    known, unknown = (_replace_unknown(values, by) for by in (0.0, 1.0))
    gains = array_per_joint(known, joints, what)
    return np.where(gains == array_per_joint(unknown, joints, what), gains, np.nan)


def _replace_unknown(values: PerJointGain, by: float) -> PerJoint:
    if isinstance(values, Mapping):
        return {name: by if value == UNKNOWN else float(value) for name, value in values.items()}
    return [by if value == UNKNOWN else float(value) for value in values]


def add_logged_gears(robot: Robot, metadata: Sequence[LogMetadata]) -> tuple[Robot, list[str]]:
    """Add drives to the robot that are coupled as the logs' gear matrices say, and return notes.

    Rotors and motor friction act on the motor speeds, which combine joint speeds if G is not diagonal. A diagonal G
    adds nothing, because the columns of rotor inertia and friction are only scaled by the ratio.
    """
    gears = [motor_gears(log, robot) for log in metadata if log.gears is not None]
    coupled = [G for G in gears if not np.array_equal(G, np.diag(np.diag(G)))]
    if not coupled or robot.has_dependents:
        return robot, []
    G, note = gears[0], ""
    if len(gears) < len(metadata) or not all(np.array_equal(other, G) for other in gears):
        note = "the logs have different gears: none of them couples friction and rotors; add drives to the robot"
    elif robot.drives and (len(robot.drives) != len(G) or not np.allclose(_gears_by_joint(robot), G)):
        note = "the log's gears differ from those of the robot's drives; each is used where it is given"
    elif not robot.drives and not np.diag(G).all():
        note = "the log's gears have a motor that does not move its own joint: friction and rotors stay uncoupled"
    if note or robot.drives:
        return robot, [note] if note else []
    drives = tuple(_create_drive(name, j, G, robot.joint_names) for j, name in enumerate(robot.joint_names))
    pairs = ", ".join(f"{d.joint} with {', '.join(d.coupling)}" for d in drives if d.coupling)
    return replace(robot, drives=drives), [f"friction and rotors are coupled by the log's gears: {pairs}"]


def _create_drive(name: str, j: int, G: Array, names: Sequence[str]) -> Drive:
    coupling = {other: float(G[j, k]) for k, other in enumerate(names) if k != j and G[j, k]}
    return Drive(name, float(G[j, j]), coupling, side="motor")


def _gears_by_joint(robot: Robot) -> Array:
    driven = [drive.joint for drive in robot.drives]
    return gear_matrix(robot)[[driven.index(name) for name in robot.joint_names]]
