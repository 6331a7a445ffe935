"""`identify_servos`: kp, damping, friction and armature of each joint from position targets and positions alone.

Joints are independent problems: loads of the other joints follow from the measured motion and the masses of the robot
file. A fit with all rows finds contacts; a second one leaves them out; joints without gravity take the gain of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.blas import run_on_one_blas_thread
from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, list_names, require_choice
from mindyn.identification.selection.choose import Progress
from mindyn.identification.servos.contact_rows import Table, choose_tip, find_table, free_rows, tip_heights
from mindyn.identification.servos.joint_tables import build_servo_rows
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.identification.servos.servo_findings import find_about_servos, find_left_out_contacts, find_left_out_slips
from mindyn.identification.servos.servo_fits import ServoFits
from mindyn.identification.servos.slipped_rows import find_slips, slipped_rows
from mindyn.identification.servos.target_checks import find_degrees, find_resting_tip, find_wrong_targets, stands
from mindyn.logs.conversion import gains_per_joint
from mindyn.logs.log import Log
from mindyn.regression.experiment import require_logs
from mindyn.regression.gathered_log import sources_of
from mindyn.regression.rows import Logs
from mindyn.robots.robot import Robot

STILL_RANGE: Final = 0.01
"""Targets of a joint that stay within this range (rad, m) do not move it."""


@run_on_one_blas_thread
def identify_servos(
    robot: Robot,
    logs: Logs,
    *,
    kp: Mapping[str, float] | None = None,
    delay_s: float | None = None,
    tip: str | None = None,
    table_height_m: float | None = None,
    progress: Progress | None = None,
) -> ServoEstimate:
    """Estimate gain, damping, Coulomb friction and armature of position servos from targets and positions.

    The values minimise the error of simulated positions over whole motions. Masses stay those of the robot file. Rows
    in contact with a table and at hard stops are found and left out, and so are parts of a log in which all joints lag
    alike by more than elsewhere.

    Parameters
    ----------
    robot : Robot
        With masses.
    logs : Log or a sequence of them
        With position targets, such as from `read_log` or `mindyn.logs.log_from_targets`. A number for kp in their
        metadata is used, "unknown" is estimated. Targets are held until the next row.
    kp : mapping of joint names to floats, optional
        Known gains, N m/rad or N/m; they take precedence over those of the logs.
    delay_s : float, optional
        From the stamp of a target to its effect, in s; by default `target_delay_s` of the logs, less the half row by
        which holding delays a target: the simulation holds targets itself. If neither is given, a delay of at most
        three rows that all joints have in common is estimated, and applied if it is significant.
    tip : str, optional
        Link or frame that may touch a table; by default the last frame or link of the robot.
    table_height_m : float, optional
        Height of the tip, in m above the root frame, below which it touches a table. By default it is looked for.
    progress : callable, optional
        Called with a status line after each step.

    Returns
    -------
    ServoEstimate
        Values with intervals from the deviation between blocks of motion, and findings.

    Raises
    ------
    InputError
        If a log has no targets or differs in its joints, nothing moves, or the robot has no masses.
    """
    listed = _require_logs(robot, logs)
    say = progress or (lambda line: None)  # noqa: ARG005
    is_delay_known = delay_s is not None or any(log.metadata.target_delay_s for log in listed)
    delay = _delay_of(listed) if delay_s is None else delay_s
    require_number(delay, "delay_s", "[0, 1]", "the time from the stamp of a target to its effect, s")
    known = _known_gains(robot, listed, kp)
    rows = build_servo_rows(robot, listed, delay)
    still = np.ptp(rows.target, axis=0) < STILL_RANGE
    if still.all():
        raise InputError(
            "no joint has a target that moves", hint="record a motion", code=Code.TOO_LITTLE_DATA, subject="target"
        )
    names = robot.primary_names
    frame = choose_tip(robot, tip)
    wrong = find_degrees(names, rows, np.array([joint.kind != "prismatic" for joint in robot.primary_joints]))
    standing = stands(rows) & ~still & (not wrong)
    if not wrong:
        wrong = find_wrong_targets(names, rows, ~still & ~standing)
    if not wrong and table_height_m is None:
        heights = [tip_heights(robot, frame, x) for x in (rows.q, rows.target)]
        wrong = find_resting_tip(heights[0], heights[1], frame)
    if (still | standing).all():
        raise InputError(
            "no joint follows its target",
            hint="are the servos on? Compare the columns of target and position",
            code=Code.TOO_LITTLE_DATA,
            subject="position",
        )
    fits = ServoFits(rows, known, ~still & ~standing)
    say("fitting each joint")
    fits.fit_all(np.ones(rows.q.shape))
    table = find_table(robot, rows, fits.residuals, frame) if table_height_m is None else Table(frame, table_height_m)
    free = free_rows(robot, rows, table)
    if not free.all():
        say("fitting without rows in contact")
        fits.fit_all(free.astype(np.float64))
    slips = find_slips(rows, [None if fit is None else np.exp(fit.x) for fit in fits.fits], fits.weights)
    if slips:
        say("fitting without rows that lag")
        fits.fit_all(fits.weights * ~slipped_rows(rows, slips)[:, None])
    say("looking for limits of the drives")
    fits.find_limits()
    say("fitting joints without a scale")
    fits.assume_missing_scales()
    if not is_delay_known:
        say("testing a delay of the targets")
        delay += fits.apply_delay()
    say("testing friction at rest and by load")
    fits.find_frictions()
    low, high, log_covariance = fits.uncertainty()
    findings = [
        *find_left_out_contacts(names, free, table),
        *find_left_out_slips(slips, listed),
        *find_about_servos(names, fits, low, still, standing),
    ]
    kps, kds, fcs, ias = fits.values.T
    return ServoEstimate(
        robot=robot,
        kp=kps,
        kd=kds,
        fc=fcs,
        ia=ias,
        low=low,
        high=high,
        has_scale=fits.has_scale,
        limit=np.array([extras[2] for extras in fits.extras]),
        limits_damping=np.array([extras[3] > 0 for extras in fits.extras]),
        delay_s=delay,
        table=table,
        sources=tuple(source for log in listed for source in sources_of(log)),
        findings=(
            *wrong,
            *(replace(finding, explained_by=wrong[0].kind) if wrong else finding for finding in findings),
            *dict.fromkeys(finding for log in listed for finding in log.findings),
        ),
        log_covariance=log_covariance,
    )


def _delay_beyond_holding(delay_s: float, log: Log) -> float:
    """Return the delay of held targets: `target_delay_s` contains the half row by which holding delays them."""
    return max(0.0, delay_s - 0.5 * float(np.median(np.diff(log.time)))) if len(log) > 1 else delay_s


def _require_logs(robot: Robot, logs: Logs) -> list[Log]:
    listed = [log for log in require_logs(logs) if isinstance(log, Log)]
    if len(listed) != len(require_logs(logs)):
        message = "servos are identified from logs in memory"
        raise InputError(message, hint="use read_log, or omit --stream", code=Code.UNSUPPORTED, subject="logs")
    for log in listed:
        if log.joint_names != robot.primary_names:
            raise InputError(
                f"log {log.name!r} has the joints {list_names(log.joint_names)}, but the robot has "
                f"{list_names(robot.primary_names)}",
                hint="read the log with this robot",
                code=Code.DISAGREEMENT,
                subject=log.name,
            )
    return listed


def _delay_of(logs: Sequence[Log]) -> float:
    delays = {log.metadata.target_delay_s for log in logs}
    if len(delays) > 1:
        raise InputError(
            f"the logs have different target_delay_s: {', '.join(f'{d:g}' for d in sorted(delays))}",
            hint="pass delay_s, or identify them separately",
            code=Code.DISAGREEMENT,
            subject="target_delay_s",
        )
    return _delay_beyond_holding(delays.pop(), logs[0])


def _known_gains(robot: Robot, logs: Sequence[Log], kp: Mapping[str, float] | None) -> Array:
    """Return the gains (n,) that are given, NaN where they are unknown."""
    names = robot.primary_names
    stated = np.array([gains_per_joint(log.metadata.kp or "unknown", names, "kp") for log in logs])
    gains: Array = stated[0].copy()
    if not all(np.array_equal(gains, other, equal_nan=True) for other in stated):
        message = "the logs have different kp"
        raise InputError(message, hint="identify them separately", code=Code.DISAGREEMENT, subject="kp")
    for name, value in (kp or {}).items():
        require_choice(name, names, "kp")
        gains[names.index(name)] = value
    for name, value in zip(names, gains, strict=True):
        if not (np.isnan(value) or (np.isfinite(value) and value > 0)):
            raise InputError(
                f"kp of {name} is {value:g}; it must be positive",
                hint="check the sign of the target and of the position",
                code=Code.OUT_OF_RANGE,
                subject="kp",
            )
    return gains
