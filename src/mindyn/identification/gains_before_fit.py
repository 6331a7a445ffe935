"""Estimate unknown gains before a fit, and add their uncertainty and findings to the estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.normal_equations import invert_normal_matrix
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, info, warning
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.unknown_gains import MAX_HALF_WIDTH, EstimatedGains, Scale, estimate_gains
from mindyn.logs.log import Log
from mindyn.logs.metadata import UNKNOWN
from mindyn.logs.read_log import LogScan
from mindyn.logs.servos import Servo, find_unknown_damping, find_unknown_gains
from mindyn.regression.experiment import Experiment
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings

MAX_RELATIVE_DEVIATION: Final = 1.0
"""Largest relative deviation of a gain in the covariance of parameters; for larger ones, linearisation is invalid."""
_SCALE_REMEDY: Final = (
    "Give one known gain in the sidecar, a log with a weighed load (--loaded LOG --mass KG), or a known base parameter "
    "(--scale NAME=VALUE)"
)


def resolve_gains(
    experiment: Experiment, scale: Scale, settings: EquationSettings | None = None
) -> tuple[EstimatedGains | None, Experiment]:
    """Estimate unknown gains with these settings.

    Return the gains, and the experiment with torques computed from them.

    If all gains are known, return None and the unchanged experiment.
    """
    if not any(map(_has_unknown_gains, experiment.logs)):
        return None, experiment
    excerpt = experiment.excerpt
    gains = estimate_gains(excerpt.robot, excerpt.logs_in_memory, settings, scale)
    return gains, experiment.with_gains([*gains.values.tolist(), *gains.damping.tolist()])


def add_uncertainty_of_gains(
    estimate: Estimate, rows: Rows, experiment: Experiment, gains: EstimatedGains | None
) -> Estimate:
    """Add the uncertainty of the gains and findings to the estimate, and store the gains for further logs.

    experiment  experiment that the user gave, with unknown gains
    """
    if gains is None:
        return estimate
    has_merged_damping = any(UNKNOWN in str(log.metadata.kd) for log in experiment.logs) and not gains.damping.any()
    found = gain_findings(gains)
    if has_merged_damping:
        message = "viscous friction includes kd: without a target velocity, the logs determine only their sum"
        found.append(info(Kind.ESTIMATED_GAINS, message))
    conditioning = estimate.settings.conditioning
    assert conditioning is not None
    values = (*gains.values.tolist(), *gains.damping.tolist())
    settings = replace(estimate.settings, conditioning=replace(conditioning, gains=values))
    slopes = _gain_sensitivities(estimate, rows)
    is_finite = np.isfinite(estimate.covariance)
    added = slopes.T @ _bound_covariance(gains.covariance) @ slopes
    for name, deviation in zip(gains.joint_names, gains.damping_deviations, strict=False):
        viscous = [p.link_or_joint == name and p.kind == "viscous" for p in estimate.parameters]
        added[viscous, viscous] += deviation**2  # the sum of kd and viscous friction is known much better
    added = np.where(is_finite, added, 0.0)
    findings = (*found, *estimate.findings)
    return (
        estimate.with_uncertainty(covariance=estimate.covariance + added)
        .with_data(settings=settings)
        .with_provenance(findings=findings)
    )


def find_servo(logs: Sequence[Log | LogScan]) -> Servo | None:
    """Return the position servo of all logs; None if a log has torques or another servo."""
    servos = [
        (None if log.target is None else Servo.from_metadata(log.metadata, log.joint_names))
        if isinstance(log, Log)
        else log.servo
        for log in logs
    ]
    records = [servo and servo.to_dict() for servo in servos]
    return servos[0] if records and all(record == records[0] for record in records) else None


def _has_unknown_gains(log: Log | LogScan) -> bool:
    if isinstance(log, Log):
        return bool((find_unknown_gains(log) | find_unknown_damping(log)).any())
    gains = log.metadata.kp if "target" in log.signals else log.metadata.current_gains
    return UNKNOWN in str(gains) or ("target_velocity" in log.signals and UNKNOWN in str(log.metadata.kd))


def _gain_sensitivities(estimate: Estimate, rows: Rows) -> Array:
    """Return for each joint the change (n, p) of beta if its gain doubles; zero for dropped parameters."""
    information, weights = rows.information, estimate.data.joint_weights
    if weights is None or len(weights) != len(information.factors):
        weights = np.ones(len(information.factors))
    kept = np.array(
        [name not in (*estimate.values.dropped, *estimate.values.unidentifiable) for name in estimate.names]
    )
    R = information.stacked(weights)[0][:, kept]
    slopes = np.zeros((len(weights), len(kept)))
    inverse = invert_normal_matrix(R.T @ R)
    for joint in range(len(weights)):
        own = np.where(np.arange(len(weights)) == joint, weights, 0.0)
        S, z = information.stacked(own)
        slopes[joint, kept] = inverse @ (S[:, kept].T @ z)
    return slopes


def _bound_covariance(covariance: Array) -> Array:
    """Return the covariance, reduced so that relative deviations are at most `MAX_RELATIVE_DEVIATION`."""
    finite = np.where(np.isfinite(covariance), covariance, 0.0)
    deviations = np.sqrt(np.maximum(np.diag(finite), 0.0))
    shrink = np.minimum(1.0, MAX_RELATIVE_DEVIATION / np.maximum(deviations, 1e-12))
    return np.asarray(finite * np.outer(shrink, shrink))


def gain_findings(gains: EstimatedGains) -> list[Finding]:
    """Return findings on the values of the gains, their scale, and gains that the logs do not determine."""
    table = zip(gains.joint_names, gains.values, gains.half_widths, strict=True)
    lines = tuple(
        f"{name}: not determined" if name in gains.undetermined else f"{name}: {g:.4g} +- {100 * w:.2g} %"
        for name, g, w in table
        if name in gains.unknown
    )
    of_kd = zip(gains.joint_names, gains.damping, gains.factor * gains.damping_deviations, strict=False)
    lines += tuple(f"kd of {name}: {kd:.4g} +- {width:.2g}" for name, kd, width in of_kd if kd)
    listed = info(Kind.ESTIMATED_GAINS, f"gains were estimated with the parameters: {'; '.join(lines)}", *lines)
    found = [listed]
    if gains.scale == "free":
        message = f"the scale of all values is unknown: they are in units in which the gain of {gains.reference} is 1"
        found.append(warning(Kind.FREE_SCALE, message, _SCALE_REMEDY))
    elif gains.scale == "robot file":
        message = "the gravity parameters of the robot file fix the common scale of all values: its errors scale them"
        found.append(warning(Kind.FREE_SCALE, message, _SCALE_REMEDY))
    widths = dict(zip(gains.joint_names, gains.half_widths, strict=True))
    wide = tuple(name for name in gains.unknown if widths[name] > MAX_HALF_WIDTH and name not in gains.undetermined)
    if wide:
        listed_widths = ", ".join(f"{name} (+- {100 * widths[name]:.2g} %)" for name in wide)
        message, remedy = f"the log determines these gains poorly: {listed_widths}", "Move these joints faster"
        found.append(warning(Kind.POOR_GAIN, message, remedy, wide))
    if gains.undetermined:
        message = (
            f"the log does not determine the gain of {', '.join(gains.undetermined)}: the median of the others is used"
        )
        remedy = "Give it in the sidecar, or record a motion in which other joints move its link"
        found.append(warning(Kind.POOR_GAIN, message, remedy, gains.undetermined))
    reversed_joints = tuple(name for name, g in zip(gains.joint_names, gains.values, strict=True) if g < 0)
    if reversed_joints:
        message = (
            f"the gain of {', '.join(reversed_joints)} is negative: its signal has the opposite sign of its torque"
        )
        remedy = "Reverse the sign of its column"
        found.append(warning(Kind.WRONG_TORQUE_SIGN, message, remedy, reversed_joints, -1.0))
    return found
