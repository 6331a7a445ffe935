"""`EnergyDifference`: least squares on energy or momentum differences, without accelerations.

The equations are those of `mindyn.regression.integrated`: one energy equation for each interval, or one momentum
equation for each interval and joint.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.logs.conditioning import Conditioning
from mindyn.regression.integrated import Integration, integrate_rows
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class EnergyDifference(Integration, Estimator):
    """Fit energy or momentum differences over intervals; no accelerations are used.

    Parameters
    ----------
    form : {"energy", "momentum"}, default "energy"
        One equation of all joints for each interval, or one for each joint.
    interval_s : float, default 0.2
        Longest interval, in s.
    reversals : {"avoid", "within"}, default "avoid"
        "avoid": intervals end where a friction torque changes its direction, because accelerations jump there.
        "within": intervals do not end there, for motions with smooth accelerations although friction jumps.
    torque : {"sampled", "held"}, default "sampled"
        "sampled": rows are values of a continuous torque; "held": the torque is constant from each row to the next.

    Raises
    ------
    InputError
        If a name is unknown, or the interval is not positive.
    """

    needs = "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Return the settings without filter, which integration does not need, and without load-dependent friction.

        Each energy equation contains all joints. Slow rows are kept, because friction has little power in them.
        """
        settings = wanted.without_load().unfiltered()
        conditioning = settings.conditioning
        if self.form == "momentum" or not isinstance(conditioning, Conditioning):
            return settings
        return replace(settings, conditioning=replace(conditioning, slow_speed=None))

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows; residuals are mean torques (momentum) or mean power in W (energy) over the intervals."""
        solver = LeastSquares(weights="joint" if self.form == "momentum" else "ordinary")
        estimate = solver.fit(integrate_rows(rows, self))
        samples = rows.all_samples("energy and momentum differences")
        taken = self.intervals(rows.regressor, samples)
        seconds = sum(interval.stop - interval.start - 1 for interval in taken) / samples.rate_hz
        return estimate.with_provenance(
            status=f"Differences of {self.form} over {len(taken)} intervals ({seconds:.3g} s in total): "
            f"{estimate.status}",
            method=f"{self.form} difference",
        ).with_notes(intervals=len(taken), seconds=seconds, **asdict(self))
