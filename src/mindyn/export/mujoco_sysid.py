"""`sysid_start`: an estimate as the parameters of `mujoco.sysid`: start values, bounds, and what no motion can tell.

mujoco.sysid fits a simulator's parameters to recordings by rolling out; it wants start values, bounds, and no
directions that the recordings leave open. The estimate has all three. Links are given as mujoco.sysid's own ten numbers
theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3), the pseudo-inertia P = U U^T with the upper triangle
U = exp(alpha) [[exp d1, s12, s13, t1], [0, exp d2, s23, t2], [0, 0, exp d3, t3], [0, 0, 0, 1]].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mindyn.algebra.deviations import NORMAL_95
from mindyn.algebra.inertia import mass_com_inertia, phi_from_pseudo_inertia, pseudo_inertia
from mindyn.algebra.rotations import quaternion_from_rotation
from mindyn.algebra.values import Array
from mindyn.errors import ExportError, InputError, MissingExtraError
from mindyn.estimators.estimate import Estimate
from mindyn.export.mjcf_bodies import JOINT_ATTRIBUTES
from mindyn.export.models import Prior
from mindyn.export.writing import find_unsupported, joint_side_values
from mindyn.feasibility.full_model import full_model
from mindyn.parameters.parameter import Kind
from mindyn.robots.robot import Robot

MASS_RANGE_FACTORS: Final = (0.1, 10.0)
"""Times the start value: bounds of a link's mass, and of its stretches, that the data do not tell."""
CENTRE_RANGE_M: Final = 0.5
"""m: bounds of a centre of mass, and of shears, about their start."""
COMPLEX_STEP: Final = 1e-30
"""Of a complex number: derivatives without rounding."""
NULL_SPACE_TOLERANCE: Final = 1e-9
"""A singular value below this part of the largest is a direction that no torque depends on."""


@dataclass(frozen=True, eq=False)
class SysidStart:
    """What mujoco.sysid begins with.

    parameters  a `mujoco.sysid.ParameterDict`: theta of every link, armature, damping and frictionloss of every joint
                with a drive; values of the estimate, bounds from its 95 % intervals, and modifiers that write them into
                an MjSpec with bodies and joints of the robot's names
    names       of the entries of its vector
    null_space  (entries, k) orthonormal directions of that vector that no torque depends on, at the start: to be frozen
                or held near the start, for no recording can tell them
    robot       the full model that the start values are of
    """

    parameters: Any
    names: tuple[str, ...]
    null_space: Array
    robot: Robot


def sysid_start(found: Estimate, prior: Prior = "robot") -> SysidStart:
    """Start values, bounds and null space of an estimate for `mujoco.sysid`.

    prior  as in `full_model`, which gives every link the values that the estimate leaves open
    """
    sysid = import_sysid()
    robot = full_model(found, prior)
    if robot.has_dependents:
        raise ExportError(f"robot {robot.name!r} has {robot.dependence}, which mujoco.sysid fits as soft constraints")
    coupled = [text for text in find_unsupported(replace(robot, extras=()), armature=True) if "coupling" in text]
    if coupled:
        raise ExportError(f"MuJoCo cannot express: {'; '.join(coupled)}")
    thetas = [theta_from_phi(_phi(robot, k)) for k in range(robot.joint_count)]
    parameters = sysid.ParameterDict()
    names: list[str] = []
    for name, theta in zip(robot.link_names, thetas, strict=True):
        low, high = _theta_bounds(theta)
        entry = sysid.Parameter(f"{name}_inertia", theta, low, high, modifier=link_writer(name))
        entry.inertia_type = sysid.InertiaType.Pseudo
        parameters.add(entry)
        names += [f"{name}_inertia[{k}]" for k in range(len(theta))]
    widths = _drive_intervals(found, robot)
    for drive in robot.drives:
        for key, value, width in zip(JOINT_ATTRIBUTES, joint_side_values(drive), widths[drive.joint], strict=True):
            name, write = f"{drive.joint}_{key}", _joint_writer(drive.joint, key)
            parameters.add(sysid.Parameter(name, value, max(0.0, value - width), value + width, modifier=write))
            names.append(name)
    return SysidStart(parameters, tuple(names), _null_space(found, robot, thetas), robot)


def import_sysid() -> Any:
    """mujoco.sysid, or an error that says how to install it."""
    try:
        from mujoco import sysid

        _ = sysid.ParameterDict
    except (ImportError, AttributeError) as error:
        raise MissingExtraError("this needs mujoco.sysid", hint="pip install 'mujoco[sysid]'") from error
    return sysid


def theta_from_phi(phi: Array) -> Array:
    """theta (10,) of a link that has an inertia in every direction."""
    P = pseudo_inertia(phi)
    try:
        # P = U U^T with U upper: the Cholesky factor of P turned about both diagonals.
        U = np.linalg.cholesky(P[::-1, ::-1])[::-1, ::-1]
    except np.linalg.LinAlgError as error:
        raise InputError(
            "a link is at the edge of what a body can be: its logarithms are infinite",
            hint="mindyn identify --consistent keeps links away from the edge",
        ) from error
    U = U / U[3, 3]
    logs = np.log(np.diag(U)[:3])
    return np.array([0.5 * np.log(P[3, 3]), *logs, U[0, 1], U[1, 2], U[0, 2], *U[:3, 3]])


def phi_from_theta(theta: Array) -> Array:
    """Link parameters (10,) of theta; of complex theta too."""
    alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3 = theta
    exp = np.exp
    U = exp(alpha) * np.array([[exp(d1), s12, s13, t1], [0, exp(d2), s23, t2], [0, 0, exp(d3), t3], [0, 0, 0, 1]])
    return phi_from_pseudo_inertia(U @ U.T)


def _phi(robot: Robot, link: int) -> Array:
    phi = robot.links[link].phi
    assert phi is not None
    return phi


def _theta_bounds(theta: Array) -> tuple[Array, Array]:
    half = 0.5 * np.log(MASS_RANGE_FACTORS)
    low = np.array([half[0]] * 4 + [-CENTRE_RANGE_M] * 6)
    high = np.array([half[1]] * 4 + [CENTRE_RANGE_M] * 6)
    return theta + low, theta + high


def _drive_intervals(found: Estimate, robot: Robot) -> dict[str, tuple[float, float, float]]:
    """Half the bounds' widths of armature, damping and frictionloss: what the data leave, at least a tenth."""
    told_of = zip(found.parameters, found.deviations, strict=True)
    deviations = {(one.link_or_joint, one.kind): deviation for one, deviation in told_of}
    kinds: tuple[Kind, ...] = ("rotor", "viscous", "coulomb")
    widths = {}
    for drive in robot.drives:
        ratio = drive.ratio if drive.side == "motor" else 1.0
        scales = (drive.ratio**2, ratio**2, abs(ratio))
        told = []
        for kind, scale, value in zip(kinds, scales, joint_side_values(drive), strict=True):
            deviation = deviations.get((drive.joint, kind), np.inf)
            width = NORMAL_95 * scale * deviation
            told.append(float(max(width, 0.1 * value)) if np.isfinite(width) else 10.0 * value + 1.0)
        widths[drive.joint] = (told[0], told[1], told[2])
    return widths


def _null_space(found: Estimate, robot: Robot, thetas: list[Array]) -> Array:
    """Directions of (theta of the links, drives' three) along which no base parameter moves."""
    n, ten = robot.joint_count, len(thetas[0])
    drives = len(robot.drives)
    width = found.base.matrix.shape[1]
    moves = np.zeros((width, ten * n + len(JOINT_ATTRIBUTES) * drives))
    for k, theta in enumerate(thetas):
        block = slice(ten * k, ten * (k + 1))
        moves[block, block] = _derivative(theta)
    if found.base.drives:
        for k, drive in enumerate(robot.drives):
            ratio = drive.ratio if drive.side == "motor" else 1.0
            scales = (drive.ratio**2, ratio**2, abs(ratio))
            for j, scale in enumerate(scales):
                moves[ten * n + 4 * k + j, ten * n + len(JOINT_ATTRIBUTES) * k + j] = 1 / scale
    K = found.base.matrix @ moves
    rows = np.linalg.norm(K, axis=1)
    _, s, Vt = np.linalg.svd(K / np.where(rows > 0, rows, 1.0)[:, None], full_matrices=True)
    return np.asarray(Vt[int((s > NULL_SPACE_TOLERANCE * s[0]).sum()) :].T)


def _derivative(theta: Array) -> Array:
    """d phi / d theta (10, 10), by complex steps."""
    columns = [phi_from_theta(theta + COMPLEX_STEP * 1j * unit).imag / COMPLEX_STEP for unit in np.eye(len(theta))]
    return np.stack(columns, axis=1)


def link_writer(name: str) -> Any:
    """Mass, centre and principal inertias, all that MuJoCo keeps: nothing has to be compiled before."""

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
        stated.flat[0] = parameter.value[0]  # of MuJoCo 4 damping is a polynomial, and this its linear part
        setattr(joint, key, stated if stated.ndim else float(stated))

    return write
