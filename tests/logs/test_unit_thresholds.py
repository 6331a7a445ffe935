"""Each finding about a log on both sides of its threshold, and its message.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.logs.cleaning import Cleaner
from mindyn.logs.log import Log, SourceFile, join_logs, log_from_arrays
from mindyn.logs.log_errors import ACCEPTABLE_FINDINGS, LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.noise_cutoff import _joint_cutoff, _power_density, noise_floor_cutoff
from mindyn.logs.number_checks import LogInspector, check_units, reachable_positions
from mindyn.logs.units import CURRENT_UNITS, UNIT_FACTORS, unit_factor
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Limits

PLANAR = load_robot("planar2")
SCARA = load_robot("scara")
T = np.arange(200) / 100
TURN = np.column_stack([np.sin(3 * T), np.cos(2 * T)])


def limited(*limits):
    joints = tuple(replace(joint, limits=limit) for joint, limit in zip(PLANAR.joints, limits, strict=True))
    return replace(PLANAR, joints=joints)


def finding(q, tau=TURN, qd=None, robot=PLANAR, **stated):
    """Return the message of the error and that of the accepted log; both are empty without a finding."""
    log = log_from_arrays(robot.joint_names, T, q, tau, qd)
    log = replace(log, metadata=replace(LogMetadata(), **stated)) if stated else log
    known = [note for note in messages(check_units(log, robot, ACCEPTABLE_FINDINGS)) if note.startswith("accepted: ")]
    if not known:
        check_units(log, robot, ())
        return ""
    with raises(LogError, code=Code.WRONG_UNIT) as rejected:
        check_units(log, robot, ())
    assert known == [f"accepted: {rejected.value.message}"]
    assert "accept = [" in rejected.value.hint
    return rejected.value.message


def test_how_far_joints_reach():
    free = Limits()
    assert_close(reachable_positions(limited(Limits(-1.0, 2.5), Limits(-3.0, 1.0))), [2.5, 3.0], EXACT)
    assert_close(reachable_positions(limited(free, Limits(lower=-1.0))), [4 * np.pi, 4 * np.pi], EXACT)
    assert_close(reachable_positions(limited(Limits(0.0, 0.0), Limits(0.0, 0.5))), [4 * np.pi, 0.5], EXACT)
    sliding = [joint.kind == "prismatic" for joint in SCARA.primary_joints]
    bare = replace(SCARA, joints=tuple(replace(joint, limits=free) for joint in SCARA.joints))
    assert np.isinf(reachable_positions(bare)).tolist() == sliding


def test_positions_look_like_degrees_from_twice_the_limits_on():
    arm = limited(Limits(-2.0, 2.0), Limits(-2.0, 2.0))
    small = np.column_stack([0.01 * TURN[:, 0], 0.01 * TURN[:, 1]])
    peak = np.abs(TURN[:, 0]).max()

    def with_peak(first):
        return small + np.column_stack([first / peak * TURN[:, 0], 0 * T]) - np.column_stack([small[:, 0], 0 * T])

    assert finding(with_peak(3.99), robot=arm) == ""
    message = finding(with_peak(4.01), robot=arm)
    assert "joint joint1 reaches 4.01 rad, its limit is 2 rad" in message
    # As degrees a joint may be a fifth beyond its limit.
    assert finding(with_peak(1.19 * np.rad2deg(2.0)), robot=arm)
    assert finding(with_peak(1.21 * np.rad2deg(2.0)), robot=arm) == ""
    narrow = limited(Limits(-0.1, 0.1), Limits(-2.0, 2.0))
    assert finding(with_peak(3.1), robot=narrow) == ""  # more than half a turn is needed whatever the limits
    assert finding(with_peak(3.2), robot=narrow)
    worst = finding(np.column_stack([5.0 * TURN[:, 0], 50.0 * TURN[:, 1]]), robot=arm)
    assert "joint joint2 reaches 50 rad" in worst


def test_torques_look_like_millis_from_twenty_times_the_limits_on():
    arm = limited(Limits(effort=10.0), Limits(effort=30.0))
    square = np.where(np.arange(200) % 2, 1.0, -1.0)

    def with_rms(first, second):
        return finding(0.1 * TURN, np.column_stack([first * square, second * square]), robot=arm)

    assert with_rms(199.0, 1.0) == ""
    message = with_rms(201.0, 1.0)
    assert "torques look like mN m: joint joint1 has rms 201 N m, its effort limit is 10 N m" in message
    assert "joint joint2 has rms 900 N m, its effort limit is 30 N m" in with_rms(250.0, 900.0)
    assert with_rms(1e-3, 0.0151) == ""
    assert "no joint exceeds 0.00049 of its effort limit" in with_rms(1e-3, 0.0147)
    half = limited(Limits(effort=10.0), Limits())
    assert "joint joint1" in finding(0.1 * TURN, 500.0 * TURN, robot=half)
    assert finding(0.1 * TURN, 1e-4 * TURN, robot=half) == ""


SPEED = np.column_stack([3 * np.cos(3 * T), -2 * np.sin(2 * T)])


def test_velocities_of_joints_that_hardly_move_give_no_evidence():
    still = np.column_stack([TURN[:, 0], 0.009 * TURN[:, 1]])
    speed = np.column_stack([SPEED[:, 0], 500.0 + 0 * T])
    assert finding(still, qd=speed) == ""
    assert finding(0.009 * TURN, qd=100 * SPEED) == ""
    moving = np.column_stack([TURN[:, 0], 0.011 * TURN[:, 1]])
    assert finding(moving, qd=np.column_stack([0.02 * SPEED[:, 0], 0.02 * SPEED[:, 1]]))


def test_limits_are_left_on_either_side_by_a_hundredth_of_their_range():
    arm = limited(Limits(-1.0, 3.0), Limits(lower=-1.0))
    for low, high, beyond in ((-1.03, 3.03, False), (-1.05, 0.0, True), (0.0, 3.05, True)):
        q = np.column_stack([np.linspace(low, high, 200), 2 * TURN[:, 1]])
        notes = check_units(log_from_arrays(arm.joint_names, T, q, TURN), arm, ())
        assert bool(notes) == beyond
        if beyond:
            assert f"joint joint1 moves from {low:.4g} to {high:.4g}, beyond its limits -1 to 3" in str(notes[0])


def test_cleaning_rejects_bad_logs():
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run"):
        Cleaner("run").findings(())
    cleaner = Cleaner("run")
    cleaner.clean(Log(("a",), np.array([0.0]), np.zeros((1, 1)), np.zeros((1, 1)), np.arange(1)))
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run"):
        cleaner.findings(())
    two = Cleaner("run")
    still = np.array([[0.0, 0.0], [0.0009, 0.0011]])
    two.clean(Log(("a", "b"), np.array([0.0, 1.0]), still, still, np.arange(2)))
    assert two.findings(()) == []
    back = Cleaner("run")
    back.clean(Log(("a",), np.array([0.0, 1.0]), np.zeros((2, 1)), np.zeros((2, 1)), np.arange(2)))
    with raises(LogError, code=Code.INVALID_VALUE, subject="time"):
        back.clean(Log(("a",), np.array([0.75, 2.0]), np.zeros((2, 1)), np.zeros((2, 1)), np.array([2, 3])))


def test_jumps_are_faster_than_the_limit_and_than_usual_steps():
    arm = limited(Limits(velocity=4.0), Limits())
    for speed, known in ((3.9, []), (4.1, ["joint1"]), (9.9, ["joint1"]), (10.1, ["joint1", "joint2"])):
        seen = LogInspector(arm)
        q = np.zeros((200, 2))
        q[100:] = 0.01 * speed
        log = log_from_arrays(arm.joint_names, T, q, q)
        for part in (slice(0, 100), slice(100, 200)):
            seen.see(log.take(part))
        result = messages(seen.findings())
        assert [note.split()[1] for note in result if "jumps" in note] == known
        if known:
            assert f"jumps by {0.01 * speed:.4g} rad at 1 s (row 100)" in result[0]
    twice = LogInspector(arm)
    q = np.zeros((200, 2))
    q[50:, 0], q[150:, 0] = 0.1, -0.2
    twice.see(log_from_arrays(arm.joint_names, T, q, q))
    assert "jumps by -0.3 rad at 1.5 s (row 150), the largest of 2 such steps" in str(twice.findings()[0])
    fast = LogInspector(arm)
    fast.see(log_from_arrays(arm.joint_names, T, 0.2 * np.cumsum(np.ones((200, 2)), axis=0), TURN))
    assert fast.findings() == []  # every step alike


def test_velocities_that_hold_one_value_are_known():
    arm = limited(Limits(), Limits())
    moving, constant = np.column_stack([T, T]), np.column_stack([T, 0 * T + 3.5])
    seen, log = LogInspector(arm), log_from_arrays(arm.joint_names, T, moving, moving, constant)
    for part in (slice(0, 100), slice(100, 200)):
        seen.see(log.take(part))
    (velocity,) = messages(seen.findings())
    assert "the velocity of joint joint2 never changes: it is 3.5 in every row" in velocity
    resting = LogInspector(arm)
    resting.see(log_from_arrays(arm.joint_names, T, constant, moving, constant))
    assert resting.findings() == []  # a joint that stands has no speed


def test_factors_of_all_units():
    turn = np.pi / 180
    assert_close(list(UNIT_FACTORS["time"].values()), [1, 1e-3, 1e-6, 1e-9], EXACT)
    assert_close(list(UNIT_FACTORS["position"].values()), [1, turn, 1, 1e-3], EXACT)
    assert_close(list(UNIT_FACTORS["velocity"].values()), [1, turn, 2 * np.pi / 60, 1, 1e-3], SAME_ALGEBRA)
    assert_close(list(UNIT_FACTORS["acceleration"].values()), [1, turn, 1, 1e-3], EXACT)
    assert_close(list(UNIT_FACTORS["torque"].values()), [1, 1e-3, 1, 1e-3, 1, 1e-3], EXACT)
    assert [unit in CURRENT_UNITS for unit in UNIT_FACTORS["torque"]] == [False] * 4 + [True] * 2
    assert unit_factor("torque", "Nm", "revolute", "j") == 1.0
    assert unit_factor("time", "ms", "prismatic", "j") == 1e-3
    with raises(LogError, code=Code.WRONG_UNIT, subject="units.torque"):
        unit_factor("torque", "kNm", "revolute", "j")


def test_a_log_is_called_after_its_file_and_cannot_be_changed():
    q = TURN.copy()
    log = Log(("a", "b"), T, q, TURN, np.arange(200), sources=(SourceFile("/data/run7.csv", "0"),))
    assert log.name == "run7.csv"
    assert replace(log, name="mine").name == "mine"
    assert log_from_arrays(("a", "b"), T, q, TURN).name == ""
    with pytest.raises(ValueError, match="read-only"):
        log.q[0] = 1.0
    q[0] = 7.0  # the caller's own array stays the caller's
    assert repr(log) == "Log(200 rows of 2 joints over 1.99 s)"
    assert repr(log.take(slice(0, 0))) == "Log(0 rows of 2 joints over 0 s)"
    assert log.between(3, 6).rows.tolist() == [3, 4, 5]
    assert len(join_logs([log.take(slice(0, 3)), log.take(slice(3, 9))])) == 9
    assert join_logs([log]) is log
    for name in ("q", "tau", "qd", "qdd"):
        arrays = {"q": TURN, "tau": TURN, "qd": TURN, "qdd": TURN, name: TURN[:-1]}
        with raises(InputError, code=Code.WRONG_SHAPE):
            Log(("a", "b"), T, arrays["q"], arrays["tau"], np.arange(200), arrays["qd"], arrays["qdd"])


def test_a_cut_off_is_where_the_spectrum_sinks_into_the_floor(monkeypatch):
    frequency = np.arange(0, 51.0)

    def of(density):
        monkeypatch.setattr("mindyn.logs.noise_cutoff._power_density", lambda *_: (frequency, density))
        return _joint_cutoff([], 100.0)

    density = np.where(frequency < 7, 100.0, 1.0)
    assert of(density) == 7.0
    density[25:46] = 2.0  # the floor is that between 25 and 45 Hz: four times two
    density[7:12] = 8.1
    density[12] = 8.0
    assert of(density) == 12.0
    density[46:] = 1e9
    density[:25] = 1e9
    density[25:46:2] = 1e9  # eleven of the twenty-one
    assert of(density) == 1.0
    assert of(np.where(frequency < 25, 9.0, 2.0) * 1.0) == 25.0
    rising = 2.0 ** frequency[::-1]
    assert of(np.where(frequency == 0, 0.0, rising)) < 50.0


def test_no_cut_off_where_the_motion_fills_the_band(monkeypatch):
    log = log_from_arrays(("a", "b"), T, TURN, TURN)
    result = iter([39.9, 3.0, 40.0, 3.0])
    monkeypatch.setattr("mindyn.logs.noise_cutoff._joint_cutoff", lambda *_: next(result))
    assert noise_floor_cutoff([log], 100.0) == 39.9
    assert noise_floor_cutoff([log], 100.0) is None


def test_densities_are_averaged_over_the_longest_parts():
    from scipy.signal import welch

    rng = np.random.default_rng(0)
    long, longer, short = rng.normal(size=4200), rng.normal(size=9000), rng.normal(size=500)
    frequency, density = _power_density([long, short, longer], 100.0)
    each = [welch(item, 100.0, "blackmanharris", 4096, detrend="linear") for item in (long, longer)]
    assert_close(frequency, each[0][0], EXACT)
    assert_close(density, (4200 * each[0][1] + 9000 * each[1][1]) / 13200, SAME_ALGEBRA)
    assert len(_power_density([short, rng.normal(size=100)], 100.0)[0]) == 251


@pytest.mark.parametrize(
    ("times", "cause"),
    [(180 / np.pi, "deg/s"), (np.pi / 180, "rad/s for deg/s"), (1e3, "ms for s"), (1e-3, "s for ms"), (5.0, None)],
)
def test_velocities_in_another_unit_are_known_by_their_factor(times, cause):
    velocity = np.column_stack([3 * np.cos(3 * T), -2 * np.sin(2 * T)])
    message = finding(TURN, qd=times * velocity)
    assert f"times the derivative of the position{'' if cause is None else f' ({cause}?)'}" in message
    assert ("?)" in message) == (cause is not None)
