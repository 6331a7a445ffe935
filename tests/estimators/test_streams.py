"""A stream of blocks gives what the samples in memory give, whatever the fit looks back at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import smooth_samples
from identifiability.parallelogram_arms import arm, home_of, move_home_to_zero, random_entry
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.identify import identify
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.logs.pipeline import condition, condition_stream
from mindyn.logs.read_log import read_log, sample_segments, scan_log
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.settings import EquationSettings

SETTINGS = Conditioning(rate_hz=200.0, stamps="uniform", motion_hz=20.0, edge_s=0.2, delay_s=0.0)
FITS = {
    "plain": (LeastSquares(), {}),
    "parallel filter": (LeastSquares(), {"equations_hz": 5.0}),
    "stop operator": (LeastSquares(), {"friction": Friction("stop", 0.05), "equations_hz": 8.0}),
    "correlated residuals": (LeastSquares(covariance="correlated"), {"equations_hz": 5.0}),
    "robust": (LeastSquares(robust=True), {}),
}
STATED = {
    "columns": {"time": "t", "position": "q_{joint}", "torque": "tau_{joint}"},
    "units": {"time": "s", "position": "rad", "torque": "N m"},
    "side": "joint",
}


def noisy_log(robot, rows, seed=3):
    samples = smooth_samples(robot, rows, seed)
    noise = np.random.default_rng(seed).normal(scale=0.2, size=samples.tau.shape)
    return log_from_arrays(samples.joint_names, np.arange(rows) / 200.0, samples.q, samples.tau + noise)


def revolute_robot():
    return with_random_drives(random_robot(2, joints=2, tree=False), 2)


def write(log, path):
    columns = {"t": log.time}
    for k, name in enumerate(log.joint_names):
        columns |= {f"q_{name}": log.q[:, k], f"tau_{name}": log.tau[:, k]}
    pl.DataFrame(columns).write_parquet(path)


def write_and_scan(log, robot, folder, chunk_rows=1000):
    write(log, folder / "run.parquet")
    return scan_log(folder / "run.parquet", robot, metadata=STATED, chunk_rows=chunk_rows)


@pytest.mark.parametrize("name", FITS)
def test_blocks_give_the_fit_of_the_whole(name, tmp_path):
    robot = revolute_robot()
    log = noisy_log(robot, 12_000)
    fit, equation_settings = FITS[name]
    whole = fit.fit(equations(robot, condition(robot, log, SETTINGS).samples, **equation_settings))
    stream = condition_stream(robot, write_and_scan(log, robot, tmp_path), SETTINGS, block_rows=2500)
    assert sum(1 for _ in stream) > 3
    pieces = fit.fit(equations(robot, stream, **equation_settings))
    assert [residual.rows for residual in pieces.data.residuals] == [residual.rows for residual in whole.data.residuals]
    assert_close(pieces.beta, whole.beta, 1e-9)
    assert_close(pieces.covariance, whole.covariance, 1e-9)


@pytest.mark.parametrize("block_rows", [150, 2500])
@pytest.mark.parametrize(
    ("fit", "changes"),
    [
        (LeastSquares(), {"keep_every": 3}),
        (LeastSquares(), {"equations_hz": 2.0}),
        (LeastSquares(covariance="correlated"), {"equations_hz": 2.0, "keep_every": 7}),
    ],
)
def test_neither_block_borders_nor_short_blocks_change_which_rows_are_fitted(fit, changes, block_rows, tmp_path):
    robot = revolute_robot()
    settings = replace(SETTINGS, slow_speed=0.3)
    logs = [_with_gap(noisy_log(robot, 9000, 3), 4321), noisy_log(robot, 4000, 4)]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    scans = [write_and_scan(log, robot, folder, chunk_rows=100) for log, folder in zip(logs, folders, strict=True)]
    whole = fit.fit(equations(robot, condition(robot, logs, settings).samples, **changes))
    pieces = fit.fit(equations(robot, condition_stream(robot, scans, settings, block_rows=block_rows), **changes))
    assert [residual.rows for residual in pieces.data.residuals] == [residual.rows for residual in whole.data.residuals]
    assert_close(pieces.beta, whole.beta, 1e-8)
    assert_close(pieces.covariance, whole.covariance, 1e-8)


def _with_gap(log, row):
    return replace(log, time=log.time + (np.arange(len(log)) >= row))


def test_a_stream_that_can_be_read_once_is_rejected_if_two_passes_are_needed():
    robot = revolute_robot()
    once = iter(condition_stream(robot, noisy_log(robot, 3000), SETTINGS))
    with raises(InputError, Code.UNSUPPORTED, "samples"):
        LeastSquares(robust=True).fit(equations(robot, once))


def test_identify_takes_a_scanned_log(tmp_path):
    robot = revolute_robot()
    write(noisy_log(robot, 9000), tmp_path / "run.parquet")
    whole = identify(
        robot, read_log(tmp_path / "run.parquet", robot, metadata=STATED), LeastSquares(), EquationSettings(SETTINGS)
    )
    scan = scan_log(tmp_path / "run.parquet", robot, metadata=STATED, chunk_rows=1000)
    estimate = identify(robot, scan, LeastSquares(), EquationSettings(SETTINGS))
    assert_close(estimate.beta, whole.beta, 1e-9)
    assert estimate.provenance.notes["samples"] == whole.provenance.notes["samples"]
    assert estimate.data.sources == whole.data.sources


@pytest.mark.parametrize("rows", [500, 4000, 50_000])
def test_sparse_segments_are_the_log_or_spread_over_it(tmp_path, rows):
    robot = revolute_robot()
    write(noisy_log(robot, rows), tmp_path / "run.parquet")
    segments = sample_segments(scan_log(tmp_path / "run.parquet", robot, metadata=STATED, chunk_rows=1700), 4000)
    assert len(segments) == rows if rows <= 2500 else 1000 <= len(segments) <= 4000
    assert segments.rows[0] == 0
    assert segments.rows[-1] > 0.85 * (rows - 1)


def test_a_parallelogram_is_identified_from_a_log_of_its_primary_joints(tmp_path):
    entry = random_entry(4)
    robot = with_estimated_drives(move_home_to_zero(arm(entry, 4), home_of(entry)))
    log = noisy_log(robot, 6000)
    write(log, tmp_path / "run.parquet")
    read = read_log(tmp_path / "run.parquet", robot, metadata=STATED)
    assert read.joint_names == robot.primary_names
    estimate = identify(robot, read, LeastSquares(), EquationSettings(SETTINGS))
    assert estimate.data.residuals[0].rms < 0.3
    estimate.save(tmp_path / "estimate.json")
    loaded = load_estimate(tmp_path / "estimate.json")
    assert loaded.robot.loops
    assert_close(loaded.predict_log(read), estimate.predict_log(read), 1e-12)
