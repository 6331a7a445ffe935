"""Step of Dormand and Prince's explicit Runge-Kutta method of order 8(5,3), with its error estimate.

[Hairer, Norsett, Wanner 1993, Solving Ordinary Differential Equations I, II.5 and code DOP853]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import casadi
import numpy as np
from scipy.integrate import DOP853

from mindyn.equations.catalogue import Function
from mindyn.foundation.algebra.values import Array
from mindyn.kernels.kernel import Kernel
from mindyn.motions.simulation.time_loop import TimeLoop

STAGE_COUNT = DOP853.n_stages
STAGE_WEIGHTS, STEP_WEIGHTS = DOP853.A, DOP853.B
"""(12, 12) and (12,): stage i is evaluated at y + h sum_j STAGE_WEIGHTS[i, j] k_j; weights of the step of order 8."""
ERROR_WEIGHTS = np.stack([DOP853.E5, DOP853.E3])[:, :STAGE_COUNT]
"""(2, 12): the step of order 8 minus the steps of order 5 and 3."""
_ORDER = 8
_SAFETY, _MIN_GROWTH, _MAX_GROWTH = 0.9, 0.2, 6.0
"""Factor on the ideal step size, and the smallest and largest factor from one step to the next."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerance of a step: the root mean square of its local error stays below absolute + relative * |y|."""

    relative: float = 1e-12
    absolute: float = 1e-12


StepKernels = tuple[TimeLoop, Kernel]
"""Kernels of a step: its stages, which run one after the other in machine code, and its end (the result and its error).
"""


def compile_step(slope: Function) -> StepKernels:
    """Compile the step of dy/dt = slope(y, ...); the error is relative to the tolerance.

    [Hairer, Norsett, Wanner 1993, II.10]
    """
    size = slope.size1_in(0)
    y, h, slopes = casadi.SX.sym("y", size), casadi.SX.sym("h"), casadi.SX.sym("slopes", size * STAGE_COUNT)
    weights, tolerance = casadi.SX.sym("weights", STAGE_COUNT), casadi.SX.sym("tolerance", 2)
    given = {name: casadi.SX.sym(name, slope.size1_in(name)) for name in slope.name_in()[1:]}
    K = casadi.reshape(slopes, size, STAGE_COUNT)
    inputs = {"y": y, "h": h, "slopes": slopes, "weights": weights, **given}
    stage = slope(y + h * (K @ weights), *given.values())
    y_next = y + h * (K @ STEP_WEIGHTS)
    scale = tolerance[0] + tolerance[1] * casadi.fmax(casadi.fabs(y), casadi.fabs(y_next))
    large, small = (casadi.sumsqr(K @ weights / scale) for weights in ERROR_WEIGHTS)
    ratio = casadi.if_else(large == 0, 0, casadi.fabs(h) * large / casadi.sqrt((large + 0.01 * small) * size))
    stages = casadi.Function("stage", [*inputs.values()], [stage], [*inputs], ["slope"])
    end = casadi.Function("end", [y, h, slopes, tolerance], [y_next, ratio])
    return TimeLoop(Kernel(stages, check_finite=False), lanes=1), Kernel(end, check_finite=False)


class DormandPrinceStep:
    """Step of dy/dt = slope(y, ...), where `given` holds the arrays of the other arguments."""

    def __init__(self, kernels: StepKernels, given: Mapping[str, Array], tolerance: Tolerance) -> None:
        stages, end = kernels
        self._end = end.bind()
        self._y, self._h, slopes, limits = self._end.inputs
        limits[:] = tolerance.absolute, tolerance.relative
        self._slopes = slopes.reshape(STAGE_COUNT, -1)
        held = {name: array[None, None] for name, array in given.items()}
        held |= {"y": self._y[None, None], "h": self._h[None, None], "slopes": slopes[None, None]}
        moving = {"weights": STAGE_WEIGHTS[None, 1:], "slope": self._slopes[None, 1:]}
        self._run_stages = stages.bind(held | moving, STAGE_COUNT - 1)

    def compute(self, y: Array, first: Array, h: float) -> tuple[Array, float]:
        """Return y after time h and its estimated error relative to the tolerance; `first` is the slope at y."""
        self._y[:], self._h[:], self._slopes[0] = y, h, first
        self._run_stages()
        self._end.run()
        y_next, ratio = self._end.outputs[0].copy(), float(self._end.outputs[1][0])
        if not ratio <= 1.0:
            self._slopes[:] = 0.0  # later stages have weight zero, and zero times NaN is NaN
        return y_next, ratio


def next_step_size(h: float, ratio: float) -> float:
    """Return the length of a step that meets the tolerance, with a safety factor."""
    growth = _MAX_GROWTH if ratio == 0.0 else _SAFETY * ratio ** (-1 / _ORDER)
    return h * min(_MAX_GROWTH, max(_MIN_GROWTH, growth))
