"""R factors of contiguous blocks of the data, so that a fit can be tried on blocks that it has not seen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mindyn.algebra.blas import on_one_blas_thread
from mindyn.estimators.trials import FOLDS
from mindyn.logs.samples import Samples
from mindyn.regression.gathering import BLOCK_ROWS, Stretch, blocks, require_enough, require_joints, with_neighbours
from mindyn.regression.information import Information, combined
from mindyn.regression.regressor import Regressor
from mindyn.regression.triangles import Triangle


@on_one_blas_thread
def fold_information(
    regressor: Regressor, data: Samples | Iterable[Samples], cutoff_hz: float | None, decimation: int
) -> list[Information]:
    """The information of each of `FOLDS` blocks; of a stream, every part is cut into as many. Read once."""
    joints = range(regressor.joint_count)
    triangles = [[Triangle(regressor.width(j) + 1, BLOCK_ROWS) for j in joints] for _ in range(FOLDS)]
    lowest, highest = np.full(len(joints), np.inf), np.full(len(joints), -np.inf)
    for stretch in with_neighbours(regressor, data, cutoff_hz, decimation):
        samples = stretch.samples
        require_joints(regressor, samples)
        lowest, highest = np.minimum(lowest, samples.q.min(axis=0)), np.maximum(highest, samples.q.max(axis=0))
        _append(triangles, regressor, stretch, cutoff_hz, decimation)
    made = [
        Information(
            regressor.joint_names,
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
    stretch: Stretch,
    cutoff_hz: float | None,
    decimation: int,
) -> None:
    usable_rows = stretch.samples.usable
    for parts, numbers in blocks(regressor, stretch, cutoff_hz, decimation):
        folds = (numbers - stretch.inner.start) * FOLDS // len(stretch.inner)
        for joint, arrays in enumerate(parts):
            rows = np.concatenate(arrays, axis=1)
            usable = np.ones(len(rows), bool) if usable_rows is None else usable_rows[numbers, joint]
            for fold in np.unique(folds):
                taken = rows[usable & (folds == fold)]
                if len(taken):
                    triangles[fold][joint].append([taken])
