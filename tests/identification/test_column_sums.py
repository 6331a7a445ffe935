"""Normal matrices of parts of logs: those of the columns themselves, whatever friction and filter came before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.selection.column_sums import ColumnSums, RowRange
from mindyn.logs.filters import lowpass
from mindyn.logs.samples import segment_ends
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.friction_laws import FITTED_SHAPES

FRICTIONS = (
    Friction("tanh", 0.05),
    Friction("sign"),
    Friction("stop", 1e-3, shapes=FITTED_SHAPES[:2]),
    Friction("sign", shapes=FITTED_SHAPES[:1]),
)
PARTS = [
    RowRange(120, 900),
    RowRange(100, 1400, 7),
    RowRange(1600, 2300, 3, 0.3),
    RowRange(1700, 1710),
    RowRange(120, 900, 1, 0.3),
    RowRange(120, 1400, 1, 2.55),
]


@pytest.fixture(scope="module")
def regressor():
    return Regressor(with_estimated_drives(mindyn.load_robot("puma560")))


def samples_of(regressor, count=2400):
    rng = np.random.default_rng(0)
    t = np.arange(count)[:, None, None] / 200.0
    angle = t * rng.uniform(0.5, 6, (3, 6)) + rng.uniform(0, 6, (3, 6))
    q, qd = np.sin(angle).sum(axis=1), np.cos(angle).sum(axis=1)
    segments = np.repeat([0, 1], [1500, count - 1500])
    return mindyn.Samples(
        regressor.joint_names, q, qd, rng.normal(size=q.shape), rng.normal(size=q.shape), 200.0, segments
    )


def compute_expected(regressor, samples, cutoff_hz, part):
    """The definition: columns side by side, filtered segment by segment, rows taken, multiplied."""
    directions = regressor.directions(samples.q, samples.qd, samples.segments, samples.rate_hz)
    result = []
    for joint, arrays in enumerate(regressor.parts(samples.q, samples.qd, samples.qdd, directions)):
        whole = np.column_stack([*arrays, samples.tau[:, joint]])
        for start, stop in segment_ends(samples.segments):
            whole[start:stop] = lowpass(whole[start:stop].copy(), cutoff_hz, samples.rate_hz)
        rows = np.arange(part.first, part.last, part.step)
        if part.slowest is not None:
            rows = rows[np.abs(samples.qd[rows, joint]) > part.slowest]
        taken = np.column_stack([whole, samples.tau[:, joint]])[rows]
        result.append(taken.T @ taken)
    return result


@pytest.mark.parametrize("cutoff_hz", [None, 8.0])
@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_sums_are_those_of_the_columns(regressor, cutoff_hz, together):
    """Compare one friction alone, and several that share a pass over the rows."""
    samples = samples_of(regressor)
    first = replace(FRICTIONS[0], joint_side=(regressor.joint_names[1],))
    reference = np.random.default_rng(5).normal(size=regressor.base.count)
    loaded = replace(FRICTIONS[0], shapes=("root", "load"), reference=tuple(reference.tolist()))
    regressors = [regressor.with_friction(friction) for friction in (first, loaded, *FRICTIONS)]
    for group in [regressors] if together else [[regressor] for regressor in regressors]:
        sums = ColumnSums(group, samples, cutoff_hz)
        matrices_of_parts = sums.normal_matrices(PARTS)
        for separate, places in zip(group, sums.places, strict=True):
            for part, matrices in zip(PARTS, matrices_of_parts, strict=True):
                assert np.array_equal(sums.counts(part), counts_of(samples, part))
                wanted = compute_expected(separate, samples, cutoff_hz, part)
                for place, M, wide in zip(places, matrices, sums.widths, strict=True):
                    taken = np.concatenate([place, [wide - 2, wide - 1]])
                    assert_close(M[np.ix_(taken, taken)], wanted.pop(0), SAME_ALGEBRA)


def counts_of(samples, part):
    rows = np.arange(part.first, part.last, part.step)
    return (np.abs(samples.qd[rows]) > (-1.0 if part.slowest is None else part.slowest)).sum(axis=0)


def test_a_sample_without_finite_columns_is_named(regressor):
    samples = samples_of(regressor)
    sums = ColumnSums([regressor], samples, 8.0)
    samples.q[700, 3] = np.nan
    with raises(InputError, Code.NOT_FINITE, "q"):
        sums.normal_matrices(PARTS)
