"""Logs that are short, dead at a joint or stamped twice: an estimate that can be saved, or an error of ours.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.coloured_noise import LONGEST_MEMORY, _fit_process, sandwich
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicError, ConicProgram
from mindyn.identification.selection.choose import Choice
from mindyn.logs.log_errors import LogError

ARM = mindyn.load_robot("planar2")


def build_log(rows, rate_hz, *, torque=(1.0, 1.0), stamps=None):
    t = np.arange(rows) / rate_hz
    q = np.column_stack([np.sin(2.0 * t) + 0.4 * np.sin(5.1 * t), np.cos(3.3 * t) + 0.3 * np.sin(1.1 * t)])
    qd, qdd = (np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0))
    tau = mindyn.compile_model(ARM).inverse_dynamics(q, qd, qdd) * np.asarray(torque)
    noise = np.random.default_rng(1).normal(scale=1e-3, size=q.shape) * np.asarray(torque)
    return mindyn.log_from_arrays(ARM.primary_names, t if stamps is None else stamps(t), q, tau + noise)


def save_and_load(estimate, tmp_path):
    estimate.save(tmp_path / "estimate.json")
    return mindyn.load_estimate(tmp_path / "estimate.json")


def test_a_log_too_short_to_select_settings_is_reported_and_its_estimate_loads(tmp_path):
    estimate = mindyn.identify(ARM, [build_log(30, 20.0)])
    assert estimate.data.cross_validated is None
    assert any("too short to select" in str(note) for note in messages(estimate))
    assert not any("by cross-validation" in str(note) for note in messages(estimate))
    assert np.array_equal(save_and_load(estimate, tmp_path).beta, estimate.beta)


def test_settings_are_chosen_by_the_joints_that_have_torque(tmp_path):
    estimate = mindyn.identify(ARM, [build_log(500, 100.0, torque=(1.0, 0.0))])
    assert estimate.data.cross_validated is not None
    assert 0 < estimate.data.cross_validated.mean < 1
    assert np.array_equal(save_and_load(estimate, tmp_path).beta, estimate.beta)


def test_arrays_are_cleaned_as_files_are():
    log = build_log(400, 100.0, stamps=lambda t: np.where(t == t[200], t[199], t))
    assert len(log) == 399
    assert 200 not in log.rows
    assert messages(log) == ("1 of 400 rows of the log repeat the stamp of the row before; dropped",)
    with raises(LogError, Code.INVALID_VALUE, "time"):
        build_log(400, 100.0, stamps=lambda t: np.where(t == t[200], t[197], t))


def test_rows_that_are_not_numbers_are_excluded():
    log = build_log(400, 100.0)
    tau = np.array(log.tau)
    tau[7, 1] = np.nan
    created = mindyn.log_from_arrays(ARM.primary_names, log.time, log.q, tau, name="bench")
    assert 7 not in created.rows
    assert messages(created) == (
        "1 of 400 rows of bench hold NaN, infinity or more than 1e+30: torque of joint2 (1); dropped",
    )


def test_nothing_rests_on_a_joint_whose_torque_is_zero():
    dead, sound = (build_log(1500, 100.0, torque=(1.0, last)) for last in (0.0, 1.0))
    rows = [mindyn.build_rows(ARM, [log], mindyn.EquationSettings(mindyn.Conditioning())) for log in (dead, sound)]
    estimate = mindyn.LeastSquares().fit(rows[0])
    assert estimate.data.joint_weights is not None
    assert estimate.data.joint_weights[1] == 0
    assert "fo2" in estimate.values.unidentifiable
    whole = mindyn.LeastSquares().fit(rows[1])
    first = rows[1].regressor.columns[0]
    Y = np.vstack([rows[0].information.factors[0][:, :-1]])
    assert np.linalg.norm(Y @ (estimate.beta - whole.beta)[first]) < 1e-3 * np.linalg.norm(Y @ whole.beta[first])


def test_friction_that_no_row_excites_is_zero_in_a_physical_fit():
    arm, dead = (
        mindyn.load_robot("scara", lock={"joint3": 0.0, "joint4": 0.0}),
        build_log(300, 100.0, torque=(1.0, 0.0)),
    )
    log = mindyn.log_from_arrays(arm.primary_names, dead.time, dead.q, dead.tau)
    rows = mindyn.build_rows(arm, [log], mindyn.EquationSettings(mindyn.Conditioning()))
    estimate = PhysicallyConsistent(prior_weight=1e-3, kinds="all").fit(rows)
    assert {
        name: value for name, value in zip(estimate.names, estimate.beta, strict=True) if name in ("fv2", "fc2", "fo2")
    } == {
        "fv2": 0.0,
        "fc2": 0.0,
        "fo2": 0.0,
    }


def test_an_innovation_is_never_below_zero():
    lags = np.cos(0.01 * np.arange(LONGEST_MEMORY + 1))  # a sine: predicted without error
    for scale in (1.0, 1 - 1e-12):
        _, variance = _fit_process(np.append(1.0, scale * lags[1:]), 1e4)
        assert variance > 0
    assert _fit_process(np.ones(LONGEST_MEMORY + 1), 1e4)[1] > 0


def test_covariances_have_no_negative_direction_and_keep_small_parameters():
    rng = np.random.default_rng(3)
    scales = 10.0 ** np.array([-8, -3, 0, 4, 9])
    half = rng.normal(size=(5, 5)) * scales[:, None]
    bread = np.diag(1 / scales)
    expected = (bread @ half) @ (bread @ half).T
    assert np.allclose(sandwich(bread, half @ half.T), expected, rtol=1e-9, atol=0)
    lost = half[:, :1] @ half[:, :1].T
    assert np.diag(sandwich(np.linalg.pinv(half @ half.T), lost)).min() >= 0


def test_a_program_of_huge_residuals_is_solved_with_the_cost_of_its_own_scale(monkeypatch):
    program = ConicProgram(2)
    program.add_squares(np.array([[3.0, 1.0], [0.0, 2.0], [1.0, 1.0]]), np.array([1.0, -2.0, 0.5]))
    program.add_rows(ConeRows("nonnegative", np.eye(2), np.zeros(2)))
    plain = program.solve()
    monkeypatch.setattr("mindyn.identification.feasibility.optimisation.conic_program.RESIDUAL_DIVISORS", (30.0,))
    shrunk = program.solve()
    assert np.allclose(shrunk.x, plain.x, atol=1e-6)
    assert shrunk.cost == pytest.approx(plain.cost, rel=1e-6)
    assert plain.x[1] == pytest.approx(0.0, abs=1e-6)


def test_least_squares_is_used_if_the_selected_conic_fit_is_not_solved(monkeypatch):
    def unsolved(*_):
        raise ConicError("the conic program was not solved: NumericalError")

    log, equation_settings = build_log(300, 100.0), mindyn.EquationSettings(mindyn.Conditioning())
    chosen = Choice(PhysicallyConsistent(), equation_settings, (), None, ())
    monkeypatch.setattr("mindyn.identification.identify.select", lambda *_, **__: chosen)
    monkeypatch.setattr(PhysicallyConsistent, "fit", unsolved)
    estimate = mindyn.identify(ARM, [log])
    assert estimate.provenance.method == "least squares"
    assert any(
        "was not solved: NumericalError: the values are those of least squares" in str(note)
        for note in messages(estimate)
    )
    with raises(ConicError, Code.NOT_CONVERGED, ""):
        mindyn.identify(ARM, [log], PhysicallyConsistent())


def test_arrays_of_a_log_may_be_lists_and_must_be_numbers():
    log = build_log(50, 100.0)
    created = mindyn.log_from_arrays(list(ARM.primary_names), log.time.tolist(), log.q.tolist(), log.tau.tolist())
    assert np.array_equal(created.q, log.q)
    with raises(InputError, Code.WRONG_TYPE, "q"):
        mindyn.log_from_arrays(ARM.primary_names, log.time, [["a", "b"]] * 50, log.tau)
    with raises(InputError, Code.WRONG_TYPE, "joint_names"):
        mindyn.log_from_arrays(3, log.time, log.q, log.tau)
    with raises(InputError, Code.WRONG_TYPE, "q"):
        mindyn.log_from_arrays(ARM.primary_names, log.time, np.ma.masked_less(log.q, 0), log.tau)


def test_file_names_in_place_of_robots_and_logs_raise_an_error_that_names_the_reader(tmp_path):
    doors = [
        lambda robot: mindyn.identify(robot, [build_log(50, 100.0)]),
        lambda robot: mindyn.build_rows(robot, [build_log(50, 100.0)], mindyn.EquationSettings(mindyn.Conditioning())),
        lambda robot: mindyn.compile_model(robot),
        lambda robot: mindyn.base_parameters(robot),
        lambda robot: mindyn.read_log(tmp_path / "log.csv", robot),
        lambda robot: mindyn.design_motion(robot, seconds=2.0),
        lambda robot: mindyn.simulate(robot, lambda *_: np.zeros(2), seconds=1.0, q0=np.zeros(2)),
    ]
    for door in doors:
        with raises(InputError, Code.WRONG_TYPE, "robot"):
            door("arm.urdf")
    with raises(InputError, Code.WRONG_TYPE, "logs"):
        mindyn.identify(ARM, ["run1.csv"])


def test_a_constant_torque_has_as_little_weight_as_a_zero_torque():
    settings = mindyn.EquationSettings(mindyn.Conditioning())
    dead, stuck = (build_log(600, 100.0, torque=(1.0, 0.0)) for _ in range(2))
    stuck = replace(stuck, tau=stuck.tau + np.array([0.0, 3.7]))
    zero, constant = (mindyn.identify(ARM, log, mindyn.LeastSquares(), settings) for log in (dead, stuck))
    assert constant.data.joint_weights[1] == 0.0
    assert np.array_equal(constant.beta, zero.beta)
    assert "the torque of joint2 never changes" in messages(constant)[0]
    every = replace(stuck, tau=np.full_like(stuck.tau, 3.7))
    assert "never changes" in str(mindyn.identify(ARM, every, mindyn.LeastSquares(), settings).findings[0])


def test_a_constant_torque_has_no_weight_in_a_stream(tmp_path):
    settings, path = mindyn.EquationSettings(mindyn.Conditioning(), equations_hz=8.0), tmp_path / "stuck.csv"
    stuck = build_log(600, 100.0, torque=(1.0, 0.0))
    table = np.column_stack([stuck.time, stuck.q, stuck.tau + np.array([0.0, 3.7])])
    np.savetxt(path, table, delimiter=",", header="t,q1,q2,tau1,tau2", comments="")
    stated = {
        "columns": {"time": "t", "position": "q{i}", "torque": "tau{i}"},
        "units": {"time": "s", "position": "rad", "torque": "N m"},
        "side": "joint",
    }
    read, streamed = (
        mindyn.identify(ARM, log, mindyn.LeastSquares(), settings)
        for log in (mindyn.read_log(path, ARM, metadata=stated), mindyn.scan_log(path, ARM, metadata=stated))
    )
    assert read.data.joint_weights[1] == streamed.data.joint_weights[1] == 0.0
    assert_close(streamed.beta, read.beta, SAME_ALGEBRA)
    assert streamed.provenance.notes["samples"] == read.provenance.notes["samples"]
