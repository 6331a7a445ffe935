"""`sysid_start`: start values, bounds and unidentifiable directions of an estimate for `mujoco.sysid`.

mujoco.sysid fits simulator parameters to recordings by rollouts. It needs start values, bounds, and no directions that
the recordings do not determine. Links use the ten parameters of mujoco.sysid,
theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3), the pseudo-inertia P = U U^T with the upper triangle
U = exp(alpha) [[exp d1, s12, s13, t1], [0, exp d2, s23, t2], [0, 0, exp d3, t3], [0, 0, 0, 1]].

Compare MuJoCo with a log: torques of its inverse dynamics, and positions of its servos under logged targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.inertia import mass_com_inertia, phi_from_pseudo_inertia, pseudo_inertia
from mindyn.algebra.poses import quaternion_from_rotation
from mindyn.algebra.values import Array, ShortRepr
from mindyn.equations.projected_dynamics import tree_state
from mindyn.errors import Code, ExportError, InputError, MissingExtraError, list_names
from mindyn.estimators.estimate import Estimate
from mindyn.export.mjcf_writer import JOINT_ATTRIBUTES, robot_to_mjcf
from mindyn.export.writing import Prior, find_unsupported, joint_side_scales, joint_side_values
from mindyn.feasibility.full_model import full_model
from mindyn.logs.log import Log
from mindyn.logs.loop_follower import all_joint_positions
from mindyn.parameters.parameter import Kind
from mindyn.robots.mjcf_reader import compile_mjcf, import_mujoco
from mindyn.robots.robot import Robot
from mindyn.validation.errors import TorqueError, torque_error
from mindyn.validation.prediction import predict_log

MASS_RANGE_FACTORS: Final = (0.1, 10.0)
"""Bounds of the mass of a link, and of its scalings, relative to the start value."""
CENTRE_RANGE_M: Final = 0.5
"""Bounds of a centre of mass, and of shears, around the start value."""
COMPLEX_STEP: Final = 1e-30
"""Step along the imaginary axis, for derivatives without rounding errors."""
NULL_SPACE_TOLERANCE: Final = 1e-9
"""No torque depends on directions whose singular value, relative to the largest, is below this."""


@dataclass(frozen=True, eq=False, repr=False)
class SysidStart(ShortRepr):
    """Start values for `mujoco.sysid`.

    Attributes
    ----------
    parameters : mujoco.sysid.ParameterDict
        theta of every link, and armature, damping and frictionloss of every joint with a drive. Start values are those
        of the estimate, bounds are from its 95 % intervals, and modifiers write them into an MjSpec whose bodies and
        joints have the names of the robot.
    names : tuple of str
        Names of the entries of the parameter vector.
    null_space : (entries, k) array
        Orthonormal directions of the parameter vector, at the start, that no torque depends on. Freeze them or keep
        them near the start: no recording determines them.
    robot : Robot
        The full model of the start values.
    """

    parameters: Any
    names: tuple[str, ...]
    null_space: Array
    robot: Robot


def sysid_start(estimate: Estimate, prior: Prior = "robot") -> SysidStart:
    """Return start values, bounds and null space of an estimate for `mujoco.sysid`.

    Parameters
    ----------
    estimate : Estimate
        Estimate of a robot without dependent joints.
    prior : Robot, "robot" or None
        Determines what an estimate leaves open, as in `full_model`.

    Returns
    -------
    SysidStart
        Parameters for `mujoco.sysid`, and directions that no torque depends on.

    Raises
    ------
    MissingExtraError
        If mujoco.sysid is not installed.
    ExportError
        If the robot has dependent joints or coupled drives, which MuJoCo cannot express.

    Examples
    --------
    >>> start = mindyn.export.sysid_start(estimate)  # doctest: +SKIP
    """
    sysid = import_sysid()
    robot = full_model(estimate, prior)
    if robot.has_dependents:
        raise ExportError(
            f"robot {robot.name!r} has {robot.dependence}, which mujoco.sysid models as soft constraints",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    coupled = [text for text in find_unsupported(replace(robot, extras=()), armature=True) if "coupling" in text]
    if coupled:
        raise ExportError(f"MuJoCo cannot express: {'; '.join(coupled)}", code=Code.UNSUPPORTED, subject=robot.name)
    thetas = [theta_from_phi(phi) for phi in robot.phi.reshape(len(robot.joints), -1)]
    parameters = sysid.ParameterDict()
    names: list[str] = []
    for name, theta in zip(robot.link_names, thetas, strict=True):
        low, high = _theta_bounds(theta)
        entry = sysid.Parameter(f"{name}_inertia", theta, low, high, modifier=link_writer(name))
        entry.inertia_type = sysid.InertiaType.Pseudo
        parameters.add(entry)
        names += [f"{name}_inertia[{k}]" for k in range(len(theta))]
    widths = _drive_intervals(estimate, robot)
    for drive in robot.drives:
        for key, value, width in zip(JOINT_ATTRIBUTES, joint_side_values(drive), widths[drive.joint], strict=True):
            name, write = f"{drive.joint}_{key}", _joint_writer(drive.joint, key)
            parameters.add(sysid.Parameter(name, value, max(0.0, value - width), value + width, modifier=write))
            names.append(name)
    return SysidStart(parameters, tuple(names), _null_space(estimate, robot, thetas), robot)


def import_sysid() -> Any:
    """Import mujoco.sysid, or raise `MissingExtraError` with the install command."""
    try:
        from mujoco import sysid

        _ = sysid.ParameterDict
    except (ImportError, AttributeError) as error:
        raise MissingExtraError(
            "mujoco.sysid is not installed", hint="pip install 'mujoco[sysid]'", subject="mujoco.sysid"
        ) from error
    return sysid


def theta_from_phi(phi: Array) -> Array:
    """Return theta (10,) of a link whose pseudo-inertia is positive definite."""
    P = pseudo_inertia(phi)
    try:
        # P = U U^T with U upper triangular: the Cholesky factor of P with reversed rows and columns.
        U = np.linalg.cholesky(P[::-1, ::-1])[::-1, ::-1]
    except np.linalg.LinAlgError as error:
        raise InputError(
            "a link is on the boundary of the physically consistent set (flat, a line or a point), where theta is "
            "infinite",
            hint="identify with --consistent, which keeps links away from the boundary",
            code=Code.NOT_FEASIBLE,
            subject="phi",
        ) from error
    U = U / U[3, 3]
    logs = np.log(np.diag(U)[:3])
    return np.array([0.5 * np.log(P[3, 3]), *logs, U[0, 1], U[1, 2], U[0, 2], *U[:3, 3]])


def phi_from_theta(theta: Array) -> Array:
    """Return the link parameters (10,) of theta, which may be complex."""
    alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3 = theta
    exp = np.exp
    U = exp(alpha) * np.array([[exp(d1), s12, s13, t1], [0, exp(d2), s23, t2], [0, 0, exp(d3), t3], [0, 0, 0, 1]])
    return phi_from_pseudo_inertia(U @ U.T)


def _theta_bounds(theta: Array) -> tuple[Array, Array]:
    half = 0.5 * np.log(MASS_RANGE_FACTORS)
    low = np.array([half[0]] * 4 + [-CENTRE_RANGE_M] * 6)
    high = np.array([half[1]] * 4 + [CENTRE_RANGE_M] * 6)
    return theta + low, theta + high


def _drive_intervals(estimate: Estimate, robot: Robot) -> dict[str, tuple[float, float, float]]:
    """Return half-widths of the bounds of armature, damping and frictionloss: 95 % intervals, at least 10 %."""
    pairs = zip(estimate.parameters, estimate.deviations, strict=True)
    deviations = {(parameter.link_or_joint, parameter.kind): deviation for parameter, deviation in pairs}
    kinds: tuple[Kind, ...] = ("rotor", "viscous", "coulomb")
    widths = {}
    for drive in robot.drives:
        half_widths = []
        for kind, scale, value in zip(kinds, joint_side_scales(drive), joint_side_values(drive), strict=True):
            deviation = deviations.get((drive.joint, kind), np.inf)
            width = NORMAL_95 * scale * deviation
            half_widths.append(float(max(width, 0.1 * value)) if np.isfinite(width) else 10.0 * value + 1.0)
        widths[drive.joint] = (half_widths[0], half_widths[1], half_widths[2])
    return widths


def _null_space(estimate: Estimate, robot: Robot, thetas: list[Array]) -> Array:
    """Return the directions of (theta of the links, three values per drive) that change no base parameter."""
    n, ten = len(robot.joints), len(thetas[0])
    drives = len(robot.drives)
    width = estimate.base.matrix.shape[1]
    moves = np.zeros((width, ten * n + len(JOINT_ATTRIBUTES) * drives))
    for k, theta in enumerate(thetas):
        block = slice(ten * k, ten * (k + 1))
        moves[block, block] = _derivative(theta)
    if estimate.base.drives:
        for k, drive in enumerate(robot.drives):
            for j, scale in enumerate(joint_side_scales(drive)):
                moves[ten * n + 4 * k + j, ten * n + len(JOINT_ATTRIBUTES) * k + j] = 1 / scale
    K = estimate.base.matrix @ moves
    rows = np.linalg.norm(K, axis=1)
    _, s, Vt = np.linalg.svd(K / np.where(rows > 0, rows, 1.0)[:, None], full_matrices=True)
    return np.asarray(Vt[int((s > NULL_SPACE_TOLERANCE * s[0]).sum()) :].T)


def _derivative(theta: Array) -> Array:
    """Return d phi / d theta (10, 10) by complex steps."""
    columns = [phi_from_theta(theta + COMPLEX_STEP * 1j * unit).imag / COMPLEX_STEP for unit in np.eye(len(theta))]
    return np.stack(columns, axis=1)


def link_writer(name: str) -> Any:
    """Return a modifier that sets mass, centre and principal inertia of a body without compiling the model."""

    def write(spec: Any, parameter: Any) -> None:
        body = spec.body(name)
        mass, com, J = mass_com_inertia(phi_from_theta(np.asarray(parameter.value, dtype=np.float64)))
        inertia, axes = np.linalg.eigh(J)
        axes[:, 0] *= np.sign(np.linalg.det(axes))
        body.explicitinertial = True
        body.mass, body.ipos, body.inertia, body.iquat = mass, com, inertia, quaternion_from_rotation(axes)
        body.fullinertia = np.full(6, np.nan)

    return write


def _joint_writer(name: str, key: str) -> Any:
    def write(spec: Any, parameter: Any) -> None:
        joint = spec.joint(name)
        stated = np.zeros_like(np.asarray(getattr(joint, key), dtype=np.float64))
        stated.flat[0] = parameter.value[0]  # MuJoCo 4 has polynomial damping; this is its linear part
        setattr(joint, key, stated if stated.ndim else float(stated))

    return write


MAX_STEP_S: Final = 1e-3
"""Longest step of a replay, s: servos of legs have poles near 100 1/s."""
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
    """Return the rms position errors (n,) of MuJoCo under the targets of a log, with the position actuators of a file.

    "identified" is the file at `path`; "robot file" has the values of the robot file and the same actuators, if the
    robot file has inertial parameters.
    """
    mujoco = import_mujoco()
    servo = estimate.servo
    if servo is None or log.target is None:
        raise ExportError(
            "positions are compared for an estimate and a log with position targets",
            hint="identify logs with columns.target and kp",
            code=Code.MISSING_VALUE,
            subject="target",
        )
    models = {"identified": compile_mjcf(Path(path))[0]}
    if estimate.robot.has_parameters:
        text = robot_to_mjcf(estimate.robot, force=True, servo=servo)
        models["robot file"] = mujoco.MjModel.from_xml_string(text)
    return {name: _replay_targets(mujoco, model, log, servo.delay_s) for name, model in models.items()}


def _replay_targets(mujoco: Any, model: Any, log: Log, delay_s: float) -> Array:
    """Simulate the log under its targets, from the measured state after each gap, and return the rms errors (n,)."""
    assert log.target is not None
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
        for k in range(count):
            now = log.time[row] + (k + 0.5) * step / count - delay_s
            data.ctrl[inputs] = [np.interp(now, log.time, column) for column in log.target.T]
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
    model, _ = compile_mjcf(Path(path))
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
