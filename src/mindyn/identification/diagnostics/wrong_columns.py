"""Find swapped or reversed columns and a wrong direction of gravity from the motion alone, without known masses.

The torques of an arm are not independent: the torque of one joint determines the parameters of all links beyond it. If
columns are swapped or reversed, no parameters explain all joints. Friction then appears to drive some joints, usually
not those with the wrong columns. Each hypothesis corrects one input and is fitted to the same smooth rows:

    swapped torques of two joints; reversed torque, or reversed motion, of one joint; gravity along another axis

The best hypothesis is reported if its residual is much and significantly smaller than without a correction, and clearly
smaller than the residuals of other kinds of hypotheses; otherwise no cause is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.robot_file import swapped_torques, wrong_gravity
from mindyn.identification.diagnostics.weight import standard_columns
from mindyn.identification.smooth_rows import Motion, Residuals, SmoothRows
from mindyn.robots.robot import Robot

ROWS: Final = 800
"""Number of smooth rows to which hypotheses are fitted."""


class ColumnCorrection(NamedTuple):
    """A correction of the input, and the ratio of the rms residuals with and without it."""

    finding: Finding
    ratio: float


def find_column_correction(
    smooth: SmoothRows, columns: Callable[[Motion], Array], rigid: NDArray[np.bool_], robot: Robot
) -> ColumnCorrection | None:
    """Find a correction of columns that explains the log; None if no correction or several kinds of them do.

    columns  function from a motion to the columns (N, n, p) of the fit
    rigid    (p,) whether a column belongs to links or rotors
    robot    robot without loops
    """
    names = robot.primary_names
    rows = np.linspace(0, len(smooth.tau) - 1, min(ROWS, len(smooth.tau))).astype(np.intp)
    q, qd, qdd, directions = smooth.motion
    motion = q[rows], qd[rows], qdd[rows], None if directions is None else directions[rows]
    thinned = replace(smooth, Y=smooth.Y[rows], tau=smooth.tau[rows], motion=motion)
    if not (thinned.tau.any(axis=0)).all():
        return None
    given = thinned.fit()
    if not (given.means > 0).all():
        return None
    hypotheses = [*_try_column_orders(thinned, columns, names), *_try_gravity_axes(thinned, rigid, robot)]
    best: dict[Kind, tuple[float, Finding, Residuals]] = {}
    for finding, fit in hypotheses:
        ratio = fit.ratio_to(given)
        if finding.kind not in best or ratio < best[finding.kind][0]:
            best[finding.kind] = ratio, finding, fit
    (ratio, finding, fit), *others = sorted(best.values(), key=lambda entry: entry[0])
    is_alone = all(ratio < limit.MAX_CORRECTED * other for other, *_ in others)
    if ratio > limit.MAX_CORRECTED or not is_alone or not fit.are_significantly_below(given):
        return None
    message = f"{finding.message}; without this fault the parameters leave {100 * ratio:.0f} % of the error"
    return ColumnCorrection(replace(finding, message=message), ratio)


def _try_column_orders(
    smooth: SmoothRows, columns: Callable[[Motion], Array], names: tuple[str, ...]
) -> Iterator[tuple[Finding, Residuals]]:
    """Fit with swapped torques of two joints, and with reversed torque or motion of one joint."""
    for i, j in combinations(range(len(names)), 2):
        order = np.arange(len(names))
        order[[i, j]] = j, i
        yield swapped_torques(names[i], names[j]), smooth.fit(smooth.tau[:, order])
    q, qd, qdd, directions = smooth.motion
    for joint, name in enumerate(names):
        signs = np.where(np.arange(len(names)) == joint, -1.0, 1.0)
        yield _reversed_sign(name, "torque"), smooth.fit(signs * smooth.tau)
        if directions is None or directions.shape[1] == len(names):
            turned = None if directions is None else signs * directions
            Y = columns((signs * q, signs * qd, signs * qdd, turned))
            yield _reversed_sign(name, "position"), replace(smooth, Y=Y).fit()


def _reversed_sign(name: str, what: str) -> Finding:
    message = f"the {what} of joint {name} has the opposite sign"
    remedy = f"Reverse the sign of its {what} column, or the axis of the joint in the robot file"
    return warning(Kind.WRONG_TORQUE_SIGN, message, remedy, (name,), -1.0)


def _try_gravity_axes(
    smooth: SmoothRows, rigid: NDArray[np.bool_], robot: Robot
) -> Iterator[tuple[Finding, Residuals]]:
    """Fit under gravity along the other axes of the base."""
    size = float(np.linalg.norm(robot.gravity))
    if not size > 0:
        return
    q, qd, qdd, _ = smooth.motion
    dynamics, *weights = standard_columns(robot, q, qd, qdd)
    others = smooth.Y[:, :, ~rigid]
    for axis, sign in product(range(3), (1.0, -1.0)):
        gravity = sign * size * np.eye(3)[axis]
        degrees = float(np.rad2deg(np.arccos(np.clip(gravity @ robot.gravity / size**2, -1.0, 1.0))))
        if degrees >= limit.MIN_ZERO_DEG[0]:
            Y = np.concatenate([dynamics + sign * size * weights[axis], others], axis=2)
            yield wrong_gravity(gravity, degrees), replace(smooth, Y=Y).fit()
