"""Estimators that need nothing but logs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mindyn.estimators.energy_difference import EnergyDifference
from mindyn.estimators.estimator import Estimator
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.estimators.last_link_first import LastLinkFirst
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.total_least_squares import TotalLeastSquares

METHODS: Final[Mapping[str, Estimator]] = {
    "ordinary": LeastSquares(weights="ordinary", covariance="correlated"),
    "robust": LeastSquares(robust=True, covariance="correlated"),
    "last-link-first": LastLinkFirst(),
    "instruments": InstrumentalVariables(),
    "energy": EnergyDifference("energy"),
    "momentum": EnergyDifference("momentum"),
    "total": TotalLeastSquares(),
}
"""In place of weighted least squares; nothing is left out, whatever `choose` would leave out."""
