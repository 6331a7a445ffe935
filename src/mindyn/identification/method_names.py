"""`METHODS`: estimators that need only logs, by name, for `mindyn identify --method` and `mindyn compare`.

To add a method, assign an estimator: `METHODS["ridge"] = Ridge()`.
"""

from __future__ import annotations

from typing import Final

from mindyn.identification.estimators.closed_loop_instruments import ClosedLoopInstruments
from mindyn.identification.estimators.energy_difference import EnergyDifference
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables
from mindyn.identification.estimators.last_link_first import LastLinkFirst
from mindyn.identification.estimators.least_squares import LeastSquares

METHODS: Final[dict[str, Estimator]] = {
    "weighted": LeastSquares(covariance="correlated"),
    "ordinary": LeastSquares(weights="ordinary", covariance="correlated"),
    "robust": LeastSquares(robust=True, covariance="correlated"),
    "last-link-first": LastLinkFirst(),
    "instruments": InstrumentalVariables(),
    "energy": EnergyDifference("energy"),
    "momentum": EnergyDifference("momentum"),
}
"""Estimators by name. Each replaces the selected estimator, and drops no parameters."""
SERVO_METHODS: Final[dict[str, Estimator]] = {
    "simulated-instruments": ClosedLoopInstruments(),
    "simulated-states": ClosedLoopInstruments(equations="simulated"),
}
"""Methods for one log with position targets, which have no noise: the servo of the log is simulated."""
