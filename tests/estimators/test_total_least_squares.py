"""Total least squares: recovery, its own minimum, simulated errors in variables, and errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from raising import raises
from recovered import exact_samples, smooth_samples
from robots import random_robot, with_random_drives

from mindyn.errors import Code, InputError
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.total_least_squares import (
    MeasurementNoise,
    TotalLeastSquares,
    column_errors,
    total_least_squares,
)
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import gather

RECOVERY = 1e-8


def some_robot(seed):
    """Chains and trees, R and P joints, every fourth with drives."""
    robot = random_robot(seed, joints=1 + seed % 5)
    return with_random_drives(robot, seed) if seed % 4 == 0 else robot


@pytest.mark.parametrize("seeds", [range(k, k + 10) for k in range(0, 50, 10)])
def test_recovers_random_robots_without_noise(seeds):
    for seed in seeds:
        robot = some_robot(seed)
        estimate = TotalLeastSquares().fit(equations(robot, exact_samples(robot, count=200, seed=seed)))
        assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_recovery_has_trees_slides_and_drives():
    robots = [some_robot(seed) for seed in range(50)]
    assert any(robot.parents != tuple(range(-1, robot.joint_count - 1)) for robot in robots)
    assert {joint.kind for robot in robots for joint in robot.joints} == {"revolute", "prismatic"}
    assert any(robot.drives for robot in robots)


def test_known_noise_recovers_too_without_noise():
    for seed in range(5):
        robot = some_robot(seed)
        noise = MeasurementNoise(position=1e-3, velocity=0.01, acceleration=0.1, torque=0.01)
        estimate = TotalLeastSquares(noise=noise).fit(equations(robot, exact_samples(robot, seed=seed)))
        assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_noise_of_each_joint_adds_up_to_that_of_all():
    robot = random_robot(2, joints=2, tree=False)
    regressor, samples, weights = Regressor(robot), exact_samples(robot, count=50), np.array([1.0, 0.3])
    errors = lambda *sigmas: column_errors(regressor, samples, MeasurementNoise(*sigmas), weights)  # noqa: E731
    torque = errors(0.0, 0.0, 0.0, 0.1)
    first, second = ((0.02, 0.0), (0.0, 0.03))
    both = errors((0.02, 0.03), 0.0, 0.0, 0.1)
    assert_close(both, errors(first, 0.0, 0.0, 0.1) + errors(second, 0.0, 0.0, 0.1) - torque, 1e-10)
    assert_close(errors((0.02, 0.02), 0.0, 0.0, (0.1, 0.1)), errors(0.02, 0.0, 0.0, 0.1), 1e-14)
    with raises(InputError, Code.WRONG_SHAPE, "noise"):
        errors((0.1, 0.1, 0.1), 0.0, 0.0, 0.1)


def test_no_other_parameters_have_a_smaller_quotient():
    rng = np.random.default_rng(0)
    Z, L = rng.normal(size=(60, 6)), rng.normal(size=(6, 6))
    L[:2] = 0.0  # two columns without errors
    C = L @ L.T
    result = total_least_squares(Z, C)

    def quotient(beta):
        x = np.append(beta, -1.0)
        return (Z @ x) @ (Z @ x) / (x @ C @ x)

    least = quotient(result.beta)
    assert least == pytest.approx(result.factor, rel=1e-9)
    assert all(
        quotient(result.beta + rng.normal(scale=s, size=5)) > least for s in (1e-4, 1e-2, 1, 10) for _ in range(50)
    )


def test_units_of_columns_do_not_matter():
    """Tolerance of parameters that differ only in their units, also in errors."""
    rng = np.random.default_rng(2)
    Z, L = rng.normal(size=(60, 5)), rng.normal(size=(5, 5))
    C, units = L @ L.T, np.array([1e-7, 1e6, 1.0, 1e3, 1e-5])
    plain, scaled = total_least_squares(Z, C), total_least_squares(Z * units, C * np.outer(units, units))
    assert_close(scaled.beta * units[:-1] / units[-1], plain.beta, RECOVERY)
    assert scaled.factor == pytest.approx(plain.factor, rel=1e-9)
    assert_close(scaled.inverse * np.outer(units[:-1], units[:-1]), plain.inverse, RECOVERY)
    assert_close(plain.inverse, np.linalg.inv((Z.T @ Z - plain.factor * C)[:-1, :-1]), RECOVERY)
    for unit in (1e-9, 1.0, 1e9):
        with raises(InputError, Code.NOT_IDENTIFIABLE, "torque"):
            total_least_squares(np.diag([unit, 1e-3, 1.0]), np.eye(3))
        with raises(InputError, Code.NOT_IDENTIFIABLE, "torque"):
            total_least_squares(np.diag([1.0, 1e-3, unit]), np.diag([1.0, 1.0, unit**2]))


def test_errors_of_columns_are_those_of_simulated_noise():
    robot = with_random_drives(random_robot(6, joints=2), 1)
    samples = smooth_samples(robot, count=200)
    regressor = Regressor(robot)
    noise, weights = MeasurementNoise(2e-3, 0.0, 0.05, 0.02), np.array([1.0, 0.3])
    total = np.zeros((regressor.count + 1,) * 2)
    clean = rows_of(regressor, samples, weights)
    for seed in range(400):
        dZ = rows_of(regressor, with_noise(samples, noise, seed), weights) - clean
        total += dZ.T @ dZ / 400
    assert_close(column_errors(regressor, samples, noise, weights), total, 0.05)  # 80 000 draws of a variance


def rows_of(regressor, samples, weights):
    Y = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd))
    Z = np.concatenate([Y, samples.tau[..., None]], axis=2)
    return (np.sqrt(weights)[:, None] * Z).reshape(-1, regressor.count + 1)


def with_noise(samples, noise, seed):
    rng = np.random.default_rng(seed)
    shape = samples.q.shape
    q, qd, qdd, tau = (
        getattr(samples, name) + sigma * rng.standard_normal(shape)
        for name, sigma in zip(
            ("q", "qd", "qdd", "tau"), (noise.position, noise.velocity, noise.acceleration, noise.torque), strict=True
        )
    )
    return replace(samples, q=q, qd=qd, qdd=qdd, tau=tau)


def test_acceleration_noise_biases_least_squares_but_not_total_least_squares():
    robot = random_robot(8, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    samples = smooth_samples(robot, count=2000, amplitude=0.8)
    noise = MeasurementNoise(acceleration=1.5, torque=0.02)
    plain, total = [], []
    for seed in range(8):
        noisy = with_noise(samples, noise, seed)
        plain.append(LeastSquares().fit(equations(robot, noisy)))
        total.append(TotalLeastSquares(noise=noise).fit(equations(robot, noisy)))
    true = total[0].base.values
    biases = [np.abs(np.mean([fit.beta for fit in fits], axis=0) - true).max() for fits in (plain, total)]
    assert biases[0] > 0.1 * np.abs(true).max()
    assert biases[1] < 0.2 * biases[0]
    errors = [np.mean([np.linalg.norm(fit.beta - true) for fit in fits]) for fits in (plain, total)]
    assert errors[1] < 0.5 * errors[0]
    assert total[0].provenance["noise_factor"] == pytest.approx(1.0, abs=0.1)
    within = np.mean([np.abs(item.beta - true) < 3 * item.deviations for item in total])
    assert within > 0.95


def test_information_and_samples_give_the_same():
    robot = some_robot(7)
    samples = exact_samples(robot, noise=0.1)
    information = gather(Regressor(robot), samples)
    ours, theirs = (TotalLeastSquares().fit(equations(robot, data)) for data in (samples, information))
    assert_close(ours.beta, theirs.beta, RECOVERY)


def test_what_the_data_cannot_tell_is_named_and_does_not_spoil_the_rest():
    robot = random_robot(0, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    samples = exact_samples(robot)
    still = np.zeros_like(samples.q)
    regressor = Regressor(robot)
    tau = np.einsum("nij,j->ni", regressor.dense(regressor.parts(samples.q, still, still)), regressor.base.values)
    samples = replace(samples, qd=still, qdd=still, tau=tau)
    estimate = TotalLeastSquares().fit(equations(robot, samples))
    assert estimate.unidentifiable
    assert estimate.unidentifiable[0] in estimate.status
    assert_close(estimate.predict(samples), samples.tau, RECOVERY)


def test_what_it_cannot_treat_is_rejected_by_name():
    robot = some_robot(6)
    samples = exact_samples(robot)
    with raises(InputError, Code.OUT_OF_RANGE, "torque"):
        MeasurementNoise(acceleration=1.0)
    with raises(InputError, Code.OUT_OF_RANGE, "velocity"):
        MeasurementNoise(velocity=-1.0, torque=1.0)
    with raises(InputError, Code.MISSING_VALUE, "samples"):
        TotalLeastSquares(noise=MeasurementNoise(torque=1.0)).fit(equations(robot, gather(Regressor(robot), samples)))
    with raises(InputError, Code.DISAGREEMENT, "joint_names"):
        TotalLeastSquares().fit(equations(robot, exact_samples(some_robot(2))))
    with raises(InputError, Code.NOT_IDENTIFIABLE, "torque"):
        total_least_squares(np.diag([1.0, 1e-3, 1.0]), np.eye(3))


def test_the_status_says_how_far_least_squares_lies():
    robot = some_robot(4)
    rows = equations(robot, exact_samples(robot, noise=0.5))
    plain, total = LeastSquares().fit(rows), TotalLeastSquares().fit(rows)
    moved = np.abs(total.beta - plain.beta).max() / np.abs(plain.beta).max()
    assert f"they differ from least squares by up to {100 * moved:.3g} % of the largest" in total.status
    assert total.status.startswith(f"{len(plain.names)} parameters with errors in motion and torque")
