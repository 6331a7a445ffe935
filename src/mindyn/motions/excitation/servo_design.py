"""Motions for position servos: their default length and period, and what their logs of targets and positions
determine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.kernels.model import compile_model
from mindyn.logs.servos import TYPICAL_RATIOS
from mindyn.motions.excitation.criteria import parameter_deviations
from mindyn.motions.excitation.motion_design import MotionDesign, Prediction
from mindyn.motions.excitation.motion_safety import SafetySettings
from mindyn.motions.excitation.motions import Fourier

SECONDS: Final = 120.0
"""s: length of a motion for servos."""
PERIOD_S: Final = 10.0
"""s: period of the first harmonic. The fifth harmonic, 0.5 Hz, is fast enough for damping, and the first reverses
slowly.
"""
TRACKING_ERROR_M: Final = 0.03
"""m: smallest tracking error of the tip that is assumed: gravity alone lowers the tip of a usual arm of 0.3 m by this
much.
"""
USUAL_DROOP: Final = 0.1
"""Largest deflection by gravity (rad, m) of a usual servo; it determines the gain that the prediction assumes."""
POSITION_ERROR: Final = 0.005
"""Usual rms error (rad, m) of simulated positions; errors one second apart count as independent."""
PRIOR_DEVIATION: Final = 3.0
"""Standard deviation of the logarithm of each value before the motion: a factor of 20."""
VALUES: Final = ("kp", "kd/kp", "fc/kp", "armature/kp")
UNITS: Final = ("N m/rad", "s", "rad", "s^2")


def servo_family(seconds: float, harmonics: int | None = None) -> Fourier:
    """Return a Fourier series with a period of about `PERIOD_S`."""
    family = Fourier() if harmonics is None else Fourier(harmonics)
    return replace(family, periods=max(1, round((seconds - 2 * family.ramp_s) / PERIOD_S)))


def servo_safety(safety: SafetySettings) -> SafetySettings:
    """Return the settings with a tracking error that is at least as large as that of servos."""
    return replace(safety, tracking_error_m=max(safety.tracking_error_m, TRACKING_ERROR_M))


def describe_servos(design: MotionDesign) -> MotionDesign:
    """Return the design with the predicted accuracy of servo values, and a finding for joints that move too slowly."""
    return replace(
        design, prediction=predict_servos(design), levers=(), findings=(*design.findings, *_find_slow(design))
    )


def predict_servos(design: MotionDesign) -> Prediction:
    """Return the predicted accuracy of gain and ratios of each joint, for usual servos: `target - q` is linear in 1/kp
    and in the ratios.

    Deviations of values without a prior one are relative.
    """
    q, qd, qdd, _ = design.sample(design.rate_hz)
    bare = replace(design.robot, drives=(), extras=())
    model = compile_model(bare)
    torque, gravity = model.inverse_dynamics(q, qd, qdd), model.gravity(q)
    largest = float(np.abs(gravity).max())
    kp = largest / USUAL_DROOP if largest > 0 else float(np.abs(torque).max()) / USUAL_DROOP
    rows: list[tuple[Array, Array]] = []
    for joint in range(q.shape[1]):
        parts = (-torque[:, joint] / kp, qd[:, joint], np.sign(qd[:, joint]), qdd[:, joint])
        J = np.column_stack(parts) * [1.0, *TYPICAL_RATIOS] / (POSITION_ERROR * np.sqrt(design.rate_hz))
        S = J.T @ J
        rows.append((parameter_deviations(S + np.eye(4) / PRIOR_DEVIATION**2), np.sqrt(np.diag(S) / len(q))))
    deviations, excitation = (np.concatenate(column) for column in zip(*rows, strict=True))
    values = np.tile([kp, *TYPICAL_RATIOS], q.shape[1])
    names = tuple(f"{what} {joint}" for joint in design.robot.primary_names for what in VALUES)
    units = tuple(_unit(unit, joint.kind == "prismatic") for joint in design.robot.primary_joints for unit in UNITS)
    return Prediction(names, units, values, deviations * values, excitation)


def _unit(unit: str, slides: bool) -> str:
    return {"N m/rad": "N/m", "rad": "m"}.get(unit, unit) if slides else unit


def _find_slow(design: MotionDesign) -> list[Finding]:
    """Return a finding on joints whose damping torque is always smaller than their friction, with the values of usual
    servos.
    """
    peaks = np.abs(design.sample(design.rate_hz)[1]).max(axis=0)
    needed = TYPICAL_RATIOS[1] / TYPICAL_RATIOS[0]
    moves = ~design.limits.still
    slow = [
        (n, v) for n, v, is_moving in zip(design.robot.primary_names, peaks, moves, strict=True)
        if is_moving and v < needed
    ]  # fmt: skip
    if not slow:
        return []
    cases = ", ".join(f"{name} {speed:.2g}" for name, speed in slow)
    message = f"the motion is too slow for damping (needs {needed:.2g} rad/s or m/s at its peak): {cases}"
    remedy = "Allow more speed (--speed, limits) or more free space"
    return [warning(Kind.SLOW_MOTION, message, remedy, tuple(name for name, _ in slow))]
