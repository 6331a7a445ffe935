"""Simulate the targets of servo logs in MuJoCo, with an MJCF file as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, ExportError, list_names
from mindyn.identification.servos.joint_tables import ServoRows, build_servo_rows
from mindyn.logs.log import Log
from mindyn.robots.mjcf_source import compile_for_dynamics, import_mujoco
from mindyn.robots.robot import Robot


def simulate_own_servos(robot: Robot, logs: Sequence[Log]) -> Array | None:
    """Return the positions (N, n) that the servos of the robot's own MJCF file give, infinite if it diverges.

    None if the file is not an MJCF file, or lacks a position servo at a moving joint.
    """
    path = Path(robot.file)
    if path.suffix.lower() != ".xml" or not path.is_file():
        return None
    try:
        return simulate_mjcf(path, robot, logs) if _has_servos(path, robot) else None
    except ExportError as error:
        if error.code is not Code.NOT_CONVERGED:
            raise
        rows = build_servo_rows(robot, logs)
        return np.full_like(rows.q, np.inf)


def _has_servos(path: Path, robot: Robot) -> bool:
    mujoco, model = import_mujoco(), compile_for_dynamics(path, keep=("actuator",)).model
    at_joint = model.actuator_trntype[: model.nu] == int(mujoco.mjtTrn.mjTRN_JOINT)
    is_affine = model.actuator_biastype[: model.nu] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    servos = np.flatnonzero(at_joint & is_affine & (model.actuator_biasprm[: model.nu, 1] < 0))
    return set(robot.primary_names) <= {model.joint(int(model.actuator_trnid[k, 0])).name for k in servos}


def simulate_mjcf(path: str | Path, robot: Robot, logs: Sequence[Log], delay_s: float = 0.0) -> Array:
    """Return the positions (N, n) of MuJoCo at the rows of `build_servo_rows`.

    MuJoCo uses the file's own step, solver and actuators; the meshes and contacts of the file are not needed. Each
    segment begins at the measured state.

    Parameters
    ----------
    path : str or Path
        MJCF file.
    robot : Robot
        Its moving joints are compared; the file holds those that the robot holds.
    logs : sequence of Log
        With position targets.
    delay_s : float
        From the stamp of a target to its effect, unless the file itself delays targets.

    Raises
    ------
    ExportError
        If the file lacks a joint or its actuator, or the simulation diverges.
    """
    mujoco = import_mujoco()
    model = compile_for_dynamics(Path(path), keep=("actuator",)).model
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    is_delayed = bool(np.any(model.actuator_delay > 0))
    return _simulate(
        mujoco, model, robot, build_servo_rows(robot, logs, 0.0 if is_delayed else delay_s), Path(path).name
    )


def _simulate(mujoco: Any, model: Any, robot: Robot, rows: ServoRows, name: str) -> Array:
    """Return the positions (N, n) of MuJoCo at the rows; it begins at the measured state of each segment."""
    names = [model.joint(k).name for k in range(model.njnt)]
    absent = [joint for joint in robot.primary_names if joint not in names]
    if absent:
        message = f"{name} does not have the joints {list_names(absent)}"
        raise ExportError(message, code=Code.UNKNOWN_NAME, subject=absent[0])
    joints = [model.joint(joint) for joint in robot.primary_names]
    places, dofs = [int(j.qposadr[0]) for j in joints], [int(j.dofadr[0]) for j in joints]
    driven = model.actuator_trnid[: model.nu, 0].tolist()
    idle = [joint.name for joint in joints if joint.id not in driven]
    if idle:
        message = f"{name} has no actuator at {list_names(idle)}"
        raise ExportError(message, code=Code.MISSING_VALUE, subject=idle[0])
    inputs = [driven.index(joint.id) for joint in joints]
    data, q, step = mujoco.MjData(model), np.empty_like(rows.q), model.opt.timestep
    done, begin = 0, 0.0
    for row, starts in enumerate(rows.is_start):
        if starts:
            mujoco.mj_resetData(model, data)
            _hold_joints(model, data, robot)
            data.qpos[places], data.qvel[dofs] = rows.q[row], rows.v[row]
            for actuator, target in zip(inputs, rows.target[row], strict=True):
                if model.actuator_delay[actuator] > 0:  # the first target was held before
                    held = np.full((int(model.actuator_history[actuator, 0]), 1), target)
                    mujoco.mj_initCtrlHistory(model, data, actuator, None, held)
            done, begin = 0, rows.time[row]
        q[row] = data.qpos[places]
        data.ctrl[inputs] = rows.target[row]
        end = rows.time[row] - begin + rows.steps[row] * rows.step_s[row]
        wanted = round(end / step)
        if wanted > done:
            mujoco.mj_step(model, data, wanted - done)
            done = wanted
    if not np.isfinite(q).all() or data.warning[int(mujoco.mjtWarning.mjWARN_BADQACC)].number:
        message = f"{name} diverges in MuJoCo"
        raise ExportError(message, hint="use a smaller time step", code=Code.NOT_CONVERGED, subject=name)
    return q


def _hold_joints(model: Any, data: Any, robot: Robot) -> None:
    """Place joints of the file that the robot holds, and give them an inertia that keeps them there."""
    for name, position in robot.selection.lock.items():
        found = [k for k in range(model.njnt) if model.joint(k).name == name]
        for k in found:
            data.qpos[int(model.jnt_qposadr[k])] = position
            model.dof_armature[int(model.jnt_dofadr[k])] = 1e9
