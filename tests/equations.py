"""Equations for the drives that a robot states, no others: what a test of an estimator knows the answer of."""

from __future__ import annotations

from mindyn.regression.information import Information
from mindyn.regression.regressor import build_regressor
from mindyn.regression.rows import Rows, build_rows
from mindyn.regression.settings import EquationSettings


def equations(robot, data, *, base=None, **treatment):
    """Of samples, a stream of them, logs, or R factors as they are."""
    stated = EquationSettings(drives="stated", **treatment)
    if isinstance(data, Information):
        return Rows.of_information(build_regressor(robot, stated, base), data, stated)
    return build_rows(robot, data, stated, base=base)
