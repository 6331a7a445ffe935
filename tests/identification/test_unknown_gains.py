"""Unknown gains of currents and position servos: ratios with intervals, the free scale and what fixes it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars
import pytest
import servos
from cli.program import mindyn_program
from honesty.servo_filters import FIXED, band_error, recorded
from raising import raises
from servos import DAMPING, FRICTION, JOINTS, KP, KV, leg_targets, leg_xml, simulate_leg

import mindyn
from mindyn.foundation import Pose
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind, Severity
from mindyn.identification import EstimatedGains, WeighedLoad, estimate_gains, group_gains
from mindyn.identification.gains_before_fit import gain_findings
from mindyn.identification.selection.choose import choose
from mindyn.identification.unknown_gains import MAX_HALF_WIDTH
from mindyn.logs import AS_LOGGED, log_from_targets
from mindyn.logs.log_errors import LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.servos import apply_gains
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor, with_estimated_drives

RATE = 200.0
HOLD = 0.5 / RATE
SETTINGS = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=16.0), 10.0, 2, Friction("tanh", 0.03))
LOAD = 0.6


@pytest.fixture(scope="module")
def leg(tmp_path_factory):
    path = tmp_path_factory.mktemp("leg") / "leg.xml"
    path.write_text(leg_xml())
    return mindyn.load_robot(path)


def record(kp, kd=None, *, seconds=16, seed=0, load=0.0, held=None):
    """A log of the leg with rounded, noisy positions; `held` joints keep their first target."""
    t, target = leg_targets(seconds, RATE, seed)
    if held is not None:
        target[:, held] = target[0, held]
    q = simulate_leg(target, RATE, load) + np.random.default_rng(seed).normal(0, 1e-4, target.shape)
    return log_from_targets(JOINTS, t, np.round(q / 1.5e-4) * 1.5e-4, target, kp, kd, target_delay_s=HOLD)


@pytest.fixture(scope="module")
def log():
    return record("unknown", "unknown")


def test_ratios_are_within_their_intervals_and_the_scale_is_free(leg, log):
    gains = estimate_gains(leg, [log], SETTINGS, "free")
    assert gains.values[JOINTS.index(gains.reference)] == pytest.approx(1.0)
    ratios, half_widths = gains.ratios("hip")
    assert (np.abs(ratios - KP / KP[0]) <= half_widths).all()
    assert (half_widths[1:] < 0.04).all()
    assert not gains.undetermined
    doubled = replace(log, tau=2.0 * log.tau)
    np.testing.assert_allclose(estimate_gains(leg, [doubled], SETTINGS, "free").values, gains.values, rtol=1e-6)


def test_gains_in_the_settings_of_an_estimate_are_ignored(leg, log):
    gains = estimate_gains(leg, [log], SETTINGS, "free")
    used = replace(SETTINGS, conditioning=replace(SETTINGS.conditioning, gains=tuple(map(float, gains.values))))
    np.testing.assert_allclose(estimate_gains(leg, [log], used, "free").values, gains.values, rtol=1e-12)


def test_one_known_value_of_any_kind_fixes_the_scale(leg, log):
    shaped = replace(SETTINGS, friction=Friction("tanh", 0.03, ("stribeck",)))
    by_file = estimate_gains(leg, [log], shaped, "robot")
    known = record({"hip": KP[0], "thigh": "unknown", "calf": "unknown"})
    by_gain = estimate_gains(leg, [known], SETTINGS)
    regressor = Regressor(with_estimated_drives(leg))
    name = "mcz3"
    value = float(regressor.base.values[regressor.base.names.index(name)])
    by_parameter = estimate_gains(leg, [log], SETTINGS, {name: value})
    by_load = estimate_gains(leg, [log], SETTINGS, WeighedLoad([record("unknown", seed=3, load=LOAD)], LOAD))
    assert [g.scale for g in (by_file, by_gain, by_parameter, by_load)] == [
        "robot file",
        "known gain",
        "mcz3",
        "weighed load",
    ]
    assert by_gain.unknown == ("thigh", "calf")
    for gains in (by_file, by_parameter, by_load):
        np.testing.assert_allclose(gains.values, KP, rtol=0.06)
    np.testing.assert_allclose(by_gain.values[1:], KP[1:], rtol=0.02)


def test_identify_runs_end_to_end_and_applies_the_gains_to_other_logs(leg, log, tmp_path):
    estimate = mindyn.identify(leg, log, mindyn.LeastSquares(), SETTINGS)
    kinds = {finding.kind for finding in estimate.findings if finding.severity is Severity.WARNING}
    assert kinds == {Kind.FREE_SCALE}
    values = dict(zip(estimate.names, estimate.beta, strict=True))
    np.testing.assert_allclose([values[f"fc{k}"] for k in (1, 2, 3)], FRICTION, rtol=0.08)
    np.testing.assert_allclose([values[f"fv{k}"] for k in (1, 2, 3)], DAMPING + KV, rtol=0.05)
    estimate.save(tmp_path / "estimate.json")
    loaded = mindyn.load_estimate(tmp_path / "estimate.json")
    np.testing.assert_allclose(loaded.data.servo.kp, KP, rtol=0.03)
    other = record("unknown", "unknown", seconds=8, seed=5)
    assert mindyn.validate(loaded, other).error.total < 0.05
    rows = mindyn.build_rows(leg, apply_gains(log, loaded.data.servo.kp), SETTINGS)
    wider = np.diag(estimate.covariance) > 1.02 * np.diag(mindyn.LeastSquares().fit(rows).covariance)
    assert wider[[estimate.names.index(name) for name in ("fc1", "fc2", "fc3")]].all()


@pytest.mark.parametrize("kp", ["unknown", KP.tolist()])
def test_kd_is_found_if_the_target_velocity_moves(leg, kp, tmp_path):
    """Without the column of the target velocity, gains and friction of these logs are wrong by 10 % and more."""
    t, target = leg_targets(16, RATE)
    speed = leg_targets(16, RATE, seed=8)[1] - leg_targets(16, RATE, seed=8)[1].mean(axis=0)
    q = simulate_leg(target, RATE, speed=speed) + np.random.default_rng(0).normal(0, 1e-4, target.shape)
    log = log_from_targets(JOINTS, t, q, target, kp, "unknown", target_velocity=speed, target_delay_s=HOLD)
    gains = estimate_gains(leg, [log], SETTINGS)
    assert (np.abs(gains.damping - KV) <= gains.factor * gains.damping_deviations + 0.01 * KV).all()
    assert (gains.damping_deviations < 0.03 * KV).all()
    estimate = mindyn.identify(leg, log, mindyn.LeastSquares(), SETTINGS)
    values = dict(zip(estimate.names, estimate.beta, strict=True))
    np.testing.assert_allclose([values[f"fv{k}"] for k in (1, 2, 3)], DAMPING, atol=0.04)
    np.testing.assert_allclose(estimate.data.servo.kd, KV, rtol=0.03)
    np.testing.assert_allclose(estimate.data.servo.kp, KP, rtol=0.03)
    assert "kd of hip" in next(f.message for f in estimate.findings if f.kind is Kind.ESTIMATED_GAINS)
    estimate.save(tmp_path / "estimate.json")
    assert mindyn.validate(mindyn.load_estimate(tmp_path / "estimate.json"), log).error.total < 0.03


def test_a_gain_that_the_log_does_not_excite_is_reported(leg):
    still = record("unknown", "unknown", seconds=12, held=2)
    findings = gain_findings(estimate_gains(leg, [still], SETTINGS))
    assert [finding.joints for finding in findings if finding.kind is Kind.POOR_GAIN] == [("calf",)]


@pytest.mark.parametrize(("error", "seed"), [(0.1, 0), (0.1, 2), (0.2, 0), (0.2, 1), (0.2, 2)])
def test_a_gain_is_near_its_true_value_or_reported_if_joints_move_alike_and_the_model_has_errors(leg, error, seed):
    """Errors of the model repeat in all blocks: a jackknife gave a ratio of 23 000 with an interval of 50 %."""
    rng, t = np.random.default_rng(seed), np.arange(20 * int(RATE)) / RATE
    chirp = np.sin(2 * np.pi * (0.1 * t + 2.9 * t**2 / 40))
    target = np.array([0.1, 0.6, -1.2]) + chirp[:, None] * [0.15, 0.3, 0.3] * rng.uniform(0.8, 1.2, 3)
    q = simulate_leg(target, RATE) + rng.normal(0, 1e-4, target.shape)
    angle = 20 * (q - q.mean(axis=0)) + rng.uniform(0, 6, 3)
    wrong = target + error * (target - q).std(axis=0) * np.sin(angle)
    gains = estimate_gains(
        leg, [log_from_targets(JOINTS, t, q, wrong, "unknown", "unknown", target_delay_s=HOLD)], SETTINGS
    )
    assert gains.undetermined
    ratios = gains.ratios(gains.reference)[0] / (KP / KP[JOINTS.index(gains.reference)])
    assert all(0.6 < ratio < 1.7 for name, ratio in zip(JOINTS, ratios, strict=True) if name not in gains.undetermined)


@pytest.mark.parametrize(("relative", "is_reported"), [(0.9, False), (1.1, True)])
def test_gains_with_wide_intervals_are_reported(relative, is_reported):
    covariance = np.diag([1e-4, (relative * MAX_HALF_WIDTH / 2.0) ** 2])
    gains = EstimatedGains(("a", "b"), np.ones(2), covariance, 2.0, "known gain", "a", ("a", "b"), ())
    poor = [finding.joints for finding in gain_findings(gains) if finding.kind is Kind.POOR_GAIN]
    assert poor == ([("b",)] if is_reported else [])


def test_a_reversed_signal_is_one_finding(leg, log):
    reversed_log = replace(log, target=2 * log.q - log.target, tau=log.tau * [1.0, -1.0, 1.0])
    gains = estimate_gains(leg, [reversed_log], SETTINGS)
    assert np.sign(gains.values).tolist() == [1.0, -1.0, 1.0]
    wrong = [f.joints for f in gain_findings(gains) if f.kind is Kind.WRONG_TORQUE_SIGN]
    assert wrong == [("thigh",)]


def test_currents_of_unknown_gain_are_estimated_from_a_sidecar(leg, tmp_path):
    source = record(KP, KV)
    columns = {"t": source.time} | {f"q.{j}": source.q[:, k] for k, j in enumerate(JOINTS)}
    constants = np.array([0.8, 1.1, 0.5])
    columns |= {f"i.{j}": source.tau[:, k] / constants[k] for k, j in enumerate(JOINTS)}
    polars.DataFrame(columns).write_csv(tmp_path / "run.csv")
    (tmp_path / "run.csv.toml").write_text(
        'side = "joint"\ncurrent_gains = "unknown"\n'
        'columns = { time = "t", position = "q.{joint}", torque = "i.{joint}" }\n'
        'units = { time = "s", position = "rad", torque = "A" }\n'
    )
    whole = mindyn.read_log(tmp_path / "run.csv", leg)
    gains = estimate_gains(leg, [whole], SETTINGS)
    np.testing.assert_allclose(gains.values, constants, rtol=0.05)
    scan = mindyn.scan_log(tmp_path / "run.csv", leg)
    estimate = mindyn.identify(leg, scan, mindyn.LeastSquares(), SETTINGS)
    np.testing.assert_allclose(estimate.settings.conditioning.gains, gains.values, rtol=1e-6)


@pytest.mark.parametrize("name", ["panda", "puma560", "ur10", "stanford", "five_bar"])
def test_one_scale_of_an_arm_is_free(name):
    robot = mindyn.load_robot(name)
    assert group_gains(robot) == (robot.primary_names,)


def test_gain_groups_are_those_that_no_motion_connects(leg):
    scara = mindyn.load_robot("scara")
    turning = tuple(joint.name for joint in scara.joints if joint.kind == "revolute")
    assert set(group_gains(scara)) == {turning, tuple(set(scara.joint_names) - set(turning))}
    assert group_gains(leg) == (JOINTS,)
    slide = [
        mindyn.Joint("x", "prismatic", "base", "beam", Pose(None, (0, 0, 0)), np.array([1.0, 0, 0])),
        mindyn.Joint("y", "prismatic", "beam", "head", Pose(None, (0, 0, 0)), np.array([0, 1.0, 0])),
    ]
    links = (mindyn.Link("base"), mindyn.Link("beam", np.eye(10)[0]), mindyn.Link("head", np.eye(10)[0]))
    gantry = mindyn.Robot("gantry", links[0], tuple(slide), links[1:])
    assert group_gains(gantry) == (("x",), ("y",))


def test_wrong_inputs_raise(leg, log):
    with raises(InputError, Code.MISSING_VALUE, "logs"):
        estimate_gains(leg, [record(KP, seconds=2)], SETTINGS)
    with raises(InputError, Code.DISAGREEMENT, "logs"):
        estimate_gains(leg, [log, record({"hip": 1.0, "thigh": "unknown", "calf": "unknown"}, seconds=2)], SETTINGS)
    with raises(InputError, Code.UNKNOWN_NAME, "mcz9"):
        estimate_gains(leg, [log], SETTINGS, {"mcz9": 1.0})
    with raises(InputError, Code.OUT_OF_RANGE, "mcz3"):
        estimate_gains(leg, [log], SETTINGS, {"mcz3": 0.0})
    with raises(LogError, Code.INVALID_VALUE, "kp"):
        log_from_targets(JOINTS, log.time, log.q, log.target, "guess")


def test_the_command_reads_unknown_gains_and_scales(tmp_path):
    t, target = leg_targets(3, RATE)
    q = simulate_leg(target, RATE)
    columns = {"t": t} | {f"q{k}": q[:, k] for k in range(3)} | {f"cmd{k}": target[:, k] for k in range(3)}
    polars.DataFrame(columns).write_csv(tmp_path / "run.csv")
    (tmp_path / "leg.xml").write_text(leg_xml())
    (tmp_path / "run.csv.toml").write_text(
        f'side = "joint"\nkp = "unknown"\nkd = "unknown"\ntarget_delay_s = {HOLD}\n'
        'columns = { time = "t", position = "q{i0}", target = "cmd{i0}" }\nunits = { time = "s", position = "rad" }\n'
    )
    logged = ("identify", tmp_path / "leg.xml", tmp_path / "run.csv")
    assert mindyn_program(*logged, "--scale", "mcz3").code == 1
    assert mindyn_program(*logged, "--mass", "2").code == 1
    unknown = mindyn_program(*logged, "--scale", "mcz9=1")
    assert unknown.code == 1
    assert "the scale needs one base parameter" in " ".join(unknown.err.split())
    structure = json.loads(mindyn_program("base", tmp_path / "leg.xml", "--unknown-gains", "--json").out)
    assert structure["gain_groups"] == [list(JOINTS)]
    assert "one known gain" in mindyn_program("base", tmp_path / "leg.xml", "--unknown-gains").out


def test_weakly_coupled_wrists_have_their_own_gains():
    """Linear equations in gains, which tend to zero for wrists, would be wrong by 75 to 100 % there."""
    robot = mindyn.load_robot("ur10")
    rng = np.random.default_rng(0)
    drives = tuple(
        mindyn.Drive(name, viscous=v, coulomb=c, rotor_inertia=r)
        for name, v, c, r in zip(
            robot.joint_names, *rng.uniform([[2], [1], [0.2]], [[8], [6], [2]], (3, 6)), strict=True
        )
    )
    arm = replace(robot, drives=drives)
    t = np.arange(0, 20, 0.01)
    rates, phases = rng.uniform(0.3, 6, (5, 6)), rng.uniform(0, 6, (5, 6))
    angles = t[:, None, None] * rates + phases
    q, qd, qdd = (
        0.3 * wave.sum(axis=1) for wave in (np.sin(angles), rates * np.cos(angles), -(rates**2) * np.sin(angles))
    )
    tau = mindyn.compile_model(arm, with_drives=True).inverse_dynamics(q, qd, qdd)
    constants = rng.uniform(5, 15, 6)
    current = tau / constants + rng.normal(0, 0.002, tau.shape) * np.abs(tau / constants).mean(axis=0)
    log = mindyn.log_from_arrays(robot.joint_names, t, q, current, qd, qdd)
    log = replace(log, metadata=LogMetadata(current_gains="unknown"))
    gains = estimate_gains(arm, [log], mindyn.EquationSettings(AS_LOGGED), "free")
    ratios, half_widths = gains.ratios(robot.joint_names[1])
    truth = constants / constants[1]
    assert set(gains.undetermined) <= {"wrist_3"}
    assert (np.abs(ratios - truth)[:5] <= 1.5 * half_widths[:5] + 1e-9).all()
    assert np.abs(ratios / truth - 1)[:5].max() < 0.1


def test_noise_of_positions_does_not_select_the_filter_of_servos(monkeypatch):
    for name in ("KP", "KV", "FRICTION", "ARMATURE", "DAMPING"):  # another leg, for this test alone
        monkeypatch.setattr(servos, name, getattr(servos, name))
    leg, training, rest = recorded(16)
    choice = choose(leg, training)
    estimate = choice.estimator.fit(mindyn.build_rows(leg, training, choice.settings))
    fixed = mindyn.LeastSquares().fit(mindyn.build_rows(leg, training, FIXED))
    assert band_error(estimate, rest) < 1.5 * band_error(fixed, rest)  # 8.7 times with any cut-off
