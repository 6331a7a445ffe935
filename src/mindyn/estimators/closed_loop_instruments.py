"""`ClosedLoopInstruments`: instrumental variables from simulated closed-loop states.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Janot, Vandanjon, Gautier 2014, IDIM-IV]

Y is the regressor at the measured motion; Omega is the regressor at the motion of the current model, simulated under
the controller and reference of the log. Omega contains no measurement: noise of positions, of their derivatives and of
torques averages out, and friction reverses where the simulated speeds do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindyn.estimators.estimate import Estimate, Estimator
from mindyn.estimators.instrumental_variables import repeat_passes, report_passes
from mindyn.estimators.least_squares import LeastSquares, Weights
from mindyn.estimators.simulated_states import LoopReplay, LoopSettings, require_stable
from mindyn.logs.samples import Samples
from mindyn.regression.rows import Rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot
from mindyn.simulation.inputs import require_count


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoopInstruments(LoopSettings, Estimator):
    """Instrumental-variables fit with instruments from a simulated closed loop.

    Parameters
    ----------
    controller : CandidateController, optional
        Control law and reference of the log. Default: the position servo of the log, with its targets.
    model : Estimate, optional
        Its simulated motion gives the first instruments. Default: the least-squares estimate, or pure inertia
        (`regular_values`) if that is indefinite or unstable.
    passes : int
        Largest number of passes; each later pass takes its instruments from the previous estimate.
    weights : "joint", "ordinary" or tuple of float
        Weights of the joints' rows, as in `LeastSquares`; "joint" uses those of a least-squares fit.
    control_rate_hz : float, optional
        Rate of the controller; by default once per row.
    start_s : float, default 0.0
        Time of the controller at the first row, in s.
    initial : {"measured", "reference"}, default "measured"
        State at which simulations start.
    longest_step_s : float, default 0.001
        Longest step of the integration, in s.
    """

    model: Estimate | None = None
    passes: int = 10
    weights: Weights | tuple[float, ...] = "joint"

    def __post_init__(self) -> None:
        LoopSettings.__post_init__(self)
        require_count(self.passes, "passes")

    needs = "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Return the settings with friction that forward dynamics supports."""
        return replace(wanted, friction=PLAIN_FRICTION)

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows; the status reports whether the passes settled and whether a model was indefinite."""
        samples = rows.all_samples("closed-loop instruments")
        replay = LoopReplay(self.with_servo(rows), rows.regressor, samples)
        plain = LeastSquares(weights=self.weights).fit(rows)
        first, pivots = replay.first(plain, self.model), list[float]()

        def instruments(estimate: Estimate, number: int) -> tuple[Samples, None]:
            motion = first.motion if number == 1 else replay.run(estimate.beta[None])
            hint = "pass a physically consistent estimate as model=, or condition the samples better"
            require_stable(motion, f"the model of pass {number}", hint, "model")
            pivots.append(motion.pivots[0])
            return replay.samples(motion), None

        estimate, settled = repeat_passes(plain, rows.information, samples, self.passes, instruments)
        indefinite = sum(int(pivot <= 0) for pivot in pivots)
        notes = (
            [f"the inertia matrix of the simulated model was indefinite in {indefinite} passes"] if indefinite else []
        )
        method = "instrumental variables, closed loop"
        reported = report_passes(estimate, method, len(pivots), notes, settled=settled)
        return reported.with_provenance(indefinite_passes=indefinite, first_model=first.source)
