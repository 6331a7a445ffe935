"""Compare the log with the robot file's inertial parameters to find wrong user input.

The masses in a file are rarely exact, but good enough for this comparison. On sound logs of four measured arms, the
torque of the joints that carry weight is 0.85 to 2 times the torque of the file's parameters plus friction (2 with a
payload that the file does not contain), and the file explains all but 7 to 14 % of it. A wrong joint zero, a reversed
sign, currents that are read as torques, or another gravity each cause a characteristic difference, which the right
correction removes.

    tau_j = s_j T_j(q + delta, qd, qdd; g) + fv qd_j + fc tanh(qd_j / w) + fo + I qdd_j,   j in the strong joints

T is the inverse dynamics of the file's parameters; strong joints are those with a large T. The misfit of a correction
is the mean over the strong joints of the ratio of residual power to torque power, both after the part that friction,
offset and rotor alone explain is removed. Both the arithmetic and the geometric mean are used, so that one joint with
wrong masses in the file does not hide the improvement at other joints.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import inf, log, sqrt
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.file_comparison import FileComparison

THOUSAND: Final = 1000.0
TURNS: Final = 4
"""How often slopes and gravity are fitted alternately."""
NEAR_DEG: Final = 22.5
"""Degrees: largest error of a joint zero that is tried if the misfit is not large."""

Correction = tuple[Array, Finding | None]
"""Misfits (2, 2) before and after a correction, and its finding; None for a correction of the file's masses."""


def absent_gravity(seen: str) -> Finding:
    """Return the finding that the torque does not contain gravity."""
    remedy = (
        "Log the torque of the motors or of the joints' sensors, not a compensated command or an external torque; or "
        "pass --gravity 0 0 0 if a spring or counterweight balances the arm"
    )
    return warning(Kind.ABSENT_GRAVITY, f"the torque does not contain gravity: {seen}", remedy)


def wrong_zero(joint: str, degrees: float, seen: str) -> Finding:
    """Return the finding that the zero of a joint is wrong."""
    message = f"the zero of joint {joint} is off: {degrees:+.0f} degrees {seen}"
    remedy = "Set position_offset to the zero of the robot file, or check the direction of the joint's axis"
    value = float(np.deg2rad(degrees))
    return warning(Kind.WRONG_JOINT_ZERO, message, remedy, (joint,), value, "rad")


def _wrong_sign(joints: tuple[str, ...]) -> Finding:
    whose, columns = (f"the torque of joint {joints[0]}", "its column") if joints else ("every torque", "all columns")
    message = f"{whose} has the opposite sign of the torque that the masses of the robot file need"
    remedy = f"Reverse the sign of {columns} of torque (or of position, if the joint's axis is counted the other way)"
    return warning(Kind.WRONG_TORQUE_SIGN, message, remedy, joints, -1.0)


def wrong_gravity(gravity: Array, degrees: float) -> Finding:
    """Return the finding that gravity has another direction than the robot file, by some degrees."""
    vector = " ".join(f"{component + 0.0:.3g}" for component in gravity)
    message = f"gravity is {degrees:.0f} degrees off the given direction: the torque fits ({vector}) m/s^2 in the base"
    remedy = f"Pass --gravity {vector}, or --mount; measure the slope if the base is not level"
    return warning(Kind.WRONG_GRAVITY, message, remedy, (), float(np.deg2rad(degrees)), "rad")


def find_correction(compared: FileComparison | None) -> Finding | None:
    """Return the finding on an input that the robot file contradicts; None if it agrees, or has no inertial
    parameters.
    """
    if compared is None:
        return None
    T = compared.file_torque()
    misfit = compared.misfit(T)
    if sqrt(misfit.min()) < limit.FILE_EXPLAINS and (scale := _wrong_scale(compared.slopes(T))):
        return scale
    if sqrt(misfit.min()) < limit.FILE_EXPLAINS and (swapped := _find_swapped_sizes(compared, T)):
        return swapped
    corrections = list(_try_corrections(compared, T, misfit))
    for mean in (0, 1):  # arithmetic, geometric
        best = min(corrections, key=lambda correction: float(correction[0][1, mean]), default=None)
        if best is not None and best[1] is not None:
            before, after = best[0][:, mean]
            if after < min(limit.MAX_CORRECTED * before, limit.FILE_EXPLAINS**2):
                return best[1]
    return None


def _wrong_scale(slopes: Array) -> Finding | None:
    """Return the finding on a torque with the right shape but a scale that neither masses nor a payload explain."""
    if slopes.max() >= 1 / limit.MAX_SCALE and slopes.min() <= limit.MAX_SCALE:
        return None
    factor = float(np.exp(np.log(slopes).mean()))
    kind, remedy = Kind.WRONG_TORQUE_UNIT, "Check that no gear ratio is applied twice, and units.torque"
    if is_about_1000(factor):
        remedy = 'The torque may be in mN m: set units.torque = "mN m"'
    elif is_about_1000(1 / factor):
        remedy = 'The torque may be in kN m, or in N m where "mN m" is given: correct units.torque'
    elif factor < 1:
        kind = Kind.MOTOR_CURRENT
        remedy = (
            "The torque may be a motor current, or a motor's torque before its gear: give the drive gains in N m per "
            'A, or side = "motor" and the gears'
        )
    message = f"the torque is {factor:.3g} times that of the robot file's masses on this motion"
    return warning(kind, message, remedy, value=factor)


def is_about_1000(factor: float) -> bool:
    """Return whether a factor is about 1000, as between N m and mN m."""
    return abs(log(factor / THOUSAND)) < log(limit.MAX_SCALE)


def _try_corrections(compared: FileComparison, T: Array, misfit: Array) -> Iterator[Correction]:
    """Try corrections, each of a single input."""
    names, strong = compared.robot.primary_names, compared.strong(T)
    if sqrt(misfit[0]) > limit.MIN_MISFIT:
        for joint in strong:
            yield _try_joint_zeros(compared, joint, T, limit.MIN_ZERO_DEG[joint == strong[-1]])
        yield from _try_tilted_bases(compared, T)
    if sqrt(misfit[0]) < limit.LARGE_MISFIT:
        return
    for joint in strong:
        signs = np.where(np.arange(len(names)) == joint, -1.0, 1.0)
        yield compared.corrected_misfit(T, T, signs * compared.tau), _wrong_sign((names[joint],))
    yield from _reverse_joint(compared, T)
    for pair in combinations(range(len(names)), 2):
        yield (
            compared.corrected_misfit(T, T, _swap_torques(compared.tau, pair)),
            swapped_torques(names[pair[0]], names[pair[1]]),
        )


def _swap_torques(tau: Array, pair: tuple[int, int]) -> Array:
    swapped = tau.copy()
    swapped[:, pair] = tau[:, pair[::-1]]
    return swapped


def swapped_torques(*joints: str) -> Finding:
    """Return the finding that the torques of two joints are swapped."""
    message = f"the torques of {' and '.join(joints)} are swapped"
    return warning(Kind.SWAPPED_TORQUES, message, "Correct the order of the columns", joints)


def _find_swapped_sizes(compared: FileComparison, T: Array) -> Finding | None:
    """Return parallel joints with torques of the same shape, whose sizes fit the masses of the file if swapped."""

    def error(tau: Array, pair: tuple[int, int]) -> float:
        """Return the sum of |ln slope|."""
        slopes = [compared.compare(joint, tau[:, joint], T[:, joint])[0] for joint in pair]
        return sum(abs(log(slope)) for slope in slopes) if min(slopes) > 0 else inf

    gains = {}
    for pair in combinations(compared.strong(T), 2):
        swapped = _swap_torques(compared.tau, pair)
        before, after = error(compared.tau, pair), error(swapped, pair)
        if log(limit.MAX_SCALE) + after < before < inf and sqrt(compared.misfit(T, swapped)[0]) < limit.FILE_EXPLAINS:
            gains[pair] = before - after
    names = compared.robot.primary_names
    return swapped_torques(*(names[joint] for joint in max(gains, key=lambda pair: gains[pair]))) if gains else None


def _try_tilted_bases(compared: FileComparison, T: Array) -> Iterator[Correction]:
    """Try the direction of gravity that fits the torque best, which corrects a base that is not level.

    For given slopes of the joints, the torque is linear in gravity; slopes and gravity are fitted alternately.
    """
    gravity = compared.robot.gravity
    size, slopes = float(np.linalg.norm(gravity)), dict.fromkeys(compared.strong(T), 1.0)
    if not size > 0 or len(slopes) < 2:
        return
    weightless = compared.file_torque(np.zeros(3))
    weights = [compared.file_torque(axis) - weightless for axis in np.eye(3)]
    other = gravity
    for _ in range(TURNS):
        columns, left = [], []
        for joint, slope in slopes.items():
            others, tau = compared.others[joint], compared.tau[:, joint]
            block = np.column_stack(
                [slope * weight[:, joint] for weight in weights] + [tau - slope * weightless[:, joint]]
            )
            block = (block - others @ (others.T @ block)) / np.linalg.norm(tau - others @ (others.T @ tau))
            columns.append(block[:, :3])
            left.append(block[:, 3])
        fitted = np.linalg.lstsq(np.vstack(columns), np.concatenate(left), rcond=None)[0]
        if not np.linalg.norm(fitted) > 0:
            return
        other = fitted * size / np.linalg.norm(fitted)
        bent = weightless + np.einsum("k,kij->ij", other, np.array(weights))
        slopes = {joint: compared.compare(joint, compared.tau[:, joint], bent[:, joint])[0] for joint in slopes}
    degrees, main = _degrees_between(other, gravity), int(np.argmax(np.abs(other)))
    along = size * np.sign(other[main]) * np.eye(3)[main]
    is_along = np.linalg.norm(other - along) < limit.ALONG_AXIS * size
    if degrees >= limit.MIN_ZERO_DEG[0] and not (
        is_along and _degrees_between(along, gravity) >= limit.MIN_ZERO_DEG[0]
    ):
        misfits = compared.corrected_misfit(T, compared.file_torque(other)) * [[1.0], [limit.HANDICAPS["tilt"]]]
        yield misfits, wrong_gravity(other, degrees)


def _degrees_between(vector: Array, other: Array) -> float:
    cosine = vector @ other / (np.linalg.norm(vector) * np.linalg.norm(other))
    return float(np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0))))


def _reverse_joint(compared: FileComparison, T: Array) -> Iterator[Correction]:
    """Try gravity along another axis, and reversed torques of all joints, which differ from reversed gravity only by
    friction.
    """
    gravity = compared.robot.gravity
    size = float(np.linalg.norm(gravity))
    for axis, sign in product(range(3), (1.0, -1.0)) if size > 0 else ():
        other = sign * size * np.eye(3)[axis]
        degrees = _degrees_between(other, gravity)
        if degrees >= limit.MIN_ZERO_DEG[0]:
            yield compared.corrected_misfit(T, compared.file_torque(other)), wrong_gravity(other, degrees)
    if len(compared.strong(T)) > 1 and _friction_drives(compared, T):
        yield compared.corrected_misfit(T, T, -compared.tau) / [[1.0], [limit.HANDICAPS["zero"]]], _wrong_sign(())


def _friction_drives(compared: FileComparison, T: Array) -> bool:
    """Return whether the torque that T does not explain delivers power to most of the strong joints."""
    powers = []
    for joint in compared.strong(T):
        slope, _, _ = compared.compare(joint, compared.tau[:, joint], T[:, joint])
        rest = compared.tau[:, joint] - slope * T[:, joint]
        powers.append(float((rest - rest.mean()) @ compared.qd[:, joint]))
    return float(np.median(powers)) < 0


def _try_joint_zeros(compared: FileComparison, joint: int, T: Array, least_deg: float) -> Correction:
    """Try joint zeros, first with large steps, then with small ones.

    Return no finding if another centre of mass explains as much.
    """
    if compared.robot.primary_joints[joint].kind == "prismatic":
        return np.ones((2, 2)), None
    unit = np.eye(len(compared.robot.primary_names))[joint]

    def corrected(degrees: float) -> Array:
        return compared.corrected_misfit(T, compared.file_torque(moved=np.deg2rad(degrees) * unit))

    def left(degrees: float) -> float:
        return float((tried[degrees][1] / tried[degrees][0]).prod())

    far = 180.0 if sqrt(compared.misfit(T)[0]) > limit.LARGE_MISFIT else NEAR_DEG
    tried = {float(degrees): corrected(degrees) for degrees in np.arange(-far, far, 15.0)}
    for step in (7.5, 3.75, 1.875):
        best = min(tried, key=left)
        tried |= {near: corrected(near) for near in (best - step, best + step)}
    best = min(tried, key=left)
    # An inverted mounting and a zero that is off by half a turn look alike; the mounting is more likely.
    least_deg = max(least_deg, float(np.rad2deg(np.arctan2(limit.CENTRE_ERROR_M, compared.lever(joint)))))
    if abs(best) < least_deg:
        return tried[best] * [[1.0], [limit.HANDICAPS["masses"]]], None
    zero = wrong_zero(compared.robot.primary_names[joint], best, "fits the robot file")
    return tried[best] * [[1.0], [limit.HANDICAPS["zero"]]], zero
