"""Simulate the states that a candidate reaches under the controller and reference of a log, free of measurement noise.

Accelerations that a model predicts under the measured torque: instruments free of the noise of measured ones.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Literal, Self, get_args

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import Code, InputError, require_choice
from mindyn.estimators.estimate import Estimate, predict_unfiltered
from mindyn.logs.log import Log
from mindyn.logs.loop_follower import add_dependent_positions
from mindyn.logs.samples import Samples
from mindyn.logs.servos import Servo
from mindyn.notation import DRIVE_PARAMETERS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.simulation.closed_loop import MAX_STEP_S, CandidateController, CandidateMotions, ClosedLoop
from mindyn.simulation.controllers import ControlLaw

DEFINITE: Final = 1e-6
"""Least eigenvalue of M, with its diagonal scaled to 1, for which its solution is usable."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelAcceleration:
    """qdd (N, n) and where (N,) the model's inertia matrix M (N, n, n) is positive definite; qdd is zero elsewhere."""

    qdd: Array
    definite: NDArray[np.bool_]
    M: Array

    @property
    def indefinite_part(self) -> float:
        """Fraction of the samples at which the inertia matrix is not positive definite."""
        return 1.0 - float(self.definite.mean())


def model_acceleration(
    regressor: Regressor, beta: Array, samples: Samples, largest: Array | None = None
) -> ModelAcceleration:
    """Solve M(q) qdd = tau - tau(q, qd, 0), including the friction of the motors' motion [Yoshida 1996, eq. 3.35].

    Accelerations are clipped at `largest` (n,), by default the largest measured one of each joint, because a nearly
    singular M makes them large.
    """
    M = inertia_matrices(regressor, beta, samples)
    definite = _definite(M)
    rest = np.zeros_like(samples.q)
    left = samples.tau - predict_unfiltered(regressor, beta, replace(samples, qdd=rest))
    qdd = np.zeros_like(samples.q)
    qdd[definite] = np.linalg.solve(M[definite], left[definite, :, None])[..., 0]
    if largest is None:
        largest = np.abs(samples.qdd).max(axis=0)
    return ModelAcceleration(np.clip(qdd, -largest, largest), definite, M)


def inertia_matrices(regressor: Regressor, beta: Array, samples: Samples) -> Array:
    """Return M (N, n, n): column j is the torque of a unit acceleration of joint j, without load-dependent friction."""
    beta = np.where(np.arange(len(beta)) < regressor.base.count, beta, 0.0)
    rest = np.zeros_like(samples.q)
    held = predict_unfiltered(regressor, beta, replace(samples, qdd=rest))
    units = np.eye(regressor.joint_count)
    columns = [predict_unfiltered(regressor, beta, replace(samples, qdd=rest + unit)) - held for unit in units]
    M = np.stack(columns, axis=2)
    return np.asarray((M + M.transpose(0, 2, 1)) / 2)


def _definite(M: Array) -> NDArray[np.bool_]:
    diagonal = np.einsum("kii->ki", M)
    positive = (diagonal > 0).all(axis=1)
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    least = np.linalg.eigvalsh(M / root[:, :, None] / root[:, None, :])[:, 0]
    return np.asarray(positive & (least > DEFINITE))


Initial = Literal["measured", "reference"]

FACTORS: Final = 4.0 ** np.arange(-1, 7)
"""Factors on regular values: noise of accelerations makes least-squares inertias too small by an unknown factor."""


@dataclass(frozen=True, slots=True, eq=False)
class LoopSettings:
    """The control loop of the log.

    controller       control law and reference; None: the position servo of the log, with its targets
    control_rate_hz  rate of the controller; None: once per row
    start_s          the controller's time at the first row
    initial          start at the "measured" state, or at that of the "reference"
    longest_step_s   of the integration
    """

    controller: CandidateController | None = None
    _: KW_ONLY
    control_rate_hz: float | None = None
    start_s: float = 0.0
    initial: Initial = "measured"
    longest_step_s: float = MAX_STEP_S

    def __post_init__(self) -> None:
        require_choice(self.initial, get_args(Initial), "initial")

    def with_servo(self, rows: Rows) -> Self:
        """Return the settings with the position servo of the log, if no controller is given."""
        if self.controller is not None:
            return self
        log, start_s = rows.find_log()
        if log is None or log.target is None:
            raise InputError(
                "a loop is simulated under a controller, or under the targets of a single log with position targets",
                hint="give controller=, or one log with columns.target and kp",
                code=Code.MISSING_VALUE,
                subject="controller",
            )
        rate = rows.all_samples("the simulation of a servo").rate_hz
        control_rate_hz = self.control_rate_hz or rate * max(1, round(SERVO_RATE_HZ / rate))
        return replace(self, controller=servo_law(log), start_s=start_s, control_rate_hz=control_rate_hz)


SERVO_RATE_HZ: Final = 10_000.0
"""Rate at which the torque of a position servo is computed: held for 1 ms, it would lose kp 0.5 ms of its damping."""


def servo_law(log: Log) -> ControlLaw:
    """Return the position servo of a log as a control law whose time is that of the log."""
    servo, n = Servo.from_metadata(log.metadata, log.joint_names), len(log.joint_names)
    q, qd, q_r, qd_r = (casadi.SX.sym(name, n) for name in ("q", "qd", "q_r", "qd_r"))
    tau = casadi.DM(servo.kp) * (q_r - q) + casadi.DM(servo.kd) * (qd_r - qd)
    if np.isfinite(servo.limit).all():
        tau = casadi.fmin(casadi.fmax(tau, -servo.limit), servo.limit)
    function = casadi.Function("law", [q, qd, q_r, qd_r], [tau], ["q", "qd", "q_r", "qd_r"], ["tau"])
    return ControlLaw(function, lambda times: dict(zip(("q_r", "qd_r"), servo.reference(log, times), strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class InitialModel:
    """A first candidate (p,), its motion and its origin; raises if the motion is unstable."""

    beta: Array
    motion: CandidateMotions
    source: str

    def __post_init__(self) -> None:
        hint = "start from a physically consistent estimate; controller, rates and start_s must be the log's"
        require_stable(self.motion, f"the first candidate ({self.source})", hint, self.source)


def require_stable(motion: CandidateMotions, what: str, hint: str, subject: str) -> None:
    """Raise `InputError` if a simulated motion is unstable; `what` names the model that moves."""
    if not motion.stable[0]:
        reason = "its inertia matrix is indefinite" if motion.pivots[0] <= 0 else "gains may not suit it"
        message = f"{what} is unstable under this controller ({reason})"
        raise InputError(message, hint=hint, code=Code.NOT_CONVERGED, subject=subject)


def regular_values(plain: Estimate, samples: Samples) -> Array:
    """Return beta of pure inertia, about as large as in a least-squares fit: a candidate that can always be simulated.

    A candidate that moves like the reference has nearly its regressor, so that one Gauss-Newton step from here is
    nearly sufficient ["regular initialisation" of Gautier, Janot, Vandanjon 2013].
    """
    M = inertia_matrices(plain.regressor, plain.beta, samples)
    sizes = np.maximum(np.abs(np.einsum("kii->ki", M)).mean(axis=0), 1e-6)
    robot, base = plain.robot, plain.base
    values = np.zeros(base.matrix.shape[1])
    driven = {drive.joint: (k, drive.ratio) for k, drive in enumerate(robot.drives)} if base.drives else {}
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
    """The loop of a log, for simulation with candidates."""

    def __init__(self, settings: LoopSettings, regressor: Regressor, samples: Samples) -> None:
        _require_simulable(regressor)
        if len(np.unique(samples.segments)) > 1:
            raise InputError(
                f"a loop is simulated without gaps, but the log has {len(np.unique(samples.segments))} segments",
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
            longest_step_s=settings.longest_step_s,
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
    """Raise if forward dynamics does not support a column."""
    beyond, direction = regressor.names[regressor.base.count :], regressor.friction.direction
    if beyond or direction != "sign":
        what = f"the columns {', '.join(beyond)}" if beyond else f"friction of direction {direction!r}"
        raise InputError(
            f"{what} cannot be simulated: only base and drive parameters enter forward dynamics",
            hint="add drives, or extra torques as formulas, to the robot",
            code=Code.UNSUPPORTED,
            subject=beyond[0] if beyond else direction,
        )
