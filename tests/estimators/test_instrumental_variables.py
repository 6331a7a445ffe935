"""Instrumental variables: recovery, bias compared with least squares, indefinite inertia matrices, and errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from honesty.feedback import AUTOMATIC, UNFILTERED, record_log
from raising import raises
from recovered import exact_samples, smooth_samples
from robots import random_robot, with_random_drives

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.instrument_steps import inertia_matrices, model_acceleration
from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables
from mindyn.identification.estimators.last_link_first import LastLinkFirst
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.selection.choose import choose
from mindyn.kernels.model import compile_model
from mindyn.regression.build_rows import build_rows
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor

RECOVERY = 1e-8


def some_robot(seed):
    """Chains and trees, R and P joints, every fourth with drives."""
    robot = random_robot(seed, joints=1 + seed % 5)
    return with_random_drives(robot, seed) if seed % 4 == 0 else robot


def two_links(gravity=(0.0, 0.0, -9.81)):
    return random_robot(3, joints=2, tree=False, special=False, gravity=gravity)


def with_acceleration_noise(samples, sigma, seed):
    noise = np.random.default_rng(seed).normal(scale=sigma, size=samples.q.shape)
    return replace(samples, qdd=samples.qdd + noise)


@pytest.mark.parametrize("seeds", [range(k, k + 10) for k in range(0, 50, 10)])
def test_recovers_random_robots_without_noise(seeds):
    for seed in seeds:
        robot = some_robot(seed)
        estimate = InstrumentalVariables().fit(equations(robot, exact_samples(robot, count=200, seed=seed)))
        assert estimate.provenance.notes["settled"]
        assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_the_true_model_expects_the_true_accelerations():
    for seed in range(0, 20, 4):
        robot = some_robot(seed)
        samples, regressor = exact_samples(robot, count=50), Regressor(robot)
        result = model_acceleration(regressor, regressor.base.values, samples)
        assert result.definite.all()
        assert_close(result.qdd, samples.qdd, 1e-9)
        M = compile_model(robot, with_drives=True).inertia_matrix(samples.q)
        assert_close(inertia_matrices(regressor, regressor.base.values, samples), M, SAME_ALGEBRA)


@pytest.mark.parametrize("seeds", [range(k, k + 10) for k in range(0, 50, 10)])
def test_one_pass_from_nothing_with_a_rough_instrument_recovers_random_robots(seeds):
    """Least squares is exact without noise and would leave nothing to do: here beta starts as zero."""
    for seed in seeds:
        robot = some_robot(seed)
        samples, solver = exact_samples(robot, count=200, seed=seed), LeastSquares()
        rows = equations(robot, samples)
        plain, information = solver.fit(rows), rows.information
        rough = plain.with_values(beta=1.2 * plain.beta)
        nothing = plain.with_values(beta=np.zeros_like(plain.beta))
        estimate = InstrumentalVariables(rough, passes=1).passes_from(nothing, information, samples)
        assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_any_estimate_of_the_same_joints_may_be_the_instrument_model():
    robot = two_links()
    samples = smooth_samples(robot)
    model = LastLinkFirst().fit(equations(robot, samples, base_form="lin"))
    noisy = with_acceleration_noise(samples, 3.0, 0)
    once = InstrumentalVariables(model, passes=1).fit(equations(robot, noisy))
    assert np.abs(once.beta - once.base.values).max() < 0.05 * np.abs(once.base.values).max()


def test_acceleration_noise_biases_least_squares_but_not_instrumental_variables():
    robot = random_robot(8, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    samples = smooth_samples(robot, count=3000)
    fits = {"plain": [], "iv": []}
    for seed in range(10):
        noisy = with_acceleration_noise(samples, 2.0, seed)
        fits["plain"].append(LeastSquares().fit(equations(robot, noisy)))
        fits["iv"].append(InstrumentalVariables().fit(equations(robot, noisy)))
    true = Regressor(robot).base.values
    scale = np.abs(true).max()
    bias = {name: np.abs(np.mean([our.beta for our in ours], axis=0) - true).max() for name, ours in fits.items()}
    assert bias["plain"] > 0.1 * scale
    assert bias["iv"] < 0.1 * bias["plain"]
    mistakes = np.array([item.beta - true for item in fits["iv"]])
    standard_errors = mistakes.std(axis=0, ddof=1) / np.sqrt(len(mistakes))
    assert (np.abs(mistakes.mean(axis=0)) < 4 * standard_errors).all()
    within = np.mean([np.abs(item.beta - true) < 3 * item.deviations for item in fits["iv"]])
    assert within > 0.95


@pytest.mark.parametrize(("seed", "drives"), [(8, 0), (5, 1), (11, 2)])
def test_rotors_and_friction_of_drives_do_not_bring_the_bias_back(seed, drives):
    robot = with_random_drives(random_robot(seed, joints=3, tree=False, gravity=(0.0, 0.0, -9.81)), drives)
    samples, true = smooth_samples(robot, count=3000), Regressor(robot).base.values
    noisy = [with_acceleration_noise(samples, 2.0, run) for run in range(12)]
    plain = np.mean([LeastSquares().fit(equations(robot, item)).beta for item in noisy], axis=0) - true
    fits = [InstrumentalVariables().fit(equations(robot, item)) for item in noisy]
    mistakes = np.array([fit.beta - true for fit in fits])
    assert np.abs(mistakes.mean(axis=0)).max() < 0.15 * np.abs(plain).max()
    standard_errors = mistakes.std(axis=0, ddof=1) / np.sqrt(len(mistakes))
    assert (np.abs(mistakes.mean(axis=0)) < 5 * standard_errors).all()
    assert np.mean([np.abs(fit.beta - true) < 3 * fit.deviations for fit in fits]) > 0.95


def test_filtered_rows_serve_too():
    robot = two_links()
    estimate = InstrumentalVariables().fit(equations(robot, smooth_samples(robot), equations_hz=20.0, keep_every=4))
    assert_close(estimate.beta, estimate.base.values, 1e-3)  # the low pass of a product is not that of its factors


def test_friction_shapes_take_part_in_the_instrument():
    robot = with_random_drives(two_links(), 5)
    friction = Friction(shapes=("cubic",))
    samples, regressor = smooth_samples(robot), Regressor(robot, friction)
    beta = np.concatenate([regressor.base.values, np.linspace(0.1, 0.2, regressor.count - regressor.base.count)])
    signs = regressor.directions(samples.q, samples.qd, samples.segments, samples.rate_hz)
    tau = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd, signs)) @ beta
    estimate = InstrumentalVariables().fit(equations(robot, replace(samples, tau=tau), friction=friction))
    assert_close(estimate.beta, beta, RECOVERY)


def test_an_indefinite_instrument_model_is_rejected_or_known():
    robot = two_links()
    samples = exact_samples(robot)
    plain = LeastSquares().fit(equations(robot, samples))
    with raises(InputError, Code.NOT_FEASIBLE, "instrument_model"):
        InstrumentalVariables(plain.with_values(beta=-plain.beta)).fit(equations(robot, samples))
    estimate = InstrumentalVariables(partly_indefinite(plain, samples)).fit(equations(robot, samples))
    assert "instrument model was indefinite at up to" in estimate.status
    assert 0 < estimate.provenance.notes["indefinite_parts"][0] < 0.5
    assert estimate.provenance.notes["indefinite_part_of_estimate"] == 0
    assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_an_indefinite_least_squares_estimate_is_rejected_as_instrument_model():
    robot = random_robot(1, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    noisy = with_acceleration_noise(smooth_samples(robot, count=3000), 2.0, 0)
    with raises(InputError, Code.NOT_FEASIBLE, "instrument_model"):
        InstrumentalVariables().fit(equations(robot, noisy))


def partly_indefinite(estimate, samples):
    """The estimate with one parameter so large that the inertia matrix fails at some samples."""
    for k in range(len(estimate.beta)):
        for size in (2.0, 5.0, 10.0):
            beta = estimate.beta.copy()
            beta[k] += size * np.abs(beta).max()
            if 0.05 < model_acceleration(estimate.regressor, beta, samples).indefinite_part < 0.45:
                return estimate.with_values(beta=beta)
    raise AssertionError("no such parameter")


def test_an_indefinite_estimate_is_known():
    robot = two_links()
    samples = exact_samples(robot)
    strange = partly_indefinite(LeastSquares().fit(equations(robot, samples)), samples)
    tau = strange.predict(samples)
    estimate = InstrumentalVariables().fit(equations(robot, replace(samples, tau=tau)))
    assert "inertia matrix of the estimate is indefinite at" in estimate.status


def test_what_the_data_cannot_tell_is_named():
    robot = random_robot(0, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    samples = exact_samples(robot)
    true, still = LeastSquares().fit(equations(robot, samples)), np.zeros_like(samples.q)
    samples = replace(samples, qd=still, qdd=still)
    samples = replace(samples, tau=true.predict(samples))
    estimate = InstrumentalVariables(true).fit(equations(robot, samples))
    assert estimate.values.unidentifiable
    assert estimate.values.unidentifiable[0] in estimate.status
    assert_close(estimate.predict(samples), samples.tau, RECOVERY)


def test_instruments_that_have_nothing_in_common_with_the_motion_are_rejected():
    robot = random_robot(0, joints=1, tree=False, gravity=(0.0, 0.0, 0.0))
    samples = exact_samples(robot)
    true = LeastSquares().fit(equations(robot, samples))
    early = np.arange(len(samples))[:, None] < len(samples) // 2
    apart = replace(samples, qdd=samples.qdd * early, tau=samples.tau * ~early)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "instrument_model"):
        InstrumentalVariables(true).fit(equations(robot, apart))


def test_what_it_cannot_treat_is_rejected_by_name():
    robot = two_links()
    samples = exact_samples(robot)
    with raises(InputError, Code.OUT_OF_RANGE, "passes"):
        InstrumentalVariables(passes=0)
    other = some_robot(2)
    model = LeastSquares().fit(equations(other, exact_samples(other)))
    with raises(InputError, Code.DISAGREEMENT, "instrument_model"):
        InstrumentalVariables(model).fit(equations(robot, samples))
    with raises(InputError, Code.DISAGREEMENT, "joint_names"):
        InstrumentalVariables().fit(equations(other, samples))


def test_noise_that_a_controller_feeds_back_is_filtered_out_by_choice():
    """Encoder noise is in the torque and so in the instruments: the rows as they are would be biased."""
    arm, log = record_log(1207)
    chosen = choose(arm, log, InstrumentalVariables(), AUTOMATIC).settings
    assert chosen.equations_hz is not None
    true = base_parameters(arm, with_drives=True).values
    plain = LeastSquares().fit(build_rows(arm, log, UNFILTERED))
    estimate = InstrumentalVariables().fit(build_rows(arm, log, chosen))
    assert np.abs(estimate.beta[: len(true)] - true).max() < 0.05 * np.abs(plain.beta - true).max()
    assert np.mean(np.abs(estimate.beta[: len(true)] - true) < 3 * estimate.deviations[: len(true)]) > 0.9
