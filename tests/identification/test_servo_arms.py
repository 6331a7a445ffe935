"""Servo arms from targets and positions alone: values, replay, export and command, with MuJoCo as the plant."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import polars
import pytest
import yaml
from cli.program import mindyn_program
from plants.mujoco_servo import (
    JOINTS,
    draw_targets,
    random_plant,
    record_servos,
    record_slow,
    record_targets,
    write_arm,
)
from raising import raises
from scipy.signal import lfilter

import mindyn
from mindyn.cli.exit_codes import ExitCode
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind
from mindyn.identification import ServoEstimate, load_servo_estimate
from mindyn.identification.servos.joint_tables import delay_held_targets
from mindyn.identification.servos.rollout import simulate_joint
from mindyn.logs import log_from_targets
from mindyn.output.export.servo_replay import replay_in_mujoco

SIDECAR = """columns = { time = "t", position = "q.{joint}", target = "cmd.{joint}" }
units = { time = "s", position = "rad" }
side = "joint"
kp = "unknown"
"""


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return mindyn.load_robot(write_arm(tmp_path_factory.mktemp("arm")))


@pytest.fixture(scope="module")
def plant():
    return random_plant(np.random.default_rng(11))


@pytest.fixture(scope="module")
def logs(plant):
    return [record_servos(plant, seed) for seed in range(3)]


@pytest.fixture(scope="module")
def other(plant):
    return record_servos(plant, 50)


@pytest.fixture(scope="module")
def estimate(arm, logs):
    return mindyn.identify_servos(arm, logs)


def true_values(plant):
    return np.column_stack([plant.kp, plant.kd, plant.fc, plant.ia])


def simulate_by_hand(rows, kp, kd, fc, ia, rest=0.0, loaded=0.0, limit=np.inf, inner=0.0):
    """The same steps in plain Python, with stiction as a case."""
    positions, q, v = [], 0.0, 0.0
    for late, load, inertia, h, steps, is_start, q0, v0, early, switch in rows:
        q, v = (q0, v0) if is_start else (q, v)
        positions.append(q)
        for step in range(int(steps)):
            after = np.clip(step + 1 - switch, 0, 1)  # part of the step in which the later target acts
            target = after * late + (1 - after) * early
            drive, damping = kp * (target - q), kd
            if abs(drive - inner * kd * v) > limit:
                drive, damping = np.sign(drive - inner * kd * v) * limit, (1 - inner) * kd
            friction = fc * (1 + rest / (1 + (v / 0.05) ** 2)) + loaded * abs(load)
            b = (ia + inertia) * v + h * (drive - load)
            v = 0.0 if abs(b) <= h * friction else (b - np.sign(b) * h * friction) / (ia + inertia + h * damping)
            q += h * v
    return positions


def test_the_compiled_simulation_takes_the_steps_of_the_model():
    rng = np.random.default_rng(0)
    rows = np.zeros((120, 10))
    rows[:, 0] = rows[:, 6] = np.cumsum(rng.normal(0, 0.03, 120))
    rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4] = np.sin(rows[:, 0]), 0.01, 0.002, rng.integers(1, 12, 120)
    rows[[0, 70], 5], rows[70, 7] = 1, 0.4
    rows[1:, 8], rows[:, 9] = rows[:-1, 0], rng.uniform(0, 1.2, 120) * rows[:, 4]
    values = rng.uniform([5, 0.1, 0.0, 0.005], [20, 1.0, 0.5, 0.03], (11, 4))
    simulated = simulate_joint(rows, values)
    assert simulated.shape == (120, 11)
    for k, value in enumerate(values):
        np.testing.assert_allclose(simulated[:, k], simulate_by_hand(rows, *value), rtol=0, atol=1e-12)
    extras = rng.uniform([-0.3, 0.0, 0.2, 0.0], [0.8, 0.2, 1.5, 0.0], (11, 4))
    extras[::2, 3], extras[3, 2] = 1.0, np.inf
    whole = np.column_stack([values, extras])
    simulated = simulate_joint(rows, whole)
    for k, value in enumerate(whole):
        np.testing.assert_allclose(simulated[:, k], simulate_by_hand(rows, *value), rtol=0, atol=1e-12)


def test_intervals_contain_the_values_of_the_plant(estimate, plant):
    true = true_values(plant)
    assert estimate.has_scale.tolist() == [False, True, True]
    loaded = estimate.has_scale
    assert np.isfinite(estimate.low[loaded]).all()
    assert ((estimate.low <= true) & (true <= estimate.high))[loaded].mean() >= 0.85
    np.testing.assert_allclose(estimate.values[loaded], true[loaded], rtol=0.08)
    assert {finding.kind for finding in estimate.findings} == {Kind.FREE_SCALE}


def test_without_gravity_ratios_are_right_and_a_known_gain_fixes_the_scale(arm, logs, estimate, plant):
    ratios, true = estimate.values / estimate.kp[:, None], true_values(plant) / plant.kp[:, None]
    np.testing.assert_allclose(ratios[0, 1:3], true[0, 1:3], rtol=0.05)
    assert np.isnan(estimate.low[0, 0])
    assert estimate.kp[0] == pytest.approx(np.median(estimate.kp[1:]))
    known = mindyn.identify_servos(arm, logs, kp={"pan": plant.kp[0]})
    assert known.has_scale.all()
    np.testing.assert_allclose(known.values[0], true_values(plant)[0], rtol=0.08)


def test_the_replay_of_another_motion_is_good(estimate, other):
    replay = mindyn.replay_servos(estimate, other)
    assert replay.grade == "good"
    assert (replay.errors < 0.0015).all()
    assert (replay.errors < replay.delayed_errors).all()
    assert (replay.delayed_errors < replay.target_errors).all()
    assert replay.repeatability is None
    assert replay.tip_error_m < 0.001


def test_wrong_values_are_graded_unusable(estimate, other):
    wrong = replace(estimate, kd=estimate.kd * [1, 1, 12], fc=estimate.fc * [1, 1, 8])
    replay = mindyn.replay_servos(wrong, other)
    assert replay.grades[2] == "unusable"
    assert replay.grade == "unusable"


def test_repeated_motions_give_the_repeatability(estimate, other):
    shaken = replace(other, q=other.q + np.random.default_rng(0).normal(0, 1e-3, other.q.shape))
    replay = mindyn.replay_servos(estimate, [other, shaken])
    np.testing.assert_allclose(replay.repeatability, 1e-3 / np.sqrt(2), rtol=0.1)


def test_mujoco_replays_the_exported_file_alike(estimate, other, tmp_path):
    path = mindyn.write_mjcf(estimate, tmp_path / "arm.xml")
    replay = replay_in_mujoco(estimate, path, [other])
    assert replay.is_faithful
    assert (replay.ratios < 1.2).all()
    soft = path.read_text().replace("solimpfriction", "solimplimit")  # MuJoCo's own friction creeps
    path.write_text(soft)
    assert not replay_in_mujoco(estimate, path, [other]).is_faithful


def test_a_robot_file_with_servos_is_a_reference(estimate, logs, other, tmp_path):
    assert mindyn.replay_servos(estimate, other).file_errors is None
    path = mindyn.write_mjcf(estimate, tmp_path / "servos.xml")
    with_servos = mindyn.identify_servos(mindyn.load_robot(path), logs[:1])
    replay = mindyn.replay_servos(with_servos, other)
    np.testing.assert_allclose(replay.file_errors, replay_in_mujoco(estimate, path, [other]).mujoco.errors, rtol=1e-9)
    assert "robot file" in replay.format()
    weak = tmp_path / "weak.xml"
    weak.write_text(re.sub(r'kp="([^"]+)"', lambda m: f'kp="{float(m[1]) / 3}"', path.read_text()))
    poor = mindyn.replay_servos(replace(with_servos, robot=mindyn.load_robot(weak)), other)
    assert (poor.file_errors[1:] > 2 * replay.file_errors[1:]).all()


def test_rows_on_a_table_are_left_out_and_stated(arm, plant):
    touching = replace(plant, floor_m=0.05)
    recorded = [record_servos(touching, seed) for seed in range(3)]
    estimate = mindyn.identify_servos(arm, recorded)
    assert estimate.table is not None
    assert [finding.kind for finding in estimate.findings].count(Kind.CONTACT) == 1
    np.testing.assert_allclose(estimate.kp[1:], plant.kp[1:], rtol=0.08)
    given = mindyn.identify_servos(arm, recorded, tip="tip", table_height_m=0.056)
    assert (given.table.tip, given.table.height_m) == ("tip", 0.056)
    np.testing.assert_allclose(given.kp[1:], plant.kp[1:], rtol=0.08)


def test_late_targets_with_their_delay_give_the_values(arm, plant):
    late = replace(plant, delay_s=0.01)
    recorded = [record_servos(late, seed) for seed in range(2)]
    given = mindyn.identify_servos(arm, recorded, delay_s=0.01)
    np.testing.assert_allclose(given.values[1:], true_values(plant)[1:], rtol=0.1)
    stated = [replace(log, metadata=replace(log.metadata, target_delay_s=0.02)) for log in recorded]  # 10 ms by holding
    np.testing.assert_allclose(mindyn.identify_servos(arm, stated).values, given.values)


@pytest.mark.parametrize("delay_s", [0.0, 0.01])
def test_a_delay_of_the_bus_is_estimated_beside_friction_and_damping(arm, plant, delay_s):
    recorded = [record_servos(replace(plant, delay_s=delay_s), seed) for seed in range(2)]
    estimate = mindyn.identify_servos(arm, recorded)
    found = [finding for finding in estimate.findings if finding.kind is Kind.APPLIED_DELAY]
    assert len(found) == (delay_s > 0)
    assert estimate.delay_s == pytest.approx(delay_s, abs=1.5e-3)
    true, given = true_values(plant), estimate.has_scale
    assert ((estimate.low <= true) & (true <= estimate.high))[given].mean() >= 0.85
    assert mindyn.identify_servos(arm, recorded, delay_s=0.002).delay_s == 0.002


def test_mujoco_delays_targets_of_the_exported_file(arm, plant, tmp_path):
    late = replace(plant, delay_s=0.014)
    estimate = mindyn.identify_servos(arm, [record_servos(late, seed) for seed in range(2)])
    path = mindyn.write_mjcf(estimate, tmp_path / "late.xml")
    assert replay_in_mujoco(estimate, path, [record_servos(late, 50)]).is_faithful
    delayed = replay_in_mujoco(estimate, path, [record_servos(late, 50)]).mujoco
    path = mindyn.write_mjcf(replace(estimate, delay_s=0.0), tmp_path / "early.xml")
    early = replay_in_mujoco(replace(estimate, delay_s=0.0), path, [record_servos(late, 50)]).mujoco
    assert (early.errors > 1.5 * delayed.errors).all()


def test_a_joint_that_does_not_move_is_one_finding(arm, plant):
    log = record_servos(plant, 3)
    still = np.column_stack([np.zeros(len(log)), log.target[:, 1:]])
    q = np.column_stack([np.zeros(len(log)), log.q[:, 1:]])
    estimate = mindyn.identify_servos(arm, log_from_targets(JOINTS, log.time, q, still, "unknown"))
    found = [finding for finding in estimate.findings if finding.kind is Kind.STILL_JOINT]
    assert [finding.joints for finding in found] == [("pan",)]


def lock_elbow(log):
    q = log.q.copy()
    q[:, 2] = 0.3 + 0.0015 * (np.arange(len(q)) % 37 == 0)
    return replace(log, q=q)


FAULTS = {
    "sound": (lambda log: log, None, ()),
    "swapped targets": (lambda log: replace(log, target=log.target[:, [0, 2, 1]]), Kind.WRONG_TARGET, JOINTS[1:]),
    "targets in degrees": (lambda log: replace(log, target=np.degrees(log.target)), Kind.WRONG_TARGET, JOINTS),
    "positions in degrees": (lambda log: replace(log, q=np.degrees(log.q)), Kind.WRONG_TARGET, JOINTS),
    "both in degrees": (
        lambda log: replace(log, q=np.degrees(log.q), target=np.degrees(log.target)),
        Kind.WRONG_TARGET,
        JOINTS,
    ),
    "inverted": (lambda log: replace(log, target=log.target * [1, -1, 1]), Kind.WRONG_TARGET, ("lift",)),
    "locked": (lock_elbow, Kind.STILL_JOINT, ("elbow",)),
}


@cache
def record_pair(seed):
    """Record two motions of one plant, once for all faults."""
    plant = random_plant(np.random.default_rng(seed))
    return [record_servos(plant, 10 * seed + k) for k in range(2)]


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", [1, 4])
def test_a_fault_of_the_log_is_one_finding(arm, name, seed):
    fault, kind, joints = FAULTS[name]
    estimate = mindyn.identify_servos(arm, [fault(log) for log in record_pair(seed)])
    found = [finding for finding in estimate.findings if finding.is_on_first_screen]
    assert [finding.kind for finding in found] == ([] if kind is None else [kind])
    assert [finding.joints for finding in found] == ([] if kind is None else [tuple(joints)])


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.5])
def test_a_given_gain_that_gravity_contradicts_is_one_finding(arm, logs, plant, factor):
    estimate = mindyn.identify_servos(arm, logs, kp=dict(zip(JOINTS, factor * plant.kp, strict=True)))
    found = [finding for finding in estimate.findings if finding.is_on_first_screen]
    assert [finding.kind for finding in found] == ([] if factor == 1 else [Kind.CONTRADICTED_GAIN])
    assert [finding.joints for finding in found] == ([] if factor == 1 else [("lift", "elbow")])


@pytest.mark.parametrize("height_m", [0.12, 0.16])
def test_a_tip_that_rests_nearly_throughout_is_one_finding(arm, plant, height_m):
    touching = replace(plant, floor_m=height_m)
    estimate = mindyn.identify_servos(arm, [record_servos(touching, seed) for seed in range(2)])
    found = [finding for finding in estimate.findings if finding.is_on_first_screen]
    assert [finding.kind for finding in found] == [Kind.CONTACT]


@pytest.mark.parametrize("slowdown", [1, 8])
def test_a_slow_motion_of_an_imperfect_arm_is_one_finding(arm, plant, slowdown):
    log = record_slow(replace(plant, fc=0.06 * plant.kp), slowdown)
    wander = lfilter([0.2], [1, -0.96], np.random.default_rng(0).normal(0, 7e-3, log.q.shape), axis=0)  # 5 mrad rms
    estimate = mindyn.identify_servos(arm, replace(log, q=log.q + wander))
    kinds = [finding.kind for finding in estimate.findings if finding.is_on_first_screen]
    assert kinds == ([] if slowdown == 1 else [Kind.SLOW_MOTION])


def test_bad_input_raises(arm, logs, estimate):
    torques = mindyn.log_from_arrays(JOINTS, logs[0].time, logs[0].q, logs[0].q)
    with raises(InputError, Code.MISSING_VALUE, "target"):
        mindyn.identify_servos(arm, torques)
    with raises(InputError, Code.OUT_OF_RANGE, "kp"):
        mindyn.identify_servos(arm, logs, kp={"pan": -1.0})
    with raises(InputError, Code.TOO_LITTLE_DATA, "logs"):
        mindyn.replay_servos(estimate, logs[0].take(slice(0, 10)))
    resting = replace(logs[0], target=np.zeros_like(logs[0].target))
    with raises(InputError, Code.TOO_LITTLE_DATA, "target"):
        mindyn.identify_servos(arm, resting)


def test_a_saved_estimate_is_the_same_and_a_changed_one_is_rejected(estimate, tmp_path):
    path = estimate.save(tmp_path / "servo.json")
    loaded = load_servo_estimate(tmp_path)
    assert isinstance(loaded, ServoEstimate)
    np.testing.assert_array_equal(loaded.values, estimate.values)
    np.testing.assert_array_equal(loaded.low, estimate.low)
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "kp": [1.0, 1.0, 1.0]}))
    with raises(InputError, Code.DISAGREEMENT, "sha256"):
        load_servo_estimate(path)


def test_the_command_shows_positions_and_its_run_is_exported(plant, tmp_path):
    write_arm(tmp_path)
    (tmp_path / "logs.toml").write_text(SIDECAR)
    for seed in (0, 1):
        log = record_servos(plant, seed)
        columns = {"t": log.time} | {f"q.{j}": log.q[:, k] for k, j in enumerate(JOINTS)}
        columns |= {f"cmd.{j}": log.target[:, k] for k, j in enumerate(JOINTS)}
        polars.DataFrame(columns).write_csv(tmp_path / f"run{seed}.csv")
    files = [tmp_path / name for name in ("servo_arm.xml", "run0.csv", "run1.csv", "run", "model.xml")]
    robot, first, second, run, model = files
    ended = mindyn_program("identify", robot, first, "--hold-out", 0.3, "--out", run)
    assert ended.code == ExitCode.DONE
    assert "mrad" in ended.out
    assert sorted(path.name for path in run.iterdir()) == ["replay.json", "run.json", "servo.json"]
    assert json.loads((run / "replay.json").read_text())["grade"] == "good"
    shown = json.loads(mindyn_program("identify", robot, first, "--validate", second, "--json").out)
    assert set(shown) == {"servo", "replay"}
    assert mindyn_program("export", run, "--to", "mjcf", "--out", model, "--check", second).code == ExitCode.DONE
    assert "solimpfriction" in model.read_text()
    assert mindyn_program("export", run, "--to", "isaac-lab", "--out", tmp_path / "arm.yaml").code == ExitCode.DONE
    actuators = yaml.safe_load((tmp_path / "arm.yaml").read_text())
    low, high = actuators["ranges"]["stiffness"]["lift"]
    assert low < plant.kp[1] < high
    assert low < actuators["stiffness"]["lift"] < high
    assert "pan" not in actuators["ranges"]["stiffness"]
    words = ("export", run, "--to", "mjcf", "--samples", 2, "--out", tmp_path / "samples")
    assert mindyn_program(*words).code == ExitCode.DONE
    assert sorted(path.suffix for path in (tmp_path / "samples").iterdir()) == [".csv", ".xml", ".xml", ".yaml"]
    assert mindyn_program(*words).code == ExitCode.ERROR, "the folder is not empty"
    assert mindyn_program("export", run, "--to", "c", "--out", tmp_path / "arm.c").code == ExitCode.ERROR
    assert mindyn_program("check", run).code == ExitCode.ERROR
    assert mindyn_program("identify", robot, first, "--servo", "--consistent").code == ExitCode.ERROR


@pytest.mark.parametrize("delay_s", [0.0, 0.007, 0.02, 0.033, 0.1, -0.004])
def test_delayed_targets_act_when_they_are_sent_plus_the_delay(delay_s):
    rng = np.random.default_rng(3)
    time = np.cumsum(rng.uniform(0.018, 0.022, 60))
    target = rng.normal(0, 1, (60, 2))
    mean, early, late, switch = delay_held_targets(time, target, delay_s)
    for row in range(59):
        instants = np.linspace(time[row], time[row + 1], 2001)[:-1] + 2.5e-6
        acting = target[np.clip(np.searchsorted(time, instants - delay_s) - 1, 0, None)]
        np.testing.assert_allclose(mean[row], acting.mean(axis=0), atol=4e-3)
        np.testing.assert_array_equal(late[row], acting[-1])
        is_early = (instants - time[row] < switch[row])[:, None]
        held = np.where(is_early, early[row], late[row])
        np.testing.assert_allclose(held.mean(axis=0), mean[row], atol=4e-3)
        if len(np.unique(acting[:, 0])) <= 2:  # one switch is exact
            assert (np.abs(held - acting).max(axis=1) > 1e-2).sum() <= 1


@pytest.mark.parametrize("seed", [0, 3])
def test_saturation_is_a_limit_of_the_model_and_of_the_exported_file(arm, seed, tmp_path):
    plant = replace(random_plant(np.random.default_rng(seed)), limit=1.2)
    estimate = mindyn.identify_servos(arm, [record_servos(plant, 10 * seed + k) for k in range(2)])
    limited = np.isfinite(estimate.limit)
    assert limited.any()
    np.testing.assert_allclose(estimate.limit[limited & estimate.has_scale], 1.2, rtol=0.05)
    found = [finding for finding in estimate.findings if finding.kind is Kind.SATURATED_TORQUE]
    assert [finding.joints for finding in found] == [tuple(np.array(JOINTS)[limited])]
    true = true_values(plant)[estimate.has_scale]
    np.testing.assert_allclose(estimate.values[estimate.has_scale][:, [0, 2]], true[:, [0, 2]], rtol=0.05)
    other = record_servos(plant, 10 * seed + 9)
    path = mindyn.write_mjcf(estimate, tmp_path / "limited.xml")
    assert replay_in_mujoco(estimate, path, [other]).is_faithful
    unlimited = replace(estimate, limit=np.full(3, np.inf), limits_damping=np.zeros(3, dtype=bool))
    errors = [mindyn.replay_servos(some, other).errors for some in (estimate, unlimited)]
    assert (errors[0] < 1.02 * errors[1]).all()
    assert seed != 0 or (errors[1] > 3 * errors[0]).any()  # the other motion of seed 3 hardly reaches the limit
    estimate.save(tmp_path / "servo.json")
    np.testing.assert_array_equal(load_servo_estimate(tmp_path).limit, estimate.limit)


@pytest.mark.parametrize("slow_motions", [0, 1])
def test_a_limit_is_stated_only_if_several_motions_reach_it(arm, slow_motions):
    plant = replace(random_plant(np.random.default_rng(0)), limit=1.2)
    targets = [draw_targets(np.random.default_rng([k, 7]), 30.0, 50.0) for k in range(2)]
    for k in range(slow_motions):
        targets[k] = 0.1 * targets[k] - [0, 1.5, 0]  # raised, so that gravity hardly loads it
    estimate = mindyn.identify_servos(arm, [record_targets(plant, target, 50.0) for target in targets])
    assert np.isfinite(estimate.limit).tolist() == [False, not slow_motions, False]


@pytest.mark.parametrize("lost_rows", [0, 4])
@pytest.mark.parametrize("faults", [{}, {"stribeck": 0.4}, {"delay_s": 0.015}], ids=str)
def test_a_part_in_which_all_joints_lag_is_left_out_and_stated(arm, faults, lost_rows):
    plant = replace(random_plant(np.random.default_rng(1)), **faults)
    recorded = [record_servos(plant, seed) for seed in range(2)]
    if lost_rows:
        target = recorded[1].target.copy()
        target[900:-lost_rows] = target[900 + lost_rows :]  # stamped earlier than they were sent
        recorded[1] = replace(recorded[1], target=target)
    estimate = mindyn.identify_servos(arm, recorded)
    found = [finding for finding in estimate.findings if finding.kind is Kind.STAMPS]
    assert len(found) == bool(lost_rows)
    assert not found or "log1: 80 ms" in found[0].message
    loaded = estimate.has_scale
    np.testing.assert_allclose(estimate.values[loaded, :3], true_values(plant)[loaded, :3], rtol=0.12)


@pytest.mark.parametrize("faults", [{}, {"stribeck": 0.4}, {"loaded": 0.05}], ids=str)
@pytest.mark.parametrize("seed", [0, 2])
def test_intervals_include_friction_that_is_not_one_constant(arm, faults, seed):
    plant = replace(random_plant(np.random.default_rng(seed)), **faults)
    estimate = mindyn.identify_servos(arm, [record_servos(plant, 10 * seed + k) for k in range(2)])
    given, true = estimate.has_scale, true_values(plant)
    assert ((estimate.low <= true) & (true <= estimate.high))[given].mean() > 0.85
    found = [finding for finding in estimate.findings if finding.kind is Kind.MISSING_FRICTION]
    if "stribeck" in faults:
        assert [bool({"lift", "elbow"} & set(finding.joints)) for finding in found] == [True]
        assert "between rest and motion" in found[0].message
    elif not faults:
        assert not found
        assert (estimate.high / estimate.low)[given, 2].max() < 1.35
