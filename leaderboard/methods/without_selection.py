"""Weighted least squares with fixed settings (10 Hz, viscous and Coulomb friction): what the selection is worth."""

from mindyn import Conditioning, EquationSettings, LeastSquares, identify
from mindyn.applications.comparison.log_methods import EstimatePredictor

name = "mindyn without selection"
SETTINGS = EquationSettings(Conditioning(motion_hz=10.0, delay_s=0.0, edge_s=0.1), equations_hz=10.0)


def fit(robot, logs):
    return EstimatePredictor(identify(robot, list(logs), LeastSquares(), SETTINGS))
