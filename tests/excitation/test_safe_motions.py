"""Motions in a room: floor, walls, boxes, tool, parts of the limits; by an independent check at 1 kHz.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import DERIVATIVE, assert_close
from excitation.full_speed import design_motion
from excitation.independent_check import heights_of, least_room, smallest_gaps, worst_parts
from excitation.test_gradients_of_designs import differences
from raising import raises
from robots import random_robot

import mindyn
from mindyn.foundation.errors import Code
from mindyn.motions.excitation.capsule_pairs import Pairs
from mindyn.motions.excitation.constraints import Box, Distances, KeepOut, aggregate_values, signed_distance
from mindyn.motions.excitation.motion_safety import SafetySettings
from mindyn.motions.excitation.motions import Instants
from mindyn.motions.excitation.volumes import Capsule, volumes_of

FOLDER = Path(os.environ.get("MINDYN_ROBOT_FILES", "/nonexistent"))
PUBLISHED = {
    "ur5": "robotics-toolbox/xacro_generated/ur_description/urdf/ur5.urdf",
    "iiwa14": "drake/iiwa_description/urdf/iiwa14_primitive_collision.urdf",
}
CLEARANCE, TOLERANCE = 0.05, 1e-6
CRATE = Box((0.35, 0.1, 0.0), (0.75, 0.5, 0.4))


def require_safe(robot, design, *, floor=0.0, boxes=(CRATE,)):
    """Fail if a motion violates floor, boxes, limits or its own report, or does not move."""
    record = design.to_dict()
    parts = worst_parts(design.robot, design.limits, record)
    assert max(parts.values()) <= 1 + TOLERANCE, parts
    assert np.ptp(design.sample(100.0)[0], axis=0).max() > 0.1
    capsules = volumes_of(robot).capsules
    room = least_room(robot, capsules, record, floor=floor, boxes=boxes)
    assert room["boxes"] >= CLEARANCE
    assert min(room.values()) >= 0
    by_link = {distance.label: distance for distance in design.check.distances}
    assert all(item.distance_m >= item.required_m for item in by_link.values())


FULL = pytest.mark.full


@pytest.mark.parametrize("name", [pytest.param("ur10", marks=FULL), "panda", pytest.param("ur5", marks=FULL), "iiwa14"])
def test_no_designed_motion_breaks_floor_boxes_or_limits(name):
    path = FOLDER / PUBLISHED.get(name, ".")
    if name in PUBLISHED and not path.is_file():
        pytest.skip("MINDYN_ROBOT_FILES holds no published robots")
    robot = mindyn.load_robot(path if name in PUBLISHED else name)
    limits = mindyn.MotionLimits.of(robot)
    settings = {"seconds": 5.0, "family": mindyn.Fourier(2, ramp_s=1.0), "starts": 1, "deadline_s": 4.0}
    design = design_motion(robot, limits=limits, obstacles=(CRATE,), **settings)
    require_safe(robot, design)
    _, qd, qdd, _ = design.sample(1000.0)
    assert (np.abs(qd) <= 0.5 * limits.velocity * (1 + TOLERANCE)).all()
    stated = np.isfinite(limits.acceleration)
    assert (np.abs(qdd[:, stated]) <= 0.5 * limits.acceleration[stated] * (1 + TOLERANCE)).all()


@pytest.fixture(scope="module")
def tall():
    """A random arm of three joints on a post, that could reach below its base."""
    return random_robot(11, joints=3, tree=False, gravity=(0.0, 0.0, -9.81))


def small(robot, **options):
    settings = {"seconds": 6.0, "family": mindyn.Fourier(2, ramp_s=1.0), "starts": 1, "noise": 0.5, "deadline_s": 0.5}
    settings |= {"tip_speed": np.inf}
    return design_motion(robot, self_collision=False, **(settings | options))


def test_what_is_printed_of_a_motion_is_what_pinocchio_finds(tall):
    capsules = (Capsule("link3", np.zeros(3), np.array([0.3, 0, 0]), 0.03),)
    design = small(tall, floor=None, capsules=capsules)
    q, qd, _, _ = design.sample(1000.0)
    ends = [Capsule("link3", end, end, 0.03) for end in (capsules[0].a, capsules[0].b)]
    speeds = [np.gradient(place_of(tall, end, q), 1e-3, axis=0) for end in ends]
    assert design.check.speed >= np.linalg.norm(speeds, axis=-1).max() * (1 - 1e-4)
    assert "fraction of the robot's limits: " in design.table()
    shares = np.abs(qd).max(axis=0) / mindyn.MotionLimits.of(tall).velocity
    assert_close(design.shares["velocity"], shares.max(), 1e-6)
    assert design.shares["velocity"] <= 0.5


def place_of(robot, sphere, q):
    X = mindyn.compile_model(robot).forward_kinematics(q, sphere.link)
    return X[:, :3, 3] + X[:, :3, :3] @ sphere.a


def test_a_floor_lifts_the_motion_and_a_tool_lifts_it_further():
    robot = mindyn.load_robot("ur10")
    last = robot.link_names[-1]
    stick = Capsule(last, np.zeros(3), np.array([0.0, 0.0, 0.3]), 0.03)
    ends = [Capsule(last, end, end, 0.03) for end in (stick.a, stick.b)]
    low = small(robot, floor=None, tool=(stick,))
    height = min(float(heights_of(robot, ends, low.sample(1000.0)[0]).min()) + 0.3, -0.2)
    kept = small(robot, floor=height, tool=(stick,))
    assert heights_of(robot, ends, kept.sample(1000.0)[0]).min() >= height + 0.03 + CLEARANCE - TOLERANCE
    ball = Capsule(last, np.array([0.0, 0.0, 0.3]), np.array([0.0, 0.0, 0.3]), 0.2)
    carrying = small(robot, floor=height, tool=(stick, ball))
    ends = [Capsule(last, ball.a, ball.a, 0.2)]
    assert heights_of(robot, ends, carrying.sample(1000.0)[0]).min() >= height + 0.2 + CLEARANCE - TOLERANCE


def test_the_default_floor_is_the_base_plane_unless_the_workspace_has_one():
    assert SafetySettings(floor="base plane").room.lower[2] == 0.0
    assert SafetySettings(floor="base plane", workspace=Box((-1, -1, -0.7))).room.lower[2] == -0.7
    assert SafetySettings(floor="base plane", workspace=Box(upper=(1, 1, 1))).room.lower[2] == 0.0
    assert SafetySettings(floor=0.2, workspace=Box((-1, -1, -0.7))).room.lower[2] == 0.2
    assert not SafetySettings(floor=None).walls
    for wrong in (True, np.nan, "low"):
        with raises(mindyn.MindynError, (Code.OUT_OF_RANGE, Code.WRONG_TYPE), "floor"):
            SafetySettings(floor=wrong)
    with raises(mindyn.MindynError, Code.NOT_FINITE, "obstacles"):
        SafetySettings(obstacles=(Box(),))


def test_heights_that_no_joint_changes_are_no_floor_to_break():
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=2.0, acceleration=10.0, effort=4000.0)
    design = small(robot, limits=limits, noise=5.0)
    assert not any(distance.second == "floor" for distance in design.check.distances)
    assert any("link2 - floor" in finding.joints for finding in design.findings)


def test_a_fixed_capsule_is_not_checked_against_boxes(tall):
    still = Capsule("link1", np.zeros(3), np.zeros(3), 0.01)
    at_axis = replace(still, a=tall.joints[0].tip.inverse().translation, b=tall.joints[0].tip.inverse().translation)
    design = small(tall, floor=None, capsules=(at_axis,), obstacles=(CRATE,))
    assert max(design.used.values()) <= 1


def test_parts_of_the_limits_are_parts():
    robot = mindyn.load_robot("panda")
    whole = mindyn.MotionLimits.of(robot, acceleration=[np.inf, *[10.0] * 6])
    half = whole.parts(0.5, 0.25)
    assert_close(half.velocity, 0.5 * whole.velocity, 1e-15)
    stated = np.isfinite(whole.acceleration)
    assert_close(half.acceleration[stated], np.full(6, 2.5), 1e-15)
    assert_close(half.acceleration[~stated], 0.25 * whole.velocity[~stated] / 0.2, 1e-15)
    assert np.array_equal(whole.parts(1.0, 1.0).acceleration, whole.acceleration)
    for wrong in (0.0, 1.5, "half", True):
        with raises(mindyn.MindynError, Code.OUT_OF_RANGE, "speed"):
            whole.parts(wrong, 0.5)


def test_distances_from_boxes_are_those_of_coal_with_exact_derivatives(tall):
    rng = np.random.default_rng(3)
    capsules = tuple(
        Capsule(name, *rng.uniform(-0.3, 0.3, (2, 3)), radius)
        for name, radius in zip(tall.link_names, (0.02, 0.05, 0.03), strict=True)
    )
    boxes = (Box((0.1, -0.4, -0.2), (0.5, 0.3, 0.4)), Box((-0.9, -0.9, -0.9), (-0.2, -0.3, -0.1)))
    body = Pairs(tall, capsules, np.zeros((0, 2), dtype=np.intp))
    surfaces = KeepOut(body, boxes, np.array([(i, k) for i in range(3) for k in range(2)], dtype=np.intp))
    constraint = Distances(("",) * 6, CLEARANCE, surfaces)
    q = rng.uniform(-2, 2, (200, 3))
    gaps = surfaces.gaps(q)
    pairs = [(i, 3 + k) for i, k in surfaces.series]
    expected = np.array([list(smallest_gaps(tall, [*capsules, *boxes], row[None], pairs).values()) for row in q])
    apart = expected > 0  # how deep two shapes overlap, coal counts in another way
    assert apart.mean() > 0.3
    assert_close(gaps[apart], expected[apart], 1e-6)
    assert (gaps[expected < -1e-6] < 0).all()
    family = mindyn.Fourier(2, ramp_s=1.0)
    instants = Instants.of(family, 6.0, 40)
    z, along = 0.3 * rng.normal(size=(2, 1 + family.count, 3))
    slopes = aggregate_values(constraint, instants, instants.state(z), 20.0)[1]()
    value = lambda x: aggregate_values(constraint, instants, instants.state(x), 20.0)[0]  # noqa: E731
    assert_close(np.einsum("wcij,ij->wc", slopes, along), differences(value, z, along, h=1e-5), 10 * DERIVATIVE)


def test_the_signed_distance_of_a_box_grows_by_one_along_its_gradient():
    rng = np.random.default_rng(4)
    lower, upper = np.array([-1.0, -2.0, 0.0]), np.array([1.0, 0.5, 3.0])
    p = rng.uniform(-4, 4, (500, 3))
    distance, normal = signed_distance(p, lower, upper)
    inside = ((p > lower) & (p < upper)).all(axis=1)
    assert (distance[inside] < 0).all()
    assert (distance[~inside] > 0).all()
    h = 1e-7
    ahead = signed_distance(p + h * normal, lower, upper)[0]
    assert_close((ahead - distance) / h, np.ones(len(p)), 1e-5)
