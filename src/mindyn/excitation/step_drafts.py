"""Drafts of step-by-step tests: their motions for a held configuration, and the rows that these would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.excitation.joint_reach import JointReach
from mindyn.excitation.step_motions import Breakaways, ConstantSpeed, Sines, StepMotion
from mindyn.regression.regressor import Regressor

VALUES: Final = 3
"""Positions of a held joint that is varied, and of a joint whose breakaway is measured."""
LOWER_SPEED: Final = 1 / 3
"""The lower of the two constant speeds, as part of the higher one."""
STEADY: Final = 0.5
"""Length of a motion at constant speed, as part of an accelerated one."""
AVERAGED_PARTS: Final = 8
"""Parts of a motion at constant speed over each of which the torque is averaged."""
CYCLES: Final = (1.93, 0.46)
"""Cycles of the first and of the second joint of an accelerated motion. The second one, whose row is used, sweeps far,
so that functions of its position are told apart from constants. No whole numbers: a reversal that falls on a row of the
log, where friction has no direction, would leave the noise of the velocity to decide it."""
ROWS_AN_INTERVAL: Final = 8
"""Rows of a draft in every interval."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A test without a held configuration: what kind, which joints (numbers) move, whose row is used."""

    kind: str
    joints: tuple[int, ...]
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class DraftMaker:
    """Makes motions and rows of drafts.

    reach      where joints may go
    seconds    length of an accelerated motion
    intervals  over which it is integrated
    """

    regressor: Regressor
    reach: JointReach
    seconds: float
    intervals: int

    def configurations(self, draft: Draft, varied: Sequence[int], rng: np.random.Generator) -> list[Array]:
        """Held configurations: one generic position of every joint, and of the varied ones a grid."""
        n = len(self.reach.lower)
        shares = rng.uniform(0.05, 0.95, n)
        q = np.array([self.reach.inside(j, share, self._margin(draft, j)) for j, share in enumerate(shares)])
        grids = [self.reach.spread(j, rng.uniform(0.1, 0.9, VALUES).tolist()) for j in varied]
        found = []
        for positions in product(*grids):
            one = q.copy()
            one[list(varied)] = positions
            found.append(one)
        return found

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
        """The motions of a draft, numbered from 1."""
        made: list[StepMotion] = []
        for one in configurations:
            q = tuple(float(value) for value in one)
            joint = draft.joints[0]
            if draft.kind == "static":
                positions = self.reach.spread(joint, VALUES * (0.5,))
                made.append(Breakaways(f"{name}-{len(made) + 1}", q, joint, positions))
            elif draft.kind == "constant velocity":
                top = self.reach.steady_speed(joint, self._steady_s)
                for speed in (top, -top, LOWER_SPEED * top, -LOWER_SPEED * top):
                    made.append(ConstantSpeed(f"{name}-{len(made) + 1}", q, joint, speed, self._steady_s))
            else:
                frequencies = self._frequencies(draft)
                amplitudes = tuple(self.reach.amplitude(j, f) for j, f in zip(draft.joints, frequencies, strict=True))
                label = f"{name}-{len(made) + 1}"
                made.append(Sines(label, q, draft.joints, amplitudes, frequencies, self.seconds))
        return tuple(made)

    def rows(self, draft: Draft, configurations: Sequence[Array]) -> Array:
        """(m, p) rows that the motions of a draft give: at breakaways, or means of Y over parts of the motion.

        The mean of Y(q, qd, qdd) over an interval is the integrated row of the equation of motion: what remains
        of it without accelerations in the estimator is the same integral.
        """
        rate = ROWS_AN_INTERVAL * self.intervals / self.seconds
        if draft.kind == "constant velocity":
            rate = ROWS_AN_INTERVAL * AVERAGED_PARTS / self._steady_s
        trajectories = [motion.trajectory(rate) for motion in self.motions(draft, configurations)]
        q, qd, qdd = (np.concatenate([one[k] for one in trajectories]) for k in (1, 2, 3))
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
