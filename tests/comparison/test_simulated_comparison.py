"""The comparison of methods on a simulated robot: biases, failures and the command."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from equations import equations
from raising import raises
from typer.testing import CliRunner

from mindyn import LeastSquares, compile_model, load_robot
from mindyn.applications import BenchSetting, compare_methods, compare_trajectories
from mindyn.applications.comparison.simulated_comparison import BENCH_METHODS, BenchMethod
from mindyn.applications.comparison.simulated_recordings import make_bench
from mindyn.cli.main import app
from mindyn.foundation.errors import Code, InputError, MindynError

SMALL = BenchSetting(repetitions=3, seconds=8.0, top_hz=0.6)


def shoulder():
    """The first three joints of Yoshida's PUMA, with their drives."""
    return load_robot("puma560_yoshida").lock({"joint4": 0.3, "joint5": 0.2, "joint6": 0.1})


@pytest.fixture(scope="module")
def compared():
    return compare_methods(shoulder(), SMALL)


def test_differentiated_encoders_bias_least_squares_but_not_robust_methods(compared):
    """Yoshida's comparison: least squares shrinks inertias, instruments do not."""
    plain = compared["weighted least squares"].total_bias
    assert plain > 0.05
    assert compared["instrumental variables"].total_bias < 0.75 * plain
    for name in ("closed-loop instruments", "momentum difference", "step by step"):
        assert compared[name].total_bias < 0.35 * plain, name


def test_models_by_steps_and_instruments_move_like_the_robot_and_least_squares_does_not(compared):
    """The conclusion of section 3.6 of the thesis."""
    motion = {name: compared[name].motion.max() for name in BENCH_METHODS}
    assert motion["weighted least squares"] > 3 * max(motion["instrumental variables"], motion["step by step"])


def test_every_method_is_listed_with_its_effort(compared):
    assert [item.method for item in compared.results] == list(BENCH_METHODS)
    assert all(result.tests >= 1 and result.seconds > 0 and result.failed == 0 for result in compared.results)
    for name in BENCH_METHODS:
        assert name in compared.table()
    outcome = json.loads(json.dumps(compared.to_dict()))
    assert outcome["methods"][0]["bias"][0] == compared.results[0].bias[0]


def test_bias_and_spread_are_those_of_repetitions_of_least_squares(compared):
    robot = shoulder()
    bench = make_bench(robot, SMALL)
    clean = bench.clean
    result = [LeastSquares().fit(equations(robot, bench.trial(k).samples)).predict(clean) for k in range(3)]
    size = np.sqrt((clean.tau**2).mean(axis=0))
    wrong = np.mean(result, axis=0) - clean.tau
    assert np.allclose(compared["weighted least squares"].bias, np.sqrt((wrong**2).mean(axis=0)) / size)
    first = LeastSquares().fit(equations(robot, bench.trial(0).samples))
    assert np.allclose(compared["weighted least squares"].motion, compare_trajectories(first, clean).rms)
    scatter = np.array(result) - np.mean(result, axis=0)
    assert np.allclose(compared["weighted least squares"].spread, np.sqrt((scatter**2).mean(axis=(0, 1))) / size)


def test_friction_that_the_model_lacks_biases_everyone():
    methods = ["weighted least squares", "closed-loop instruments"]
    without, with_error = (
        compare_methods(shoulder(), BenchSetting(repetitions=2, seconds=6.0, friction_error=error), methods)
        for error in (0.0, 0.5)
    )
    assert with_error["closed-loop instruments"].total_bias > 3 * without["closed-loop instruments"].total_bias


def test_recordings_of_closed_loops_stay_closed():
    comparison = compare_methods(load_robot("five_bar"), BenchSetting(repetitions=1, seconds=5.0), ["least squares"])
    assert comparison.results[0].failed == 0
    assert len(comparison.joint_names) == 3


def test_the_clean_motion_has_the_torque_of_the_robot():
    robot = load_robot("scara")
    clean = make_bench(robot, BenchSetting(seconds=2.0)).clean
    assert np.allclose(clean.tau, compile_model(robot).inverse_dynamics(clean.q, clean.qd, clean.qdd))


def test_filtering_before_differentiation_helps_least_squares():
    robot = load_robot("scara")
    setting = BenchSetting(repetitions=2, seconds=6.0)
    plain = compare_methods(robot, setting, ["weighted least squares"])
    filtered = BenchSetting(repetitions=2, seconds=6.0, differentiation="filtered")
    better = compare_methods(robot, filtered, ["weighted least squares"])
    assert better.results[0].total_bias < 0.5 * plain.results[0].total_bias


def test_an_executor_changes_no_bit():
    robot, setting, methods = load_robot("planar2"), BenchSetting(repetitions=4, seconds=3.0), ["least squares"]
    counts: list[tuple[int, int]] = []
    (here,) = compare_methods(robot, setting, methods).results
    with ThreadPoolExecutor(2) as threads:
        comparison = compare_methods(
            robot, setting, methods, executor=threads, progress=lambda done, total: counts.append((done, total))
        )
    (there,) = comparison.results
    assert counts == [(k, 4) for k in range(1, 5)]
    assert here.bias.tobytes() == there.bias.tobytes()
    assert here.spread.tobytes() == there.spread.tobytes()
    assert here.total_bias == there.total_bias


def test_a_method_that_fails_is_listed_with_its_reason(monkeypatch):
    def fails(_trial):
        raise InputError("no such log")

    monkeypatch.setitem(BENCH_METHODS, "hopeless", BenchMethod(fails, tests=lambda robot: 3 * robot.joint_count))
    comparison = compare_methods(load_robot("planar2"), BenchSetting(repetitions=2, seconds=2.0), ["hopeless"])
    assert comparison.results[0].failed == 2
    assert comparison.results[0].tests == 6
    assert np.isnan(comparison.results[0].total_bias)
    assert "no such log" in comparison.table()
    assert comparison.to_dict()["methods"][0]["total_bias"] is None


def test_torque_noise_is_independent_of_position_noise():
    """In every repetition, the first included, and as large at each joint as is stated."""
    bench = make_bench(shoulder(), BenchSetting(seconds=5.0, counts_per_revolution=10.0, torque_noise=0.05))
    for number in range(3):
        log = bench.trial(number).log
        torque, position = log.tau - bench.motion.tau, log.q - bench.motion.q
        size = np.sqrt((bench.motion.tau**2).mean(axis=0))
        assert np.allclose(torque.std(axis=0), 0.05 * size, rtol=0.1)
        for joint in range(3):
            assert abs(np.corrcoef(torque[:, joint], position[:, joint])[0, 1]) < 0.15


def test_steps_are_recorded_with_the_noise_of_the_other_methods():
    """The slightest joint's own noise, not that of the strong ones; and breakaways where there is no friction."""
    setting, steps = BenchSetting(repetitions=2, seconds=5.0), BENCH_METHODS["step by step"].fit
    result = steps(make_bench(load_robot("scara"), setting).trial(0))
    true = dict(zip(result.base.names, result.base.values, strict=True))["Izz4"]
    assert abs(result.value("Izz4") - true) < 0.01 * true
    assert compare_methods(load_robot("planar2"), setting, ["step by step"]).results[0].failed == 0


def test_one_repetition_has_no_spread():
    comparison = compare_methods(load_robot("planar2"), BenchSetting(repetitions=1, seconds=2.0), ["least squares"])
    assert comparison.to_dict()["methods"][0]["spread"] == [None, None]
    assert comparison.results[0].total_bias > 0


def test_slow_recordings_keep_their_rows():
    """Below 5 Hz no row is near an end."""
    samples = make_bench(load_robot("planar2"), BenchSetting(seconds=5.0, rate_hz=4.0)).trial(0).samples
    assert samples.usable.all()


def test_robots_pickle_for_other_processes():
    for name in ("puma560_yoshida", "scara", "five_bar"):
        robot = load_robot(name)
        assert pickle.loads(pickle.dumps(robot)) == robot


def test_invalid_settings_raise():
    robot = load_robot("planar2")
    for settings, code, subject in (
        ({"differentiation": "guess"}, Code.UNKNOWN_NAME, "guess"),
        ({"top_hz": 0.05}, Code.OUT_OF_RANGE, "top_hz"),
        ({"top_hz": float("inf")}, Code.OUT_OF_RANGE, "top_hz"),
        ({"seed": -1}, Code.OUT_OF_RANGE, "seed"),
        ({"friction_error": -1.0}, Code.OUT_OF_RANGE, "friction_error"),
    ):
        with raises(InputError, code, subject):
            BenchSetting(**settings)
    with raises(InputError, Code.OUT_OF_RANGE, "repetitions"):
        BenchSetting(repetitions=0)
    with raises(MindynError, Code.UNKNOWN_NAME, "magic"):
        compare_methods(robot, SMALL, ["magic"])
    with raises(InputError, Code.MISSING_VALUE, "planar2"):
        compare_methods(robot, BenchSetting(friction_error=0.1), ["least squares"])


def run(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_the_command_prints_a_table_or_json():
    short = ["planar2", "--repetitions", 2, "--seconds", 3]
    done = run(*short, "--method", "least squares", "--method", "step by step")
    assert done.exit_code == 0, done.output
    assert "step by step" in done.stdout
    data = json.loads(run(*short, "--method", "least squares", "--json").stdout)
    assert data["robot"] == "planar2"
    assert len(data["methods"][0]["bias"]) == 2
    rates = ["--rate-hz", 300, "--control-rate-hz", 900, "--method", "closed-loop instruments", "--json"]
    assert json.loads(run(*short, *rates).stdout)["methods"][0]["failed"] == 0


@pytest.mark.parametrize(
    ("words", "code", "subject"),
    [
        ((), Code.MISSING_VALUE, "robot"),
        (("planar2", "--logs", "logs"), Code.DISAGREEMENT, "--logs"),
        (("--logs", "logs", "--repetitions", 3), Code.DISAGREEMENT, "--logs"),
        (("planar2", "--out", "page.html"), Code.MISSING_VALUE, "--out"),
        (("planar2", "--method", "magic"), Code.UNKNOWN_NAME, "magic"),
        (("planar2", "--workers", 0), Code.OUT_OF_RANGE, "workers"),
    ],
)
def test_the_command_takes_either_a_robot_or_logs(words, code, subject):
    with raises(MindynError, code, subject):
        CliRunner().invoke(app, ["compare", *map(str, words)], standalone_mode=False, catch_exceptions=False)


def test_a_comparison_without_results_is_an_error():
    rates = ("--repetitions", 1, "--seconds", 2, "--rate-hz", 100, "--control-rate-hz", 150)
    words = ["compare", "planar2", "--method", "closed-loop instruments", *map(str, rates)]
    with raises(InputError, Code.NOT_CONVERGED, "--method"):
        CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False)
