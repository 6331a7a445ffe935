"""Diagnose joint zeros and gravity from the motion alone, without known masses.

A wrong joint zero rotates all links beyond the joint. Free parameters of these links absorb most of the error, and all
of it at a vertical first joint and at the last joint. At the joints in between, the coupling terms of the links do not
rotate with them, so that no masses fit the torque of an accurate log.

A controller may remove gravity from the torque before it is logged. If the robot file has masses, `weight` compares the
torque with them. If it has none, models with weight explain the torque badly, and a model without weight explains it
better:

    with weight      tau = Y(q, qd, qdd) beta
    without weight   tau = (Y(q, qd, qdd) - Y(q, 0, 0)) beta        for the columns of links and rotors
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.diagnostics.file_comparison import states_masses
from mindyn.identification.diagnostics.robot_file import absent_gravity, wrong_zero
from mindyn.identification.diagnostics.weight import weigh
from mindyn.identification.smooth_rows import Residuals, SmoothRows

TRIED_DEG: Final = (-135.0, -90.0, -45.0, -20.0, -10.0, 10.0, 20.0, 45.0, 90.0, 135.0, 180.0)
STEPS_DEG: Final = (5.0, 2.5)
ALIKE: Final = 1.02
"""Joints are also named if a correction of their zero gives a residual of at most this multiple of the smallest one."""


def run(data: DiagnosticData) -> list[Finding]:
    """Return findings on absent gravity, else the correction that the robot file suggests, else a wrong joint zero."""
    if without := list(_find_absent_gravity(data)):
        return without
    columns = data.column_correction
    if columns is not None:  # fitted corrections decide before those that rely on the masses of the file
        return list(_find_joint_zero(data, columns.ratio)) or [columns.finding]
    return [data.correction] if data.correction is not None else list(_find_joint_zero(data, limit.MAX_CORRECTED))


def _find_absent_gravity(data: DiagnosticData) -> Iterator[Finding]:
    """Find torques without gravity, in all logs or in some: from the masses of the file, or else from the motion
    alone.
    """
    smooth = data.smooth
    if smooth is None or not np.linalg.norm(data.estimate.robot.gravity) > 0:
        return
    has_masses = states_masses(data.robot)
    for name, rows in _list_logs(data, smooth):
        where = f"in log {name}, " if name else ""
        if has_masses:
            bare = replace(data.robot, drives=(), extras=())
            q, qd, qdd, _ = smooth.motion
            evidence = weigh(bare, q[rows], qd[rows], qdd[rows], smooth.tau[rows])
            if evidence is not None and evidence.is_weightless:
                joints = list_names(evidence.joints)
                yield absent_gravity(
                    f"{where}the dynamics of the robot file's masses without their weight explain the torque of "
                    f"{joints}, and with it they do not"
                )
        elif not (name and data.is_poorly_excited) and (ratio := _weightless_ratio(data, rows)):
            yield absent_gravity(f"{where}a model without weight leaves {100 * ratio:.0f} % of the error")


def _list_logs(data: DiagnosticData, smooth: SmoothRows) -> list[tuple[str, NDArray[np.bool_]]]:
    """Return the name and the smooth rows of each file of a set; for a single file, all rows with an empty name."""
    files = [(log.name, log.sources) if log.name else k for k, log in enumerate(data.logs)]  # a file may be in parts
    if smooth.owners is None or len(set(files)) < 2:
        return [("", np.ones(len(smooth.tau), dtype=np.bool_))]
    numbers = {file: [k for k, other in enumerate(files) if other == file] for file in dict.fromkeys(files)}
    return [(str(data.logs[k[0]].name or k[0] + 1), np.isin(smooth.owners, k)) for k in numbers.values()]


def _weightless_ratio(data: DiagnosticData, rows: NDArray[np.bool_]) -> float | None:
    """Return the residual of a model without weight relative to that with weight; None if it is not significantly
    smaller.
    """
    smooth, given, gravity = data.smooth, data.smooth_fit, float(np.linalg.norm(data.estimate.robot.gravity))
    if smooth is None or given is None or not gravity > 0 or rows.sum() < limit.MIN_ROWS_PER_PARAMETER:
        return None
    q, _, _, directions = smooth.motion
    weight = data.weight_columns(q, directions)
    if float(weight[rows].std(axis=0).max(initial=0.0)) < limit.MIN_COMPARED_FRACTION * gravity:
        return None
    weightless = replace(smooth, Y=smooth.Y - weight * rows[:, None, None]).fit().of_rows(rows)
    before = given.of_rows(rows)
    ratio = weightless.ratio_to(before)
    is_less = ratio < limit.MAX_WEIGHTLESS_RATIO and weightless.are_significantly_below(before)
    return ratio if is_less else None


def _find_joint_zero(data: DiagnosticData, largest_ratio: float) -> Iterator[Finding]:
    given, names = data.smooth_fit, data.joint_names
    asked = [j for j, joint in enumerate(data.estimate.robot.primary_joints[:-1]) if joint.kind != "prismatic"]
    if given is None or len(asked) < 2 or not (given.means > 0).all():
        return
    best = {joint: _best_zero(data, joint) for joint in asked}
    ratios = {joint: fit.ratio_to(given) for joint, (_, fit) in best.items()}
    joint = min(asked, key=lambda j: ratios[j])
    degrees, fit = best[joint]
    is_large = abs(degrees) >= limit.MIN_ZERO_DEG[0] and ratios[joint] <= largest_ratio
    if is_large and fit.are_significantly_below(given):
        alike = [j for j in asked if j != joint and ratios[j] < ALIKE * ratios[joint]]
        also = f"; so would {', '.join(f'{best[j][0]:+.0f} degrees at {names[j]}' for j in alike)}" if alike else ""
        yield wrong_zero(names[joint], degrees, f"leaves {100 * ratios[joint]:.0f} % of the error{also}")


def _best_zero(data: DiagnosticData, joint: int) -> tuple[float, Residuals]:
    """Return the best zero of a joint, in degrees, and its residuals."""
    smooth = data.smooth
    assert smooth is not None
    q, *others = smooth.motion

    def fit(degrees: float) -> Residuals:
        moved = q + np.deg2rad(degrees) * np.eye(q.shape[1])[joint]
        return replace(smooth, Y=data.columns((moved, *others))).fit()

    def size(degrees: float) -> float:
        return float(np.log(np.maximum(tried[degrees].means, 1e-300)).sum())

    tried = {degrees: fit(degrees) for degrees in TRIED_DEG}
    for step in STEPS_DEG:
        best = min(tried, key=size)
        tried |= {near: fit(near) for near in (best - step, best + step)}
    best = min(tried, key=size)
    return best, tried[best]
