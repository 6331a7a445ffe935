"""`ClosedLoopInstruments`: instrumental variables from simulated closed-loop states.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Janot, Vandanjon, Gautier 2014, IDIM-IV]

Y is the regressor at the measured motion; Omega is the regressor at the motion of the current model, simulated under
the controller and reference of the log. Omega contains no measurement: noise of positions, of their derivatives and of
torques averages out, and friction reverses where the simulated speeds do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate, Estimator, Needs
from mindyn.estimators.estimate_parts import describe_status, infinite_variances, unexplained_fraction
from mindyn.estimators.instrumental_variables import coloured_instrument_covariance, instrument_step
from mindyn.estimators.least_squares import LeastSquares, Weights
from mindyn.estimators.simulated_states import Initial, LoopReplay, LoopSettings
from mindyn.regression.information import identifiable_directions
from mindyn.regression.rows import Rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot
from mindyn.simulation.closed_loop import MAX_STEP_S, CandidateController, CandidateMotions
from mindyn.simulation.inputs import require_count


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoopInstruments(Estimator):
    """Instrumental-variables fit with instruments from a simulated closed loop.

    Parameters
    ----------
    controller : CandidateController
        Control law and reference of the log.
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
        """Always "samples": the loop is simulated at them."""
        return "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Return the settings with friction that forward dynamics supports."""
        return replace(wanted, friction=PLAIN_FRICTION)

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows; the status reports whether the passes settled and whether a model was indefinite."""
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
        reported = _report(estimate, plain, count, indefinite, settled=not moved)
        return reported.with_provenance(first_model=first.source)


def _require_stable(motion: CandidateMotions, number: int) -> None:
    if not motion.stable[0]:
        reason = "its inertia matrix is indefinite" if motion.pivots[0] <= 0 else "gains may not suit it"
        raise InputError(
            f"the model of pass {number} is unstable under this controller ({reason})",
            hint="pass a physically consistent estimate as model=, or condition the samples better",
            code=Code.NOT_CONVERGED,
            subject="model",
        )


def _report(estimate: Estimate, plain: Estimate, passes: int, indefinite: int, *, settled: bool) -> Estimate:
    """Return the estimate with status, provenance, and infinite variances of unidentifiable parameters."""
    sentences = [
        f"{len(plain.names)} parameters, {passes} passes{'' if settled else ', NOT settled'}, leave "
        f"{100 * unexplained_fraction(estimate.residuals):.3g} % of the torque unexplained"
    ]
    if indefinite:
        sentences.append(f"the inertia matrix of the simulated model was indefinite in {indefinite} passes")
    provenance = {
        "passes": passes,
        "settled": settled,
        "indefinite_passes": indefinite,
    }
    return replace(
        estimate,
        covariance=infinite_variances(estimate.covariance, plain.names, plain.unidentifiable),
        status=describe_status(sentences, plain.unidentifiable),
        method="instrumental variables, closed loop",
        provenance={**estimate.provenance, **provenance},
    )
