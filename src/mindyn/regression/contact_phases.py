"""Equations of a robot with a floating base: trunk held, in flight, and in contact.

In body coordinates the equations of motion of n joints, of which the first six are the base, are

    Y beta = (0, tau) + sum_k J_k^T w_k

with the joint torques tau and a wrench w_k on the robot at each frame k in contact. Equations result in three cases:

(a) trunk held    the wrench on the trunk is unknown: the six rows of the base are dropped
(b) flight        no wrench acts: all rows are used, with zero torque in the rows of the base
(c) contact       measured wrenches are added to the right side. If they are unknown, both sides are multiplied by
                  P = 1 - J^+ J, which projects onto the null space of the contact Jacobians: P J^T w = 0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mindyn.foundation.algebra.requirements import require_shape
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, list_names, require_choice
from mindyn.kernels.external_wrench import ContactKind, frame_jacobian
from mindyn.kernels.model import Model, compile_model
from mindyn.logs.conditioning import Conditioning, edge_rows, min_segment_rows, motion_cutoff, require_resolved
from mindyn.logs.differentiation import fit_spline
from mindyn.logs.filters import lowpass
from mindyn.logs.log import Log
from mindyn.logs.pipeline import MIN_SAMPLES
from mindyn.logs.pose_rates import differentiate_quaternions, with_continuous_sign
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.regression.gather_blocks import Block, block_counts, split_into_blocks
from mindyn.regression.information import triangle_of
from mindyn.regression.regressor import Parts, Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.floating_base import (
    BASE_COUNT,
    body_coordinates,
    require_floating_base,
    rotations_from_quaternions,
)
from mindyn.robots.robot import Robot

MIN_CONTACT_SINGULAR_VALUE: Final = 1e-9
"""Singular values of contact Jacobians that are smaller than this, relative to the largest, count as zero. Two feet on
one line have dependent rows, whose singular value is 1e-15 by rounding.
"""


def differentiate_free_flyer(
    robot: Robot, q: ArrayLike, rate_hz: float, cutoff_hz: float | None = None
) -> tuple[Array, Array, Array]:
    """Compute body twists and their derivatives from logged poses and joint positions.

    Quaternions are differentiated, not angles, so that no attitude is singular.

    Parameters
    ----------
    robot : Robot
        Robot with a floating base and n joints.
    q : array_like, shape (N, n + 1)
        Position and quaternion (x, y, z, w) of the trunk, then the other joints, evenly spaced in time.
    rate_hz : float
        Sampling rate.
    cutoff_hz : float, optional
        Cut-off of a zero-phase low pass on positions; None does not filter.

    Returns
    -------
    q : ndarray, shape (N, n + 1)
        Filtered positions, with unit quaternions of continuous sign.
    v, a : ndarray, shape (N, n)
        Body twist (linear, angular) and its derivative, then the rates of the other joints.
    """
    require_floating_base(robot)
    given = np.array(q, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != len(robot.joints) + 1 or len(given) < 6:
        raise InputError(
            f"q has shape {given.shape}, but (N, {len(robot.joints) + 1}) with at least 6 rows is needed",
            code=Code.WRONG_SHAPE,
            subject="q",
        )
    s, w, wd = differentiate_quaternions(given[:, 3:7], rate_hz, cutoff_hz)
    smooth = lowpass(given, cutoff_hz, rate_hz).copy()
    smooth[:, 3:7] = s
    R = rotations_from_quaternions(s)
    _, speeds, accelerations = fit_spline(smooth, rate_hz)
    v = np.einsum("nji,nj->ni", R, speeds[:, :3])
    a = np.einsum("nji,nj->ni", R, accelerations[:, :3]) - np.cross(w, v)
    return smooth, np.hstack([v, w, speeds[:, 7:]]), np.hstack([a, wd, accelerations[:, 7:]])


def floating_samples(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    tau: ArrayLike,
    *,
    rate_hz: float,
    wrenches: Mapping[str, ArrayLike] | None = None,
    trunk_held: bool = False,
) -> Samples:
    """Convert the motion of a floating base and its joint torques to samples in body coordinates.

    Parameters
    ----------
    robot : Robot
        Robot with a floating base and n joints.
    q : array_like, shape (N, n + 1)
        Position and quaternion (x, y, z, w) of the trunk, then the other joints, as in Pinocchio.
    v, a : array_like, shape (N, n)
        Body twist (linear, angular) and its derivative, then the other joints; see `differentiate_free_flyer`.
    tau : array_like, shape (N, n - 6)
        Torques of the joints after the base, N m or N.
    rate_hz : float
        Sampling rate.
    wrenches : mapping of str to array_like, shape (N, 6), optional
        Measured moment and force on the robot at each link or frame in contact, at its origin and in its axes (N m, N).
    trunk_held : bool
        Whether a stand or a hand holds the trunk with an unknown wrench: the rows of the base are then not used.

    Returns
    -------
    Samples
        For `build_rows`, `floating_rows` and estimators. Base torques are the force and the moments about z, y, x.

    Raises
    ------
    InputError
        If an array has a wrong shape.
    """
    motion = body_coordinates(robot, q, v, a)
    torques, shape = np.asarray(tau, dtype=np.float64), (len(motion[0]), len(robot.joints) - BASE_COUNT)
    require_shape(torques.shape, shape, "tau")
    forces = np.hstack([np.zeros((len(torques), BASE_COUNT)), torques])
    model = compile_model(robot)
    for frame, wrench in (wrenches or {}).items():
        forces += joint_torques_of_wrench(model, motion[0], frame, wrench)
    usable = np.tile(np.arange(len(robot.joints)) >= BASE_COUNT, (len(forces), 1)) if trunk_held else None
    return Samples(robot.joint_names, *motion, forces, rate_hz, np.zeros(len(forces), dtype=np.int64), usable)


def joint_torques_of_wrench(model: Model, q: Array, link: str, wrench: ArrayLike) -> Array:
    """Return the joint torques J^T w (N, n) of wrenches (N, 6) on a link or frame, in its axes and at its origin."""
    w = np.asarray(wrench, dtype=np.float64)
    require_shape(w.shape, (len(q), 6), link)
    return np.asarray(np.einsum("nij,ni->nj", frame_jacobian(model, q, link), w))


def floating_rows(
    robot: Robot,
    phases: Sequence[tuple[Samples, Sequence[str]]],
    settings: EquationSettings | None = None,
    *,
    contact: ContactKind = "point",
) -> Rows:
    """Return the equations of a robot with a floating base during phases with different contacts.

    Parameters
    ----------
    robot : Robot
        Robot with a floating base.
    phases : sequence of (Samples, sequence of str)
        Samples of `floating_samples`, and the links or frames in contact whose wrenches are unknown: none in flight, if
        the trunk is held, or if all wrenches were measured.
    settings : EquationSettings, optional
        Friction model and low-pass filter of the equations.
    contact : {"point", "surface"}
        "point": a contact exerts a force at the origin of its frame. "surface": a force and a moment.

    Returns
    -------
    Rows
        Equations for `LeastSquares().fit`, `PhysicallyConsistent().fit` and other estimators that need R factors alone.

    Raises
    ------
    InputError
        If the robot has a fixed base, no samples are given, or a frame does not exist.
    """
    require_choice(contact, ("point", "surface"), "contact")
    return _rows_of_phases(robot, [(samples, frames, contact) for samples, frames in phases], settings)


def _rows_of_phases(
    robot: Robot, phases: Sequence[tuple[Samples, Sequence[str], str]], settings: EquationSettings | None
) -> Rows:
    require_floating_base(robot)
    if not phases or not all(len(samples) for samples, _, _ in phases):
        raise InputError("floating_rows needs phases with samples", code=Code.TOO_LITTLE_DATA, subject="phases")
    plain = build_rows(robot, phases[0][0], settings)
    blocks: list[Block] = []
    counts = block_counts([len(samples) for samples, _, _ in phases])
    for number, ((samples, frames, contact), count) in enumerate(zip(phases, counts, strict=True)):
        regressor, used = plain.regressor, samples
        if frames and samples.usable is not None:
            raise InputError(
                "rows cannot be projected if the trunk is held with an unknown wrench",
                hint='name the trunk among the contacts, with contact="surface"',
                code=Code.UNSUPPORTED,
                subject="phases",
            )
        if frames:
            regressor = _ProjectedRegressor(plain.regressor, tuple(frames), contact)
            used = regressor.project(samples)
        blocks += split_into_blocks(regressor, used, plain.settings, count, number)
    columns = tuple(np.arange(plain.regressor.count) for _ in plain.regressor.columns)
    return Rows(plain.regressor, plain.settings, None, tuple(_with_columns(block, columns) for block in blocks))


def rows_of_logs(robot: Robot, logs: Sequence[Log], settings: EquationSettings) -> Rows:
    """Return the equations of logs of a floating base whose metadata list `phases`.

    Parameters
    ----------
    robot : Robot
        Robot with a floating base.
    logs : sequence of Log
        Logs with `base_pose`, unless the trunk is held, and `phases` in their metadata.
    settings : EquationSettings
        Friction model, low-pass filter of the equations, and conditioning of the motion, without any "auto".

    Returns
    -------
    Rows
        Equations for estimators that need R factors alone.

    Raises
    ------
    InputError
        If a frame does not exist, the pose of a free trunk is missing, or no phase has enough rows.
    """
    assert settings.conditioning is not None
    phases = [
        (samples, phase.get("contacts", ()), phase.get("contact", "point"))
        for log in logs
        for phase in log.metadata.phases
        for samples in _phase_samples(robot, log, phase, settings.conditioning)
    ]
    return _rows_of_phases(robot, phases, settings)


def _phase_samples(robot: Robot, log: Log, phase: Mapping[str, Any], c: Conditioning) -> Iterator[Samples]:
    """Yield the samples of each segment of a phase, at even times and without its ends."""
    is_held, rate = phase.get("trunk") == "held", require_resolved(c.rate_hz, "rate_hz")
    if log.base_pose is None and not is_held:
        raise InputError(
            "the pose of the trunk is missing, which only a held trunk may lack",
            hint="set base_pose = [columns of x, y, z and of the quaternion x, y, z, w] in the sidecar of the log",
            code=Code.MISSING_VALUE,
            subject="base_pose",
        )
    first, last = phase.get("times", (0.0, np.inf))
    part = log.take((log.time >= first) & (log.time <= last))
    level = np.tile([0.0, 0, 0, 0, 0, 0, 1], (len(part), 1))
    pose = level if part.base_pose is None else part.base_pose
    readings = np.zeros((len(part), 0)) if part.wrenches is None else part.wrenches
    columns = np.hstack([with_continuous_sign(pose), part.q, part.tau, readings])
    ends = np.flatnonzero(np.diff(part.time, append=np.inf) > c.longest_gap_rows / rate) + 1
    for a, b in pairwise([0, *ends]):
        even = np.arange(part.time[a], part.time[b - 1] + 1e-9, 1 / rate)
        if len(even) < max(min_segment_rows(c), 2 * edge_rows(c) + MIN_SAMPLES):
            continue
        n, kept = len(robot.joints), slice(edge_rows(c), len(even) - edge_rows(c))
        values = np.column_stack([np.interp(even, part.time[a:b], column) for column in columns[a:b].T])
        q, v, acceleration = differentiate_free_flyer(robot, values[:, : n + 1], rate, motion_cutoff(c))
        if not np.ptp(pose[a:b], axis=0).any():  # filters of constants leave rounding errors, which excite nothing
            v[:, :BASE_COUNT] = acceleration[:, :BASE_COUNT] = 0.0
        of_frames = np.split(values[kept, 2 * n - 5 :], range(6, readings.shape[1], 6), axis=1)
        measured = dict(zip(log.metadata.wrench_columns, of_frames, strict=False))
        yield floating_samples(
            robot,
            q[kept],
            v[kept],
            acceleration[kept],
            values[kept, n + 1 : 2 * n - 5],
            rate_hz=rate,
            wrenches={frame: measured[frame] for frame in phase.get("wrenches", {})},
            trunk_held=is_held,
        )


def _with_columns(block: Block, columns: tuple[NDArray[np.intp], ...]) -> Block:
    """Return the block with R factors over all columns, so that blocks of different phases can be added."""
    information, factors = block.information, []
    for factor, own in zip(information.factors, information.columns, strict=True):
        wide = np.zeros((len(factor), len(information.names) + 1))
        wide[:, [*own, -1]] = factor
        factors.append(triangle_of(wide))
    return replace(block, information=replace(information, columns=columns, factors=tuple(factors)))


class _ProjectedRegressor(Regressor):
    """Columns P Y, with the projector P (N, n, n) onto the null space of the Jacobians of contacts."""

    def __init__(self, plain: Regressor, frames: tuple[str, ...], contact: str) -> None:
        super().__init__(plain.robot, plain.friction, plain.base, plain.kernel)
        self._frames, self._first = frames, 3 if contact == "point" else 0
        self._model, self._plain = compile_model(plain.robot), plain
        self.columns = tuple(np.arange(self.count) for _ in self.columns)

    def _projector(self, q: Array) -> Array:
        J = np.concatenate([frame_jacobian(self._model, q, frame)[:, self._first :] for frame in self._frames], axis=1)
        _, s, Vt = np.linalg.svd(J)
        seen = np.zeros(Vt.shape[:2], dtype=bool)
        seen[:, : s.shape[1]] = s > MIN_CONTACT_SINGULAR_VALUE * s[:, :1]
        if seen.all():
            raise InputError(
                f"the contacts at {list_names(self._frames)} fix all joints: no equation without their wrenches "
                "remains",
                hint='pass contact="point" if the feet cannot exert moments, or measure the wrenches',
                code=Code.NOT_IDENTIFIABLE,
                subject="phases",
            )
        free = Vt * ~seen[:, :, None]
        return np.asarray(np.swapaxes(free, 1, 2) @ free)

    def project(self, samples: Samples) -> Samples:
        """Return the samples with torques P tau."""
        return replace(samples, tau=np.einsum("nij,nj->ni", self._projector(samples.q), samples.tau))

    def parts(
        self, q: Array, qd: Array, qdd: Array, directions: Array | None = None, out: Array | None = None
    ) -> Parts:
        """Return the projected columns of every joint."""
        Y = self._projector(q) @ self._plain.dense(self._plain.parts(q, qd, qdd, directions, out))
        # A low pass filters the kernel's columns in their buffer, and copies of further ones: these are copies.
        return [[Y[:, joint, :0], Y[:, joint]] for joint in range(self.joint_count)]
