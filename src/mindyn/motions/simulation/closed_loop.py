"""`ClosedLoop`: simulate candidates of a robot under a controller, at the rows of a log.

A compiled step contains the plant and the control law. The base values beta are an input, so that every lane of a
vector register simulates another candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import ceil
from typing import Final

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.catalogue import Function, build_equation
from mindyn.equations.chain import SX, constant
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import primary_friction
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.kernels.kernel import Kernel
from mindyn.motions.simulation.controllers import (
    ComputedTorque,
    ControlLaw,
    ProportionalDerivative,
    convert_to_law,
    require_law,
    sample_signals,
)
from mindyn.motions.simulation.plant import Plant, create_plant
from mindyn.motions.simulation.runge_kutta import step_function
from mindyn.motions.simulation.time_loop import TimeLoop
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.parameter import standard_parameters
from mindyn.robots.drive_matrices import friction_matrix
from mindyn.robots.robot import CACHED_ROBOTS, Robot


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CandidatePlant(Plant):
    """Plant whose base values are the symbols `beta` (p, 1); every drive may have Coulomb friction.

    levels         (m, 1) Coulomb torques. A drive with a negative estimate c cannot hold a joint: its level is zero
                   here, and the bias contains its torque c sign(speed)
    smooth_values  (p, 1) base values without the Coulomb torques of the levels
    """

    base: BaseParameters
    beta: SX
    smooth_values: SX
    _traced: dict[str, Function] = field(default_factory=dict)

    @staticmethod
    def of(robot: Robot, base: BaseParameters) -> CandidatePlant:
        """Create the symbolic plant; raise `RobotError` if friction torques are not determined."""
        shape = candidate_shape(robot, with_drives=base.with_drives)
        beta = casadi.SX.sym("beta", base.count)
        standard = standard_parameters(robot, with_drives=base.with_drives)
        coulomb = [k for k, parameter in enumerate(standard) if parameter.kind == "coulomb"]
        everything = casadi.densify(constant(base.embedding) @ beta)
        levels: SX = casadi.fmax(everything[coulomb], 0) if coulomb else casadi.SX(0, 1)
        dry = np.flatnonzero(base.embedding[coulomb].any(axis=0)).tolist()
        smooth = casadi.SX(beta)
        for k in dry:
            smooth[k] = casadi.fmin(beta[k], 0)
        return CandidatePlant(
            robot, base.with_drives, shape.rows, levels, turns=shape.turns, base=base, beta=beta, smooth_values=smooth
        )

    def equation(self, name: str) -> Callable[..., SX]:
        """Return a symbolic equation without the Coulomb friction that can stick."""
        if name not in self._traced:
            traced = loop_equation if self.smooth.has_dependents else build_equation
            self._traced[name] = traced(
                self.smooth, name, with_drives=self.with_drives, parameters="base", base=self.base
            )
        return lambda *motion: self._traced[name].call([*motion, self.smooth_values])[0]


@lru_cache(maxsize=CACHED_ROBOTS)
def candidate_shape(robot: Robot, *, with_drives: bool) -> Plant:
    """Return a plant in which every drive may have Coulomb friction; raise `RobotError` if torques are undetermined."""
    create_plant(robot, with_drives=with_drives)  # raises an error for discontinuous extra torques
    turns = friction_matrix(robot) if with_drives else np.zeros((0, len(robot.joints)))
    rows = primary_friction(robot)[: len(turns)]
    if not robot.has_dependents and np.linalg.matrix_rank(rows) < len(rows):
        message = f"the friction speeds of robot {robot.name!r} are linearly dependent: its gear matrix is singular"
        raise RobotError(message, code=Code.INVALID_STRUCTURE, subject=robot.name)
    varies = not is_affine(robot) and not rows.any(axis=1).all()
    return Plant(robot, with_drives, rows, np.zeros(len(rows)), turns=turns if varies else None)


@lru_cache(maxsize=CACHED_ROBOTS)
def compile_closed_loop_step(robot: Robot, base: BaseParameters, law: str) -> TimeLoop:
    """Compile the step of candidates under a law, which is serialised."""
    plant = CandidatePlant.of(robot, base)
    function = step_function(plant, casadi.Function.deserialize(law), plant.beta)
    return TimeLoop(Kernel(function, shared=["dt"], check_finite=False))


CandidateController = ControlLaw | ProportionalDerivative | ComputedTorque

MAX_STEP_S: Final = 1e-3
CHUNK_STEPS: Final = 512
"""Number of steps between two checks for divergence."""
RUNAWAY_SPEED: Final = 1e4
"""Speed (rad/s or m/s) above which a motion has diverged."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateMotions:
    """Motions of B candidates at N rows.

    q, qd, qdd, tau  (B, N, n) of the primary joints; not finite after a motion diverged
    positions        (B, N, positions) of all joints with solved loops, otherwise q
    pivots           (B,) smallest pivot of the inertia matrix, not positive if the matrix was not positive definite
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
        law, self._shape = convert_to_law(controller), candidate_shape(robot, with_drives=base.with_drives)
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
        self._step = compile_closed_loop_step(robot, base, law.function.serialize())

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
        start = {"q": self._shape.start(q0), "qd": qd0}
        count, sizes = len(betas), {"q": len(start["q"])} | dict.fromkeys(("qd", "qdd", "tau"), len(qd0))
        motions = {name: np.full((count, self.rows, size), np.nan) for name, size in sizes.items()}
        pivots = np.full(count, np.inf)
        for rows, arrays in self._march(start, betas):
            kept = slice(0, None, self._steps_per_row)
            for name in ("q", "qd", "qdd"):
                motions[name][:, rows] = arrays[name][:, kept][:, : rows.stop - rows.start]
            motions["tau"][:, rows] = arrays["held"][:, 1 :: self._steps_per_row]
            pivots = np.fmin(pivots, np.nanmin(arrays["pivot"][..., 0], axis=1, initial=np.inf))
        stable = _is_bounded(motions["qd"]) & np.isfinite(motions["tau"]).all(axis=(1, 2))
        motions["positions"] = motions["q"]
        motions["q"] = np.ascontiguousarray(motions["q"][..., self._shape.primary])
        return CandidateMotions(**motions, pivots=pivots, stable=stable)

    def _march(self, start: dict[str, Array], betas: Array) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Yield rows and arrays (B, steps or steps + 1, size) of consecutive blocks, until all motions have
        diverged.
        """
        step, count = self._step, len(betas)
        names = {name.removesuffix("_next") for name in step.outputs if name.endswith("_next")}
        row_count = max(1, CHUNK_STEPS // self._steps_per_row)
        steps = row_count * self._steps_per_row
        arrays = {name: np.zeros((count, steps + 1, step.sizes[name])) for name in names}
        arrays |= {name: np.empty((count, steps, step.sizes[name])) for name in ("qdd", "pivot")}
        for name, value in start.items():
            arrays[name][:, 0] = value
        for first in range(0, self.rows, row_count):
            rows = slice(first, min(first + row_count, self.rows))
            taken = (rows.stop - rows.start) * self._steps_per_row
            given = arrays | {"beta": betas[:, None], "dt": self._dt[None, None]}
            given |= {name: signal[None, first * self._steps_per_row :] for name, signal in self._signals.items()}
            step.run(given, count, taken, 1)
            yield rows, {name: a[:, : taken + 1] if name in names else a[:, :taken] for name, a in arrays.items()}
            if not _is_bounded(arrays["qd"][:, [taken]]).any():
                return
            for name in names:
                arrays[name][:, 0] = arrays[name][:, taken]


def _is_bounded(qd: Array) -> NDArray[np.bool_]:
    """Return whether the speeds (B, N, n) of each candidate are bounded, (B,)."""
    return np.asarray((np.abs(np.nan_to_num(qd, nan=np.inf)) < RUNAWAY_SPEED).all(axis=(1, 2)))


def _control_periods_per_row(control_hz: float, rate_hz: float) -> int:
    require_positive(control_hz, "control_rate_hz")
    periods = round(control_hz / rate_hz)
    if periods < 1 or abs(periods * rate_hz - control_hz) > 1e-6 * control_hz:
        message = f"control_rate_hz = {control_hz:g} must be a whole multiple of the row rate of {rate_hz:g} Hz"
        raise InputError(message, code=Code.INVALID_VALUE, subject="control_rate_hz")
    return periods
