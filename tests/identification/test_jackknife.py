"""Intervals by blocks: the jackknife agrees with refitting, repetitions add nothing, and few blocks give a finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from estimators.recovered import exact_samples
from honesty.arms import Recording, random_arm, record_log, remove_masses
from robots import random_robot, with_random_drives
from scipy.stats import t as student

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.identification.prediction.torque_bands import torque_bands
from mindyn.identification.uncertainty.block_deviation import jackknife, with_jackknife_deviation
from mindyn.identification.uncertainty.dropped_parameters import find_dropped, with_dropped_parameters
from mindyn.regression.build_rows import build_rows
from mindyn.regression.information import add_information
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings

PLAIN = EquationSettings(mindyn.Conditioning(motion_hz=10.0), friction=mindyn.Friction("tanh", 0.02))


def small_fit(noise=1.0, rows=480):
    robot = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)
    created = equations(robot, exact_samples(robot, rows, noise=noise))
    return created, mindyn.LeastSquares().fit(created)


def test_the_jackknife_is_that_of_fits_without_each_block():
    rows, result = small_fit()
    parts = [block.information for block in rows.blocks]
    every = np.ones(len(result.beta), dtype=bool)
    deviations, informative = jackknife(parts, result.data.joint_weights, every)
    fixed = mindyn.LeastSquares(weights=tuple(result.data.joint_weights))
    without = []
    for k in range(len(parts)):
        rest = add_information([part for j, part in enumerate(parts) if j != k])
        without.append(fixed.fit(Rows.of_information(rows.regressor, rest)).beta)
    m = len(parts)
    expected = np.sqrt((m - 1) / m * ((np.array(without) - result.beta) ** 2).sum(axis=0))
    assert_close(deviations, expected, 1e4 * SAME_ALGEBRA)
    assert (informative > 3).all()
    assert (informative <= m).all()


def test_deviations_are_never_narrowed_and_quantiles_are_students():
    rows, result = small_fit()
    wider = with_jackknife_deviation(result, rows.blocks)
    spread = wider.uncertainty.jackknife
    assert (spread.inflated >= 1).all()
    assert_close(wider.deviations, result.deviations * spread.inflated, SAME_ALGEBRA)
    assert_close(
        wider.uncertainty.half_widths, wider.deviations * student.ppf(0.975, spread.significant - 1), SAME_ALGEBRA
    )
    assert_close(wider.by_noise_alone().covariance, result.covariance, SAME_ALGEBRA)
    low, high = wider.intervals
    assert_close(high - low, 2 * wider.uncertainty.half_widths, SAME_ALGEBRA)
    assert f"{low[0]:.5g} to {high[0]:.5g}" in wider.table()


def test_parameters_of_fewer_than_three_blocks_keep_the_model_deviation_and_are_reported():
    rows, result = small_fit()
    wider = with_jackknife_deviation(result, (*rows.blocks[:1], *rows.blocks[:1], *rows.blocks[:1]))
    assert wider.uncertainty.jackknife.count == 3
    few = rows.select([replace(rows.blocks[0], information=add_information([b.information for b in rows.blocks[:12]]))])
    two = with_jackknife_deviation(result, (few.blocks[0], *rows.blocks[12:14], rows.blocks[14]))
    kept = two.uncertainty.jackknife.significant < 3
    assert kept.any()
    assert_close(two.deviations[kept], result.deviations[kept], SAME_ALGEBRA)
    (note,) = [str(note) for note in two.findings if note.kind == Kind.NARROW_INTERVALS]
    assert note.startswith("fewer than three parts of the logs determine ")
    assert with_jackknife_deviation(result, rows.blocks[:2]) is result


@pytest.fixture(scope="module")
def bent():
    """One arm whose joints have a spring that the model lacks, on a motion of 6 s that comes twice, and six times."""
    arm = random_arm(3, joints=3)
    created = []
    for periods in (2, 6):
        log = record_log(arm, Recording(seconds=6.0 * periods, period_s=6.0, noise=0.01), 5)
        log = replace(log, tau=log.tau + 0.05 * log.tau.std(axis=0) * np.sin(4 * log.q))
        created.append(mindyn.identify(remove_masses(arm), log, mindyn.LeastSquares(covariance="correlated"), PLAIN))
    return created


def test_repetitions_add_no_evidence(bent):
    twice, often = bent
    assert twice.uncertainty.jackknife.repeated
    assert often.uncertainty.jackknife.repeated
    known = [k for k, parameter in enumerate(twice.parameters) if parameter.kind == "link"]
    ratio = np.median(often.uncertainty.half_widths[known] / twice.uncertainty.half_widths[known])
    by_noise = np.median(often.by_noise_alone().deviations[known] / twice.by_noise_alone().deviations[known])
    assert by_noise < 0.75
    assert 0.8 < ratio < 1.25


def test_intervals_of_blocks_are_saved(bent, tmp_path):
    result = bent[0]
    result.save(tmp_path / "estimate.json")
    again = mindyn.load_estimate(tmp_path / "estimate.json")
    np.testing.assert_array_equal(again.intervals, result.intervals)
    assert again.uncertainty.jackknife.repeated


def test_groups_of_a_motion_that_repeats_are_phases_of_it():
    arm = random_arm(3, joints=2)
    log = record_log(arm, Recording(seconds=12.0, period_s=3.0), 5)
    rows = build_rows(with_estimated_drives(remove_masses(arm)), log, PLAIN)
    assert all(block.phase is not None for block in rows.independent_blocks)
    assert [block.phase for block in rows.independent_blocks] == sorted(
        block.phase for block in rows.independent_blocks
    )
    counts = [sum(block.information.counts) for block in rows.independent_blocks]
    quarter = len(counts) // 4
    assert [sum(fold.counts) for fold in rows.folds(4)] == [sum(counts[k * quarter :][:quarter]) for k in range(4)]
    assert len(rows.select(rows.blocks).folds(4)) == 4  # blocks that were given stay as they are
    assert rows.select(rows.blocks).independent_blocks == rows.blocks


def test_rows_of_samples_have_no_timeline():
    robot = with_estimated_drives(random_arm(1, joints=2))
    assert build_rows(robot, exact_samples(robot, 200)).timeline is None


def test_dropped_parameters_have_the_interval_of_a_full_fit_including_zero(tmp_path):
    rows, full = small_fit(noise=3.0)
    names = (full.names[0], full.names[-1])
    estimate = mindyn.LeastSquares(dropped=names).fit(rows)
    ends, _ = find_dropped(estimate, rows.blocks)
    asked = [full.names.index(name) for name in names]
    assert np.isnan(np.delete(ends, asked, axis=1)).all()
    fixed = mindyn.LeastSquares(weights=tuple(estimate.data.joint_weights)).fit(rows)
    spread, informative = jackknife(
        [block.information for block in rows.blocks], estimate.data.joint_weights, full.beta == full.beta
    )
    R, _ = rows.information.stacked(estimate.data.joint_weights)
    half = np.maximum(spread, np.sqrt(np.diag(np.linalg.inv(R.T @ R)))) * student.ppf(0.975, informative - 1)
    for k in asked:
        expected = [min(0.0, fixed.beta[k] - half[k]), max(0.0, fixed.beta[k] + half[k])]
        assert_close(ends[:, k], expected, 1e4 * SAME_ALGEBRA)
    estimate = estimate.with_uncertainty(dropped_ends=ends)
    assert f"dropped; {ends[0, asked[0]]:.2g} to {ends[1, asked[0]]:.2g}" in estimate.table()
    assert estimate.to_frame()["deviation"][asked[0]] is None
    assert estimate.to_frame()["low"][asked[0]] == ends[0, asked[0]]
    estimate.save(tmp_path / "estimate.json")
    np.testing.assert_array_equal(mindyn.load_estimate(tmp_path / "estimate.json").intervals, estimate.intervals)
    assert find_dropped(full, rows.blocks) is None


def test_shifts_of_dropped_parameters_equal_the_difference_to_a_full_fit():
    rows, full = small_fit(noise=3.0)
    names = (full.names[1], full.names[-2], full.names[-1])
    estimate = mindyn.LeastSquares(dropped=names).fit(rows)
    whole = [replace(rows.blocks[0], information=rows.information)]  # one block: the noise alone
    _, shifts = find_dropped(estimate, whole)
    R, z = rows.information.stacked(estimate.data.joint_weights)
    kept = np.array([name not in names for name in full.names])
    more = np.linalg.inv(R.T @ R)
    more[np.ix_(kept, kept)] -= np.linalg.inv(R[:, kept].T @ R[:, kept])
    moved = np.linalg.lstsq(R, z)[0]
    moved[kept] -= np.linalg.lstsq(R[:, kept], z)[0]
    units = np.outer(np.sqrt(np.diag(more)), np.sqrt(np.diag(more)))
    assert_close(shifts.T @ shifts / units, (more + np.outer(moved, moved)) / units, 1e6 * SAME_ALGEBRA)


def test_bands_include_dropped_parameters_and_unexplained_torque(tmp_path):
    rows, full = small_fit(noise=3.0)
    estimate = mindyn.LeastSquares(dropped=full.names[-2:], covariance="correlated").fit(rows)
    estimate = estimate.with_data(
        residuals=tuple(replace(residual, correlation=0.0) for residual in estimate.data.residuals)
    )
    samples = rows.all_samples("bands")
    without_shifts = estimate
    estimate = with_dropped_parameters(without_shifts, rows.independent_blocks)
    half = [np.subtract(*torque_bands(item, samples)[::-1]) / 2 for item in (without_shifts, estimate)]
    by_shifts = sum(
        without_shifts.with_values(beta=shift).predict(samples) ** 2 for shift in estimate.uncertainty.dropped_shifts
    )
    assert_close(half[1] ** 2 - half[0] ** 2, without_shifts.uncertainty.quantile**2 * by_shifts, 1e6 * SAME_ALGEBRA)
    estimate.save(tmp_path / "estimate.json")
    np.testing.assert_array_equal(
        mindyn.load_estimate(tmp_path / "estimate.json").uncertainty.dropped_shifts, estimate.uncertainty.dropped_shifts
    )
    bent = estimate.with_data(
        residuals=tuple(replace(residual, correlation=0.8) for residual in estimate.data.residuals)
    )
    wider = np.subtract(*torque_bands(bent, samples)[::-1]) / 2
    alike = np.array([residual.alike for residual in bent.data.residuals])
    for residual, size in zip(bent.data.residuals, alike, strict=True):
        assert size == pytest.approx(residual.rms * np.sqrt(0.8 - 2 / np.sqrt(residual.rows)))
    assert_close(
        wider**2 - half[1] ** 2,
        np.broadcast_to(estimate.uncertainty.quantile**2 * alike**2, wider.shape),
        1e6 * SAME_ALGEBRA,
    )
    assert replace(bent.data.residuals[0], correlation=2 / np.sqrt(bent.data.residuals[0].rows)).alike == 0.0


def test_dropped_parameters_that_no_row_determines_have_no_interval():
    rows, full = small_fit()
    still = [factor.copy() for factor in rows.blocks[0].information.factors]
    for columns, factor in zip(rows.information.columns, still, strict=True):
        factor[:, np.flatnonzero(columns == len(full.names) - 1)] = 0.0
    blind = [replace(block, information=replace(block.information, factors=tuple(still))) for block in rows.blocks[:1]]
    estimate = mindyn.LeastSquares(dropped=(full.names[-1],)).fit(rows)
    assert np.isnan(find_dropped(estimate, blind)[0]).all()
    low, high = torque_bands(with_dropped_parameters(estimate, blind), rows.all_samples("bands"))
    assert np.isinf(high - low).any()
