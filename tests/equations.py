"""Equations for the drives that a robot states, no others: what a test of an estimator knows the answer of."""

from __future__ import annotations

from mindyn.regression.information import Information
from mindyn.regression.regressor import regressor_of
from mindyn.regression.rows import Rows, rows_of
from mindyn.regression.treatment import Treatment


def equations(robot, data, *, base=None, **treatment):
    """Of samples, a stream of them, logs, or R factors as they are."""
    stated = Treatment(drives="stated", **treatment)
    if isinstance(data, Information):
        return Rows.of_information(regressor_of(robot, stated, base), data, stated)
    return rows_of(robot, data, stated, base=base)
