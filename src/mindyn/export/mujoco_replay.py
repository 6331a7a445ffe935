"""Compare torques along a logged motion: MuJoCo's inverse dynamics and the estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.projected_dynamics import tree_state
from mindyn.errors import Code, ExportError, list_names
from mindyn.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.logs.loop_follower import all_joint_positions
from mindyn.robots.mjcf_reader import import_mujoco
from mindyn.robots.mjcf_source import prepare_mjcf
from mindyn.robots.robot import Robot
from mindyn.validation.errors import TorqueError, torque_error
from mindyn.validation.prediction import predict_log


def compare_with_mujoco(estimate: Estimate, path: str | Path, log: Log) -> dict[str, TorqueError]:
    """Return the torque errors on the same rows for the estimate and for MuJoCo with the MJCF file at `path`.

    Limits and contacts are disabled. MuJoCo smooths dry friction near standstill.
    """
    ours = predict_log(estimate, log)
    rows = ours.scored
    s = ours.samples
    theirs = mujoco_torques(estimate.robot, path, all_joint_positions(estimate.robot, s)[rows], s.qd[rows], s.qdd[rows])
    return {"mindyn": ours.error, "MuJoCo": torque_error(s.joint_names, ours.measured[rows], theirs)}


def mujoco_torques(robot: Robot, path: str | Path, q: Array, qd: Array, qdd: Array) -> Array:
    """Return the torques (N, k) of MuJoCo's inverse dynamics for the joints of the robot; other joints stand still.

    If the robot has dependent joints, MuJoCo's soft constraints are disabled and the tree torques are projected onto the
    primary joints by W^T. `q` covers all joints if loops are solved numerically, otherwise the primary joints, as do
    `qd` and `qdd`.
    """
    mujoco = import_mujoco()
    model = _compile_mjcf(mujoco, Path(path))
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


def _compile_mjcf(mujoco: Any, path: Path) -> Any:
    """Compile the file; if its meshes are missing, compile it without the parts that dynamics do not need."""
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except (ValueError, mujoco.FatalError):
        return mujoco.MjModel.from_xml_string(prepare_mjcf(path).text)
