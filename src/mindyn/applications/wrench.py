"""`identify_payload_from_wrench`: the tool on a force/torque sensor, from readings at rest or in motion.

The tool exerts on the sensor, about its origin and in its axes,

    f = -W(w, wd, a - g) phi + b

with the ten parameters phi of the tool, the bias b (6,), and W (6, 10) from the angular velocity w, the angular
acceleration wd and the acceleration a of the origin. At rest W contains only mass and first moments. If the sensor is
mounted with an unknown rotation X relative to the frame whose motion is known, w, wd and a - g become X^T w, ... This
is nonlinear, so X starts from the rotation that turns the known directions of a - g into the forces [Kabsch 1976], and
all parameters are refined by Gauss-Newton.

Weights are 1 / mean squared residual of the moments, and of the forces. Covariances are jackknifed over contiguous
blocks, since errors of a pose repeat in all its rows; the held-out error is that of each block under the fit without
it. Errors of the sensor's calibration and of the poses repeat in all blocks, but differ between its axes and between
attitudes: deviations are inflated by the difference of the values between these groups, as `identify` does for
conditions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.applications.payload.identify_payload import (
    UNSEEN_DEVIATION,
    UNSEEN_INFORMATION,
    make_consistent,
)
from mindyn.foundation.algebra.jackknife import jackknife_covariance
from mindyn.foundation.algebra.normal_equations import column_lengths, solve_normal_equations
from mindyn.foundation.algebra.rotations import rotation_about_axis
from mindyn.foundation.algebra.significance import is_significantly_positive
from mindyn.foundation.algebra.values import Array, ShortRepr, frozen_array
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.escaping import fill_template
from mindyn.foundation.findings import Finding, Kind, Severity, warning
from mindyn.foundation.notation import STANDARD_GRAVITY
from mindyn.identification.runs_with_loads import Payload, find_undetermined_parameters
from mindyn.identification.uncertainty.condition_shifts import excess_of_conditions
from mindyn.kernels.model import compile_model
from mindyn.kernels.source_text import file_identifier, literal
from mindyn.logs.filters import edge_duration_s, lowpass
from mindyn.logs.pose_rates import differentiate_poses
from mindyn.logs.wrench_log import ActsOn, WrenchFrame, WrenchLog
from mindyn.parameters.base_set_verification import link_wrenches
from mindyn.robots.robot import Robot

BLOCKS: Final = 24
"""Contiguous blocks of the jackknife; a log of few poses has one block for each row."""
MIN_BLOCKS: Final = 4
"""Fewest poses: three attitudes determine mass, centre and bias, and one more their deviation."""
AXES_GAIN: Final = 2.0
"""Factor on the variance between axes, of which there are only three, and attitudes. On 40 simulated logs whose axes
have gain errors of 3 %, 95 % intervals contain mass and centre in 90 % (47 % by blocks alone); on 40 sound logs in
99 %, and the intervals are 1.2 times as wide."""
MIN_AXIS_SWING: Final = 0.1
"""Standard deviation of the weight along an axis, relative to the largest force, from which the axis is compared."""
MIN_AXIS_GAP: Final = 0.02
"""Difference between the masses of two axes, relative to the mass, that is reported. Rates: as below."""
AXIS_GAP_DEVIATIONS: Final = 4.0
"""The same in standard deviations. Of 40 simulated logs of 30 attitudes with noise alone none is reported, of 40 whose
axes differ by 3 to 8 % all (tests/loads/test_wrench.py draws such logs)."""
ROUNDS: Final = 20
"""Most rounds of Gauss-Newton and of the weights."""
MIN_MOTION_RATE_HZ: Final = 10.0
"""Slower rows are poses at rest: accelerations cannot be computed from them."""
POSE_CUTOFF_RATIO: Final = 5.0
"""Cut-off of the poses relative to that of columns and readings: it removes noise before differentiation and leaves the
motion that the readings show unchanged."""
REST_RATE: Final = 0.02
"""Angular velocity above which a row without position is excluded, rad/s: a tool of 1 kg and 0.1 m of lever then adds
less than 0.1 mN."""
MIN_SPREAD_RAD: Final = 0.03
"""Smallest spread of the directions of gravity from which the rotation of a sensor is estimated, about two degrees."""
DECLARED_SIGNS: Final = {"sensor": 1.0, "tool": -1.0}
"""Sign of readings that act on the sensor, and of those that act on the tool."""
MIN_FRAME_RATIO: Final = 2.0
"""Smallest ratio of squared residuals, declared frame to the other one, for a finding. In 400 simulated logs of 6 to 29
poses, tools of 0.3 to 5 kg and noise of 0.05 to 0.5 N, the ratio was at most 0.1 for the right frame and at least 7 for
the wrong one: no false finding, and one of 400 wrong frames missed, with too few poses to be significant."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WrenchPayload(ShortRepr):
    """Tool on a force/torque sensor, and the bias and mounting of the sensor.

    Attributes
    ----------
    load : Payload
        Mass, centre of mass and inertia in the frame of the sensor, with covariance.
    bias : ndarray, shape (6,)
        Moment and force that the sensor reads without a tool, in its own axes, N m and N.
    bias_half_widths : ndarray, shape (6,)
        Half-widths of the 95 % intervals.
    rotation : ndarray, shape (3, 3)
        Rotation of the sensor in the frame whose pose is known; the identity if it was not estimated.
    rotation_half_widths : ndarray, shape (3,)
        Half-widths of the 95 % intervals of the rotation about its axes, rad; zero if it was not estimated.
    held_out_moment, held_out_force : float
        Rms error of each block under the fit without it, N m and N.
    frame : {"sensor", "world"}
        Axes of the readings.
    acts_on : {"sensor", "tool"}
        Whether the readings are the wrench of the tool on the sensor, or the reaction.
    findings : tuple of Finding
    """

    load: Payload
    bias: Array
    bias_half_widths: Array
    rotation: Array
    rotation_half_widths: Array
    held_out_moment: float
    held_out_force: float
    frame: WrenchFrame = "sensor"
    acts_on: ActsOn = "sensor"
    findings: tuple[Finding, ...] = ()

    def wrench(self, rotation: ArrayLike, gravity: ArrayLike = STANDARD_GRAVITY) -> Array:
        """Return the reading (..., 6) of the tool at rest, bias included: moment and force as the sensor gives them.

        Parameters
        ----------
        rotation : array_like, shape (..., 3, 3)
            Rotation in the world of the frame whose pose is known.
        gravity : array_like, shape (3,)
            Gravity in the world, m/s^2.
        """
        R = np.asarray(rotation, dtype=np.float64) @ self.rotation
        g = np.einsum("...ji,j->...i", R, np.asarray(gravity, dtype=np.float64))
        weight = np.concatenate([np.cross(self.load.phi[1:4], g), self.load.phi[0] * g], axis=-1)
        reading = DECLARED_SIGNS[self.acts_on] * weight + self.bias
        if self.frame == "sensor":
            return np.asarray(reading)
        return np.concatenate([np.einsum("...ij,...j->...i", R, reading[..., k : k + 3]) for k in (0, 3)], axis=-1)

    def write_c(self, path: str | Path, gravity: ArrayLike = STANDARD_GRAVITY) -> Path:
        """Write a C99 header that removes weight and bias of the tool from readings, and return its path.

        Parameters
        ----------
        path : str or pathlib.Path
            File ending in .h.
        gravity : array_like, shape (3,)
            Gravity in the world, m/s^2.
        """
        target = Path(path)
        if target.suffix != ".h":
            raise InputError(f"{target.name} must end in .h", code=Code.WRONG_FORMAT, subject=target.name)
        lists = {
            "MOMENT": self.load.phi[1:4],
            "GRAVITY": np.asarray(gravity),
            "ROTATION": self.rotation.ravel(),
            "BIAS": self.bias,
        }
        words = {name: ", ".join(literal(float(x)) for x in values) for name, values in lists.items()}
        name = file_identifier(target.stem)
        words |= {"NAME": name, "GUARD": name.upper(), "MASS": literal(self.load.mass), "FRAME": self.frame}
        words |= {"SIGN": literal(DECLARED_SIGNS[self.acts_on]), "WORLD": str(int(self.frame == "world"))}
        words["ACTS"] = "of the tool on the sensor" if self.acts_on == "sensor" else "of the sensor on the tool"
        write_file_atomically(target, fill_template(_TEMPLATE, words))
        return target


@dataclass(frozen=True, slots=True, eq=False)
class _Motion:
    """Motion of the sensor frame in its axes, (N, 3) each: w, wd and a - g; and readings (N, 6) in the same axes.

    Columns and readings pass the same filter (cut-off and rate in Hz), and rows that are not `kept` are then dropped.
    """

    w: Array
    wd: Array
    a: Array
    declared: Array
    other: Array
    kept: NDArray[np.bool_]
    low_pass: tuple[float, float] | None

    def smooth(self, rows: Array) -> Array:
        """Return the kept rows (M, ...) of filtered rows (N, ...)."""
        return (rows if self.low_pass is None else lowpass(rows, *self.low_pass))[self.kept]

    def columns(self, rotation: Array) -> Array:
        """Return [-W, 1] (M, 6, 16) in the axes of a sensor with this rotation in the frame."""
        W = self.smooth(link_wrenches(self.w @ rotation, self.wd @ rotation, self.a @ rotation))
        return np.concatenate([-W, np.broadcast_to(np.eye(6), (len(W), 6, 6))], axis=2)


def identify_payload_from_wrench(
    log: WrenchLog,
    robot: Robot | None = None,
    link: str | None = None,
    *,
    rotation: ArrayLike | None = None,
    estimate_rotation: bool = False,
    gravity: ArrayLike | None = None,
    cutoff_hz: float = 5.0,
) -> WrenchPayload:
    """Estimate mass, centre of mass and inertia of a tool, and the bias of the sensor that carries it.

    Parameters
    ----------
    log : WrenchLog
        Readings and poses, from `read_wrench_log` or arrays.
    robot : Robot, optional
        Robot that carries the sensor, if the log has joint positions.
    link : str, optional
        Link or frame of the robot in which the sensor is mounted; the last link by default.
    rotation : array_like, shape (3, 3), optional
        Known rotation of the sensor in the frame of the poses; the identity by default.
    estimate_rotation : bool
        Estimate that rotation.
    gravity : array_like, shape (3,), optional
        Gravity in the world, m/s^2; that of the robot, or (0, 0, -9.81), by default.
    cutoff_hz : float
        Cut-off of the low pass on readings and poses of a motion.

    Returns
    -------
    WrenchPayload
        Inertial parameters of the load with covariance, and findings.

    Raises
    ------
    InputError
        If the log has too few poses, or the robot is missing.
    """
    own = STANDARD_GRAVITY if robot is None else robot.gravity
    g = frozen_array(own if gravity is None else gravity, (3,), "gravity")
    motion = _compute_motion(log, robot, link, g, cutoff_hz)
    start = frozen_array(np.eye(3) if rotation is None else rotation, (3, 3), "rotation")
    if motion.kept.sum() < MIN_BLOCKS:
        raise InputError(
            f"{log.name} has {motion.kept.sum()} usable poses, but at least {MIN_BLOCKS} are needed",
            hint="turn the sensor to at least four attitudes that differ by more than 30 degrees, and stop there",
            code=Code.TOO_LITTLE_DATA,
            subject=log.name,
        )
    place = link or (robot.link_names[-1] if robot is not None else "sensor")
    signs, payloads, fits = [], [], []
    for readings in (motion.smooth(motion.declared), motion.smooth(motion.other)):
        signs.append(_find_sign(motion, readings, start, estimate_rotation))
        sign = signs[-1] if log.acts_on is None else DECLARED_SIGNS[log.acts_on]
        payload, residuals = _fit_load_and_bias(motion, sign * readings, start, estimate_rotation, place)
        acts_on: ActsOn = "sensor" if sign > 0 else "tool"
        payloads.append(replace(payload, bias=sign * payload.bias, frame=log.frame, acts_on=acts_on))
        fits.append((readings, residuals))
    findings = _compare_frames(log, payloads, fits) or _compare_signs(log, signs[0])
    if not findings:
        sign = 1.0 if payloads[0].acts_on == "sensor" else -1.0
        findings = _compare_axes(motion, sign * fits[0][0], payloads[0])
    return replace(payloads[0], load=make_consistent(payloads[0].load), findings=(*log.findings, *findings))


def _compute_motion(log: WrenchLog, robot: Robot | None, link: str | None, gravity: Array, cutoff_hz: float) -> _Motion:
    """Return the motion in the axes of the frame, and the readings in the declared and in the other axes."""
    R, position = log.rotation, log.position
    if log.q is not None:
        if robot is None:
            message = f"{log.name} has joint positions: their robot is missing"
            raise InputError(message, hint="pass robot= (--robot)", code=Code.MISSING_VALUE, subject="robot")
        X = compile_model(robot).forward_kinematics(log.q, link or robot.link_names[-1])
        R, position = X[:, :3, :3], X[:, :3, 3]
    assert R is not None
    time, readings = log.time, log.wrench
    w = wd = a = np.zeros((len(R), 3))
    kept, low_pass = np.ones(len(R), dtype=bool), None
    step = np.inf if time is None or len(time) < 2 else float(np.median(np.diff(time)))
    if 0 < step <= 1 / MIN_MOTION_RATE_HZ and time is not None:
        rate, cutoff = 1 / step, min(cutoff_hz, 0.4 / step)
        R, position, readings = _resample(time, step, R, position, readings)
        R, w, wd, a = differentiate_poses(R, position, rate, min(POSE_CUTOFF_RATIO * cutoff, 0.4 * rate))
        edge = int(np.ceil(edge_duration_s(cutoff) * rate))
        kept, low_pass = np.zeros(len(R), dtype=bool), (cutoff, rate)
        kept[edge : len(R) - edge] = True
        if position is None:  # the acceleration is unknown: only rows at rest are used
            kept &= np.linalg.norm(lowpass(w, cutoff, rate), axis=1) < REST_RATE
            w, wd = np.zeros_like(w), np.zeros_like(wd)
    turned = (readings.reshape(-1, 2, 3) @ R).reshape(-1, 6)
    declared, other = (turned, readings) if log.frame == "world" else (readings, turned)
    return _Motion(w, wd, a - np.einsum("nji,j->ni", R, gravity), declared, other, kept, low_pass)


def _resample(
    time: Array, step: float, R: Array, position: Array | None, readings: Array
) -> tuple[Array, Array | None, Array]:
    """Interpolate rows to even steps; the interpolated rotations are those nearest to the interpolated matrices."""
    even = np.arange(time[0], time[-1], step)
    columns = [R.reshape(-1, 9), readings, *([] if position is None else [position])]
    both = np.column_stack([np.interp(even, time, column) for x in columns for column in x.T])
    U, _, Vt = np.linalg.svd(both[:, :9].reshape(-1, 3, 3))
    return U @ Vt, None if position is None else both[:, 15:], both[:, 9:15]


def _start_rotation(motion: _Motion, forces: Array) -> tuple[Array, float]:
    """Return Kabsch's rotation X of forces = -m X^T a + b, and the sign of m."""
    directions = motion.smooth(motion.a)
    a, f = directions - directions.mean(axis=0), forces - forces.mean(axis=0)
    U, s, Vt = np.linalg.svd(-a.T @ f)
    if np.linalg.svd(a, compute_uv=False)[1] < MIN_SPREAD_RAD * np.linalg.norm(directions):
        raise InputError(
            "the attitudes do not determine the rotation of the sensor",
            hint="turn the sensor about two axes",
            code=Code.NOT_IDENTIFIABLE,
            subject="rotation",
        )
    handed = np.linalg.det(U @ Vt)
    # A reflection is a rotation and the other sign of the force, if the weakest direction is significant.
    sign = -1.0 if handed < 0 and s[2] > 0.1 * s[1] else 1.0
    if sign < 0:
        U, _, Vt = np.linalg.svd(a.T @ f)
        handed = np.linalg.det(U @ Vt)
    return np.asarray(U @ np.diag([1.0, 1.0, handed]) @ Vt), sign


def _find_sign(motion: _Motion, readings: Array, rotation: Array, is_unknown: bool) -> float:
    """Return -1 if the readings are those of the sensor on the tool: the mass would be negative."""
    if is_unknown:
        return _start_rotation(motion, readings[:, 3:])[1]
    return -1.0 if _fit_load_and_bias(motion, readings, rotation, False, "")[0].load.phi[0] < 0 else 1.0


def _fit_load_and_bias(
    motion: _Motion, readings: Array, rotation: Array, is_unknown: bool, link: str
) -> tuple[WrenchPayload, Array]:
    """Fit parameters, bias and, if it is unknown, the rotation; return them, and the residuals (N, 6)."""
    X = _start_rotation(motion, readings[:, 3:])[0] if is_unknown else rotation
    scale = np.maximum(readings.std(axis=0), 1e-12)
    weights = np.ones(6) / np.repeat([np.linalg.norm(scale[:3]), np.linalg.norm(scale[3:])], 3) ** 2
    for _ in range(ROUNDS):
        A = motion.columns(X)
        if is_unknown:
            values = _least_squares(A, readings, weights)
            turns = [_rotation_derivative(motion, X, k, values) for k in range(3)]
            A = np.concatenate([A, np.stack(turns, axis=2)], axis=2)
        values = _least_squares(A, readings, weights)
        residuals = readings - A @ values
        angle = float(np.linalg.norm(values[16:]))
        X = X @ rotation_about_axis(values[16:] / angle, angle) if angle > 0 else X
        before, weights = (
            weights,
            1 / np.maximum(_pool_by_quantity((residuals**2).mean(axis=0)), 1e-24 * _pool_by_quantity(scale**2)),
        )
        if np.abs(weights / before - 1).max() < 1e-9 and angle < 1e-12:
            break
    return _quantify(A, readings, weights, X, link), residuals


def _pool_by_quantity(squares: Array) -> Array:
    """Return the means of squares (6,): one for the three moments, one for the three forces.

    With a weight for each axis, the fit would follow the axis that it explains best, and hide that the others differ.
    """
    return np.repeat(squares.reshape(2, 3).mean(axis=1), 3)


def _rotation_derivative(motion: _Motion, X: Array, axis: int, values: Array, step: float = 1e-6) -> Array:
    """Return the derivative (N, 6) of the fitted readings by a rotation of the sensor about its axis k."""
    ends = [motion.columns(X @ rotation_about_axis(np.eye(3)[axis], s * step)) @ values for s in (1, -1)]
    return np.asarray((ends[0] - ends[1]) / (2 * step))


def _least_squares(A: Array, readings: Array, weights: Array) -> Array:
    """Return the smallest solution of the weighted equations: values that rows do not determine are zero."""
    Y = A * weights[:, None]
    return np.asarray(solve_normal_equations(np.einsum("nij,nik->jk", Y, A), np.einsum("nij,ni->j", Y, readings)))


def _quantify(A: Array, readings: Array, weights: Array, rotation: Array, link: str) -> WrenchPayload:
    """Return the payload with jackknifed intervals and the held-out error."""
    from scipy.special import stdtrit

    ends = np.linspace(0, len(readings), min(BLOCKS, len(readings)) + 1).astype(int)
    Y, z = A * np.sqrt(weights)[:, None], readings * np.sqrt(weights)
    blocks = [slice(a, b) for a, b in pairwise(ends)]
    normal = np.array([np.einsum("nij,nik->jk", Y[block], Y[block]) for block in blocks])
    right = np.array([np.einsum("nij,ni->j", Y[block], z[block]) for block in blocks])
    N, n = normal.sum(axis=0), right.sum(axis=0)
    values = solve_normal_equations(N, n)
    shifts, errors = [], np.zeros_like(readings)
    for block, N_block, n_block in zip(blocks, normal, right, strict=True):
        without = solve_normal_equations(N - N_block, n - n_block)
        shifts.append(without - values)
        errors[block] = readings[block] - A[block] @ without
    between = jackknife_covariance(np.array(shifts))
    wider = _widen_by_groups(between, A, readings, weights, values, N)
    covariance = between * np.outer(wider, wider) + _unseen_covariance(N)
    factor = float(stdtrit(len(shifts) - 1, 0.975))
    load = Payload(link, values[:10], covariance[:10, :10], (), factor)
    load = replace(load, unidentifiable=find_undetermined_parameters(load))
    widths = factor * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    turns = widths[16:] if len(widths) > 16 else np.zeros(3)
    moment, force = (float(np.sqrt((errors[:, k : k + 3] ** 2).sum(axis=1).mean())) for k in (0, 3))
    return WrenchPayload(load, values[10:16], widths[10:16], rotation, turns, moment, force)


def _widen_by_groups(covariance: Array, A: Array, readings: Array, weights: Array, values: Array, N: Array) -> Array:
    """Return factors (p,) >= 1 on the deviations by the spread between the sensor's axes, and between attitudes."""
    axes = np.tile(np.arange(3), (len(readings), 2))  # of moment and force
    down = A[:, 3:, :10] @ values[:10]  # force without bias
    main = np.abs(down).argmax(axis=1)
    attitudes = np.tile((2 * main + (down[np.arange(len(down)), main] > 0))[:, None], (1, 6))
    shifts = []
    for groups in (axes, attitudes):
        residuals = (readings - A @ values) * weights
        present = [groups == k for k in np.unique(groups)]
        if len(present) > 1:
            moved = [solve_normal_equations(N, np.einsum("nij,ni->j", A, residuals * own)) for own in present]
            shifts.append(np.array(moved))
    variances = np.maximum(np.diag(covariance), 0.0)
    excess = excess_of_conditions(shifts, variances, gain=AXES_GAIN)
    return np.asarray(np.sqrt(1 + np.where(variances > 0, excess / np.where(variances > 0, variances, 1.0), 0.0)))


def _compare_axes(motion: _Motion, readings: Array, payload: WrenchPayload) -> list[Finding]:
    """Return a finding if the axes of the sensor need different masses: their calibrations differ."""
    phi, mass = payload.load.phi, payload.load.mass
    if not mass > 0:
        return []
    forces = (motion.columns(payload.rotation)[:, 3:, :10] @ phi)[:, :, None]
    ends = np.linspace(0, len(readings), min(BLOCKS, len(readings)) + 1).astype(int)
    slopes, deviations = np.zeros(3), np.zeros(3)
    for axis in range(3):
        columns = np.column_stack([forces[:, axis], np.ones(len(readings))])
        if columns[:, 0].std() < MIN_AXIS_SWING * np.abs(forces).max():
            return []  # the axis carried no weight that varied
        parts = [slice(a, b) for a, b in pairwise(ends)]
        normal = np.array([columns[part].T @ columns[part] for part in parts])
        right = np.array([columns[part].T @ readings[part, 3 + axis] for part in parts])
        slopes[axis] = solve_normal_equations(normal.sum(axis=0), right.sum(axis=0))[0]
        without = [
            solve_normal_equations(normal.sum(axis=0) - N, right.sum(axis=0) - n)[0]
            for N, n in zip(normal, right, strict=True)
        ]
        deviations[axis] = np.sqrt(jackknife_covariance(np.array(without)[:, None] - slopes[axis])[0, 0])
    low, high = int(slopes.argmin()), int(slopes.argmax())
    gap, deviation = slopes[high] - slopes[low], float(np.hypot(deviations[high], deviations[low]))
    if gap < max(MIN_AXIS_GAP, AXIS_GAP_DEVIATIONS * deviation):
        return []
    masses = ", ".join(f"{axis} {mass * slope:.4g} kg" for axis, slope in zip("xyz", slopes, strict=True))
    message = f"the axes of the sensor need different masses: {masses}"
    remedy = "Check the calibration of the sensor and its rotation; the intervals contain this spread"
    return [warning(Kind.WRENCH_SCALE, message, remedy, value=float(gap), unit="of the mass")]


def _unseen_covariance(A: Array) -> Array:
    """Return a large covariance of the directions that the rows do not determine."""
    length = column_lengths(A)
    values, vectors = np.linalg.eigh(A / np.outer(length, length))
    V = vectors[:, values < UNSEEN_INFORMATION * values[-1]] / length[:, None]
    V = V / np.linalg.norm(V, axis=0)
    return np.asarray(UNSEEN_DEVIATION**2 * V @ V.T)


def _compare_signs(log: WrenchLog, sign: float) -> list[Finding]:
    """Return a finding if the mass would be negative with the declared sign, or if an undeclared sign was reversed."""
    if sign == DECLARED_SIGNS[log.acts_on or "sensor"]:
        return []
    if log.acts_on is None:
        message = "the readings are the wrench of the sensor on the tool: their signs were reversed"
        return [warning(Kind.WRENCH_SIGN, message, 'Set acts_on = "tool" in the metadata')]
    other = "tool" if log.acts_on == "sensor" else "sensor"
    message = f"with readings that act on the {log.acts_on}, as declared, the mass would be negative"
    return [Finding(Kind.WRENCH_SIGN, Severity.ERROR, message, f'Set acts_on = "{other}" in the metadata')]


def _compare_frames(log: WrenchLog, payloads: list[WrenchPayload], fits: list[tuple[Array, Array]]) -> list[Finding]:
    """Return a finding if the readings fit the axes of the other frame; `fits` are readings and residuals."""
    scale = np.repeat([np.sqrt((fits[0][0][:, k : k + 3] ** 2).mean()) for k in (0, 3)], 3)
    squares = [((residuals / np.maximum(scale, 1e-300)) ** 2).sum(axis=1) for _, residuals in fits]
    improvement = squares[0] - squares[1]
    is_better = is_significantly_positive(improvement) and squares[0].sum() > MIN_FRAME_RATIO * squares[1].sum()
    lowest = [payload.load.mass_interval[0] for payload in payloads]
    is_massless = lowest[0] <= 0 < lowest[1] and not is_significantly_positive(-improvement)
    if not (is_better or is_massless):
        return []
    name = "sensor" if log.frame == "world" else "world"
    message = (
        f"the readings are declared in the {log.frame} frame, but fit the {name} frame: "
        f"a tool of {payloads[1].load.mass:.3g} kg would explain them"
    )
    remedy = f'Set frame = "{name}" in the metadata (--wrench-frame {name}), or correct the poses'
    return [Finding(Kind.WRENCH_FRAME, Severity.ERROR, message, remedy)]


_TEMPLATE: Final = """\
/* Weight and bias of the tool on a force/torque sensor. Generated by mindyn. C99.
 *
 * R [9]                  rotation in the world of the frame whose pose was logged, row by row
 * force, torque [3]      readings in the axes of the @FRAME@, N and N m: @ACTS@
 * contact_force, ..      wrench of the environment on the tool in the axes of the sensor, about its origin
 * Valid at rest and in slow motion. */
#ifndef @GUARD@_H
#define @GUARD@_H

static const double @NAME@_mass = @MASS@;
static const double @NAME@_first_moment[3] = {@MOMENT@};

static void @NAME@_compensate(const double *R, const double *force, const double *torque, double *contact_force,
    double *contact_torque)
{
    static const double gravity[3] = {@GRAVITY@}, bias[6] = {@BIAS@};
    static const double X[9] = {@ROTATION@};
    static const int in_world = @WORLD@;
    const double *h = @NAME@_first_moment;
    double S[9], g[3], f[3], t[3];
    int i, j;
    for (i = 0; i < 9; i++)
        S[i] = R[i / 3 * 3] * X[i % 3] + R[i / 3 * 3 + 1] * X[3 + i % 3] + R[i / 3 * 3 + 2] * X[6 + i % 3];
    for (i = 0; i < 3; i++) {
        g[i] = 0.0;
        f[i] = in_world ? 0.0 : force[i];
        t[i] = in_world ? 0.0 : torque[i];
        for (j = 0; j < 3; j++) {
            g[i] += S[3 * j + i] * gravity[j];
            f[i] += in_world ? S[3 * j + i] * force[j] : 0.0;
            t[i] += in_world ? S[3 * j + i] * torque[j] : 0.0;
        }
    }
    for (i = 0; i < 3; i++) {
        const int k = (i + 1) % 3, l = (i + 2) % 3;
        contact_force[i] = @SIGN@ * (f[i] - bias[3 + i]) - @NAME@_mass * g[i];
        contact_torque[i] = @SIGN@ * (t[i] - bias[i]) - (h[k] * g[l] - h[l] * g[k]);
    }
}

#endif
"""
