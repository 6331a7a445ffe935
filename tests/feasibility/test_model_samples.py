"""Sampled models: physically consistent, with the stated covariance and a spread that contains the torques."""

from __future__ import annotations

import csv

import mujoco
import numpy as np
import pinocchio
import pytest
from closeness import assert_close
from raising import raises
from scipy.stats import norm

import mindyn
import mindyn.output
from mindyn.foundation.algebra.inertia import pseudo_inertia
from mindyn.foundation.errors import Code, ExportError, InputError
from mindyn.identification import check_full_model
from mindyn.identification.feasibility.full_models.projected_draws import Restriction, draw_projected

COUNT = 40
NOISE = 0.3


def motion(arm, seed, seconds=10.0):
    """Return samples of a smooth random motion with torque noise, and their torque without noise."""
    rng, n = np.random.default_rng(seed), arm.joint_count
    t = np.arange(0, seconds, 0.01)[:, None, None]
    w, phase = rng.uniform(0.5, 4.0, (4, n)), rng.uniform(0, 6.28, (4, n))
    q, qd, qdd = (0.3 * (w**k * np.sin(t * w + phase + k * np.pi / 2)).sum(axis=1) for k in range(3))
    clean = mindyn.compile_model(arm, with_drives=True).inverse_dynamics(q, qd, qdd)
    noisy = clean + rng.normal(0, NOISE, q.shape)
    return mindyn.Samples(arm.joint_names, q, qd, qdd, noisy, 100.0, np.zeros(len(q), int)), clean


@pytest.fixture(scope="module")
def arm():
    return mindyn.load_robot("puma560")


@pytest.fixture(scope="module")
def estimate(arm):
    return mindyn.PhysicallyConsistent().fit(mindyn.build_rows(arm, motion(arm, 2)[0]))


@pytest.fixture(scope="module")
def models(estimate):
    return estimate.sample(COUNT, 0)


def test_draws_are_projected_onto_the_nearest_point_that_satisfies_all_conditions():
    """One row and a 2 x 2 matrix, in three dimensions: no other point inside is nearer, and draws inside stay."""
    rng = np.random.default_rng(1)
    matrices = np.array([[[1.0, 0.2], [0.2, 0.0]], [[0.0, 0.5], [0.5, 0.3]], [[0.1, 0.0], [0.0, 1.0]]])[None]
    inside = Restriction(np.array([[1.0, 1.0, 0.0]]), np.array([0.5]), matrices, 0.8 * np.eye(2)[None])
    others = [z for z in 1.5 * rng.normal(size=(20_000, 3)) if inside.holds(z)]
    draws = draw_projected(inside, np.zeros(3), rng)
    moved = 0
    for drawn, projected in (next(draws) for _ in range(300)):
        assert (inside.margins(projected) > 0).all()
        if inside.holds(drawn):
            assert np.array_equal(drawn, projected)
            continue
        moved += 1
        nearest = np.min(np.linalg.norm(np.array(others) - drawn, axis=1))
        assert np.linalg.norm(projected - drawn) < nearest + 5e-3
    assert 100 < moved < 250


def test_draws_and_their_remainders_have_the_covariance_of_the_estimate(estimate):
    """Together they are the posterior, without conditions."""
    models = mindyn.sample_models(estimate, 150, 3)
    whole = models.beta + models.remainder
    known = np.isfinite(estimate.deviations) & (estimate.deviations > 0)
    ratio = whole.std(axis=0)[known] / estimate.deviations[known]
    assert 0.95 < np.median(ratio) < 1.05
    assert ((ratio > 0.75) & (ratio < 1.25)).all()


def test_samples_are_consistent_plausible_and_not_degenerate(arm, estimate, models):
    limit = check_full_model(mindyn.build_full_model(estimate), arm).condition_number
    assert len(models) == len(models.robots) == COUNT
    for robot in models.robots:
        assert all(verdict.is_feasible for verdict in robot.consistency().values())
        assert min(np.linalg.eigvalsh(pseudo_inertia(link.phi))[0] for link in robot.links) > 0
        assert min(link.phi[0] for link in robot.links) > 0
        assert all(min(drive.viscous, drive.coulomb, drive.rotor_inertia) >= 0 for drive in robot.drives)
        plausibility = check_full_model(robot, arm)
        assert plausibility.is_plausible
        assert plausibility.condition_number <= 100 * limit


def test_robots_have_the_torques_of_their_values(arm, models):
    q, qd, qdd = np.random.default_rng(3).uniform(-1, 1, (3, 5, arm.joint_count))
    for robot, beta in zip(models.robots[:3], models.beta, strict=False):
        torque = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
        parts = models.estimate.regressor.parts(q, qd, qdd)
        expected = [
            np.concatenate(arrays, axis=1) @ beta[columns]
            for columns, arrays in zip(models.estimate.regressor.columns, parts, strict=True)
        ]
        assert_close(torque, np.array(expected).T, 1e-8)


def test_well_determined_values_have_the_covariance_of_the_estimate(estimate, models):
    """Others are restricted by physics: their spread is smaller."""
    far = np.abs(estimate.beta) > 30 * estimate.deviations
    ratio = models.beta.std(axis=0)[far] / estimate.deviations[far]
    assert far.sum() >= 10
    assert 0.7 < np.median(ratio) < 1.3
    spread = (models.beta - estimate.beta).std(axis=0)
    assert (spread <= 1.6 * estimate.deviations).all()


def test_the_spread_contains_torques_as_often_as_stated(arm, estimate, models):
    """95 % bands from the samples; with noise they contain measured torque, without noise that of the robot."""
    samples, clean = motion(arm, 99)
    torques = models.torques(samples)
    middle, deviation = torques.mean(axis=0), torques.std(axis=0)
    noise = np.array([joint.rms for joint in estimate.data.residuals])
    band = norm.ppf(0.975) * np.sqrt(deviation**2 + noise**2)
    assert 0.93 <= np.mean(np.abs(samples.tau - middle) <= band) <= 0.97
    assert np.mean(np.abs(clean - middle) <= norm.ppf(0.975) * deviation) >= 0.85
    ends = np.quantile(models.torques(samples, 0), [0.025, 0.975], axis=0)
    assert 0.90 <= np.mean((samples.tau >= ends[0]) & (samples.tau <= ends[1])) <= 0.97
    low, high = mindyn.identification.torque_bands(estimate, samples)
    assert (4 * deviation).mean() < 1.3 * (high - low).mean()


def test_what_logs_leave_open_varies_with_the_prior(estimate, models):
    masses = np.array([[link.phi[0] for link in robot.links] for robot in models.robots])
    assert (masses.std(axis=0) / masses.mean(axis=0) > 0.03).all()
    narrow = mindyn.sample_models(estimate, 10, 0, prior_deviation=0.01)
    first = np.array([robot.links[0].phi[0] for robot in narrow.robots])
    assert first.std() / first.mean() < 0.05


def test_a_seed_repeats_samples(estimate):
    first, again, other = (estimate.sample(2, seed).beta for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_planar_arm_without_friction_is_sampled():
    """Friction of zero is on the boundary, and a planar arm leaves most parameters open."""
    arm = mindyn.load_robot("planar2")
    estimate = mindyn.PhysicallyConsistent().fit(mindyn.build_rows(arm, motion(arm, 1)[0]))
    models = estimate.sample(5, 0)
    assert all(robot.consistency()[name].is_feasible for robot in models.robots for name in robot.link_names)


@pytest.mark.parametrize(("file_format", "suffix"), [("urdf", "urdf"), ("mjcf", "xml")])
def test_files_load_elsewhere_and_ranges_are_quantiles(tmp_path, estimate, models, file_format, suffix):
    folder = mindyn.output.write_model_samples(models, tmp_path / "samples", file_format)
    files = sorted(folder.glob(f"*.{suffix}"))
    assert len(files) == COUNT
    masses = []
    for file, robot in zip(files, models.robots, strict=True):
        if file_format == "urdf":
            read = [inertia.mass for inertia in pinocchio.buildModelFromUrdf(str(file)).inertias][1:]
        else:
            read = mujoco.MjModel.from_xml_path(str(file)).body_mass[1:]
        own = [link.phi[0] for link in robot.links]
        assert_close(np.array(read)[-len(own) :], np.array(own), 1e-9)
        masses.append(own)
    rows = list(csv.DictReader((folder / "ranges.csv").read_text().splitlines()))
    names = [row for row in rows if row["parameter"] == "mass"]
    low, high = np.quantile(masses, [0.05, 0.95], axis=0)
    assert_close(np.array([float(row["low"]) for row in names]), low, 1e-12)
    assert_close(np.array([float(row["high"]) for row in names]), high, 1e-12)
    torques = [float(row["high"]) for row in rows if row["parameter"] == "unexplained_torque"]
    assert_close(np.array(torques), norm.ppf(0.95) * models.unexplained, 1e-12)
    yaml = pytest.importorskip("yaml")
    ranges = yaml.safe_load((folder / "ranges.yaml").read_text())
    for row in rows:
        assert ranges[row["name"]][row["parameter"]] == [float(row["low"]), float(row["high"])]
    full = mindyn.build_full_model(estimate)
    assert float(names[0]["value"]) == pytest.approx(full.links[0].phi[0])


def test_wrong_requests_are_rejected(tmp_path, arm, estimate, models):
    for count in (0, -1, 2.5, True):
        with raises(InputError, Code.OUT_OF_RANGE, "count"):
            mindyn.sample_models(estimate, count, 0)
    with raises(InputError, Code.OUT_OF_RANGE):
        mindyn.sample_models(estimate, 1, 0, prior_deviation=1.5)
    with raises(InputError, Code.UNKNOWN_NAME):
        mindyn.output.write_model_samples(models, tmp_path / "x", "sdf")
    with raises(ExportError, Code.MISSING_VALUE, "servo"):
        mindyn.output.write_model_samples(models, tmp_path / "x", "isaac-lab")
    loose = mindyn.LeastSquares().fit(mindyn.build_rows(arm, motion(arm, 1)[0]))
    if not mindyn.check_feasible(loose).consistent.holds:
        with raises(ExportError, Code.NOT_FEASIBLE):
            loose.sample(1, 0)
    assert list(tmp_path.iterdir()) == []
