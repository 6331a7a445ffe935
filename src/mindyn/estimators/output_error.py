"""`OutputError`: fit the torques or positions of a simulated closed loop to the measured ones.

    minimise over beta   sum_i w_i |y_i - y_i(beta)|^2,   y the torque (DIDIM) or the position (CLOE)

y(beta) is simulated under the controller and reference of the log, so that no measured state, and none of its noise,
enters a regressor. Gauss-Newton steps use the exact sensitivities dy/dbeta of the simulation. For torques, the default
is the regressor at the simulated states, to which dy/dbeta tends if the controller tracks well, and which costs nothing
[Gautier, Janot, Vandanjon 2013]. Eight step lengths are simulated in the lanes of one register; the best is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError, require_choice
from mindyn.estimators.estimate import Estimate, Estimator
from mindyn.estimators.estimate_parts import JointResidual, describe_status
from mindyn.estimators.least_squares import LeastSquares, Weights
from mindyn.estimators.simulated_states import InitialModel, LoopReplay, LoopSettings
from mindyn.logs.samples import Samples
from mindyn.regression.accumulators import triangle_of
from mindyn.regression.information import Information
from mindyn.regression.rows import Rows, build_rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot
from mindyn.simulation.closed_loop import CandidateMotions
from mindyn.simulation.inputs import require_count

Compare = Literal["torque", "position"]
Jacobian = Literal["regressor", "exact"]

LENGTHS: Final = 0.5 ** np.arange(8)
"""Lengths of a Gauss-Newton step that are tried at once."""
ITERATIONS_END: Final = 0.01
"""Iterations end when no parameter moves by more than this fraction of its standard deviation ..."""
ITERATIONS_END_LEAST: Final = 1e-9
"""... or of the largest parameter."""
STUCK: Final = 0.5
"""A step that no length improves counts as settled if it is below this fraction of the standard deviations."""


@dataclass(frozen=True, slots=True, eq=False)
class OutputError(LoopSettings, Estimator):
    """Output-error fit.

    Parameters
    ----------
    controller : CandidateController
        Control law and reference of the log.
    compare : "torque" or "position"
        DIDIM or CLOE.
    jacobian : "exact", "regressor" or None
        Sensitivities of the simulation, or the regressor at simulated states. None: regressor for torques, exact for
        positions.
    start : Estimate, optional
        The first candidate. Default: least squares, or pure inertia (`regular_values`) if that is indefinite or
        unstable.
    iterations : int
        Largest number of Gauss-Newton steps.
    weights : "joint", "ordinary" or tuple of float
        Weights of the joints, as in `LeastSquares`.
    control_rate_hz : float, optional
        Rate of the controller; by default once per row.
    start_s : float, default 0.0
        Time of the controller at the first row, in s.
    initial : {"measured", "reference"}, default "measured"
        State at which simulations start.
    longest_step_s : float, default 0.001
        Longest step of the integration, in s.
    """

    compare: Compare = "torque"
    jacobian: Jacobian | None = None
    start: Estimate | None = None
    iterations: int = 20
    weights: Weights | tuple[float, ...] = "joint"

    def __post_init__(self) -> None:
        LoopSettings.__post_init__(self)
        require_choice(self.compare, get_args(Compare), "compare")
        if self.jacobian is not None:
            require_choice(self.jacobian, get_args(Jacobian), "jacobian")
        if (self.compare, self.jacobian) == ("position", "regressor"):
            message = 'compare="position" needs jacobian="exact": positions have no regressor'
            raise InputError(message, code=Code.DISAGREEMENT, subject="jacobian")
        require_count(self.iterations, "iterations")

    needs = "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Return the settings without filter, and with friction that forward dynamics supports."""
        return replace(wanted.unfiltered(), friction=PLAIN_FRICTION)

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows; the status reports whether it settled, and indefinite or unstable candidates."""
        samples = rows.all_samples("output error")
        replay = LoopReplay(self, rows.regressor, samples)
        plain = LeastSquares(weights=self.weights).fit(rows)
        search = _Search(self, rows, replay, samples, replay.first(plain, self.start))
        for _ in range(self.iterations):
            if not search.step():
                break
        return search.estimate()


class _Search:
    """Gauss-Newton iteration over candidates."""

    def __init__(
        self,
        settings: OutputError,
        rows: Rows,
        replay: LoopReplay,
        samples: Samples,
        first: InitialModel,
    ) -> None:
        self._settings, self._rows, self._regressor = settings, rows, rows.regressor
        self._solver = LeastSquares(weights=settings.weights)
        self._replay, self._samples = replay, samples
        self.beta, self._motion, self._source = first.beta, first.motion, first.source
        self.count, self.lost, self.indefinite = 0, 0, 0
        self.settled = False

    def step(self) -> bool:
        """Take one step; return False if there is none to take."""
        local = self._linearise()
        moved = _size(local.beta, local.covariance, self.beta)
        candidates = self.beta + LENGTHS[:, None] * local.beta
        trial = self._replay.run(candidates)
        self.count += 1
        self.lost += int((~trial.stable).sum())
        assert local.joint_weights is not None
        weights = local.joint_weights
        before, after = self._cost(self._motion, weights)[0], self._cost(trial, weights)
        best = int(np.argmin(after))
        if not after[best] < before:
            self.settled = moved < STUCK
            return False
        self.indefinite += int(trial.pivots[best] <= 0)
        self.beta, self._motion = candidates[best], trial.select(best)
        self.settled = moved < ITERATIONS_END and best == 0
        return not self.settled

    def estimate(self) -> Estimate:
        """Return the final estimate, with the covariance of the last linearisation."""
        local = self._linearise()
        return replace(
            local,
            beta=self.beta,
            residuals=self._residuals(local),
            status=self._status(local),
            settings=self._rows.settings,
            method=f"output error, {self._settings.compare}",
            residual_of=self._settings.compare,
            provenance={
                **local.provenance,
                "start": self._source,
                "iterations": self.count,
                "settled": self.settled,
                "unstable_candidates": self.lost,
                "indefinite_iterates": self.indefinite,
                "least_pivot": float(self._motion.pivots[0]),
            },
        )

    def _linearise(self) -> Estimate:
        """Fit the step to the residuals of the simulation by least squares."""
        left, settings = self._left, self._settings
        exact = settings.jacobian == "exact" or settings.compare == "position"
        if not exact:
            states = self._replay.samples(self._motion)
            equation_settings = replace(self._rows.settings, drives="stated")
            return self._solver.fit(
                build_rows(
                    self._regressor.robot, replace(states, tau=left), equation_settings, base=self._regressor.base
                )
            )
        sensitivities = self._replay.loop.sensitivities(self.beta, *self._replay.start)
        J = sensitivities.tau if settings.compare == "torque" else sensitivities.q
        if not np.isfinite(J).all():
            raise InputError(
                f"the sensitivities of the candidate of step {self.count + 1} diverge: its loop is nearly unstable",
                hint='pass a better estimate as start=, or use jacobian="regressor"',
                code=Code.NOT_CONVERGED,
                subject="jacobian",
            )
        return self._solver.fit(Rows.of_information(self._regressor, self._information(J, left), self._rows.settings))

    def _information(self, J: Array, left: Array) -> Information:
        """Return the R factors of [dy_i/dbeta | residual]."""
        regressor, usable = self._regressor, self._usable
        everything = np.arange(regressor.count)
        factors = [
            triangle_of(np.column_stack([J[usable[:, i], i], left[usable[:, i], i]])) for i in range(left.shape[1])
        ]
        counts = tuple(int(count) for count in usable.sum(axis=0))
        columns = (everything,) * len(factors)
        return Information(regressor.robot.primary_names, regressor.names, columns, tuple(factors), counts)

    @property
    def _measured_values(self) -> Array:
        return self._samples.tau if self._settings.compare == "torque" else self._samples.q

    def _simulate(self, motions: CandidateMotions) -> Array:
        return motions.tau if self._settings.compare == "torque" else motions.q

    @property
    def _left(self) -> Array:
        """Residuals of the current candidate."""
        return np.asarray(self._measured_values - self._simulate(self._motion)[0])

    @property
    def _usable(self) -> NDArray[np.bool_]:
        given = self._samples.usable
        return np.full(self._samples.q.shape, True) if given is None else given

    def _cost(self, motions: CandidateMotions, weights: Array) -> Array:
        """Return (B,) weighted squares; infinite for unstable motions."""
        with np.errstate(invalid="ignore", over="ignore"):
            squares = ((self._measured_values - self._simulate(motions)) ** 2 * self._usable).sum(axis=1) @ weights
        return np.where(motions.stable & np.isfinite(squares), squares, np.inf)

    def _residuals(self, local: Estimate) -> tuple[JointResidual, ...]:
        left, usable, measured = self._left, self._usable, self._measured_values
        return tuple(
            replace(residual, rms=_rms(left[usable[:, i], i]), rms_torque=_rms(measured[usable[:, i], i]))
            for i, residual in enumerate(local.residuals)
        )

    def _status(self, local: Estimate) -> str:
        error = _rms(self._left[self._usable]) / max(_rms(self._measured_values[self._usable]), 1e-300)
        sentences = [
            f"{self._regressor.count} parameters, {self.count} Gauss-Newton steps"
            f"{'' if self.settled else ', NOT settled'}: the simulated loop misses {100 * error:.3g} % of the "
            f"{self._settings.compare}"
        ]
        if self.lost:
            sentences.append(f"{self.lost} candidates were unstable and were rejected")
        if self._motion.pivots[0] <= 0:
            sentences.append("the inertia matrix of the estimate is indefinite on the simulated motion")
        elif self.indefinite:
            sentences.append(f"{self.indefinite} candidates on the way had an indefinite inertia matrix")
        return describe_status(sentences, local.unidentifiable)


def _size(step: Array, covariance: Array, beta: Array) -> float:
    """Return the step in standard deviations, allowing for rounding; infinite if nothing is identifiable."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    is_finite = np.isfinite(deviations)
    scale = deviations[is_finite] + ITERATIONS_END_LEAST / ITERATIONS_END * np.abs(beta).max()
    return float((np.abs(step[is_finite]) / scale).max()) if is_finite.any() else float("inf")


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
