"""Compare MuJoCo with a log: torques of its inverse dynamics, and positions of its servos under logged targets."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.equations.loop_closure import tree_state
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, ExportError, list_names
from mindyn.foundation.escaping import xml_document
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.prediction.prediction import predict_log
from mindyn.identification.prediction.prediction_errors import TorqueError, torque_error
from mindyn.logs.log import Log
from mindyn.logs.loop_follower import all_joint_positions
from mindyn.logs.servos import Servo
from mindyn.output.export.mjcf_writer import robot_to_mjcf
from mindyn.output.export.servo_actuators import add_position_actuators
from mindyn.robots.mjcf_source import compile_for_dynamics, import_mujoco, read_with_includes
from mindyn.robots.robot import Robot

MAX_STEP_S: Final = 1e-4
"""Longest step of a replay, s: MuJoCo's steps are of first order, and 1 ms moves the servos of a leg by 0.5 mrad."""
HOLDING_ARMATURE: Final = 1e9
"""Armature of joints at rest, kg m^2 or kg."""
MAX_GAP_STEPS: Final = 5.0
"""Steps between stamps that are longer than this multiple of the usual step are gaps."""


def compare_with_mujoco(estimate: Estimate, path: str | Path, log: Log) -> dict[str, TorqueError]:
    """Return the torque errors on the same rows for the estimate and for MuJoCo with the MJCF file at `path`.

    Limits and contacts are disabled. MuJoCo smooths dry friction near standstill.
    """
    ours = predict_log(estimate, log)
    rows = ours.scored
    s = ours.samples
    theirs = mujoco_torques(estimate.robot, path, all_joint_positions(estimate.robot, s)[rows], s.qd[rows], s.qdd[rows])
    return {"mindyn": ours.error, "MuJoCo": torque_error(s.joint_names, ours.measured[rows], theirs)}


def compare_positions(estimate: Estimate, path: str | Path, log: Log) -> dict[str, Array]:
    """Return the rms position errors (n,) of MuJoCo under the targets of a log, with the servos of the estimate.

    "identified" is the file at `path`, with position actuators in place of its motors; "robot file" has the values of
    the robot file and the same actuators, if the robot file has inertial parameters. Joints of the file that the robot
    holds stay at rest.
    """
    mujoco = import_mujoco()
    servo = estimate.data.servo
    if servo is None or log.target is None:
        raise ExportError(
            "positions cannot be compared: "
            + ("the log has" if servo is not None else "the estimate is from logs with")
            + " no position targets",
            hint="identify logs with columns.target and kp",
            code=Code.MISSING_VALUE,
            subject="target",
        )
    models = {"identified": _compile_with_servos(estimate.robot, Path(path), servo)}
    if estimate.robot.has_parameters:
        text = robot_to_mjcf(estimate.robot, force=True, servo=servo)
        models["robot file"] = mujoco.MjModel.from_xml_string(text)
    return {name: _replay_targets(mujoco, model, log, servo) for name, model in models.items()}


def _compile_with_servos(robot: Robot, path: Path, servo: Servo) -> Any:
    """Compile a file with position actuators at the joints of the robot, and the joints that it holds at rest."""
    root, _ = read_with_includes(path)
    for section in root.findall("actuator"):
        for element in [e for e in section if e.tag != "position" or e.get("joint") is None]:
            section.remove(element)
    add_position_actuators(root, robot.primary_names, servo)
    model = compile_for_dynamics(path, xml_document(root, keep_whitespace=True), keep=("actuator",)).model
    for joint in map(model.joint, range(model.njnt)):
        if joint.name and joint.name not in robot.joint_names:
            model.qpos0[joint.qposadr[0]] = robot.selection.lock.get(joint.name, joint.qpos0[0])
            model.dof_armature[joint.dofadr[0]] = HOLDING_ARMATURE
    return model


def _replay_targets(mujoco: Any, model: Any, log: Log, servo: Servo) -> Array:
    """Simulate the log under its targets, from the measured state after each gap, and return the rms errors (n,)."""
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= int(off.mjDSBL_LIMIT) | int(off.mjDSBL_CONTACT)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    joints = [model.joint(name) for name in log.joint_names]
    places, dofs = [int(j.qposadr[0]) for j in joints], [int(j.dofadr[0]) for j in joints]
    inputs = [int(np.flatnonzero(model.actuator_trnid[:, 0] == j.id)[0]) for j in joints]
    data, steps, usual = mujoco.MjData(model), np.diff(log.time), float(np.median(np.diff(log.time)))
    speeds = np.gradient(log.q, log.time, axis=0)
    simulated = log.q.copy()
    for row, step in enumerate(steps):
        if row == 0 or steps[row - 1] > MAX_GAP_STEPS * usual:
            data.qpos[places], data.qvel[dofs] = log.q[row], speeds[row]
        simulated[row] = data.qpos[places]
        count = max(1, ceil(min(step, MAX_GAP_STEPS * usual) / MAX_STEP_S - 1e-9))
        model.opt.timestep = step / count
        target, speed = servo.reference(log, log.time[row] + (np.arange(count) + 0.5) * step / count)
        for wanted in target + speed * servo.kd / servo.kp:  # <position> has no target velocity
            data.ctrl[inputs] = wanted
            mujoco.mj_step(model, data)
    simulated[-1] = data.qpos[places]
    return np.asarray(np.sqrt(((simulated - log.q) ** 2).mean(axis=0)))


def mujoco_torques(robot: Robot, path: str | Path, q: Array, qd: Array, qdd: Array) -> Array:
    """Return the torques (N, k) of MuJoCo's inverse dynamics for the joints of the robot; other joints stand still.

    If the robot has dependent joints, MuJoCo's soft constraints are disabled and the tree torques are projected onto
    the primary joints by W^T. `q` covers all joints if loops are solved numerically, otherwise the primary joints, as
    do `qd` and `qdd`.
    """
    mujoco = import_mujoco()
    model = compile_for_dynamics(Path(path), keep=("tendon",)).model
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= int(off.mjDSBL_LIMIT) | int(off.mjDSBL_CONTACT)
    state = None
    if robot.has_dependents:
        model.opt.disableflags |= int(off.mjDSBL_EQUALITY)
        state = tree_state(robot, q, qd, qdd)
        q, qd, qdd = state.q, state.qd, state.qdd
    joints = {model.joint(k).name or f"joint{k}": k for k in range(model.njnt)}
    absent = [name for name in robot.joint_names if name not in joints]
    if absent:
        raise ExportError(
            f"{Path(path).name} does not have the joints {list_names(absent)}",
            code=Code.UNKNOWN_NAME,
            subject=absent[0],
        )
    numbers = [joints[name] for name in robot.joint_names]
    places, dofs = model.jnt_qposadr[numbers], model.jnt_dofadr[numbers]
    data = mujoco.MjData(model)
    for name, position in robot.selection.lock.items():
        if name in joints:
            data.qpos[model.jnt_qposadr[joints[name]]] = position
    torques = np.empty_like(q)
    for row in range(len(q)):
        data.qpos[places], data.qvel[dofs], data.qacc[dofs] = q[row], qd[row], qdd[row]
        mujoco.mj_inverse(model, data)
        torques[row] = data.qfrc_inverse[dofs]
    return torques if state is None else state.project(torques)
