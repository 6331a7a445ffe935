"""Errors of candidates that cannot be simulated in the loop of a controller.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.closed_loop_instruments import InitialModel, _require_simulable, require_stable
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor
from mindyn.robots.loading import load_robot


def test_columns_beyond_those_of_forward_dynamics_are_rejected():
    robot = load_robot("planar2")
    _require_simulable(Regressor(robot))
    with raises(InputError, Code.UNSUPPORTED, "tanh"):
        _require_simulable(Regressor(robot, Friction("tanh", 0.1)))
    with raises(InputError, Code.UNSUPPORTED, "f_root1"):
        _require_simulable(Regressor(robot, Friction(shapes=("root",))))


@pytest.mark.parametrize(("pivot", "reason"), [(-0.1, "its inertia matrix is indefinite"), (0.1, "gains may not suit")])
def test_a_motion_that_runs_away_is_rejected_with_the_likely_cause(pivot, reason):
    lost = SimpleNamespace(stable=np.array([False]), pivots=np.array([pivot]))
    with raises(InputError, Code.NOT_CONVERGED, "given") as raised:
        InitialModel(np.zeros(3), lost, "given")
    assert reason in str(raised.value)
    with raises(InputError, Code.NOT_CONVERGED, "model"):
        require_stable(lost, "the model of pass 2", "", "model")
    InitialModel(np.zeros(3), SimpleNamespace(stable=np.array([True]), pivots=np.array([pivot])), "given")
