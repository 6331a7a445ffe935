"""Diagnostic data of logs or samples, by a plain fit."""

from __future__ import annotations

import mindyn
from mindyn.identification.diagnostics.data import DiagnosticData
from mindyn.logs.samples import Samples
from mindyn.regression.rows import rows_of


def diagnostic_data(robot, data, treatment, **changes):
    """What diagnostics see of a log, logs or samples; `changes` replace attributes."""
    rows = rows_of(robot, data, treatment)
    samples = data if isinstance(data, Samples) else rows.whole("this")
    logs = [] if isinstance(data, Samples) else data if isinstance(data, list) else [data]
    made = DiagnosticData(robot, mindyn.LeastSquares().fit(rows), rows, samples, logs)
    for name, value in changes.items():
        setattr(made, name, value)
    return made
