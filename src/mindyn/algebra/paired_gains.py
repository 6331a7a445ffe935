"""By how much one candidate's errors are lower than another's on the same blocks, with what deviation.

Two candidates are tried on the same blocks, so that what is hard to predict in a block counts for both: the gain

    g_b = ln(error of the one / error of the other) on block b

varies less from block to block than the errors do, and s / sqrt(m), s the standard deviation of the g_b of m blocks, is
the standard deviation of their mean. What adds freedom must gain more than a part of that, as Breiman et al. [1984]
take the plainest model among those that the blocks do not tell apart.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.algebra.values import Array

SURE: Final = 0.5
"""Standard deviations that a gain must exceed where it costs freedom. On simulated arms any number from 0.4 to 3.8
tells those with friction that grows with the load from those without; parts of measured logs of an arm that has it
reach 1."""
TINY: Final = 1e-300


def deviation_of_gain(gains: Array) -> float:
    """Of the mean of the gains (m,) of blocks; infinite of one block."""
    return float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float("inf")


def plainest(squares: Array) -> int:
    """The first of some candidates, the plainest before others, that the best one does not surely beat.

    squares  (candidates, blocks) mean squared errors; infinite where a candidate failed, of at least one finite
    """
    means = np.maximum(squares.mean(axis=1), TINY)
    best = int(np.argmin(means))
    for k in range(best):
        if np.isfinite(means[k]):
            gains = 0.5 * np.log(np.maximum(squares[k], TINY) / np.maximum(squares[best], TINY))
            if 0.5 * np.log(means[k] / means[best]) <= SURE * deviation_of_gain(gains):
                return k
    return best
