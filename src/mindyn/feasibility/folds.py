"""R factors of contiguous blocks of the data, so that a fit can be tried on blocks that it has not seen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mindyn.algebra.blas import on_one_blas_thread
from mindyn.estimators.trials import FOLDS
from mindyn.logs.samples import Samples
from mindyn.regression.gathering import BLOCK_ROWS, blocks, require_enough, require_joints, with_neighbours
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
    for samples, inner in with_neighbours(regressor, data, cutoff_hz):
        require_joints(regressor, samples)
        lowest, highest = np.minimum(lowest, samples.q.min(axis=0)), np.maximum(highest, samples.q.max(axis=0))
        _append(triangles, regressor, samples, inner, cutoff_hz, decimation)
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
    samples: Samples,
    inner: range,
    cutoff_hz: float | None,
    decimation: int,
) -> None:
    for parts, numbers in blocks(regressor, samples, cutoff_hz, decimation, inner):
        folds = (numbers - inner.start) * FOLDS // len(inner)
        for joint, arrays in enumerate(parts):
            rows = np.concatenate(arrays, axis=1)
            usable = np.ones(len(rows), bool) if samples.usable is None else samples.usable[numbers, joint]
            for fold in np.unique(folds):
                taken = rows[usable & (folds == fold)]
                if len(taken):
                    triangles[fold][joint].append([taken])
