"""`ClosedLoopInstruments`: instrumental variables from simulated closed-loop states.

    beta = (sum_i w_i Omega_i^T Y_i)^-1 sum_i w_i Omega_i^T tau_i    [Janot, Vandanjon, Gautier 2014, IDIM-IV]

Y is the regressor at the measured motion. Omega is the regressor at the motion of the current model, simulated with the
controller and the reference of the log. Because Omega contains no measurement, the noise of positions, of their
derivatives and of torques averages out, and friction changes its direction where the simulated speeds do.

With equations at simulated states, the torque of the simulation is fitted to the measured torque by Gauss-Newton steps
[as DIDIM, Gautier, Janot, Vandanjon 2013], so that no filter smooths the reversal of friction. DIDIM uses Omega as the
derivatives, as if the motion did not depend on the model. With soft servos, the motion depends on the model; here, the
derivatives come from simulations of changed models.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.algebra.normal_equations import invert_normal_matrix
from mindyn.foundation.algebra.requirements import require_count
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.foundation.notation import DRIVE_PARAMETERS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.instrument_steps import inertia_matrices, repeat_passes, report_passes
from mindyn.identification.estimators.least_squares import LeastSquares, Weights
from mindyn.logs.log import Log
from mindyn.logs.loop_follower import add_dependent_positions
from mindyn.logs.samples import Samples
from mindyn.logs.servos import Servo
from mindyn.motions.simulation.closed_loop import CandidateController, CandidateMotions, ClosedLoop
from mindyn.motions.simulation.controllers import ControlLaw, tracking_law
from mindyn.regression.build_rows import build_rows
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings
from mindyn.robots.robot import Robot

FACTORS: Final = 4.0 ** np.arange(-1, 7)
"""Factors by which regular values are multiplied, because noise of accelerations makes least-squares inertias too small
by an unknown factor.
"""
SERVO_RATE_HZ: Final = 10_000.0
"""Hz: rate at which the torque of a position servo is computed. A torque that is held for 1 ms would reduce the damping
by kp times 0.5 ms.
"""
STEP_LENGTHS: Final = 0.5 ** np.arange(8)
"""Step lengths that are tried at the same time, in the lanes of one vector register."""
LEAST_GAIN: Final = 1e-4
"""Relative decrease of the squared residuals below which steps end."""


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoopInstruments(Estimator):
    """Instrumental-variables fit with instruments from a simulated closed loop.

    Parameters
    ----------
    controller : CandidateController, optional
        Control law and reference of the log. Default: the position servo of the log, with its targets.
    model : Estimate, optional
        Model whose simulated motion gives the first instruments. Default: the least-squares estimate; if its inertia
        matrix is not positive definite or its motion is unstable, pure inertia (`regular_values`).
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
    """

    controller: CandidateController | None = None
    model: Estimate | None = None
    passes: int = 10
    equations: Literal["measured", "simulated"] = "measured"
    weights: Weights | tuple[float, ...] = "joint"
    _: KW_ONLY
    control_rate_hz: float | None = None
    start_s: float = 0.0
    initial: Literal["measured", "reference"] = "measured"

    def __post_init__(self) -> None:
        require_choice(self.initial, ("measured", "reference"), "initial")
        require_count(self.passes, "passes")
        require_choice(self.equations, ("measured", "simulated"), "equations")

    needs = "samples"

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:  # noqa: ARG002
        """Return the settings with friction that forward dynamics supports."""
        return replace(wanted, friction=PLAIN_FRICTION)

    def fit(self, rows: Rows) -> Estimate:
        """Fit the rows.

        The status says whether the passes converged, and how often an inertia matrix was not positive definite.
        """
        samples = rows.all_samples("closed-loop instruments")
        replay = LoopReplay(self._with_servo(rows), rows.regressor, samples)
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
        return reported.with_notes(indefinite_passes=indefinite, first_model=first.source)

    def _with_servo(self, rows: Rows) -> ClosedLoopInstruments:
        """Return the settings with the position servo of the log, if no controller is given."""
        if self.controller is not None:
            return self
        log, start_s = rows.find_log()
        if log is None or log.target is None:
            raise InputError(
                "simulating a closed loop needs a controller, or a single log with position targets",
                hint="pass controller=, or one log with columns.target and kp",
                code=Code.MISSING_VALUE,
                subject="controller",
            )
        rate = rows.all_samples("the simulation of a servo").rate_hz
        control_rate_hz = self.control_rate_hz or rate * max(1, round(SERVO_RATE_HZ / rate))
        return replace(self, controller=servo_law(log), start_s=start_s, control_rate_hz=control_rate_hz)

    def _fit_simulation(self, rows: Rows, samples: Samples, replay: LoopReplay, first: InitialModel) -> Estimate:
        """Fit the torque of the simulation to the measured torque. Each step uses the best of several step lengths."""
        beta, motion, count, has_settled = first.beta, first.motion, 0, False
        settings = replace(rows.settings.unfiltered(), drive_parameters="stated")
        while True:
            states = replay.samples(motion)
            left = replace(states, tau=samples.tau - states.tau)
            local = LeastSquares(weights=self.weights).fit(
                build_rows(rows.robot, left, settings, base=rows.regressor.base)
            )
            assert local.data.joint_weights is not None
            roots = np.sqrt(local.data.joint_weights)
            columns = (_differentiate_torques(replay, beta, local.deviations) * roots).reshape(len(beta), -1).T
            if has_settled or count == self.passes:
                break
            step = np.linalg.lstsq(columns, (left.tau * roots).ravel())[0]
            candidates = beta + STEP_LENGTHS[:, None] * step
            trial, count = replay.run(candidates), count + 1
            with np.errstate(invalid="ignore", over="ignore"):
                squares = ((samples.tau - trial.tau) ** 2).sum(axis=1) @ local.data.joint_weights
            squares = np.where(trial.stable & np.isfinite(squares), squares, np.inf)
            best, before = int(np.argmin(squares)), float((left.tau**2).sum(axis=0) @ local.data.joint_weights)
            has_settled = not squares[best] < (1 - LEAST_GAIN) * before
            if squares[best] < before:
                beta, motion = candidates[best], trial.select(best)
        sizes = np.sqrt((samples.tau**2).mean(axis=0)).tolist()
        residuals = tuple(replace(r, rms_torque=size) for r, size in zip(local.data.residuals, sizes, strict=True))
        covariance = invert_normal_matrix(columns.T @ columns)
        estimate = (
            local.with_values(beta=beta)
            .with_uncertainty(covariance=covariance)
            .with_data(residuals=residuals, settings=rows.settings, factor=None)
        )
        reported = report_passes(estimate, "simulated closed loop", count, (), settled=has_settled)
        return reported.with_notes(first_model=first.source)


def _differentiate_torques(replay: LoopReplay, beta: Array, deviations: Array) -> Array:
    """Return the derivatives (p, N, n) of the simulated torque by differences; zero where a simulation diverges."""
    sizes = np.where(np.isfinite(deviations) & (deviations > 0), deviations, 1e-6)
    up, down = np.split(replay.run(np.concatenate([beta + np.diag(sizes), beta - np.diag(sizes)])).tau, 2)
    slopes = (up - down) / (2 * sizes)[:, None, None]
    return np.where(np.isfinite(slopes).all(axis=(1, 2))[:, None, None], slopes, 0.0)


def servo_law(log: Log) -> ControlLaw:
    """Return the position servo of a log as a control law whose time is that of the log."""
    servo = Servo.from_metadata(log.metadata, log.joint_names)
    limit = servo.limit if np.isfinite(servo.limit).all() else None
    names = ("q_r", "qd_r")
    return tracking_law(
        servo.kp, servo.kd, lambda times: dict(zip(names, servo.reference(log, times), strict=True)), limit
    )


@dataclass(frozen=True, slots=True, eq=False)
class InitialModel:
    """A first candidate (p,), its motion and its origin."""

    beta: Array
    motion: CandidateMotions
    source: str

    def __post_init__(self) -> None:
        hint = "start from a physically consistent estimate; controller, rates and start_s must be the log's"
        require_stable(self.motion, f"the first candidate ({self.source})", hint, self.source)


def require_stable(motion: CandidateMotions, what: str, hint: str, subject: str) -> None:
    """Raise `InputError` if a simulated motion is unstable. `what` is the name of the model in the message."""
    if not motion.stable[0]:
        reason = "its inertia matrix is indefinite" if motion.pivots[0] <= 0 else "gains may not suit it"
        message = f"{what} is unstable under this controller ({reason})"
        raise InputError(message, hint=hint, code=Code.NOT_CONVERGED, subject=subject)


def regular_values(plain: Estimate, samples: Samples) -> Array:
    """Return beta of pure inertia, about as large as in a least-squares fit: a candidate that can always be simulated.

    A candidate that follows the reference has nearly the regressor of the reference, so that one Gauss-Newton step from
    it is nearly sufficient ["regular initialisation" of Gautier, Janot, Vandanjon 2013].
    """
    M = inertia_matrices(plain.regressor, plain.beta, samples)
    sizes = np.maximum(np.abs(np.einsum("kii->ki", M)).mean(axis=0), 1e-6)
    robot, base = plain.robot, plain.base
    values = np.zeros(base.matrix.shape[1])
    driven = {drive.joint: (k, drive.ratio) for k, drive in enumerate(robot.drives)} if base.with_drives else {}
    for joint, size in zip(robot.primary_joints, sizes, strict=True):
        if joint.name in driven:
            k, ratio = driven[joint.name]
            first = PARAMETERS_PER_LINK * len(robot.joints) + len(DRIVE_PARAMETERS) * k
            values[first + DRIVE_PARAMETERS.index("rotor_inertia")] = size / ratio**2
        else:
            first = PARAMETERS_PER_LINK * robot.joint_index(joint.name)
            names = ("Ixx", "Iyy", "Izz") if joint.kind == "revolute" else ("m",)
            values[[first + LINK_PARAMETERS.index(name) for name in names]] = size
    return np.asarray(base.matrix @ values)


class LoopReplay:
    """The control loop of a log, for simulation with candidates."""

    def __init__(self, settings: ClosedLoopInstruments, regressor: Regressor, samples: Samples) -> None:
        _require_simulable(regressor)
        if len(np.unique(samples.segments)) > 1:
            raise InputError(
                f"a closed loop is simulated without gaps, but the log has {len(np.unique(samples.segments))} segments",
                hint="fit a single segment of the log, and set start_s to its time on the controller's clock",
                code=Code.UNSUPPORTED,
                subject="segments",
            )
        assert settings.controller is not None
        self._samples, self._robot = samples, regressor.robot
        self.loop = ClosedLoop(
            regressor.robot,
            regressor.base,
            settings.controller,
            rate_hz=samples.rate_hz,
            rows=len(samples),
            start_s=settings.start_s,
            control_rate_hz=settings.control_rate_hz,
        )
        whole = add_dependent_positions(regressor.robot, samples.q[:1], samples.take(slice(1)).dependent_q)
        measured = np.ascontiguousarray(whole[0]), np.ascontiguousarray(samples.qd[0])
        self.start = measured if settings.initial == "measured" else self.loop.reference_start()

    def run(self, betas: Array) -> CandidateMotions:
        """Simulate the motions of candidates (B, p)."""
        return self.loop.run(np.ascontiguousarray(betas), *self.start)

    def first(self, plain: Estimate, given: Estimate | None) -> InitialModel:
        """Return the given model, else least squares, else regular values if least squares is unstable."""
        if given is not None:
            beta = np.asarray(given.base.transform_to(plain.base) @ given.base_values)
            return InitialModel(beta, self.run(beta[None]), "given")
        states = self.run(plain.beta[None])
        if states.stable[0] and states.pivots[0] > 0:
            return InitialModel(plain.beta, states, "least squares")
        betas = FACTORS[:, None] * regular_values(plain, self._samples)
        motions = self.run(betas)
        astray = ((motions.q - self._samples.q) ** 2).sum(axis=(1, 2))
        best = int(np.argmin(np.where(motions.stable, astray, np.inf)))
        return InitialModel(betas[best], motions.select(best), "regular values")

    def samples(self, motions: CandidateMotions, number: int = 0) -> Samples:
        """Return one of the motions at the rows of the log, with the torque of its controller."""
        arrays = (motions.q, motions.qd, motions.qdd, motions.tau)
        q, qd, qdd, tau = (np.ascontiguousarray(array[number]) for array in arrays)
        solved = motions.positions.shape[-1] > motions.q.shape[-1]
        dependent = motions.positions[number][:, list(home_closure(self._robot).dependent)] if solved else None
        return replace(self._samples, q=q, qd=qd, qdd=qdd, tau=tau, dependent_q=dependent, closure=None)


def _require_simulable(regressor: Regressor) -> None:
    """Raise an error if forward dynamics does not support a column."""
    beyond, direction = regressor.names[regressor.base.count :], regressor.friction.direction
    if beyond or direction != "sign":
        what = f"the columns {', '.join(beyond)}" if beyond else f"friction of direction {direction!r}"
        raise InputError(
            f"{what} cannot be simulated: only base and drive parameters enter forward dynamics",
            hint="add drives, or extra torques as formulas, to the robot",
            code=Code.UNSUPPORTED,
            subject=beyond[0] if beyond else direction,
        )
