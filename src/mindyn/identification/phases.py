"""Identify a robot with a floating base from logs whose metadata list phases with different contacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate, Estimator
from mindyn.estimators.estimate_parts import CrossValidated
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.findings import Kind, info
from mindyn.identification.selection.trials import decimation_for
from mindyn.identification.uncertainty.jackknife import with_jackknife_deviation
from mindyn.logs.conditioning import Conditioning, motion_cutoff, require_resolved
from mindyn.logs.log import Log
from mindyn.logs.reading import LogScan
from mindyn.logs.resolving import noise_floor_cutoff, resolve_conditioning
from mindyn.regression.contact_phases import rows_of_logs
from mindyn.regression.friction import Friction
from mindyn.regression.gather_blocks import sources_of
from mindyn.regression.rows import FOLDS, Logs, Rows, list_logs
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

FRICTIONS: Final = (Friction(), Friction("tanh", 0.02), Friction("tanh", 0.1))
"""Friction models that are compared on blocks of rows."""


def list_phase_logs(logs: Logs) -> list[Log]:
    """Return the logs if their metadata list phases; raise if only some do, or a log is a stream."""
    listed = list_logs(logs) or []
    with_phases = [log for log in listed if log.metadata.phases]
    in_memory = [log for log in with_phases if not isinstance(log, LogScan)]
    if with_phases and len(in_memory) != len(listed):
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
    """Return the estimate, with friction selected by the error on held-out blocks and a filter below the cut-off."""
    asked, used = settings or EquationSettings(None, "auto", "auto", "auto"), estimator or LeastSquares()
    if isinstance(used, (LeastSquares, PhysicallyConsistent)):
        used = replace(used, covariance="white")  # phases are R factors alone; blocks show what is correlated
    c, chosen = resolve_conditioning(asked.conditioning or Conditioning(), logs, noise_floor_cutoff)
    rate, cutoff = require_resolved(c.rate_hz, "rate_hz"), motion_cutoff(c)
    filter_hz = asked.filter_hz if asked.filter_hz != "auto" else None if cutoff is None else cutoff / 2
    step = asked.decimation if asked.decimation != "auto" else decimation_for(filter_hz, rate)
    asked = replace(asked, conditioning=c, filter_hz=filter_hz, decimation=step)
    tried = [
        rows_of_logs(robot, logs, replace(asked, friction=friction))
        for friction in (FRICTIONS if asked.friction == "auto" else (asked.friction,))
    ]
    errors = [_block_error(used, candidate) for candidate in tried]
    best = min(range(len(tried)), key=lambda k: errors[k].total)
    estimate = with_jackknife_deviation(used.fit(tried[best]), tried[best].independent_blocks)
    message = f"error on held-out blocks of all phases: {100 * errors[best].total:.3g} %"
    finding = info(Kind.LOG_SETTING, message)
    return replace(
        estimate,
        findings=(finding, *chosen, *(f for log in logs for f in log.findings), *estimate.findings),
        sources=tuple(source for log in logs for source in sources_of(log)),
        cross_validated=replace(errors[best], settings_tried=len(tried)),
    ).with_provenance(samples=sum(tried[best].information.counts) // len(robot.joints))


def _block_error(estimator: Estimator, rows: Rows) -> CrossValidated:
    """Return the error of the torques of folds that were not used in the fit."""
    blocks, squares = rows.independent_blocks, np.zeros(len(rows.regressor.joint_names))
    for number in range(FOLDS):
        is_held_out = [k * FOLDS // len(blocks) == number for k in range(len(blocks))]
        kept = [block for block, is_out in zip(blocks, is_held_out, strict=True) if not is_out]
        beta = estimator.fit(rows.select(kept)).beta if len(kept) < len(blocks) else np.zeros(0)
        held_out = (block for block, is_out in zip(blocks, is_held_out, strict=True) if is_out)
        squares += sum((block.information.residuals(beta) for block in held_out), np.zeros(len(squares)))
    torques = rows.information.torques()
    seen = torques > 0
    each = np.sqrt(squares[seen] / torques[seen])
    return CrossValidated(float(each.mean()), float(np.sqrt(squares.sum() / torques.sum())), 1)
