"""Energy and momentum differences: recovery without accelerations, the columns against the energy's own, intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from raising import raises
from recovered import smooth_samples
from robots import random_robot, with_random_drives

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.energy_difference import EnergyDifference
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.simulate import simulate
from mindyn.regression.friction import Friction
from mindyn.regression.integrated import IntegratedRegressor, intervals, quadrature_weights, reversals
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import Drive

WITHOUT_COULOMB = 1e-6
WITH_COULOMB = 1e-3
FORMS = ("energy", "momentum")


def some_robot(seed):
    return random_robot(seed, joints=1 + seed % 4)


def blind(samples):
    """The samples with accelerations that must not matter."""
    return replace(samples, qdd=np.full_like(samples.qdd, 1e3))


@pytest.mark.parametrize("form", FORMS)
def test_recovers_random_robots_without_coulomb_friction(form):
    for seed in range(12):
        robot = some_robot(seed)
        samples = smooth_samples(robot, count=8000, seed=seed, rate=400.0)
        estimate = EnergyDifference(form, interval_s=0.1).fit(equations(robot, blind(samples)))
        assert not estimate.values.unidentifiable
        assert_close(estimate.beta, estimate.base.values, WITHOUT_COULOMB)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["avoid", "within"])
def test_recovers_random_robots_with_drives_and_coulomb_friction(form, kind):
    for seed in range(8):
        robot = with_random_drives(some_robot(seed), seed)
        samples = smooth_samples(robot, count=12000, seed=seed, rate=400.0)
        estimate = EnergyDifference(form, interval_s=0.1, reversals=kind).fit(equations(robot, blind(samples)))
        assert_close(estimate.beta, estimate.base.values, WITH_COULOMB)


@pytest.fixture(scope="module")
def simulated():
    """A robot with Coulomb friction under a held torque: its accelerations jump at every row and every reversal."""
    robot = random_robot(1, joints=2, tree=False, special=False, gravity=(0.0, 0.0, -9.81))
    drives = [Drive(name, rotor_inertia=0.05, viscous=0.3, coulomb=0.8, offset=0.1) for name in robot.joint_names]
    robot = replace(robot, drives=tuple(drives))
    wish = smooth_samples(robot, count=6000, seed=3, rate=400.0)

    def torque(t, q, qd):
        k = round(t * 400)
        return wish.tau[k] + 60 * (wish.q[k] - q) + 15 * (wish.qd[k] - qd)

    motion = simulate(robot, torque, seconds=14.9, q0=wish.q[0], qd0=wish.qd[0], rate_hz=400.0, with_drives=True)
    arrays = (motion.q, motion.qd, np.zeros_like(motion.q), motion.tau)
    return robot, Samples(robot.joint_names, *arrays, 400.0, np.zeros(len(motion.t), dtype=np.int64))


@pytest.mark.parametrize("form", FORMS)
def test_recovers_from_a_simulation_with_coulomb_friction(form, simulated):
    robot, samples = simulated
    estimate = EnergyDifference(form, torque="held").fit(equations(robot, samples))
    assert_close(estimate.beta, estimate.base.values, WITH_COULOMB)


@pytest.mark.parametrize("form", FORMS)
def test_taking_a_held_torque_for_a_continuous_one_shows(form, simulated):
    robot, samples = simulated
    estimate = EnergyDifference(form).fit(equations(robot, samples))
    error = np.abs(estimate.beta - estimate.base.values).max() / np.abs(estimate.base.values).max()
    assert error > WITH_COULOMB


def test_energy_columns_are_differences_of_the_energy():
    """Sheu and Walker's row, kinetic plus potential energy by the standard parameters, is another way to it."""
    robot = some_robot(6)
    samples = smooth_samples(robot, count=200, rate=1000.0)
    regressor, taken = Regressor(robot), slice(20, 121)
    row = IntegratedRegressor.of(regressor, "energy").row(samples, taken, None, "sampled")
    energies = compile_model(robot).energy_regressor(samples.q[[20, 120]], samples.qd[[20, 120]]).sum(axis=1)
    assert_close(row[0, :-1] * 0.1, (energies[1] - energies[0]) @ regressor.base.embedding, 1e-9)


def test_energy_columns_are_the_power_of_the_momentum_columns_by_other_means():
    """The mean of qd.Y over an interval, with accelerations, is the same row."""
    robot = with_random_drives(some_robot(7), 2)
    samples = smooth_samples(robot, count=200, rate=1000.0)
    regressor, taken = Regressor(robot), slice(20, 121)
    Y = regressor.dense(regressor.parts(samples.q[taken], samples.qd[taken], samples.qdd[taken]))
    weights = quadrature_weights(101) / 100
    for form, expected in (
        ("energy", np.einsum("k,ki,kij->j", weights, samples.qd[taken], Y)[None]),
        ("momentum", np.einsum("k,kij->ij", weights, Y)),
    ):
        row = IntegratedRegressor.of(regressor, form).row(samples, taken, None, "sampled")
        assert_close(row[:, :-1], expected, 1e-9)


def test_quadrature_is_exact_to_degree_five():
    x = np.linspace(-1, 1, 13)
    for degree in range(6):
        assert quadrature_weights(13) @ x**degree / 6 == pytest.approx(
            (1 - (-1) ** (degree + 1)) / (degree + 1), abs=1e-13
        )


def test_intervals_hold_no_reversal_and_lose_few_rows():
    robot = with_random_drives(some_robot(3), 3)
    samples = smooth_samples(robot, count=4000, rate=400.0)
    samples = replace(samples, segments=np.repeat(np.arange(2), 2000))
    regressor = Regressor(robot)
    breaks = reversals(regressor, samples)
    assert breaks.sum() > 10
    result = intervals(samples, breaks, 41)
    for item in result:
        assert 10 <= item.stop - item.start <= 41
        assert not breaks[item.start + 1 : item.stop].any()
        assert samples.segments[item.start] == samples.segments[item.stop - 1]
    assert sum(item.stop - item.start - 1 for item in result) > 0.9 * len(samples)


def test_friction_shapes_are_found_too():
    robot = with_random_drives(random_robot(5, joints=2, tree=False), 5)
    friction = Friction(shapes=("cubic",))
    samples = smooth_samples(robot, count=8000, rate=400.0)
    regressor = Regressor(robot, friction)
    beta = np.concatenate([regressor.base.values, np.linspace(0.1, 0.2, regressor.count - regressor.base.count)])
    signs = regressor.directions(samples.q, samples.qd, samples.segments, 400.0)
    Y = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd, signs))
    estimate = EnergyDifference("momentum").fit(
        equations(robot, replace(blind(samples), tau=Y @ beta), friction=friction)
    )
    assert_close(estimate.beta, beta, WITH_COULOMB)


def test_noisy_accelerations_do_not_harm_it_as_they_harm_least_squares():
    robot = some_robot(2)
    samples = smooth_samples(robot, count=8000, rate=400.0)
    noisy = replace(samples, qdd=samples.qdd + np.random.default_rng(0).normal(scale=3.0, size=samples.q.shape))
    errors = [
        np.abs(item.fit(equations(robot, noisy)).beta - Regressor(robot).base.values).max()
        for item in (LeastSquares(), EnergyDifference())
    ]
    assert errors[1] < 1e-3 * errors[0]


def test_intervals_with_unusable_rows_are_dropped():
    robot = some_robot(2)
    samples = smooth_samples(robot, count=8000, rate=400.0)
    spoilt, usable = samples.tau.copy(), np.ones(samples.q.shape, dtype=bool)
    spoilt[1000:1500, 0] += 50.0
    usable[1000:1500, 0] = False
    for form in FORMS:
        estimate = EnergyDifference(form).fit(equations(robot, replace(samples, tau=spoilt, usable=usable)))
        assert_close(estimate.beta, estimate.base.values, WITHOUT_COULOMB)


def test_what_it_cannot_treat_is_rejected_by_name():
    robot = some_robot(2)
    samples = smooth_samples(robot, count=100, rate=400.0)
    for settings, code, subject in (
        ({"form": "power"}, Code.UNKNOWN_NAME, "form"),
        ({"reversals": "ignore"}, Code.UNKNOWN_NAME, "reversals"),
        ({"torque": "smooth"}, Code.UNKNOWN_NAME, "torque"),
        ({"interval_s": -1.0}, Code.OUT_OF_RANGE, "interval_s"),
        ({"torque": "held", "reversals": "within"}, Code.DISAGREEMENT, "reversals"),
    ):
        with raises(InputError, code, subject):
            EnergyDifference(**settings)
    with raises(InputError, Code.TOO_LITTLE_DATA, "interval_s"):
        EnergyDifference().fit(equations(robot, samples))
    with raises(InputError, Code.OUT_OF_RANGE, "interval_s"):
        EnergyDifference(interval_s=0.01).fit(equations(robot, samples))
    with raises(InputError, Code.DISAGREEMENT, "joint_names"):
        EnergyDifference().fit(equations(some_robot(3), samples))
