"""`ClosedLoop`: simulate candidates of a robot under a controller, at the rows of a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.parameters.base import BaseParameters
from mindyn.robots.robot import Robot
from mindyn.simulation.candidates import CompiledStep, candidate_shape, compile_steps
from mindyn.simulation.control_laws import ControlLaw, convert_to_law, require_law, sample_signals
from mindyn.simulation.controllers import ComputedTorque, ProportionalDerivative
from mindyn.simulation.inputs import require_positive

CandidateController = ControlLaw | ProportionalDerivative | ComputedTorque

MAX_STEP_S: Final = 1e-3
CHUNK_STEPS: Final = 512
"""Steps between two checks for divergence; also the steps of sensitivities that are kept in memory."""
RUNAWAY_SPEED: Final = 1e4
"""Speed (rad/s or m/s) above which a motion has diverged."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateMotions:
    """Motions of B candidates at N rows.

    q, qd, qdd, tau  (B, N, n) of the primary joints; not finite after a motion diverged
    positions        (B, N, positions) of all joints with solved loops, otherwise q
    pivots           (B,) least pivot of the inertia matrix; if it is not positive, the matrix was indefinite
    stable           (B,) whether the motion stayed bounded
    """

    q: Array
    qd: Array
    qdd: Array
    tau: Array
    positions: Array
    pivots: Array
    stable: NDArray[np.bool_]

    def select(self, number: int) -> CandidateMotions:
        """Return the motion of one candidate."""
        selected = slice(number, number + 1)
        return CandidateMotions(**{field.name: getattr(self, field.name)[selected] for field in fields(self)})


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivities:
    """Derivatives of position and commanded torque with respect to beta, (N, n, p)."""

    q: Array
    tau: Array


class ClosedLoop:
    """Candidates of a robot under a controller, at `rows` rows of rate_hz from start_s on the controller's clock.

    The controller runs at control_rate_hz, a whole multiple of rate_hz (by default rate_hz), and its torque is held in
    between. Steps are Runge-Kutta steps of order 4, at most longest_step_s long.
    """

    def __init__(
        self,
        robot: Robot,
        base: BaseParameters,
        controller: CandidateController,
        *,
        rate_hz: float,
        rows: int,
        start_s: float = 0.0,
        control_rate_hz: float | None = None,
        longest_step_s: float = MAX_STEP_S,
    ) -> None:
        law, self._shape = convert_to_law(controller), candidate_shape(robot, drives=base.drives)
        require_law(law.function, self._shape, reserved=("lam", "held", "beta", "refresh", "dt"))
        self.base, self.rows = base, rows
        periods = _control_periods_per_row(rate_hz if control_rate_hz is None else control_rate_hz, rate_hz)
        steps = max(1, ceil(1 / (rate_hz * periods * require_positive(longest_step_s, "longest_step_s")) - 1e-9))
        self._steps_per_row = periods * steps
        self._dt = np.array([1 / (rate_hz * self._steps_per_row)])
        times = start_s + np.arange(rows * periods) / (rate_hz * periods)
        self._signals = {name: np.repeat(value, steps, axis=0) for name, value in sample_signals(law, times).items()}
        refresh = np.zeros((rows * self._steps_per_row, 1))
        refresh[::steps] = 1.0
        self._signals["refresh"] = refresh
        self._plain, self._tangent = compile_steps(robot, base, law.function.serialize())

    def reference_start(self) -> tuple[Array, Array]:
        """Return q, qd of the controller's reference at the start."""
        if not {"q_r", "qd_r"} <= set(self._signals):
            raise InputError(
                "the control law has no signals q_r and qd_r, which give the start of the motion",
                hint='use initial="measured"',
                code=Code.MISSING_VALUE,
                subject="q_r",
            )
        return self._signals["q_r"][0], self._signals["qd_r"][0]

    def run(self, betas: Array, q0: Array, qd0: Array) -> CandidateMotions:
        """Simulate candidates betas (B, p) from q0, qd0 (n,), or from q0 of all joints."""
        step: CompiledStep = self._plain()
        start = {"q": self._shape.start(q0), "qd": qd0}
        count, sizes = len(betas), {"q": len(start["q"])} | dict.fromkeys(("qd", "qdd", "tau"), len(qd0))
        motions = {name: np.full((count, self.rows, size), np.nan) for name, size in sizes.items()}
        pivots = np.full(count, np.inf)
        for rows, arrays in self._march(step, start, {"beta": betas}, count):
            kept = slice(0, None, self._steps_per_row)
            for name, array in (("q", "q"), ("qd", "qd"), ("qdd", "qdd")):
                motions[name][:, rows] = arrays[array][:, kept][:, : rows.stop - rows.start]
            motions["tau"][:, rows] = arrays["held"][:, 1 :: self._steps_per_row]
            pivots = np.fmin(pivots, np.nanmin(arrays["pivot"][..., 0], axis=1, initial=np.inf))
        stable = np.isfinite(motions["qd"]).all(axis=(1, 2)) & np.isfinite(motions["tau"]).all(axis=(1, 2))
        stable &= (np.abs(np.nan_to_num(motions["qd"], nan=np.inf)) < RUNAWAY_SPEED).all(axis=(1, 2))
        motions["positions"] = motions["q"]
        motions["q"] = np.ascontiguousarray(motions["q"][..., self._shape.primary])
        return CandidateMotions(**motions, pivots=pivots, stable=stable)

    def sensitivities(self, beta: Array, q0: Array, qd0: Array) -> Sensitivities:
        """Return the sensitivities of position and torque of the candidate beta (p,) to every base value."""
        step: CompiledStep = self._tangent()
        p, n, primary = len(beta), len(qd0), self._shape.primary
        dq, dtau = np.full((self.rows, n, p), np.nan), np.full((self.rows, n, p), np.nan)
        constants = {"beta": np.tile(beta, (p, 1)), "d_beta": np.eye(p)}
        for rows, arrays in self._march(step, {"q": self._shape.start(q0), "qd": qd0}, constants, p):
            kept = arrays["d_q"][:, :: self._steps_per_row][:, : rows.stop - rows.start]
            dq[rows] = kept[..., primary].transpose(1, 2, 0)
            dtau[rows] = arrays["d_held"][:, 1 :: self._steps_per_row].transpose(1, 2, 0)
        return Sensitivities(dq, dtau)

    def _march(
        self, step: CompiledStep, start: dict[str, Array], constants: dict[str, Array], count: int
    ) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Yield rows and arrays (B, steps or steps + 1, size) of successive blocks, until all motions have diverged."""
        names = {name.removesuffix("_next") for name in step.outputs if name.endswith("_next")}
        row_count = max(1, CHUNK_STEPS // self._steps_per_row)
        steps = row_count * self._steps_per_row
        arrays = {name: np.zeros((count, steps + 1, step.sizes[name])) for name in names}
        seen = [name for name in step.outputs if name in ("qdd", "pivot")]
        arrays |= {name: np.empty((count, steps, step.sizes[name])) for name in seen}
        for name, value in start.items():
            arrays[name][:, 0] = value
        for first in range(0, self.rows, row_count):
            rows = slice(first, min(first + row_count, self.rows))
            taken = (rows.stop - rows.start) * self._steps_per_row
            self._run(step, arrays, constants, first * self._steps_per_row, taken, count)
            yield rows, {name: a[:, : taken + 1] if name in names else a[:, :taken] for name, a in arrays.items()}
            if not _is_bounded(arrays["qd"][:, taken]).any():
                return
            for name in names:
                arrays[name][:, 0] = arrays[name][:, taken]

    def _run(
        self, step: CompiledStep, arrays: dict[str, Array], constants: dict[str, Array], at: int, taken: int, count: int
    ) -> None:
        given = arrays | {name: values[:, None] for name, values in constants.items()} | {"dt": self._dt[None, None]}
        given |= {name: signal[None, at:] for name, signal in self._signals.items()}
        series = [step.loop.series(given[name], count) for name in step.inputs]
        for name in step.outputs:
            series.append(step.loop.series(arrays[name.removesuffix("_next")], count, later=name.endswith("_next")))
        step.loop.run(series, count, taken, 1)


def _is_bounded(qd: Array) -> NDArray[np.bool_]:
    """Return whether the speeds (B, n) of each candidate are bounded, (B,)."""
    return np.asarray((np.abs(np.nan_to_num(qd, nan=np.inf)) < RUNAWAY_SPEED).all(axis=1))


def _control_periods_per_row(control_hz: float, rate_hz: float) -> int:
    require_positive(control_hz, "control_rate_hz")
    periods = round(control_hz / rate_hz)
    if periods < 1 or abs(periods * rate_hz - control_hz) > 1e-6 * control_hz:
        message = f"control_rate_hz = {control_hz:g} must be a whole multiple of the row rate of {rate_hz:g} Hz"
        raise InputError(message, code=Code.INVALID_VALUE, subject="control_rate_hz")
    return periods
