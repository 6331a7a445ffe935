"""`EnergyDifference`: least squares on energy or momentum differences; no accelerations enter.

Its equations are those of `mindyn.regression.integrated`: one row of energies an interval, or one of momenta for each
joint.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator, Needs
from mindyn.estimators.least_squares import LeastSquares
from mindyn.regression.integrated import Integration, integrate_rows
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True)
class EnergyDifference(Integration, Estimator):
    """Settings of a fit to energy or momentum differences, `Integration`; qdd of the samples is not looked at."""

    @property
    def needs(self) -> Needs:
        """Samples, to be integrated."""
        return "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Every sample: what is integrated needs no filter; and friction that knows no load."""
        return wanted.without_load().unfiltered()

    def fit(self, rows: Rows) -> Estimate:
        """The estimate; residuals are of mean torques (momentum) or mean power in W (energy) over the intervals."""
        solver = LeastSquares(weights="joint" if self.form == "momentum" else "ordinary")
        estimate = solver.fit(integrate_rows(rows, self))
        samples = rows.all_samples("energy and momentum differences")
        taken = self.intervals(rows.regressor, samples)
        seconds = sum(one.stop - one.start - 1 for one in taken) / samples.rate_hz
        return replace(
            estimate,
            status=f"Differences of {self.form} over {len(taken)} intervals ({seconds:.3g} s in all): "
            f"{estimate.status}",
            method=f"{self.form} difference",
            provenance={**estimate.provenance, "intervals": len(taken), "seconds": seconds, **asdict(self)},
        )
