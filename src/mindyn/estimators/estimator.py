"""`Estimator`: what the road from logs to an estimate asks of a fit."""

from __future__ import annotations

from typing import Literal, Protocol

from mindyn.estimators.estimate import Estimate
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

Needs = Literal["information", "samples"]


class Estimator(Protocol):
    """Settings of a fit; data come to `fit` alone, and a frozen `Estimate` comes back."""

    @property
    def needs(self) -> Needs:
        """What it reads of the rows: their R factors alone, or the samples too."""

    @property
    def filters_alike(self) -> bool:
        """Whether `choose` must low-pass columns, torque and instruments alike, noise of the torque being in all."""
        return False

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002 - part of the protocol
        """The treatment that it can use in place of the one wanted; refuses a robot that it cannot fit."""
        return wanted

    def fit(self, rows: Rows) -> Estimate:
        """The estimate."""
