"""Identify a robot with a floating base from logs whose metadata list phases with different contacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind, info
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_records import CrossValidated
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.selection.trials import decimation_for
from mindyn.identification.uncertainty.block_deviation import with_jackknife_deviation
from mindyn.logs.conditioning import Conditioning, motion_cutoff, require_resolved
from mindyn.logs.log import Log
from mindyn.logs.noise_cutoff import noise_floor_cutoff
from mindyn.logs.read_log import LogScan
from mindyn.logs.resolving import resolve_conditioning
from mindyn.regression.contact_phases import rows_of_logs
from mindyn.regression.friction import Friction
from mindyn.regression.gather_blocks import group_evenly
from mindyn.regression.gathered_log import sources_of
from mindyn.regression.rows import FOLDS, Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

FRICTIONS: Final = (Friction(), Friction("tanh", 0.02), Friction("tanh", 0.1))
"""Friction models that are compared on blocks of rows."""


def list_phase_logs(logs: Sequence[Log | LogScan]) -> list[Log]:
    """Return the logs if their metadata list phases.

    Raise an error if only some logs have phases, or if a log is a stream.
    """
    with_phases = [log for log in logs if log.metadata.phases]
    in_memory = [log for log in with_phases if not isinstance(log, LogScan)]
    if with_phases and len(in_memory) != len(logs):
        raise InputError(
            "logs with phases are read at once, and are not combined with logs without phases",
            hint="omit --stream, and set phases in the sidecar of every log",
            code=Code.UNSUPPORTED,
            subject="phases",
        )
    return in_memory


def identify_phases(
    robot: Robot, logs: Sequence[Log], estimator: Estimator | None, settings: EquationSettings | None
) -> Estimate:
    """Return the estimate.

    Friction is selected by the error on held-out blocks, and the filter follows from the cut-off.
    """
    asked, used = settings or EquationSettings.automatic(), estimator or LeastSquares()
    if isinstance(used, (LeastSquares, PhysicallyConsistent)):
        used = replace(used, covariance="white")  # phases are R factors alone; blocks show what is correlated
    c, chosen = resolve_conditioning(asked.conditioning or Conditioning(), logs, noise_floor_cutoff)
    rate, cutoff = require_resolved(c.rate_hz, "rate_hz"), motion_cutoff(c)
    equations_hz = asked.equations_hz if asked.equations_hz != "auto" else None if cutoff is None else cutoff / 2
    step = asked.keep_every if asked.keep_every != "auto" else decimation_for(equations_hz, rate)
    asked = replace(asked, conditioning=c, equations_hz=equations_hz, keep_every=step)
    tried = [
        rows_of_logs(robot, logs, replace(asked, friction=friction))
        for friction in (FRICTIONS if asked.friction == "auto" else (asked.friction,))
    ]
    errors = [_block_error(used, candidate) for candidate in tried]
    best = min(range(len(tried)), key=lambda k: errors[k].total)
    estimate = with_jackknife_deviation(used.fit(tried[best]), tried[best].independent_blocks)
    message = f"error on held-out blocks of all phases: {100 * errors[best].total:.3g} %"
    finding = info(Kind.LOG_SETTING, message)
    return (
        estimate.with_provenance(
            findings=(finding, *chosen, *(f for log in logs for f in log.findings), *estimate.findings)
        )
        .with_data(
            sources=tuple(source for log in logs for source in sources_of(log)),
            cross_validated=replace(errors[best], settings_tried=len(tried)),
        )
        .with_notes(samples=sum(tried[best].information.counts) // len(robot.joints))
    )


def _block_error(estimator: Estimator, rows: Rows) -> CrossValidated:
    """Return the torque error on folds that were not used in the fit."""
    blocks, squares = rows.independent_blocks, np.zeros(len(rows.regressor.joint_names))
    for held_out in group_evenly(blocks, FOLDS):
        beta = estimator.fit(rows.select(block for block in blocks if block not in held_out)).beta
        squares += sum((block.information.residuals(beta) for block in held_out), np.zeros(len(squares)))
    torques = rows.information.torques()
    seen = torques > 0
    each = np.sqrt(squares[seen] / torques[seen])
    return CrossValidated(float(each.mean()), float(np.sqrt(squares.sum() / torques.sum())), 1)
