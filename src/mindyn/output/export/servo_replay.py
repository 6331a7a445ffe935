"""Replay logs in MuJoCo with an exported MJCF file of a servo estimate, as the file is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, ExportError, list_names
from mindyn.identification.servos.joint_tables import ServoRows, build_servo_rows
from mindyn.identification.servos.replay import ServoReplay, score_positions
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.identification.servos.simulation import simulate_servo_rows
from mindyn.logs.log import Log
from mindyn.robots.mjcf_source import compile_for_dynamics, import_mujoco

MAX_RATIO: Final = 1.2
"""Largest error of MuJoCo relative to that of the estimate's own simulation."""
NEGLIGIBLE_ERROR: Final = 2e-4
"""Differences below this (rad, m) do not count: steps of 2 ms alone cause them."""


@dataclass(frozen=True, slots=True, eq=False)
class ExportedReplay:
    """Errors of the same logs in the simulation of an estimate and in MuJoCo with its exported file."""

    internal: ServoReplay
    mujoco: ServoReplay

    @property
    def ratios(self) -> Array:
        """Errors (n,) of MuJoCo relative to those of the estimate's own simulation."""
        return np.asarray(self.mujoco.errors / np.maximum(self.internal.errors, 1e-12))

    @property
    def is_faithful(self) -> bool:
        """Whether MuJoCo is at most 1.2 times worse at every joint."""
        return bool((self.mujoco.errors <= MAX_RATIO * self.internal.errors + NEGLIGIBLE_ERROR).all())


def replay_in_mujoco(estimate: ServoEstimate, path: str | Path, logs: Sequence[Log]) -> ExportedReplay:
    """Return the errors of logs in the simulation of an estimate, and in MuJoCo with the MJCF file at `path`.

    MuJoCo uses the file's own step, solver and actuators; the meshes and contacts of the file are not needed.

    Raises `ExportError` if the file lacks a joint or its actuator, or the simulation diverges.
    """
    mujoco = import_mujoco()
    model = compile_for_dynamics(Path(path), keep=("actuator",)).model
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    rows, ours = simulate_servo_rows(estimate, logs)
    is_delayed = bool(np.any(model.actuator_delay > 0))  # the file delays targets itself
    sent = build_servo_rows(estimate.robot, logs).target if is_delayed else rows.target
    theirs = _simulate(mujoco, model, estimate, replace(rows, target=sent), Path(path).name)
    return ExportedReplay(score_positions(estimate, logs, rows, ours), score_positions(estimate, logs, rows, theirs))


def _simulate(mujoco: Any, model: Any, estimate: ServoEstimate, rows: ServoRows, name: str) -> Array:
    """Return the positions (N, n) of MuJoCo at the rows; it begins at the measured state of each segment."""
    names = [model.joint(k).name for k in range(model.njnt)]
    absent = [joint for joint in estimate.joint_names if joint not in names]
    if absent:
        message = f"{name} does not have the joints {list_names(absent)}"
        raise ExportError(message, code=Code.UNKNOWN_NAME, subject=absent[0])
    joints = [model.joint(joint) for joint in estimate.joint_names]
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
            _hold_joints(model, data, estimate)
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


def _hold_joints(model: Any, data: Any, estimate: ServoEstimate) -> None:
    """Place joints of the file that the robot holds, and give them an inertia that keeps them there."""
    for name, position in estimate.robot.selection.lock.items():
        found = [k for k in range(model.njnt) if model.joint(k).name == name]
        for k in found:
            data.qpos[int(model.jnt_qposadr[k])] = position
            model.dof_armature[int(model.jnt_dofadr[k])] = 1e9
