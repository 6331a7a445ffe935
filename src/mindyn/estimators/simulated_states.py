"""States that a candidate reaches under the controller and reference of a log: noise-free, and free of its samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.logs.samples import Samples
from mindyn.regression.regressor import Regressor
from mindyn.simulation.closed_loop import LONGEST_STEP_S, CandidateMotions, ClosedLoop, Controller

Initial = Literal["measured", "reference"]


@dataclass(frozen=True, slots=True, eq=False)
class LoopSettings:
    """The loop that the log was recorded in.

    controller       its law and reference
    control_rate_hz  how often it computes a torque; None: at every row
    start_s          the controller's time at the first row
    initial          the motion begins where it was "measured", or where the "reference" begins
    longest_step_s   of the integration
    """

    controller: Controller
    control_rate_hz: float | None = None
    start_s: float = 0.0
    initial: Initial = "measured"
    longest_step_s: float = LONGEST_STEP_S

    def __post_init__(self) -> None:
        if self.initial not in get_args(Initial):
            raise InputError(f"initial = {self.initial!r}; it may be: {', '.join(get_args(Initial))}")


class LoopReplay:
    """The loop of one log, ready to be simulated with candidates."""

    def __init__(self, settings: LoopSettings, regressor: Regressor, samples: Samples) -> None:
        _require_simulable(regressor)
        if len(np.unique(samples.segments)) > 1:
            raise InputError(
                f"the log has {len(np.unique(samples.segments))} segments, but a loop is simulated without a gap",
                hint="fit one uninterrupted stretch of the log, with start_s its time on the controller's clock",
            )
        self._samples = samples
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
        measured = np.ascontiguousarray(samples.q[0]), np.ascontiguousarray(samples.qd[0])
        self.start = measured if settings.initial == "measured" else self.loop.wanted_start()

    def run(self, betas: Array) -> CandidateMotions:
        """The motions of candidates (B, p)."""
        return self.loop.run(np.ascontiguousarray(betas), *self.start)

    def samples(self, motions: CandidateMotions, number: int = 0) -> Samples:
        """One of the motions at the rows of the log, with the torque that its controller asked for."""
        arrays = (motions.q, motions.qd, motions.qdd, motions.tau)
        q, qd, qdd, tau = (np.ascontiguousarray(array[number]) for array in arrays)
        return replace(self._samples, q=q, qd=qd, qdd=qdd, tau=tau)


def _require_simulable(regressor: Regressor) -> None:
    """Refuses columns that forward dynamics knows nothing of."""
    beyond, direction = regressor.names[regressor.base.count :], regressor.friction.direction
    if beyond or direction != "sign":
        told = f"the columns {', '.join(beyond)}" if beyond else f"friction of direction {direction!r}"
        raise InputError(
            f"{told} cannot be simulated: only base and drive parameters enter forward dynamics",
            hint="state drives, or extra torques as formulas, in the robot itself",
        )
