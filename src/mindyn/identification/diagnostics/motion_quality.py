"""Diagnose the motion: joints that do not move, insufficient excitation, and fits to few equations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mindyn.foundation.findings import Finding, Kind, Severity, warning
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData

RICHER: Final = (
    "Record a motion in which every joint accelerates, through wide ranges and at different rates; mindyn excite "
    "designs one"
)


def run(data: DiagnosticData) -> list[Finding]:
    """Return findings on joints that do not move, insufficient excitation, and too few equations."""
    return [*_find_still_joints(data), *_find_poor_excitation(data), *_find_few_equations(data)]


def _find_still_joints(data: DiagnosticData) -> Iterator[Finding]:
    ranges, places = np.ptp(data.samples.q, axis=0), np.median(data.samples.q, axis=0)
    joints = zip(data.estimate.robot.primary_joints, ranges.tolist(), places.tolist(), strict=True)
    still = [entry for entry in joints if entry[1] < limit.MIN_JOINT_RANGE[entry[0].kind]]
    if still:
        names = tuple(joint.name for joint, _, _ in still)
        lock = " ".join(f"--lock {joint.name}={place:.4g}" for joint, _, place in still)
        message = f"joint{'s' * (len(names) > 1)} {', '.join(names)} hardly move{'s' * (len(names) == 1)}"
        remedy = f"Record a motion of every joint (mindyn excite designs one), or pass {lock}"
        if len(still) == len(ranges):
            remedy = "Correct units.position if the joints moved; otherwise record a motion (mindyn excite designs one)"
        value = max(reach for _, reach, _ in still)
        yield Finding(Kind.STILL_JOINT, Severity.ERROR, message, remedy, names, value, "rad or m")


def _find_poor_excitation(data: DiagnosticData) -> Iterator[Finding]:
    """Compare the uncertainty of the torque on other motion with the torque; a consistent fit may have a larger
    uncertainty.
    """
    uncertainty = data.uncertainty or 0.0
    if uncertainty <= limit.MAX_UNCERTAINTY:
        return
    is_enough = data.is_consistent and uncertainty <= limit.MAX_CONSTRAINED_UNCERTAINTY
    size = f"{float(f'{100 * uncertainty:.2g}'):g} %"
    message = f"the motion excites too few parameters: torque on other motion is uncertain by {size}"
    message += " from the data alone; physical consistency compensates for much of it" if is_enough else ""
    severity = Severity.WARNING if is_enough else Severity.ERROR
    yield Finding(Kind.POOR_MOTION, severity, message, RICHER, (), uncertainty, "of the torque")


def _find_few_equations(data: DiagnosticData) -> Iterator[Finding]:
    """Compare the number N of equations with the number p of parameters; energy differences have N intervals.

    The expected squared error on other motion is that of the noise times 1 + p / (N - p - 1). Up to N = 2 p + 1, errors
    of the parameters cause at least half of it. Fits of energy differences of three simulated arms have 1.0 to 1.3
    times the error of a long log if the root of this factor is at most 1.4, 1.6 to 4 times if it is 1.8 to 2.6, and 12
    to 100 times if it is 4.5 or more.
    """
    estimate = data.estimate
    count = sum(residual.rows for residual in estimate.data.residuals)
    parameters = len(estimate.names) - len({*estimate.values.dropped, *estimate.values.unidentifiable})
    if 0 < count <= 2 * parameters + 1:
        inflation = float(np.sqrt(1 + parameters / max(count - parameters - 1, 1)))
        message = (
            f"the fit has {count} equations for {parameters} parameters: expect about {inflation:.2g} times the error "
            "of a long motion"
        )
        remedy = "Record a longer motion, or use the default method, which has an equation for each joint and sample"
        yield warning(Kind.FEW_EQUATIONS, message, remedy, (), inflation, "times the error")
