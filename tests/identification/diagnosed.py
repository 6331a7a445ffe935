"""Diagnostic data of logs or samples, by a plain fit."""

from __future__ import annotations

import mindyn
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows


def diagnostic_data(robot, data, settings, **changes):
    """What diagnostics see of a log, logs or samples; `changes` replace attributes."""
    rows = build_rows(robot, data, settings)
    samples = data if isinstance(data, Samples) else rows.all_samples("this")
    logs = [] if isinstance(data, Samples) else data if isinstance(data, list) else [data]
    created = DiagnosticData(robot, mindyn.LeastSquares().fit(rows), rows, samples, logs)
    for name, value in changes.items():
        setattr(created, name, value)
    return created
