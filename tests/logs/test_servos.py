"""Position targets with given gains: tau = kp (target - q) + kd (target_velocity - qd), from the file to the fit."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from raising import raises
from servos import ARMATURE, DAMPING, FRICTION, JOINTS, KP, KV, TIME_STEP, leg_targets, leg_xml, simulate_leg

import mindyn
from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Kind, Severity
from mindyn.identification import draft_log
from mindyn.logs import log_from_targets
from mindyn.logs.log_errors import LogError
from mindyn.regression.friction import Friction

RATE = 200.0
HOLD = 0.5 / RATE  # a target that is held for a row acts half a row late on average


@pytest.fixture(scope="module")
def leg(tmp_path_factory):
    path = tmp_path_factory.mktemp("leg") / "leg.xml"
    path.write_text(leg_xml())
    return mindyn.load_robot(path)


@pytest.fixture(scope="module")
def recording():
    t, target = leg_targets(20, RATE)
    q = simulate_leg(target, RATE)
    return t, q + np.random.default_rng(1).normal(0, 1e-4, q.shape), target


@pytest.fixture
def short(tmp_path, recording):
    """A file of 300 rows with velocities of targets and a torque, and the call that reads its targets."""
    t, q, target = (array[:300] for array in recording)
    speed = np.gradient(target, t, axis=0)
    columns = {"t": t} | {f"q.{j}": q[:, k] for k, j in enumerate(JOINTS)}
    columns |= {f"target.{j}": target[:, k] for k, j in enumerate(JOINTS)}
    columns |= {f"v.{j}": speed[:, k] for k, j in enumerate(JOINTS)}
    columns |= {f"u.{j}": 2 * q[:, k] for k, j in enumerate(JOINTS)}
    polars.DataFrame(columns).write_csv(tmp_path / "run.csv")
    call = {
        "columns": {"time": "t", "position": "q.{joint}", "target": "target.{joint}"},
        "units": {"time": "s", "position": "rad"},
        "side": "joint",
        "metadata": {"kp": list(KP), "kd": dict(zip(JOINTS, KV.tolist(), strict=True))},
    }
    return tmp_path / "run.csv", call


def by_hand(t, q, target, kp, kd, feed=0.0):
    """The torque with differences of neighbouring rows, one row at a time."""
    tau = np.empty_like(q)
    for row in range(len(t)):
        a, b = max(row - 1, 0), min(row + 1, len(t) - 1)
        speed = (q[b] - q[a]) / (t[b] - t[a])
        tau[row] = kp * (target[row] - q[row]) + kd * ((feed[row] if np.ndim(feed) else feed) - speed)
    return tau


def test_the_torque_is_that_of_the_servo(short, leg, recording):
    path, call = short
    t, q, target = (array[:300] for array in recording)
    log = mindyn.read_log(path, leg, **call)
    np.testing.assert_allclose(log.tau, by_hand(t, q, target, KP, KV), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(log_from_targets(JOINTS, t, q, target, KP, KV).tau, log.tau, rtol=1e-9, atol=1e-12)
    moving = call | {"columns": call["columns"] | {"target_velocity": "v.{joint}"}}
    feed = np.gradient(target, t, axis=0)
    tau = mindyn.read_log(path, leg, **moving).tau
    np.testing.assert_allclose(tau, by_hand(t, q, target, KP, KV, feed), rtol=1e-9, atol=1e-9)


def test_motor_side_degrees_offsets_limits_and_delays_are_metadata(short, leg, recording):
    path, call = short
    t, q, target = (array[:300] for array in recording)
    plain = mindyn.read_log(path, leg, **call)
    turned = call | {"side": "motor", "metadata": call["metadata"] | {"gears": [-2.0, 4.0, 5.0]}}
    at_joint = mindyn.read_log(path, leg, **turned)
    gears = np.array([-2.0, 4.0, 5.0])
    np.testing.assert_allclose(at_joint.tau, by_hand(t, q / gears, target / gears, KP, KV), rtol=1e-9, atol=1e-12)
    shifted = call | {"metadata": call["metadata"] | {"position_offset": [0.1, 0.2, 0.3]}}
    np.testing.assert_allclose(mindyn.read_log(path, leg, **shifted).tau, plain.tau, rtol=1e-9, atol=1e-9)
    limited = call | {"metadata": call["metadata"] | {"torque_limit": [1.0, 0.5, 2.0]}}
    np.testing.assert_allclose(
        mindyn.read_log(path, leg, **limited).tau, np.clip(plain.tau, [-1, -0.5, -2], [1, 0.5, 2])
    )
    late = mindyn.read_log(path, leg, **call | {"metadata": call["metadata"] | {"target_delay_s": 3 / RATE}})
    expected = by_hand(t, q, np.vstack([target[:1].repeat(3, axis=0), target[:-3]]), KP, KV)
    np.testing.assert_allclose(late.tau, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("rows", [3, 64, 299])
def test_chunks_have_the_torque_of_the_whole_log(short, leg, rows):
    path, call = short
    call = call | {"metadata": call["metadata"] | {"target_delay_s": 0.013}}
    whole = mindyn.read_log(path, leg, **call)
    chunks = list(mindyn.scan_log(path, leg, **call, chunk_rows=rows))
    np.testing.assert_array_equal(np.concatenate([chunk.rows for chunk in chunks]), whole.rows)
    np.testing.assert_allclose(np.concatenate([chunk.tau for chunk in chunks]), whole.tau, rtol=1e-12, atol=1e-12)


def test_logged_torques_and_velocities_are_preferred(short, leg):
    path, call = short
    columns = call["columns"] | {"velocity": "v.{joint}", "torque": "u.{joint}"}
    units = call["units"] | {"velocity": "rad/s", "torque": "N m"}
    log = mindyn.read_log(path, leg, columns=columns, units=units, side="joint", metadata={"accept": ["velocity"]})
    assert log.target is None
    np.testing.assert_array_equal(log.tau, 2 * log.q)


def test_bad_servos_raise_before_anything_is_computed(short, leg):
    path, call = short
    with raises(LogError, Code.MISSING_VALUE, "kp"):
        mindyn.read_log(path, leg, **call | {"metadata": {}})
    with raises(LogError, Code.INVALID_VALUE, "torque_limit"):
        mindyn.read_log(path, leg, **call | {"metadata": call["metadata"] | {"torque_limit": [1.0, 0.0, 1.0]}})
    with raises(LogError, Code.DISAGREEMENT, "kd"):
        mindyn.read_log(path, leg, **call | {"metadata": {"kp": [1.0, 1.0, 1.0], "kd": {"hip": 1.0}}})
    with raises(LogError, Code.MISSING_VALUE, "columns.torque"):
        mindyn.read_log(path, leg, **call | {"columns": {"time": "t", "position": "q.{joint}"}})


def test_a_target_in_degrees_is_one_finding(short, leg, recording):
    path, call = short
    frame = polars.read_csv(path)
    frame.with_columns(*(np.degrees(polars.col(f"target.{j}")) for j in JOINTS)).write_csv(path)
    with raises(LogError, Code.WRONG_UNIT, "target"):
        mindyn.read_log(path, leg, **call)
    t, q, target = (array[:300] for array in recording)
    log = mindyn.read_log(path, leg, **call | {"units": call["units"] | {"target": "deg"}})
    np.testing.assert_allclose(log.tau, by_hand(t, q, target, KP, KV), rtol=1e-9, atol=1e-9)
    accepted = mindyn.read_log(path, leg, **call | {"metadata": call["metadata"] | {"accept": ["target"]}})
    assert [finding.kind for finding in accepted.findings].count(Kind.ACCEPTED) == 1
    assert draft_log(path, leg).value("units.target") == "deg"


def test_the_draft_asks_for_gains_and_reads_with_them(short, leg):
    path, call = short
    draft = draft_log(path, leg)
    assert draft.value("columns.target") == "target.{joint}"
    assert draft.value("units.target") == "rad"
    assert set(draft.questions) == {"kp", "kd"}
    path.with_name("run.csv.toml").write_text(
        draft.toml(confirmed=True).replace('kp = "?"', f"kp = {KP.tolist()}").replace('kd = "?"', f"kd = {KV.tolist()}")
    )
    np.testing.assert_allclose(mindyn.read_log(path, leg).tau, mindyn.read_log(path, leg, **call).tau, atol=1e-12)


def fit(leg, log):
    settings = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=16.0), 10.0, 2, Friction("tanh", 0.03))
    return mindyn.identify(leg, log, mindyn.LeastSquares(), settings)


def test_targets_identify_a_leg_that_mujoco_simulates(leg, recording):
    t, q, target = recording
    log = log_from_targets(JOINTS, t, q, target, KP, KV, target_delay_s=HOLD)
    estimate = fit(leg, log)
    assert not [finding for finding in estimate.findings if finding.severity is not Severity.INFO]
    values = dict(zip(estimate.names, estimate.beta, strict=True))
    np.testing.assert_allclose([values[f"fc{k}"] for k in (1, 2, 3)], FRICTION, rtol=0.08)
    np.testing.assert_allclose([values[f"fv{k}"] for k in (1, 2, 3)], DAMPING, atol=0.02)
    # MuJoCo's implicit step adds the damping of a time step to the inertia.
    assert values["Im3"] == pytest.approx(ARMATURE[2] + TIME_STEP * (DAMPING[2] + KV[2]), rel=0.05)
    other_t, other = leg_targets(8, RATE, seed=5)
    held_out = log_from_targets(JOINTS, other_t, simulate_leg(other, RATE), other, KP, KV, target_delay_s=HOLD)
    assert mindyn.validate(estimate, held_out).error.total < 0.05


def test_a_gain_of_the_wrong_sign_is_one_finding(leg, recording):
    t, q, target = recording
    estimate = fit(leg, log_from_targets(JOINTS, t, q, target, KP * [1, -1, 1], KV * [1, -1, 1]))
    shown = [f for f in estimate.findings if f.severity is not Severity.INFO and f.explained_by is None]
    assert [(finding.kind, finding.joints) for finding in shown] == [(Kind.WRONG_TORQUE_SIGN, ("thigh",))]
