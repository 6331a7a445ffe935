"""R factors of contiguous blocks of the data, so that a fit can be tried on blocks that it has not seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from mindyn.logs.samples import Samples
from mindyn.regression.gathering import BLOCK_ROWS, blocks, require_enough, require_joints
from mindyn.regression.information import Information, combined
from mindyn.regression.regressor import Regressor
from mindyn.regression.triangles import Triangle

FOLDS: Final = 8
"""As many blocks as settings are chosen with (estimators/trials.py)."""


def fold_information(
    regressor: Regressor, data: Samples | Iterable[Samples], cutoff_hz: float | None, decimation: int
) -> list[Information]:
    """The information of each of `FOLDS` blocks; of a stream, every part is cut into as many. Read once."""
    joints = range(regressor.robot.joint_count)
    triangles = [[Triangle(regressor.width(j) + 1, BLOCK_ROWS) for j in joints] for _ in range(FOLDS)]
    lowest, highest = np.full(len(joints), np.inf), np.full(len(joints), -np.inf)
    for samples in [data] if isinstance(data, Samples) else data:
        require_joints(regressor, samples)
        lowest, highest = np.minimum(lowest, samples.q.min(axis=0)), np.maximum(highest, samples.q.max(axis=0))
        _append(triangles, regressor, samples, cutoff_hz, decimation)
    made = [
        Information(
            regressor.robot.joint_names,
            regressor.names,
            regressor.columns,
            tuple(one.R for one in fold),
            tuple(one.rows for one in fold),
        )
        for fold in triangles
    ]
    reach = np.stack([lowest, highest]) if np.isfinite(lowest).all() else None
    require_enough(regressor, combined(made).counts, reach)
    return [one for one in made if sum(one.counts)]


def _append(
    triangles: list[list[Triangle]],
    regressor: Regressor,
    samples: Samples,
    cutoff_hz: float | None,
    decimation: int,
) -> None:
    for parts, numbers in blocks(regressor, samples, cutoff_hz, decimation):
        folds = numbers * FOLDS // len(samples)
        for joint, arrays in enumerate(parts):
            rows = np.concatenate(arrays, axis=1)
            usable = np.ones(len(rows), bool) if samples.usable is None else samples.usable[numbers, joint]
            for fold in np.unique(folds):
                taken = rows[usable & (folds == fold)]
                if len(taken):
                    triangles[fold][joint].append([taken])
