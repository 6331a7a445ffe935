"""Bad input of designs: named, with what would do, before anything is computed from it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from excitation.full_speed import FULL_SPEED, design_motion
from raising import raises
from robots import random_robot

import mindyn
from mindyn.foundation.algebra.poses import IDENTITY
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, UnsafeMotionError
from mindyn.foundation.findings import Kind
from mindyn.motions import Box, Capsule, design_motions
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather
from mindyn.robots.parts import Limits, Link


def arm(**limits):
    robot = random_robot(11, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))
    return robot, mindyn.MotionLimits.of(robot, **limits)


def design(robot, limits=None, **options):
    settings = {"seconds": 6.0, "family": mindyn.Fourier(2, ramp_s=1.0), "starts": 1} | FULL_SPEED | options
    return design_motion(robot, limits=limits, **settings)


def test_missing_limits_of_the_robot_are_listed_by_name():
    robot, _ = arm()
    joints = tuple(replace(j, limits=Limits(-1, 1) if k else j.limits) for k, j in enumerate(robot.joints))
    bare = replace(robot, joints=joints)
    with raises(mindyn.MindynError, Code.MISSING_VALUE, "velocity") as caught:
        design(bare)
    assert "velocity=..., effort=..." in caught.value.hint
    stated = mindyn.MotionLimits.of(bare, velocity={"joint2": 1, "joint3": 2}, effort=50)
    assert stated.velocity.tolist() == [3.0, 1.0, 2.0]


def test_infinity_means_no_limit():
    robot, limits = arm(effort=np.inf)
    with raises(MissingPhysicsError, Code.MISSING_VALUE, "noise"):
        design(robot, limits)
    assert not any("torque" in label for label in design(robot, limits, noise=1.0).used)


def test_joints_without_position_limits_are_designed_for():
    robot, limits = arm(lower=-np.inf, upper=np.inf)
    result = design(robot, limits, deadline_s=0.0)
    assert not any(label.startswith("position") for label in result.used)
    assert max(result.used.values()) <= 1


def continuous(robot):
    """All its joints as a URDF's continuous ones."""
    endless = Limits(velocity=3.0, effort=200.0, continuous=True)
    return replace(robot, joints=tuple(replace(joint, kind="revolute", limits=endless) for joint in robot.joints))


def test_continuous_joints_are_not_asked_for_positions_and_stay_within_a_turn():
    robot = continuous(arm()[0])
    result = design(robot, deadline_s=0.0)
    assert np.abs(result.sample(100.0)[0]).max() <= 2 * np.pi
    assert {f"position of {name}" for name in robot.joint_names} <= set(result.used)
    assert any(
        finding.kind is Kind.GUESSED_LIMIT and finding.joints == robot.joint_names for finding in result.findings
    )
    given = mindyn.MotionLimits.of(
        robot, lower={"joint1": -1.0, "joint2": -np.inf}, upper={"joint1": 1.0, "joint2": np.inf}
    )
    assert given.lower.tolist() == [-1.0, -np.inf, -2 * np.pi]
    assert any(finding.joints == ("joint3",) for finding in design(robot, given, deadline_s=0.0).findings)


def test_continuous_joints_still_need_speed_and_effort():
    robot = arm()[0]
    endless = Limits(continuous=True)
    bare = replace(robot, joints=tuple(replace(joint, kind="revolute", limits=endless) for joint in robot.joints))
    with raises(mindyn.MindynError, Code.MISSING_VALUE, "velocity"):
        design(bare)


def test_a_joint_without_any_limit_is_named():
    robot, limits = arm(
        **{name: {"joint2": np.inf} for name in ("upper", "velocity", "effort")}, lower={"joint2": -np.inf}
    )
    with raises(InputError, Code.MISSING_VALUE, "joint2"):
        design(robot, limits, noise=1.0)


def test_limits_of_another_robot_raise_an_error():
    robot, _ = arm()
    with raises(InputError, Code.WRONG_SHAPE, "limits"):
        design(robot, mindyn.MotionLimits.of(mindyn.load_robot("puma560")))
    with raises(InputError, Code.WRONG_TYPE, "limits"):
        design(robot, {"velocity": 2.0})


def test_a_start_outside_the_limits_is_named():
    robot, limits = arm()
    with raises(InputError, Code.OUT_OF_RANGE, "start"):
        design(robot, limits, start=[0, 9, 0])


def test_a_start_that_cannot_be_held_is_named():
    robot, limits = arm(effort=[100.0, 1e-3, 1e-3])
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, "torque of joint2"):
        design(robot, limits, start=[0.5, 0.5, 0.5])


def test_impossible_torque_limits_are_named():
    robot = mindyn.load_robot("puma560")
    with raises(mindyn.MindynError, Code.OUT_OF_RANGE, "joint4"):
        design(robot, mindyn.MotionLimits.of(robot, effort={"joint4": 0.5}))
    robot, limits = arm(effort=[100.0, 1e-3, 1e-3])
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, "torque of joint2"):
        design(robot, limits)


CANNOT_MOVE = pytest.mark.parametrize(
    "change",
    [
        {"velocity": {"joint3": 0.0}},
        {"acceleration": {"joint3": 0.0}},
        {"lower": {"joint3": 0.5}, "upper": {"joint3": 0.5}},
    ],
)


@CANNOT_MOVE
def test_a_joint_that_cannot_move_leaves_named_parameters_unidentifiable(change):
    robot, limits = arm(**change)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "Im3"):
        design(robot, limits)


@CANNOT_MOVE
@pytest.mark.parametrize("criterion", ["condition", "D"])
def test_a_joint_that_cannot_move_is_no_obstacle_where_an_earlier_log_known_the_rest(change, criterion):
    robot, free = arm()
    first = design(robot, free, deadline_s=0.0)
    q, qd, qdd, t = first.sample(100.0)
    samples = mindyn.Samples(robot.joint_names, q, qd, qdd, qdd, 100.0, np.zeros(len(t), dtype=np.int64))
    previous = gather(Regressor(first.robot), samples)
    result = design(*arm(**change), previous=previous, criterion=criterion)
    assert max(result.used.values()) <= 1
    moved = np.ptp(result.sample(100.0)[0], axis=0)
    assert moved[2] < 1e-9
    assert (moved[:2] > 0.1).all()
    assert result.criteria[criterion] < first.criteria[criterion]


def test_without_inertial_parameters_a_prior_is_asked_for():
    robot, limits = arm()
    bare = replace(robot, links=tuple(Link(link.name) for link in robot.links))
    with raises(mindyn.MindynError, Code.MISSING_VALUE, "random11") as caught:
        design(bare, limits)
    assert "beta=" in caught.value.hint
    count = len(mindyn.base_parameters(with_estimated_drives(robot), with_drives=True))
    with raises(
        mindyn.MindynError,
        Code.WRONG_SHAPE,
        "prior values of m1R, mcx2R, mcy2R, Izz2R, m3, mcx3R, mcy3R, Im3, fo1R, fo2, fo3, fv1, fc1, fv2, fc2, fv3, fc3",
    ):
        design(bare, limits, beta=np.ones(count - 1))


def test_a_prior_takes_the_place_of_the_robots_parameters():
    robot, limits = arm()
    base = mindyn.base_parameters(with_estimated_drives(robot), with_drives=True)
    heavy = design(robot, limits, beta=40 * base.values, noise=1.0, self_collision=False)
    light = design(robot, limits, noise=1.0, self_collision=False)
    assert np.abs(heavy.sample(100.0)[2]).max() < np.abs(light.sample(100.0)[2]).max()


def test_information_of_other_parameters_raises_an_error():
    robot, limits = arm()
    other = random_robot(12, joints=3, tree=False)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 200, 3))
    samples = mindyn.Samples(other.joint_names, *rows, 100.0, np.zeros(200, dtype=np.int64))
    with raises(InputError, Code.DISAGREEMENT, "previous"):
        design(robot, limits, previous=gather(Regressor(other), samples))


def test_a_box_around_nothing_and_obstacles_that_move_are_rejected():
    robot, limits = arm()
    with raises(InputError, Code.OUT_OF_RANGE, "upper"):
        Box((0, 0, 0), (1, 0, 1))
    moving = Capsule("link2", np.zeros(3), np.ones(3), 0.1)
    with raises(mindyn.MindynError, Code.INVALID_VALUE, "link2"):
        design(robot, limits, obstacles=(moving,))


def test_walls_that_leave_no_room_are_named():
    robot, limits = arm()
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, "gap of link1 - lower x wall"):
        design(robot, limits, workspace=Box((5, 5, 5)))


def test_a_moving_link_without_a_volume_is_named():
    robot, limits = arm(effort=np.inf)
    bare = replace(robot, links=(*robot.links[:-1], replace(robot.links[-1], phi=None, shapes=())), frames=())
    bare = replace(bare, joints=(*bare.joints[:-1], replace(bare.joints[-1], tip=IDENTITY)))
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, "link3"):
        design(bare, limits, noise=1.0)
    for settings in ({"radius": {"link3": 0.1}}, {"accept_unchecked": ["link3"]}):
        result = design(bare, limits, noise=1.0, deadline_s=0.0, **settings)
        assert result.check.links == ((3, 3) if "radius" in settings else (2, 3))


def test_an_obstacle_that_no_position_avoids_is_named_and_a_pedestal_is_not():
    robot = mindyn.load_robot("puma560")

    def on_a_ball(radius):
        return design(robot, obstacles=(Capsule("", np.zeros(3), np.zeros(3), radius),), deadline_s=0.0)

    assert any("link1 - obstacle 1" in finding.joints for finding in on_a_ball(0.1).findings)
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, "gap of link3 - obstacle"):
        on_a_ball(9.0)


@pytest.mark.parametrize(
    ("options", "code", "subject"),
    [
        ({"seconds": 0.0}, Code.OUT_OF_RANGE, "seconds"),
        ({"criterion": "G"}, Code.UNKNOWN_NAME, "G"),
        ({"family": "fourier"}, Code.WRONG_TYPE, "family"),
        ({"family": mindyn.Fourier}, Code.WRONG_TYPE, "family"),
        ({"noise": [1.0, 0.0, 1.0]}, Code.OUT_OF_RANGE, "noise"),
        ({"noise": [1.0, 1.0]}, Code.WRONG_SHAPE, "noise"),
        ({"rate_hz": -1.0}, Code.OUT_OF_RANGE, "rate_hz"),
        ({"starts": 0}, Code.OUT_OF_RANGE, "starts"),
        ({"seconds": 1.5}, Code.OUT_OF_RANGE, "ramp_s"),
        ({"noise": "low"}, Code.WRONG_TYPE, "noise"),
        ({"rng": -1}, Code.OUT_OF_RANGE, "rng"),
        ({"rng": "now"}, Code.WRONG_TYPE, "rng"),
        ({"deadline_s": float("nan")}, Code.OUT_OF_RANGE, "deadline_s"),
        ({"deadline_s": -1.0}, Code.OUT_OF_RANGE, "deadline_s"),
        ({"clearance_m": float("nan")}, Code.OUT_OF_RANGE, "clearance_m"),
        ({"rate_hz": 0.3}, Code.TOO_LITTLE_DATA, "seconds"),
    ],
)
def test_impossible_arguments_are_named(options, code, subject):
    with raises(mindyn.MindynError, code, subject):
        design(*arm(), **options)


@pytest.mark.parametrize(
    ("name", "value"), [("motion", {"speed": 1.0}), ("safety", {"floor": None}), ("log", 100.0), ("search", 3)]
)
def test_settings_of_another_type_are_named(name, value):
    with raises(InputError, Code.WRONG_TYPE, name):
        mindyn.design_motion(arm()[0], **{name: value})


GROUPS = {"motion": mindyn.MotionSettings, "log": mindyn.ExpectedLog, "search": mindyn.SearchSettings}
MOVED = [
    *((name, "motion") for name in ("family", "speed", "acceleration", "start", "home", "move")),
    *((name, "log") for name in ("rate_hz", "noise", "with_drives", "beta", "previous")),
    ("criterion", "search"),
]


@pytest.mark.parametrize("function", [mindyn.design_motion, design_motions])
@pytest.mark.parametrize(("name", "group"), MOVED)
def test_an_argument_that_is_a_field_of_settings_names_them(function, name, group):
    assert name in {field.name for field in fields(GROUPS[group])}
    with pytest.raises(TypeError, match=rf"{group}=mindyn.{GROUPS[group].__name__}\({name}=\.\.\.\)"):
        function(arm()[0], **{name: 1.0})


def test_an_unknown_argument_is_still_unknown():
    with pytest.raises(TypeError, match="unexpected keyword argument 'harmonics'"):
        mindyn.design_motion(arm()[0], harmonics=5)


@pytest.mark.parametrize(
    ("change", "code", "subject"),
    [
        ({"velocity": -1.0}, Code.OUT_OF_RANGE, "velocity"),
        ({"velocity": [1.0, 2.0]}, Code.WRONG_SHAPE, "velocity"),
        ({"velocity": {"elbow": 1.0}}, Code.UNKNOWN_NAME, "elbow"),
        ({"velocity": "fast"}, Code.WRONG_TYPE, "velocity"),
        ({"lower": 3.0}, Code.OUT_OF_RANGE, "lower"),
        ({"lower": -np.inf}, Code.DISAGREEMENT, "lower"),
        ({"effort": float("nan")}, Code.MISSING_VALUE, "effort"),
        ({"torque_margin": 1.0}, Code.OUT_OF_RANGE, "torque_margin"),
        ({"torque_margin": "low"}, Code.OUT_OF_RANGE, "torque_margin"),
    ],
)
def test_impossible_limits_are_named(change, code, subject):
    with raises(mindyn.MindynError, code, subject):
        arm(**change)
