"""`ClosedLoopInstruments`: instrumental variables from simulated closed-loop states.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Janot, Vandanjon, Gautier 2014, IDIM-IV]

Y is the regressor at the measured motion; Omega is the regressor at the motion of the current model, simulated under
the controller and reference of the log. Omega contains no measurement: noise of positions, of their derivatives and of
torques averages out, and friction reverses where the simulated speeds do.

With equations at simulated states, the torque of the simulation is fitted to the measured one by Gauss-Newton steps
[as DIDIM, Gautier, Janot, Vandanjon 2013]: no filter smooths the reversal of friction. DIDIM takes Omega as the
derivatives, as if the motion did not depend on the model; under soft servos it does, so that simulations of changed
models give the derivatives here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import require_choice
from mindyn.estimators.estimate import Estimate, Estimator
from mindyn.estimators.instrumental_variables import repeat_passes, report_passes
from mindyn.estimators.least_squares import LeastSquares, Weights
from mindyn.estimators.simulated_states import InitialModel, LoopReplay, LoopSettings, require_stable
from mindyn.logs.samples import Samples
from mindyn.regression.rows import Rows, build_rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot
from mindyn.simulation.inputs import require_count

STEP_LENGTHS: Final = 0.5 ** np.arange(8)
"""Lengths of a step that are tried at once, in the lanes of one register."""
LEAST_GAIN: Final = 1e-4
"""Relative decrease of the squared residuals below which steps end."""


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
    equations : "measured" or "simulated"
        States of the equations. "simulated" follows the motion most closely in a simulator.
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
    equations: Literal["measured", "simulated"] = "measured"
    weights: Weights | tuple[float, ...] = "joint"

    def __post_init__(self) -> None:
        LoopSettings.__post_init__(self)
        require_count(self.passes, "passes")
        require_choice(self.equations, ("measured", "simulated"), "equations")

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
        if self.equations == "simulated":
            return self._fit_simulation(rows, samples, replay, first)

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

    def _fit_simulation(self, rows: Rows, samples: Samples, replay: LoopReplay, first: InitialModel) -> Estimate:
        """Fit the torque of the simulation to the measured one; the best of several lengths of a step is taken."""
        beta, motion, count, has_settled = first.beta, first.motion, 0, False
        settings = replace(rows.settings.unfiltered(), drives="stated")
        while True:
            states = replay.samples(motion)
            left = replace(states, tau=samples.tau - states.tau)
            local = LeastSquares(weights=self.weights).fit(
                build_rows(rows.robot, left, settings, base=rows.regressor.base)
            )
            assert local.joint_weights is not None
            roots = np.sqrt(local.joint_weights)
            columns = (_derivatives(replay, beta, local.deviations) * roots).reshape(len(beta), -1).T
            if has_settled or count == self.passes:
                break
            step = np.linalg.lstsq(columns, (left.tau * roots).ravel())[0]
            candidates = beta + STEP_LENGTHS[:, None] * step
            trial, count = replay.run(candidates), count + 1
            with np.errstate(invalid="ignore", over="ignore"):
                squares = ((samples.tau - trial.tau) ** 2).sum(axis=1) @ local.joint_weights
            squares = np.where(trial.stable & np.isfinite(squares), squares, np.inf)
            best, before = int(np.argmin(squares)), float((left.tau**2).sum(axis=0) @ local.joint_weights)
            has_settled = not squares[best] < (1 - LEAST_GAIN) * before
            if squares[best] < before:
                beta, motion = candidates[best], trial.select(best)
        sizes = np.sqrt((samples.tau**2).mean(axis=0)).tolist()
        residuals = tuple(replace(r, rms_torque=size) for r, size in zip(local.residuals, sizes, strict=True))
        covariance: Array = np.linalg.pinv(columns.T @ columns, hermitian=True).astype(np.float64)
        estimate = replace(local, beta=beta, covariance=covariance, residuals=residuals, settings=rows.settings)
        reported = report_passes(estimate, "simulated closed loop", count, (), settled=has_settled)
        return reported.with_provenance(first_model=first.source)


def _derivatives(replay: LoopReplay, beta: Array, deviations: Array) -> Array:
    """Return the derivatives (p, N, n) of the simulated torque by differences; zero where it diverges."""
    sizes = np.where(np.isfinite(deviations) & (deviations > 0), deviations, 1e-6)
    up, down = np.split(replay.run(np.concatenate([beta + np.diag(sizes), beta - np.diag(sizes)])).tau, 2)
    slopes = (up - down) / (2 * sizes)[:, None, None]
    return np.where(np.isfinite(slopes).all(axis=(1, 2))[:, None, None], slopes, 0.0)
