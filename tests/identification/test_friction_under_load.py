"""Friction that grows with the load: found in logs, chosen where it is, carried by all that an estimate becomes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, SOLVED, assert_close
from identification.test_candidates import record_log
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.energy_difference import EnergyDifference
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.fitting import find_unsettled_loads, load_change
from mindyn.identification.prediction.friction_curves import friction_curve, load_friction
from mindyn.identification.selection.trials import Trial, Trials
from mindyn.identification.selection.tune import add_load_friction
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, build_regressor, with_estimated_drives
from mindyn.regression.settings import EquationSettings
from mindyn.robots.drive_matrices import drive_load_matrix

TAKEN = (0.12, 0.2)
DRIVEN_MORE = (0.0, 0.05)
WIDTH = 0.05
PROVEN = 1e-9
"""Tolerance of torques if a conic program splits base values into links."""


def with_load(robot, taken=TAKEN, driving=DRIVEN_MORE):
    s, extras = f"tanh(qd / {WIDTH})", []
    for joint, part, more in zip(robot.joint_names, taken, driving, strict=True):
        extras.append(mindyn.ExtraTorque(f"load_{joint}", joint, f"abs(load) * {s}", part))
        extras.append(mindyn.ExtraTorque(f"driving_{joint}", joint, f"load * abs({s})", more))
    return replace(robot, extras=tuple(extras))


@pytest.fixture(scope="module")
def arm():
    return replace(mindyn.load_robot("planar2"), drives=(), extras=())


@pytest.fixture(scope="module")
def samples(arm):
    """A motion whose accelerations are exact, with load friction and a little of the other kinds."""
    log = record_log(arm, 20.0, 9.7, noise=0.0)
    time, q = log.time, log.q
    spline = mindyn.condition(arm, log, Conditioning(motion_hz=None, edge_s=0.0)).samples
    tau = mindyn.compile_model(with_load(arm), with_drives=True).inverse_dynamics(spline.q, spline.qd, spline.qdd)
    tau = tau + 0.3 * spline.qd + 0.5 * np.tanh(spline.qd / WIDTH)
    assert len(time) == len(q)
    return replace(spline, tau=tau)


def fit_with_settled_load(robot, samples, shapes=("load", "driving"), times=9):
    """Least squares with its own values as the reference of the load."""
    friction = Friction("tanh", WIDTH)
    for _ in range(times):
        estimate = mindyn.LeastSquares().fit(build_rows(robot, samples, EquationSettings(friction=friction)))
        friction = Friction("tanh", WIDTH, shapes, reference=tuple(estimate.base_values))
    return estimate.with_own_load()


def test_a_joint_whose_load_has_not_settled_is_named(arm, samples):
    result = fit_with_settled_load(arm, samples)
    equation_settings = replace(result.settings, friction=result.regressor.friction)
    assert find_unsettled_loads(build_rows(arm, samples, equation_settings), result) == []
    other = np.array(result.regressor.friction.reference)
    expected = result.regressor.columns[1]
    alone = [k for k in range(len(other)) if k in expected and result.parameters[k].kind in ("link", "rotor")]
    other[alone] *= 1.5  # the second joint's columns, which the first has too
    moved = replace(equation_settings, friction=replace(equation_settings.friction, reference=tuple(other)))
    rows = build_rows(arm, samples, moved)
    change, load = load_change(rows, result)
    Y = [factor[:, :-1] for factor in rows.information.factors]
    reference = np.where(rows.regressor.rigid, np.append(other, np.zeros(len(result.beta) - len(other))), 0.0)
    assert_close(
        load, [np.sum((item @ reference[c]) ** 2) for item, c in zip(Y, rows.regressor.columns, strict=True)], ORACLE
    )
    assert_close(change[1] / load[1], 1 / 9, SOLVED)
    (note,) = find_unsettled_loads(rows, result)
    assert "joint2 has not settled" in note.message


def test_coefficients_are_found_without_noise(arm, samples):
    result = fit_with_settled_load(arm, samples)
    values = [result.value(f"f_{shape}{k}") for shape in ("load", "driving") for k in (1, 2)]
    # The first joint's share of a driven load is another gain of its torque: the second joint's links determine it.
    assert_close(values[:2], TAKEN, 1e-6)
    assert_close(values[3], DRIVEN_MORE[1], 1e-5)
    assert_close(result.predict(samples), samples.tau, 1e-7)


@pytest.mark.parametrize("coupled", [False, True])
def test_columns_are_the_formula(arm, samples, coupled):
    """If gears couple both joints, each motor carries a combination of both loads."""
    elbow = mindyn.Drive("joint2", -40.0, {"joint1": 13.0} if coupled else {}, side="motor")
    robot = replace(arm, drives=(mindyn.Drive("joint1", 50.0, side="motor"), elbow))
    plain = Regressor(robot)
    reference = np.random.default_rng(1).normal(size=plain.base.count)
    friction = Friction("tanh", WIDTH, ("load", "driving"), reference=tuple(reference))
    regressor = Regressor(robot, friction, plain.base, plain.kernel)
    q, qd, qdd = (item[:50] for item in (samples.q, samples.qd, samples.qdd))
    directions = regressor.directions(q, qd, np.zeros(50, dtype=np.int64), 100.0)
    Y = regressor.dense(regressor.parts(q, qd, qdd, directions))
    rigid = [parameter.kind in ("link", "rotor") for parameter in plain.parameters]
    load = plain.dense(plain.parts(q, qd, qdd)) @ np.where(rigid, reference, 0.0)
    G = np.array([[50.0, 0.0], [13.0 if coupled else 0.0, -40.0]])
    ratios = np.array([50.0, -40.0])
    u, motor = qd @ (G / ratios[:, None]).T, np.linalg.solve(G.T, load.T).T * ratios
    assert_close(load @ drive_load_matrix(robot), motor, SAME_ALGEBRA)
    s = np.tanh(u / WIDTH)
    for k in range(2):
        for shape, law in (("load", np.abs(motor) * s), ("driving", motor * np.abs(s))):
            column = Y[:, :, regressor.names.index(f"f_{shape}{k + 1}")]
            assert_close(column, law[:, k : k + 1] * G[k] / ratios[k], SAME_ALGEBRA)


@pytest.mark.parametrize("friction", ["fitted", "sign"])
def test_a_robot_made_of_an_estimate_has_its_torques(arm, samples, friction, tmp_path):
    estimate = fit_with_settled_load(arm, samples)
    if friction == "sign":
        law = replace(estimate.regressor.friction, direction="sign", width=0.0)
        equation_settings = replace(estimate.settings, friction=law)
        estimate = replace(estimate, regressor=estimate.regressor.with_friction(law)).with_data(
            settings=equation_settings
        )
    model = mindyn.build_full_model(estimate, friction_at_zero=friction)
    tau = mindyn.compile_model(model, with_drives=True).inverse_dynamics(samples.q, samples.qd, samples.qdd)
    assert_close(tau, estimate.predict(samples), PROVEN)
    estimate.save(tmp_path / "found.json")
    assert_close(
        mindyn.load_estimate(tmp_path / "found.json").predict(samples), estimate.predict(samples), SAME_ALGEBRA
    )


def test_a_projected_estimate_uses_its_own_load(arm, samples):
    result = fit_with_settled_load(
        arm, replace(samples, tau=samples.tau + np.random.default_rng(0).normal(0, 5, samples.tau.shape))
    )
    projected = mindyn.make_feasible(result)
    model = mindyn.compile_model(mindyn.build_full_model(projected, friction_at_zero="fitted"), with_drives=True)
    assert_close(model.inverse_dynamics(samples.q, samples.qd, samples.qdd), projected.predict(samples), SAME_ALGEBRA)


def test_load_friction_is_selected_if_present(arm):
    """And not where there is none: a setting that adds freedom must predict blocks that it has not seen."""
    for truth, wanted in ((with_load(arm, driving=(0.0, 0.0)), True), (with_drives(arm), False)):
        assert ("load" in select_load_shapes(arm, truth).friction.shapes) is wanted


def select_load_shapes(arm, truth):
    conditioning = Conditioning(motion_hz=None, delay_s=0.0, edge_s=0.1, rate_hz=100.0)
    equation_settings = EquationSettings(conditioning, friction=Friction("tanh", WIDTH))
    trials = Trials(
        mindyn.Experiment(arm, simulate_loaded_log(arm, truth)),
        build_regressor(with_estimated_drives(arm), equation_settings),
    )
    return add_load_friction(trials, Trial(equation_settings))


def test_an_estimate_stores_its_own_values_as_the_reference(arm):
    log = simulate_loaded_log(arm, with_load(arm, driving=(0.0, 0.0)))
    settings = EquationSettings(Conditioning(motion_hz=None, delay_s=0.0), friction="auto")
    estimate = mindyn.identify(arm, log, mindyn.LeastSquares(), settings)
    assert "load" in estimate.regressor.friction.shapes
    assert abs(estimate.value("f_load1") - TAKEN[0]) < 0.02
    assert estimate.settings.friction == estimate.regressor.friction
    assert estimate.regressor.friction.reference == tuple(estimate.base_values)


def test_a_given_estimator_keeps_the_limits_of_selected_shapes(arm):
    """Least squares within the limits; without shapes its own setting stays; a given one is not changed."""
    settings = EquationSettings(Conditioning(motion_hz=None, delay_s=0.0), friction="auto")
    log, plain = (
        simulate_loaded_log(arm, with_load(arm, driving=(0.0, 0.0))),
        simulate_loaded_log(arm, with_drives(arm)),
    )
    shaped = mindyn.choose(arm, log, mindyn.LeastSquares(), settings)
    assert shaped.settings.shape.shapes
    assert shaped.estimator.friction_rule == "dissipative"
    for given in ("free", "dissipative"):
        choice = mindyn.choose(arm, plain, mindyn.LeastSquares(friction_rule=given), settings)
        assert not choice.settings.shape.shapes
        assert choice.estimator.friction_rule == given


@pytest.mark.parametrize("needs", [True, False])
def test_other_estimators_lose_shapes_that_need_limits(arm, needs, monkeypatch):
    monkeypatch.setattr(Trials, "needs_limits", lambda *_: needs)
    settings = EquationSettings(Conditioning(motion_hz=None, delay_s=0.0), friction="auto")
    log = simulate_loaded_log(arm, with_load(arm, driving=(0.0, 0.0)))
    choice = mindyn.choose(arm, log, mindyn.InstrumentalVariables(), settings)
    assert bool(choice.settings.shape.shapes) is not needs


def test_a_stated_shape_gets_its_reference(arm):
    log = simulate_loaded_log(arm, with_load(arm))
    stated = EquationSettings(Conditioning(motion_hz=None, delay_s=0.0), friction=Friction("tanh", WIDTH, ("load",)))
    estimate = mindyn.identify(arm, log, mindyn.LeastSquares(), stated)
    assert abs(estimate.value("f_load1") - TAKEN[0]) < 0.02


def test_a_load_that_would_lock_its_gear_is_something_else(arm):
    """No arm's links turn a gear whose friction is more than its load: what looks like it is left out."""
    result = select_load_shapes(arm, with_load(arm, taken=(0.12, 1.4), driving=(0.0, 0.0)))
    assert result.friction.shapes == ("load",)
    assert result.friction.without == (("joint2", "load"),)


def with_drives(arm):
    return replace(arm, drives=(mindyn.Drive("joint1", viscous=1.0), mindyn.Drive("joint2")))


def simulate_loaded_log(arm, truth, noise=0.02):
    log = record_log(arm, 15.0, 11.3, noise=0.0)
    rest = mindyn.condition(arm, log, Conditioning(motion_hz=None, edge_s=0.0)).samples
    tau = mindyn.compile_model(truth, with_drives=True).inverse_dynamics(rest.q, rest.qd, rest.qdd)
    tau = tau + 2 * np.tanh(rest.qd / WIDTH) + noise * tau.std(axis=0) * np.random.default_rng(2).normal(size=tau.shape)
    return log_from_arrays(arm.joint_names, log.time[: len(tau)], rest.q, tau, rest.qd)


def test_the_friction_curve_excludes_the_load_and_reports_it(arm, samples):
    result = fit_with_settled_load(arm, samples)
    curve = friction_curve(result, 1, [-1.0, -0.5, 0.5, 1.0])
    assert_close(curve.torque, [-0.8, -0.65, 0.65, 0.8], 1e-3)
    driven, braked = load_friction(result, 1)
    assert_close([driven, braked], [0.25, 0.15], 1e-4)
    assert load_friction(fit_with_settled_load(arm, samples, shapes=()), 0) is None


def test_physical_values_never_drive(arm, samples):
    """f_load +- f_driving >= 0 are rows of what is physical."""
    space = space_of(fit_with_settled_load(arm, samples).regressor)
    x = np.zeros(space.size)
    x[space.labels.index("f_load2")] = 0.1
    for half, possible in ((0.09, True), (-0.09, True), (0.11, False), (-0.11, False)):
        x[space.labels.index("f_driving2")] = half
        assert bool((space.braking_rows @ x >= 0).all()) is possible


def test_a_payload_is_weighed_with_friction_that_grows_by_it(arm, samples):
    """Its weight lets the gears take more: a fit that does not know so finds too much."""
    estimate = fit_with_settled_load(arm, samples)
    estimate = estimate.with_uncertainty(covariance=np.diag(np.maximum(1e-8, (1e-4 * estimate.beta) ** 2)))
    heavy = with_load(arm).with_payload(mass=6.0, com=(0.1, 0, 0), inertia=0.02 * np.eye(3))
    tau = mindyn.compile_model(heavy, with_drives=True).inverse_dynamics(samples.q, samples.qd, samples.qdd)
    run = replace(samples, tau=tau + 0.3 * samples.qd + 0.5 * np.tanh(samples.qd / WIDTH))
    assert abs(mindyn.identify_payload(estimate, run).mass - 6.0) < 0.05


def test_functions_without_a_known_load_raise_an_error(arm, samples):
    result = fit_with_settled_load(arm, samples)
    rows = build_rows(arm, samples, result.settings)
    with raises(InputError, Code.UNSUPPORTED, "friction"):
        EnergyDifference("momentum").fit(rows)
    assert not EnergyDifference("momentum").settings_for(arm, result.settings).shape.needs_load
    with raises(InputError, Code.MISSING_VALUE, "reference"):
        build_rows(arm, samples, EquationSettings(friction=Friction("tanh", WIDTH, ("load",))))
    with raises(InputError, Code.INVALID_VALUE, "friction.reference[0]"):
        Friction("tanh", WIDTH, ("load",), reference=(float("nan"),))
    with raises(InputError, Code.UNSUPPORTED, "friction"):
        Regressor(mindyn.load_robot("five_bar"), Friction("tanh", WIDTH, ("load",), reference=(1.0,)))


def test_streams_and_samples_agree(arm, samples):
    """Blocks of a stream carry the same load columns."""
    result = fit_with_settled_load(arm, samples)
    parts = [samples.take(slice(k, k + 700)) for k in range(0, len(samples), 700)]
    assert all(isinstance(part, Samples) for part in parts)
    whole = build_rows(arm, samples, result.settings).information
    stream = build_rows(arm, iter(parts), result.settings).information
    for factor, other in zip(whole.factors, stream.factors, strict=True):
        assert_close(factor.T @ factor, other.T @ other, SAME_ALGEBRA)
