"""Findings about units, limits, jumps and velocities of a log begin at their documented limits."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, assert_close
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Kind
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import ACCEPTABLE_FINDINGS, LogError
from mindyn.logs.metadata import LogMetadata
from mindyn.logs.number_checks import LogInspector, check_units, reachable_positions
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
    """Return what the error is about, as `accept` names it; nothing without a finding, which is then accepted."""
    log = log_from_arrays(robot.joint_names, T, q, tau, qd)
    log = replace(log, metadata=replace(LogMetadata(), **stated)) if stated else log
    accepted = [note for note in check_units(log, robot, ACCEPTABLE_FINDINGS) if note.kind is not Kind.BEYOND_LIMITS]
    if not accepted:
        check_units(log, robot, ())
        return ""
    with raises(LogError, code=Code.WRONG_UNIT) as rejected:
        check_units(log, robot, ())
    check_units(log, robot, (str(rejected.value.subject),))
    return rejected.value.subject


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
    assert finding(with_peak(4.01), robot=arm) == "degrees"
    # As degrees a joint may be a fifth beyond its limit.
    assert finding(with_peak(1.19 * np.rad2deg(2.0)), robot=arm)
    assert finding(with_peak(1.21 * np.rad2deg(2.0)), robot=arm) == ""
    narrow = limited(Limits(-0.1, 0.1), Limits(-2.0, 2.0))
    assert finding(with_peak(3.1), robot=narrow) == ""  # more than half a turn is needed whatever the limits
    assert finding(with_peak(3.2), robot=narrow)


def test_torques_look_like_millis_from_twenty_times_the_limits_on():
    arm = limited(Limits(effort=10.0), Limits(effort=30.0))
    square = np.where(np.arange(200) % 2, 1.0, -1.0)

    def with_rms(first, second):
        return finding(0.1 * TURN, np.column_stack([first * square, second * square]), robot=arm)

    assert with_rms(199.0, 1.0) == ""
    assert with_rms(201.0, 1.0) == with_rms(1.0, 900.0) == "milli"
    assert with_rms(1e-3, 0.0151) == ""
    assert with_rms(1e-3, 0.0147) == "milli"
    half = limited(Limits(effort=10.0), Limits())
    assert finding(0.1 * TURN, 500.0 * TURN, robot=half) == "milli"
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
        assert [(note.kind, note.joints) for note in notes] == [(Kind.BEYOND_LIMITS, ("joint1",))] * beyond


def test_jumps_are_faster_than_the_limit_and_than_usual_steps():
    arm = limited(Limits(velocity=4.0), Limits())
    for speed, known in ((3.9, []), (4.1, ["joint1"]), (9.9, ["joint1"]), (10.1, ["joint1", "joint2"])):
        seen = LogInspector(arm)
        q = np.zeros((200, 2))
        q[100:] = 0.01 * speed
        log = log_from_arrays(arm.joint_names, T, q, q)
        for part in (slice(0, 100), slice(100, 200)):
            seen.see(log.take(part))
        jumps = [note for note in seen.findings() if note.kind is Kind.POSITION_JUMP]
        assert [note.joints for note in jumps] == [(name,) for name in known]
        assert [note.value for note in jumps] == pytest.approx([0.01 * speed] * len(known))
    twice = LogInspector(arm)
    q = np.zeros((200, 2))
    q[50:, 0], q[150:, 0] = 0.1, -0.2
    twice.see(log_from_arrays(arm.joint_names, T, q, q))
    assert twice.findings()[0].value == pytest.approx(-0.3)  # the larger one of two
    fast = LogInspector(arm)
    fast.see(log_from_arrays(arm.joint_names, T, 0.2 * np.cumsum(np.ones((200, 2)), axis=0), TURN))
    assert fast.findings() == []  # every step alike


def test_velocities_that_hold_one_value_are_known():
    arm = limited(Limits(), Limits())
    moving, constant = np.column_stack([T, T]), np.column_stack([T, 0 * T + 3.5])
    seen, log = LogInspector(arm), log_from_arrays(arm.joint_names, T, moving, moving, constant)
    for part in (slice(0, 100), slice(100, 200)):
        seen.see(log.take(part))
    assert [(note.kind, note.joints) for note in seen.findings()] == [(Kind.CONSTANT_VELOCITY, ("joint2",))]
    resting = LogInspector(arm)
    resting.see(log_from_arrays(arm.joint_names, T, constant, moving, constant))
    assert resting.findings() == []  # a joint that stands has no speed


@pytest.mark.parametrize(
    ("times", "cause"),
    [(180 / np.pi, "deg/s"), (np.pi / 180, "rad/s for deg/s"), (1e3, "ms for s"), (1e-3, "s for ms"), (5.0, None)],
)
def test_velocities_in_another_unit_are_known_by_their_factor(times, cause):
    velocity = np.column_stack([3 * np.cos(3 * T), -2 * np.sin(2 * T)])
    log = log_from_arrays(PLANAR.joint_names, T, TURN, TURN, times * velocity)
    with raises(LogError, code=Code.WRONG_UNIT, subject="velocity") as raised:
        check_units(log, PLANAR, ())
    assert re.findall(r"\((.*)\?\)", raised.value.message) == ([] if cause is None else [cause])


ROBOT = load_robot("planar2")


def log_at(time, names=ROBOT.joint_names):
    q = np.column_stack([np.sin((1 + k) * time) for k in range(len(names))])
    return log_from_arrays(names, time, q, 2 * q)


@pytest.mark.parametrize(("rate_hz", "usual"), [(4.9, False), (5.2, True), (39_000.0, True), (41_000.0, False)])
def test_stamps_of_a_rate_that_no_robot_is_logged_at_are_rejected(rate_hz, usual):
    log = replace(log_at(np.arange(50) / rate_hz), metadata=LogMetadata(units={"time": "s"}))
    if usual:
        assert check_units(log, ROBOT, ()) == []
    else:
        with raises(LogError, code=Code.WRONG_UNIT, subject="rate"):
            check_units(log, ROBOT, ())
        assert len(check_units(log, ROBOT, ("rate",))) == 1
    for stated in (LogMetadata(rate_hz=rate_hz, units={"time": "s"}), LogMetadata()):  # no stamps to be wrong about
        assert check_units(replace(log, metadata=stated), ROBOT, ()) == []


@pytest.mark.parametrize(("factor", "is_near"), [(0.55, True), (1.9, True), (0.45, False), (2.2, False), (-1, False)])
def test_a_velocity_is_near_the_derivative_of_the_position(factor, is_near):
    t = np.arange(400) / 200
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    qd = factor * np.column_stack([3 * np.cos(3 * t), -2 * np.sin(2 * t)])
    log = log_from_arrays(ROBOT.joint_names, t, q, q, qd)
    assert len(check_units(log, ROBOT, ("velocity",))) == (not is_near)
