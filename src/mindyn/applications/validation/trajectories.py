"""`compare_trajectories`: simulate a log with an estimate, under its controller or torque, and compare the motion.

[Yoshida 1996, figures 3.6.2-3.6.4]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import casadi
import numpy as np

from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.identification.estimators.instrument_steps import inertia_matrices
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log
from mindyn.logs.loop_follower import add_dependent_positions
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.closed_loop import CandidateController, ClosedLoop
from mindyn.motions.simulation.controllers import ControlLaw, convert_to_law, tracking_law
from mindyn.robots.table import format_table

FEEDBACK_HZ: Final = 1.0
"""Bandwidth of the feedback that prevents drift of a motion under measured torque."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trajectories(ShortRepr):
    """Measured and simulated motion at the same times.

    Attributes
    ----------
    joint_names : tuple of str
    t : ndarray, shape (N,)
        Time from the first row, s.
    measured, simulated : ndarray, shape (N, n)
        Positions, rad or m.
    measured_torque, simulated_torque : ndarray, shape (N, n)
        Torques, N m or N. The simulated torque is that of the controller, or the measured torque plus feedback.
    status : str
        How the motion was simulated.
    """

    joint_names: tuple[str, ...]
    t: Array
    measured: Array
    simulated: Array
    measured_torque: Array
    simulated_torque: Array
    status: str

    @property
    def rms(self) -> Array:
        """Return the rms position error (n,), rad or m."""
        return np.asarray(np.sqrt(((self.simulated - self.measured) ** 2).mean(axis=0)))

    @property
    def relative(self) -> Array:
        """Return the rms position error (n,) relative to the standard deviation of the measured position."""
        return np.asarray(self.rms / np.maximum(self.measured.std(axis=0), 1e-300))

    @property
    def torque_rms(self) -> Array:
        """Return the rms difference (n,) of the torques: the error of the model if measured torque was applied."""
        return np.asarray(np.sqrt(((self.simulated_torque - self.measured_torque) ** 2).mean(axis=0)))

    def table(self) -> str:
        """Return the errors of all joints as a text table."""
        rows = [("joint", "position rms [mrad or mm]", "relative [%]", "torque rms [N m]", "relative [%]")]
        size = np.sqrt((self.measured_torque**2).mean(axis=0))
        for k, name in enumerate(self.joint_names):
            torque = self.torque_rms[k]
            numbers = (f"{1e3 * self.rms[k]:.3g}", f"{100 * self.relative[k]:.3g}", f"{torque:.3g}")
            rows.append((name, *numbers, f"{100 * torque / max(size[k], 1e-300):.3g}"))
        return f"{format_table(rows)}\n\n{self.status}"


def compare_trajectories(
    estimate: Estimate,
    log: Log | Samples,
    controller: CandidateController | None = None,
    *,
    control_rate_hz: float | None = None,
    start_s: float = 0.0,
    feedback_hz: float = FEEDBACK_HZ,
) -> Trajectories:
    """Simulate an estimate from the first row of a log and compare the motion.

    Forward dynamics has no friction shapes and joint-side friction: these act as along the measured motion.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    log : Log or Samples
        Log to use.
    controller : Controller, optional
        Controller of the recording, replayed with its reference. By default the measured torque is applied, with a weak
        feedback to the measured motion, without which any model drifts away.
    control_rate_hz, start_s : float
        As in `ClosedLoopInstruments`.
    feedback_hz : float
        Bandwidth of the feedback.

    Returns
    -------
    Trajectories
        Measured and simulated motion and torque over time.

    Raises
    ------
    InputError
        If the log has gaps or other joints, or the simulated motion diverges.
    """
    require_number(feedback_hz, "feedback_hz", "[0, inf)")
    samples = _condition_log(estimate, log)
    _require_simulable(estimate, samples)
    extra = _extra_friction_torque(estimate, samples)
    if controller is None:
        law, start, torque = _follow_motion(estimate, samples, feedback_hz), 0.0, samples.tau - extra
    else:
        law, start, torque = convert_to_law(controller), start_s, -extra
    loop = ClosedLoop(
        estimate.robot,
        estimate.base,
        _add_torque(law, torque, samples.rate_hz, start),
        rate_hz=samples.rate_hz,
        rows=len(samples),
        start_s=start,
        control_rate_hz=control_rate_hz,
    )
    start_q = add_dependent_positions(estimate.robot, samples.q[:1], samples.take(slice(1)).dependent_q)[0].copy()
    run = loop.run(np.ascontiguousarray(estimate.base_values)[None], start_q, samples.qd[0].copy())
    if not run.stable[0]:
        reason = "its inertia matrix is indefinite" if run.pivots[0] <= 0 else "it is unstable under this torque"
        raise InputError(
            f"the simulated motion of the estimate diverges: {reason}",
            hint="call make_feasible(estimate) first, or give the controller of the log",
            code=Code.NOT_CONVERGED,
            subject=estimate.robot.name,
        )
    t = np.arange(len(samples)) / samples.rate_hz
    status = _format_status(estimate, len(t), feedback_hz if controller is None else None)
    return Trajectories(samples.joint_names, t, samples.q, run.q[0], samples.tau, run.tau[0] + extra, status)


def _format_status(estimate: Estimate, rows: int, feedback_hz: float | None) -> str:
    replayed = feedback_hz is None
    weak = f"with a weak feedback of {feedback_hz:g} Hz to the measured motion" if feedback_hz else "in open loop"
    parts = ["the controller replayed in closed loop" if replayed else f"measured torque applied, {weak}"]
    if estimate.regressor.friction.direction != "sign":
        parts.append(f"{estimate.regressor.friction.direction} friction simulated as dry friction")
    if extra := estimate.names[estimate.base.count :]:
        parts.append(f"torques along the measured motion: {', '.join(extra)}")
    return f"{'; '.join(parts)}; {rows} samples."


def _extra_friction_torque(estimate: Estimate, samples: Samples) -> Array:
    """Return torques (N, n) of friction shapes and joint-side friction along the measured motion."""
    beta = estimate.beta.copy()
    beta[: estimate.base.count] = 0.0
    return predict_unfiltered(estimate.regressor, beta, samples)


def _add_torque(law: ControlLaw, torque: Array, rate_hz: float, start_s: float) -> ControlLaw:
    """Return the control law plus a torque that is given at the rows and constant between them, as commanded."""
    names = law.function.name_in()
    inputs = {name: casadi.SX.sym(name, *law.function.size_in(k)) for k, name in enumerate(names)}
    beyond = casadi.SX.sym("beyond", torque.shape[1])
    tau = law.function(*inputs.values()) + beyond
    function = casadi.Function("law", [*inputs.values(), beyond], [tau], [*names, "beyond"], ["tau"])

    def signals(times: Array) -> dict[str, Array]:
        row = np.floor((times - start_s) * rate_hz + 1e-6).astype(int)
        return {**law.signals(times), "beyond": torque[np.clip(row, 0, len(torque) - 1)]}

    return ControlLaw(function, signals)


def _condition_log(estimate: Estimate, log: Log | Samples) -> Samples:
    if isinstance(log, Samples):
        return log
    if estimate.settings.conditioning is not None:
        return estimate.samples_of(log)
    return condition(estimate.robot, log, Conditioning(edge_s=0.0)).samples


def _require_simulable(estimate: Estimate, samples: Samples) -> None:
    if samples.joint_names != estimate.robot.primary_names:
        raise InputError(
            f"the log has joints {', '.join(samples.joint_names)}; "
            f"the estimate has {', '.join(estimate.robot.primary_names)}",
            hint="read the log with the robot of the estimate: read_log(path, estimate.robot)",
            code=Code.DISAGREEMENT,
            subject="log",
        )
    if (np.diff(samples.segments) != 0).any():
        raise InputError("the log has gaps; simulate one segment without gaps", code=Code.UNSUPPORTED, subject="log")


def _follow_motion(estimate: Estimate, samples: Samples, feedback_hz: float) -> ControlLaw:
    """Return stiffness (q_m - q) + damping (qd_m - qd), with gains from the inertia of the estimate."""
    M = inertia_matrices(estimate.regressor, estimate.beta, samples)
    inertia = np.einsum("kii->ki", M).mean(axis=0)
    if not (inertia > 0).all():
        names = [name for name, value in zip(samples.joint_names, inertia, strict=True) if value <= 0]
        raise InputError(
            f"the inertia of the estimate is not positive at joint {', '.join(names)}",
            hint="call make_feasible(estimate) first",
            code=Code.NOT_FEASIBLE,
            subject=", ".join(names),
        )
    w = 2 * np.pi * feedback_hz

    def signals(times: Array) -> dict[str, Array]:
        at, last = times * samples.rate_hz, len(samples) - 1
        row = np.minimum(np.floor(at + 1e-6).astype(int), last)
        part, after = (at - row)[:, None], np.minimum(row + 1, last)
        q_r, qd_r = (x[row] + part * (x[after] - x[row]) for x in (samples.q, samples.qd))
        return {"q_r": q_r, "qd_r": qd_r}

    return tracking_law(inertia * w**2, 2 * inertia * w, signals)
