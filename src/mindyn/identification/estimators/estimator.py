"""`Estimator`: the base class of all estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

if TYPE_CHECKING:
    pass
from mindyn.identification.estimators.estimate import Estimate

Needs = Literal["information", "samples"]


class Estimator(Protocol):
    """Settings of a fit: `fit` takes the data and returns a frozen `Estimate`.

    To add an estimator, implement `needs` and `fit`; the other members have defaults.
    """

    @property
    def needs(self) -> Needs:
        """The data that the fit reads: "information" (R factors only) or "samples"."""

    @property
    def filters_alike(self) -> bool:
        """Whether columns, torque and instruments need the same low-pass filter, because all of them contain the noise
        of the torque.
        """
        return False

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002 - part of the protocol
        """Return the wanted settings, with entries replaced that the estimator does not support.

        Parameters
        ----------
        robot : Robot
            The robot to identify.
        wanted : EquationSettings
            The user's settings.

        Returns
        -------
        EquationSettings

        Raises
        ------
        MindynError
            If the estimator cannot fit this robot.
        """
        return wanted

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows.

        Parameters
        ----------
        rows : Rows
            Equations from `build_rows`.

        Returns
        -------
        Estimate
        """
