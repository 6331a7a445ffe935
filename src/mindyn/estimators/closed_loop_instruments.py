"""`ClosedLoopInstruments`: regressors at simulated closed-loop states as instruments against noise of measured ones.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Janot, Vandanjon, Gautier 2014, IDIM-IV]

Y is the regressor at the measured motion; Omega the same at the motion of the current model, simulated under the
controller and reference of the log. No measurement is in Omega: noise of positions, of their derivatives and of
torques averages out, and friction turns over where the simulated speeds do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator, Needs
from mindyn.estimators.instruments import coloured_instrument_covariance, instrument_step
from mindyn.estimators.least_squares import LeastSquares, Weights
from mindyn.estimators.simulated_states import Initial, LoopReplay, LoopSettings
from mindyn.estimators.summaries import describe_status, unexplained_fraction
from mindyn.estimators.unidentifiable import infinite_variances
from mindyn.regression.information import identifiable_directions
from mindyn.regression.rows import Rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot
from mindyn.simulation.closed_loop import MAX_STEP_S, CandidateController, CandidateMotions
from mindyn.simulation.inputs import require_count


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoopInstruments(Estimator):
    """Settings of an instrumental-variables fit with closed-loop instruments.

    controller       of the log: its law and reference
    model            whose simulated motion gives the first instruments; None: the least-squares estimate, or inertia
                     alone (`regular_values`) where that is indefinite or runs away
    passes           most passes; from the second on, the instruments come from the estimate of the pass before
    weights          of the joints' rows, as in `LeastSquares`; "joint" takes those of a least-squares fit
    control_rate_hz, start_s, initial, longest_step_s   as in `LoopSettings`
    """

    controller: CandidateController
    model: Estimate | None = None
    passes: int = 10
    weights: Weights | tuple[float, ...] = "joint"
    control_rate_hz: float | None = None
    start_s: float = 0.0
    initial: Initial = "measured"
    longest_step_s: float = MAX_STEP_S

    def __post_init__(self) -> None:
        require_count(self.passes, "passes")

    @property
    def needs(self) -> Needs:
        """Samples, beside which a loop is simulated."""
        return "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Friction that forward dynamics knows."""
        return replace(wanted, friction=PLAIN_FRICTION)

    def fit(self, rows: Rows) -> Estimate:
        """The estimate; its status tells whether the passes settled and whether a model was indefinite."""
        samples = rows.all_samples("closed-loop instruments")
        loop = LoopSettings(self.controller, self.control_rate_hz, self.start_s, self.initial, self.longest_step_s)
        replay = LoopReplay(loop, rows.regressor, samples)
        plain = LeastSquares(weights=self.weights).fit(rows)
        basis = identifiable_directions(rows.information.stacked(plain.joint_weights)[0])
        cutoff, thinned = rows.settings.cutoff_hz, rows.settings.step
        first = replay.first(plain, self.model)
        estimate, motion = plain, first.motion
        indefinite, moved, count = 0, True, 0
        while moved and count < self.passes:
            count += 1
            _require_stable(motion, count)
            indefinite += int(motion.pivots[0] <= 0)
            expected = replay.samples(motion)
            step = instrument_step(estimate, samples, expected, basis, cutoff, thinned)
            moved = step.matters(estimate.beta)
            estimate = step.applied(estimate)
            if moved and count < self.passes:
                motion = replay.run(estimate.beta[None])
        covariance = coloured_instrument_covariance(step, estimate, samples, expected, cutoff, thinned)
        estimate = replace(estimate, covariance=covariance)
        found = _report(estimate, plain, count, indefinite, settled=not moved)
        return found.with_provenance(first_model=first.source)


def _require_stable(motion: CandidateMotions, number: int) -> None:
    if not motion.stable[0]:
        reason = "its inertia matrix is indefinite" if motion.pivots[0] <= 0 else "gains may not suit it"
        raise InputError(
            f"the model of pass {number} cannot be simulated under this controller: the motion runs away ({reason})",
            hint="give model= a physically consistent estimate, or condition the samples for a better least squares",
        )


def _report(estimate: Estimate, plain: Estimate, passes: int, indefinite: int, *, settled: bool) -> Estimate:
    """The estimate with its status, its provenance, and infinite variances of what the data cannot tell."""
    told = [
        f"{len(plain.names)} parameters, {passes} passes{'' if settled else ', NOT settled'}, leave "
        f"{100 * unexplained_fraction(estimate.residuals):.3g} % of the torque unexplained"
    ]
    if indefinite:
        told.append(f"the inertia matrix of the simulated model was indefinite in {indefinite} passes")
    provenance = {
        "passes": passes,
        "settled": settled,
        "indefinite_passes": indefinite,
    }
    return replace(
        estimate,
        covariance=infinite_variances(estimate.covariance, plain.names, plain.unidentifiable),
        status=describe_status(told, plain.unidentifiable),
        method="instrumental variables, closed loop",
        provenance={**estimate.provenance, **provenance},
    )
