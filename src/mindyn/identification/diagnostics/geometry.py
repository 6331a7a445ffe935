"""Diagnose joint zeros and gravity from the motion alone, whatever the links weigh.

A wrong joint zero rotates all links beyond the joint. Free parameters of these links absorb most of the error, and all
of it at a vertical first joint and at the last joint. In between, the coupling terms of the links do not rotate along,
so that no masses fit the torque of an accurate log.

If a controller removed gravity from the torque before logging, any masses explain the torque badly, and a model without
weight explains it better:

    with weight      tau = Y(q, qd, qdd) beta
    without weight   tau = (Y(q, qd, qdd) - Y(q, 0, 0)) beta        for the columns of links and rotors
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.findings import Finding
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.data import DiagnosticData, Residuals
from mindyn.identification.diagnostics.robot_file import absent_gravity, wrong_zero
from mindyn.numerics.threads import map_in_threads

TRIED_DEG: Final = (-135.0, -90.0, -45.0, -20.0, -10.0, 10.0, 20.0, 45.0, 90.0, 135.0, 180.0)
STEPS_DEG: Final = (5.0, 2.5)
ALIKE: Final = 1.02
"""Also name joints whose zeros leave up to this multiple of the least residual."""


def run(data: DiagnosticData) -> list[Finding]:
    """Return gravity that is absent from one log, the correction that the robot file suggests, or else absent gravity
    or a wrong joint zero from the motion alone.
    """
    if without := list(_find_logs_without_gravity(data)):
        return without
    if data.correction is not None:
        return [data.correction]
    return list(_find_absent_gravity(data)) or list(_find_joint_zero(data))


def _find_absent_gravity(data: DiagnosticData) -> Iterator[Finding]:
    if data.smooth is not None and (ratio := _weightless_ratio(data, np.ones(len(data.smooth.tau), dtype=np.bool_))):
        yield absent_gravity(f"a model without weight leaves {100 * ratio:.0f} % of the error")


def _find_logs_without_gravity(data: DiagnosticData) -> Iterator[Finding]:
    """Find logs of a set whose torque does not contain gravity, unlike that of the others."""
    owners = None if data.smooth is None else data.smooth.owners
    if owners is None or (data.uncertainty or 0.0) > limit.MAX_UNCERTAINTY:
        return
    files = [(log.name, log.sources) if log.name else k for k, log in enumerate(data.logs)]  # a file may be in parts
    for file in dict.fromkeys(files) if len(set(files)) > 1 else ():
        numbers = [k for k, other in enumerate(files) if other == file]
        if ratio := _weightless_ratio(data, np.isin(owners, numbers)):
            name = data.logs[numbers[0]].name or numbers[0] + 1
            yield absent_gravity(f"in log {name}, a model without weight leaves {100 * ratio:.0f} % of the error")


def _weightless_ratio(data: DiagnosticData, rows: NDArray[np.bool_]) -> float | None:
    """Return the residual of a model without weight in some smooth rows, relative to the residual there; None if it is
    not significantly smaller.
    """
    smooth, given, gravity = data.smooth, data.smooth_fit, float(np.linalg.norm(data.estimate.robot.gravity))
    if smooth is None or given is None or not gravity > 0 or rows.sum() < limit.MIN_ROWS_PER_PARAMETER:
        return None
    q, qd, _, directions = smooth.motion
    still = np.zeros_like(qd)
    weight = data.columns((q, still, still, directions))
    weight[:, :, ~data.estimate.regressor.rigid] = 0.0
    if float(weight[rows].std(axis=0).max(initial=0.0)) < limit.MIN_COMPARED_FRACTION * gravity:
        return None
    weightless = replace(smooth, Y=smooth.Y - weight * rows[:, None, None]).fit().of_rows(rows)
    before = given.of_rows(rows)
    ratio = weightless.ratio_to(before)
    is_less = ratio < limit.MAX_WEIGHTLESS_RATIO and weightless.are_significantly_below(before)
    return ratio if is_less else None


def _find_joint_zero(data: DiagnosticData) -> Iterator[Finding]:
    given, names = data.smooth_fit, data.joint_names
    asked = [j for j, joint in enumerate(data.estimate.robot.primary_joints[:-1]) if joint.kind != "prismatic"]
    if given is None or len(asked) < 2 or not (given.means > 0).all():
        return
    best = dict(zip(asked, map_in_threads(lambda joint: _best_zero(data, joint), asked), strict=True))
    ratios = {joint: fit.ratio_to(given) for joint, (_, fit) in best.items()}
    joint = min(asked, key=lambda j: ratios[j])
    degrees, fit = best[joint]
    is_large = abs(degrees) >= limit.MIN_ZERO_DEG[0] and ratios[joint] <= limit.MAX_CORRECTED
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
