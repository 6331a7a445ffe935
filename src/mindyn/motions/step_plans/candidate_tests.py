"""Candidates of step-by-step tests: their motions for a held configuration, and the regressor rows of these motions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.motions.step_plans.joint_reach import LOWER_SPEED, VALUES, JointReach
from mindyn.motions.step_plans.step_motions import Breakaways, ConstantSpeed, Sines, StepMotion
from mindyn.regression.regressor import Regressor

STEADY: Final = 0.5
"""Length of a motion at constant speed, relative to an accelerated one."""
AVERAGED_PARTS: Final = 8
"""Number of parts of a motion at constant speed; the torque is averaged over each part."""
CYCLES: Final = (1.93, 0.46)
"""Cycles of the first and of the second joint of an accelerated motion. The second one, whose row is used, sweeps far,
which separates functions of its position from constants. The numbers are not whole: if a reversal falls on a row of the
log, the noise of the velocity decides the direction of friction."""
ROWS_AN_INTERVAL: Final = 8
"""Number of rows of a draft per interval."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A test for which no held configuration is chosen yet: its kind, the indices of the moving joints, and the row
    that is used.
    """

    kind: str
    joints: tuple[int, ...]
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class DraftMaker:
    """Create the motions and the regressor rows of drafts.

    reach      ranges and speeds of the joints
    seconds    length of an accelerated motion
    intervals  number of intervals over which it is integrated
    """

    regressor: Regressor
    reach: JointReach
    seconds: float
    intervals: int

    def configurations(self, draft: Draft, varied: Sequence[int], rng: np.random.Generator) -> list[Array]:
        """Return held configurations: a generic position of every joint, and a grid for the varied ones."""
        shares = rng.uniform(0.05, 0.95, len(self.reach.lower))
        grid = [[self.reach.inside(j, share, self._margin(draft, j))] for j, share in enumerate(shares)]
        for j in varied:
            grid[j] = list(self.reach.spread(j, rng.uniform(0.1, 0.9, VALUES).tolist()))
        return [np.array(positions) for positions in product(*grid)]

    def _margin(self, draft: Draft, joint: int) -> float:
        if joint not in draft.joints or draft.kind == "static":
            return 0.0
        if draft.kind == "accelerated":
            return self.reach.amplitude(joint, self._frequencies(draft)[draft.joints.index(joint)])
        return self.reach.steady_speed(joint, self._steady_s) * self._steady_s / 2

    @property
    def _steady_s(self) -> float:
        return STEADY * self.seconds

    def _frequencies(self, draft: Draft) -> tuple[float, ...]:
        return tuple(cycles / self.seconds for cycles in CYCLES[: len(draft.joints)])

    def motions(self, draft: Draft, configurations: Sequence[Array], name: str = "") -> tuple[StepMotion, ...]:
        """Return the motions of a draft, numbered from 1."""
        motions: list[StepMotion] = []
        for configuration in configurations:
            q = tuple(float(value) for value in configuration)
            joint = draft.joints[0]
            if draft.kind == "static":
                positions = self.reach.spread(joint, VALUES * (0.5,))
                motions.append(Breakaways(f"{name}-{len(motions) + 1}", q, joint, positions))
            elif draft.kind == "constant velocity":
                top = self.reach.steady_speed(joint, self._steady_s)
                for speed in (top, -top, LOWER_SPEED * top, -LOWER_SPEED * top):
                    motions.append(ConstantSpeed(f"{name}-{len(motions) + 1}", q, joint, speed, self._steady_s))
            else:
                frequencies = self._frequencies(draft)
                amplitudes = tuple(self.reach.amplitude(j, f) for j, f in zip(draft.joints, frequencies, strict=True))
                label = f"{name}-{len(motions) + 1}"
                motions.append(Sines(label, q, draft.joints, amplitudes, frequencies, self.seconds))
        return tuple(motions)

    def rows(self, draft: Draft, configurations: Sequence[Array]) -> Array:
        """Return the rows (m, p) of a draft's motions: Y at breakaways, or means of Y over intervals of the motion.

        The mean of Y(q, qd, qdd) over an interval is a row of the integrated equation of motion. The estimator computes
        the same integral without accelerations.
        """
        rate = ROWS_AN_INTERVAL * self.intervals / self.seconds
        if draft.kind == "constant velocity":
            rate = ROWS_AN_INTERVAL * AVERAGED_PARTS / self._steady_s
        trajectories = [motion.trajectory(rate) for motion in self.motions(draft, configurations)]
        q, qd, qdd = (np.concatenate([path[k] for path in trajectories]) for k in (1, 2, 3))
        if draft.kind == "static":
            qd = np.zeros_like(qd)
        parts = self.regressor.parts(q, qd, qdd)
        Y = np.zeros((len(q), self.regressor.count))
        Y[:, self.regressor.columns[draft.row]] = np.concatenate(parts[draft.row], axis=1)
        if draft.kind == "static":
            return Y[::2]
        each = Y.reshape(len(trajectories), -1, self.regressor.count)
        weights = np.array([0.5, *np.ones(ROWS_AN_INTERVAL - 1), 0.5]) / ROWS_AN_INTERVAL
        starts = range(0, each.shape[1] - 1, ROWS_AN_INTERVAL)
        return np.concatenate([np.einsum("k,mkp->mp", weights, each[:, a : a + ROWS_AN_INTERVAL + 1]) for a in starts])
