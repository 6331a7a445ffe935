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
from mindyn.findings import Kind, info
from mindyn.identification.selection.trials import decimation_for
from mindyn.identification.uncertainty.jackknife import with_jackknife_deviation
from mindyn.logs.conditioning import motion_cutoff, require_resolved
from mindyn.logs.log import Log
from mindyn.logs.reading import LogScan
from mindyn.regression.contact_phases import rows_of_logs
from mindyn.regression.friction import Friction
from mindyn.regression.gather_blocks import sources_of
from mindyn.regression.information import add_information
from mindyn.regression.rows import Logs, Rows, list_logs
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
    rows = rows_of_logs(robot, logs, replace(asked, filter_hz=None, decimation=1, friction=FRICTIONS[0]))
    c = rows.settings.fit_conditioning
    assert c is not None
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
        findings=(finding, *rows.findings, *(f for log in logs for f in log.findings), *estimate.findings),
        sources=tuple(source for log in logs for source in sources_of(log)),
        cross_validated=replace(errors[best], settings_tried=len(tried)),
    ).with_provenance(samples=sum(tried[best].information.counts) // len(robot.joints))


def _block_error(estimator: Estimator, rows: Rows) -> CrossValidated:
    """Return the error of the torques of folds that were not used in the fit."""
    folds, squares = rows.folds(), np.zeros(len(rows.regressor.joint_names))
    for number, fold in enumerate(folds):
        others = add_information([other for k, other in enumerate(folds) if k != number])
        beta = estimator.fit(Rows.of_information(rows.regressor, others, rows.settings)).beta
        squares += fold.residuals(beta)
    torques = rows.information.torques()
    seen = torques > 0
    each = np.sqrt(squares[seen] / torques[seen])
    return CrossValidated(float(each.mean()), float(np.sqrt(squares.sum() / torques.sum())), 1)
