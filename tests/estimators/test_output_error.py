"""Output error: recovery, exact sensitivities, noise, findings and errors."""

from __future__ import annotations

from dataclasses import replace

import casadi
import numpy as np
import pytest
from closed_loops import CONTROL_HZ, driven_arm, encoder_samples, sines, tracked, tracking
from closeness import DERIVATIVE, SAME_ALGEBRA, assert_close
from equations import equations
from raising import raises
from robots import random_robot

from mindyn.errors import Code, InputError
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.output_error import OutputError
from mindyn.regression.regressor import Regressor
from mindyn.simulation.closed_loop import ClosedLoop
from mindyn.simulation.controllers import ControlLaw, ProportionalDerivative

RECOVERY = 1e-6
LOOP = {"control_rate_hz": CONTROL_HZ, "initial": "reference"}


def rough(robot, samples, part=0.1, seed=0):
    """The robot's own values, wrong by up to `part` each."""
    found = LeastSquares().fit(equations(robot, samples))
    wrong = 1 + part * np.random.default_rng(seed).uniform(-1, 1, len(found.beta))
    return replace(found, beta=wrong * found.base.values)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [("torque", None), ("torque", "exact"), ("position", None)])
def test_recovers_arms_without_noise(seed, kind):
    """The truth is integrated by Dormand and Prince's adaptive method, not by the steps of the fit."""
    compare, jacobian = kind
    robot = driven_arm(seed, coulomb=0.0)
    controller = tracking(robot, sines(robot, seed))
    samples = tracked(robot, controller).samples()
    settings = OutputError(controller, compare, jacobian, start=rough(robot, samples), **LOOP)
    estimate = settings.fit(equations(robot, samples))
    assert estimate.provenance["settled"]
    assert_close(estimate.beta, estimate.base.values, RECOVERY)


@pytest.mark.parametrize("compare", ["torque", "position"])
def test_recovers_an_arm_with_dry_friction_that_stops_and_turns(compare):
    robot = driven_arm(1, joints=3)
    controller = tracking(robot, sines(robot, 1))
    samples = tracked(robot, controller, method="fixed").samples()
    estimate = OutputError(controller, compare, "exact", start=rough(robot, samples), **LOOP).fit(
        equations(robot, samples)
    )
    assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_a_robot_without_drives_and_a_proportional_derivative_controller_serve_too():
    robot = random_robot(3, joints=2, tree=False, special=False, gravity=(0.0, 0.0, -9.81))
    controller = ProportionalDerivative(sines(robot), [400.0, 300.0], [60.0, 40.0])
    samples = tracked(robot, controller).samples()
    estimate = OutputError(controller, "position", start=rough(robot, samples), **LOOP).fit(equations(robot, samples))
    assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_the_loop_is_that_of_simulate():
    robot = driven_arm(2, joints=3)
    controller = tracking(robot, sines(robot))
    motion = tracked(robot, controller, method="fixed")
    base = Regressor(robot).base
    loop = ClosedLoop(robot, base, controller, rate_hz=100.0, rows=len(motion.t), control_rate_hz=CONTROL_HZ)
    found = loop.run(base.values[None], motion.q[0], motion.qd[0])
    for name in ("q", "qd", "qdd", "tau"):
        assert_close(getattr(found, name)[0], getattr(motion, name), 100 * SAME_ALGEBRA)


def test_sensitivities_are_the_derivatives_of_the_simulation():
    robot = driven_arm(4, joints=2)
    controller = tracking(robot, sines(robot))
    base = Regressor(robot).base
    loop = ClosedLoop(robot, base, controller, rate_hz=100.0, rows=100, control_rate_hz=CONTROL_HZ)
    start = loop.reference_start()
    found = loop.sensitivities(base.values, *start)
    for k in range(base.count):
        step = np.zeros(base.count)
        step[k] = 1e-6
        ends = loop.run(np.stack([base.values + step, base.values - step]), *start)
        assert_close(found.q[..., k], (ends.q[0] - ends.q[1]) / 2e-6, 20 * DERIVATIVE)
        assert_close(found.tau[..., k], (ends.tau[0] - ends.tau[1]) / 2e-6, 20 * DERIVATIVE)


def test_noise_of_positions_does_not_matter_and_that_of_torques_is_stated():
    robot = driven_arm(5)
    controller = tracking(robot, sines(robot))
    motion = tracked(robot, controller, method="fixed", seconds=6.0)
    settings = OutputError(controller, **LOOP)
    quiet = settings.fit(equations(robot, encoder_samples(robot, motion, position_noise=1e-3)))
    assert_close(quiet.beta, quiet.base.values, RECOVERY)
    errors = []
    for seed in range(12):
        noisy = encoder_samples(robot, motion, position_noise=1e-3, torque_noise=2.0, seed=seed)
        found = settings.fit(equations(robot, noisy))
        errors.append((found.beta - found.base.values) / found.deviations)
    assert 0.7 < np.std(errors) < 1.4
    assert np.abs(np.mean(errors, axis=0)).max() < 4 / np.sqrt(len(errors))


def test_a_candidate_that_runs_away_is_rejected_and_unstable_steps_are_known():
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    samples = tracked(robot, controller, method="fixed").samples()
    true = LeastSquares().fit(equations(robot, samples))
    with raises(InputError, Code.NOT_CONVERGED, "given"):
        OutputError(controller, start=replace(true, beta=-true.base.values), **LOOP).fit(equations(robot, samples))
    with raises(InputError, Code.NOT_CONVERGED, "given"):
        OutputError(controller, start=replace(true, beta=0.02 * true.base.values), **LOOP).fit(
            equations(robot, samples)
        )
    heavy = replace(true, beta=20.0 * true.base.values)
    estimate = OutputError(controller, jacobian="exact", start=heavy, **LOOP).fit(equations(robot, samples))
    assert estimate.provenance["unstable_candidates"] > 0
    assert "were unstable and were rejected" in estimate.status
    assert not estimate.provenance["settled"]
    assert "NOT settled" in estimate.status


def test_least_squares_that_noise_made_useless_is_replaced_by_regular_values():
    for seed in range(3):
        robot = driven_arm(seed)
        controller = tracking(robot, sines(robot))
        noisy = encoder_samples(robot, tracked(robot, controller, method="fixed"), position_noise=1e-2)
        estimate = OutputError(controller, **LOOP).fit(equations(robot, noisy))
        assert estimate.provenance["start"] == "regular values"
        assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_what_has_not_settled_is_said():
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    samples = tracked(robot, controller, method="fixed").samples()
    far = rough(robot, samples, part=0.3)
    estimate = OutputError(controller, start=far, iterations=1, **LOOP).fit(equations(robot, samples))
    assert not estimate.provenance["settled"]
    assert "NOT settled" in estimate.status


def test_what_it_cannot_treat_is_rejected_by_name():
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    samples = tracked(robot, controller, method="fixed", seconds=1.0).samples()
    for settings, code, subject in (
        ({"compare": "energy"}, Code.UNKNOWN_NAME, "energy"),
        ({"jacobian": "guess"}, Code.UNKNOWN_NAME, "guess"),
        ({"compare": "position", "jacobian": "regressor"}, Code.DISAGREEMENT, "jacobian"),
        ({"iterations": 0}, Code.OUT_OF_RANGE, "iterations"),
        ({"iterations": 2.5}, Code.OUT_OF_RANGE, "iterations"),
    ):
        with raises(InputError, code, subject):
            OutputError(controller, **settings)
    with raises(InputError, Code.INVALID_VALUE, "control_rate_hz"):
        OutputError(controller, control_rate_hz=130.0).fit(equations(robot, samples))
    with raises(InputError, Code.OUT_OF_RANGE, "control_rate_hz"):
        OutputError(controller, control_rate_hz=0.0).fit(equations(robot, samples))
    for unknown in (np.add, [controller]):
        with raises(InputError, Code.WRONG_TYPE, "controller"):
            OutputError(unknown).fit(equations(robot, samples))
    cut = replace(samples, segments=(np.arange(len(samples)) // 50).astype(np.int64))
    with raises(InputError, Code.UNSUPPORTED, "segments"):
        OutputError(controller).fit(equations(robot, cut))
    with raises(InputError, Code.WRONG_SHAPE, "law"):
        OutputError(tracking(driven_arm(0, joints=3), sines(driven_arm(0, joints=3)))).fit(equations(robot, samples))
    q, qd = casadi.SX.sym("q", 2), casadi.SX.sym("qd", 2)
    law = casadi.Function("law", [q, qd], [-q - qd], ["q", "qd"], ["tau"])
    with raises(InputError, Code.MISSING_VALUE, "q_r"):
        OutputError(ControlLaw(law, lambda _times: {}), initial="reference").fit(equations(robot, samples))


@pytest.mark.parametrize(
    ("signals", "code", "subject"),
    [
        (lambda _times: {"gain": 1.0}, Code.MISSING_VALUE, "aim"),
        (lambda times: {"aim": np.zeros((len(times), 1))}, Code.WRONG_SHAPE, "aim"),
        (lambda times: {"aim": np.zeros(len(times))}, Code.WRONG_SHAPE, "aim"),
        (lambda times: {"aim": np.zeros((len(times) - 1, 2))}, Code.WRONG_SHAPE, "aim"),
        (lambda times: {"aim": np.full((len(times), 2), np.nan)}, Code.NOT_FINITE, "signal 'aim'"),
        (lambda times: {"aim": np.zeros((len(times), 2)), "q_r": np.zeros((1, 2))}, Code.WRONG_SHAPE, "q_r"),
    ],
)
def test_signals_that_do_not_fit_their_law_are_rejected(signals, code, subject):
    """The compiled loop reads them without looking: a column or row too few would be memory of something else."""
    robot = driven_arm(0)
    samples = tracked(robot, tracking(robot, sines(robot)), method="fixed", seconds=1.0).samples()
    q, qd, aim = (casadi.SX.sym(name, 2) for name in ("q", "qd", "aim"))
    law = casadi.Function("law", [q, qd, aim], [aim - q - qd], ["q", "qd", "aim"], ["tau"])
    with raises(InputError, code, subject):
        OutputError(ControlLaw(law, signals)).fit(equations(robot, samples))


def test_laws_that_the_loop_cannot_take_are_rejected():
    robot = driven_arm(0)
    samples = tracked(robot, tracking(robot, sines(robot)), method="fixed", seconds=1.0).samples()
    q, other = casadi.SX.sym("q", 2), casadi.SX.sym("other", 2)
    for inputs, outputs, names, code, subject in (
        ([q], [-q, q], ["q"], Code.WRONG_SHAPE, "law"),
        ([q, other], [other - q], ["q", "held"], Code.DUPLICATE, "held"),
        ([other, q], [other - q], ["position", "qd"], Code.MISSING_VALUE, "position"),
    ):
        law = casadi.Function("law", inputs, outputs, names, ["tau", "more"][: len(outputs)])
        with raises(InputError, code, subject):
            OutputError(ControlLaw(law, lambda _times: {})).fit(equations(robot, samples))
