"""Build equations for only the drives of a robot file, so that tests of estimators know the true values."""

from __future__ import annotations

from mindyn.regression.build_rows import build_rows
from mindyn.regression.information import Information
from mindyn.regression.regressor import build_regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings


def equations(robot, data, *, base=None, **equation_settings):
    """Build the rows of samples, a stream of samples, logs, or given R factors."""
    stated = EquationSettings(drive_parameters="stated", **equation_settings)
    if isinstance(data, Information):
        return Rows.of_information(build_regressor(robot, stated, base), data, stated)
    return build_rows(robot, data, stated, base=base)
