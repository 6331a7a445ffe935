"""`compare_trajectories`: the motion that an estimate makes of a log's controller or torque, beside the measured.

[Yoshida 1996, figures 3.6.2-3.6.4]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate, predict_unfiltered
from mindyn.estimators.model_acceleration import inertia_matrices
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log
from mindyn.logs.loop_follower import add_dependent_positions
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import Samples
from mindyn.robots.table import format_table
from mindyn.simulation.closed_loop import CandidateController, ClosedLoop
from mindyn.simulation.control_laws import ControlLaw, convert_to_law

FEEDBACK_HZ: Final = 1.0
"""Bandwidth of the feedback that keeps a motion under measured torque from drifting away."""


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Measured and simulated motion at the same instants.

    t                                     (N,) s from the first row
    measured, simulated                   (N, n) positions, rad or m
    measured_torque, simulated_torque     (N, n) N m or N; simulated: what the controller asked for, or measured torque
                                          and feedback together
    status                                how it was simulated
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
        """(n,) rms position error, rad or m."""
        return np.asarray(np.sqrt(((self.simulated - self.measured) ** 2).mean(axis=0)))

    @property
    def relative(self) -> Array:
        """(n,) the same as part of the standard deviation of the measured position."""
        return np.asarray(self.rms / np.maximum(self.measured.std(axis=0), 1e-300))

    @property
    def torque_rms(self) -> Array:
        """(n,) rms difference of the torques: what the model lacks, where measured torque was applied."""
        return np.asarray(np.sqrt(((self.simulated_torque - self.measured_torque) ** 2).mean(axis=0)))

    def table(self) -> str:
        """Joint by joint."""
        rows = [("joint", "position rms [mrad or mm]", "of the motion [%]", "torque rms [N m]", "of the torque [%]")]
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
    """The estimate's motion from the log's first row.

    Torques of friction shapes and joint-side friction, which forward dynamics does not know, act as they would along
    the measured motion.

    controller                 replayed with its reference, as in the recording; None: the measured torque is applied,
                               with a weak feedback to the measured motion, without which any model drifts away
    control_rate_hz, start_s   as in `LoopSettings`
    feedback_hz                bandwidth of that feedback
    """
    if not (np.isfinite(feedback_hz) and feedback_hz >= 0):
        raise InputError(f"feedback_hz = {feedback_hz!r} must be a number, zero or more")
    samples = _samples(estimate, log)
    _require_simulable(estimate, samples)
    law = _measured_torque(estimate, samples, feedback_hz) if controller is None else convert_to_law(controller)
    start = 0.0 if controller is None else start_s
    beyond = _extra_friction_torque(estimate, samples)
    loop = ClosedLoop(
        estimate.robot,
        estimate.base,
        law if beyond is None else _subtract_torque(law, beyond, samples.rate_hz, start),
        rate_hz=samples.rate_hz,
        rows=len(samples),
        start_s=start,
        control_rate_hz=control_rate_hz,
    )
    start_q = add_dependent_positions(estimate.robot, samples.q[:1], samples.take(slice(1)).dependent_q)[0].copy()
    found = loop.run(np.ascontiguousarray(estimate.base_values)[None], start_q, samples.qd[0].copy())
    if not found.stable[0]:
        reason = "its inertia matrix is indefinite" if found.pivots[0] <= 0 else "it is unstable under this torque"
        raise InputError(
            f"the estimate's motion runs away: {reason}",
            hint="make it feasible first, or give the controller of the log",
        )
    t = np.arange(len(samples)) / samples.rate_hz
    tau = found.tau[0] if beyond is None else found.tau[0] + beyond
    status = _format_status(estimate, len(t), feedback_hz if controller is None else None)
    return Trajectories(samples.joint_names, t, samples.q, found.q[0], samples.tau, tau, status)


def _format_status(estimate: Estimate, rows: int, feedback_hz: float | None) -> str:
    replayed = feedback_hz is None
    weak = f"with a weak feedback of {feedback_hz:g} Hz to the measured motion" if feedback_hz else "in open loop"
    told = ["the controller replayed in closed loop" if replayed else f"measured torque applied, {weak}"]
    if estimate.regressor.friction.direction != "sign":
        told.append(f"{estimate.regressor.friction.direction} friction simulated as dry friction")
    if beyond := estimate.names[estimate.base.count :]:
        told.append(f"torques along the measured motion: {', '.join(beyond)}")
    return f"{'; '.join(told)}; {rows} samples."


def _extra_friction_torque(estimate: Estimate, samples: Samples) -> Array | None:
    """(N, n) torques of friction shapes and joint-side friction along the measured motion; None without any."""
    alone = estimate.beta.copy()
    alone[: estimate.base.count] = 0.0
    return predict_unfiltered(estimate.regressor, alone, samples) if alone.any() else None


def _subtract_torque(law: ControlLaw, taken: Array, rate_hz: float, start_s: float) -> ControlLaw:
    """The law whose torque a further one, given at the rows, is taken from."""
    names = law.function.name_in()
    given = {name: casadi.SX.sym(name, *law.function.size_in(k)) for k, name in enumerate(names)}
    beyond = casadi.SX.sym("beyond", taken.shape[1])
    tau = law.function(*given.values()) - beyond
    function = casadi.Function("law", [*given.values(), beyond], [tau], [*names, "beyond"], ["tau"])

    def signals(times: Array) -> dict[str, Array]:
        row = np.floor((times - start_s) * rate_hz + 1e-6).astype(int)
        return {**law.signals(times), "beyond": taken[np.clip(row, 0, len(taken) - 1)]}

    return ControlLaw(function, signals)


def _samples(estimate: Estimate, log: Log | Samples) -> Samples:
    if isinstance(log, Samples):
        return log
    if estimate.conditioning is not None:
        return estimate.samples_of(log)
    return condition(log, estimate.robot, Conditioning(edge_s=0.0)).samples


def _require_simulable(estimate: Estimate, samples: Samples) -> None:
    if samples.joint_names != estimate.robot.primary_names:
        raise InputError(
            f"the log is of joints {', '.join(samples.joint_names)}; "
            f"the estimate of {', '.join(estimate.robot.primary_names)}"
        )
    if (np.diff(samples.segments) != 0).any():
        raise InputError("the log has gaps: simulate one uninterrupted stretch of it")


def _measured_torque(estimate: Estimate, samples: Samples, feedback_hz: float) -> ControlLaw:
    """tau_m + stiffness (q_m - q) + damping (qd_m - qd), gains from the estimate's own inertia."""
    M = inertia_matrices(estimate.regressor, estimate.beta, samples)
    inertia = np.einsum("kii->ki", M).mean(axis=0)
    if not (inertia > 0).all():
        names = [name for name, value in zip(samples.joint_names, inertia, strict=True) if value <= 0]
        raise InputError(
            f"the inertia of the estimate is not positive at joint {', '.join(names)}: torque would push it backwards",
            hint="make the estimate physically consistent first",
        )
    w = 2 * np.pi * feedback_hz
    n = len(inertia)
    symbols: dict[str, Any] = {name: casadi.SX.sym(name, n) for name in ("q", "qd", "q_r", "qd_r", "measured")}
    q, qd, q_r, qd_r, measured = symbols.values()
    tau = measured + casadi.DM(inertia * w**2) * (q_r - q) + casadi.DM(2 * inertia * w) * (qd_r - qd)
    function = casadi.Function("law", [*symbols.values()], [tau], [*symbols], ["tau"])

    def signals(times: Array) -> dict[str, Array]:
        # Torque is held from a row to the next, as it was commanded; the motion is looked at between rows too.
        at, last = times * samples.rate_hz, len(samples) - 1
        row = np.minimum(np.floor(at + 1e-6).astype(int), last)
        part, after = (at - row)[:, None], np.minimum(row + 1, last)
        q_r, qd_r = (x[row] + part * (x[after] - x[row]) for x in (samples.q, samples.qd))
        return {"q_r": q_r, "qd_r": qd_r, "measured": samples.tau[row]}

    return ControlLaw(function, signals)
