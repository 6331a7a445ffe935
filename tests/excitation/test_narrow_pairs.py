"""Links that are always close, as a disc in a fork: they are checked, and motions stay where they do not touch."""

from __future__ import annotations

import numpy as np
import pytest
from excitation.arm_files import SHORT
from excitation.full_speed import design_motion
from oracles.collision_scene import load_scene
from oracles.motion_reference import RATE_HZ, Motion, check_motion, read_motion
from robots_with_bodies import write_random_robot

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.motions.excitation.body_pairs import LEAST_M, find_encounters
from mindyn.motions.excitation.free_ranges import free_ranges
from mindyn.motions.excitation.volumes import volumes_of

GAP_M = 0.004
"""Between the disc and each side of the fork, when the disc stands straight."""
BODY = '<collision><origin xyz="{xyz}" rpy="{rpy}"/><geometry>{shape}</geometry></collision>'
INERTIA = """<inertial><origin xyz="0.02 0.01 0.01"/><mass value="2"/>
<inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>"""
JOINT = """<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/>
<axis xyz="{axis}"/><limit lower="{low}" upper="{high}" velocity="2" effort="80"/></joint>"""


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """A disc that turns on a bracket, which tilts it by more than the fork of the base allows."""
    side = '<box size="0.2 0.01 0.2"/>'
    fork = "".join(BODY.format(xyz=f"0 {y} 0.3", rpy="0 0 0", shape=side) for y in (-0.005, 0.015 + 2 * GAP_M))
    middle = f"0 {GAP_M + 0.005} 0.3"
    disc = BODY.format(xyz="0 0 0", rpy="1.5707963267948966 0 0", shape='<cylinder radius="0.06" length="0.01"/>')
    pin = BODY.format(xyz="0 0 0", rpy="0 0 0", shape='<sphere radius="0.001"/>')
    parts = [
        f'<link name="base">{fork}</link>',
        f'<link name="bracket">{INERTIA}{pin}</link>',
        f'<link name="disc">{INERTIA}{disc}</link>',
        JOINT.format(name="tilt", parent="base", child="bracket", xyz=middle, axis="1 0 0", low=-0.3, high=0.2),
        JOINT.format(name="turn", parent="bracket", child="disc", xyz="0 0 0", axis="0 1 0", low=-2, high=2),
    ]
    path = tmp_path_factory.mktemp("fork") / "fork.urdf"
    path.write_text(f'<robot name="fork">{"".join(parts)}</robot>')
    return path


def encounters_of(robot):
    limits = mindyn.MotionLimits.of(robot)
    probes = limits.middle + limits.reach * np.random.default_rng(0).uniform(-1, 1, (500, 2))
    return limits, find_encounters(robot, volumes_of(robot).volumes, [], [], probes, 0.06, tracking_error_m=0.01)


def test_a_pair_that_is_always_close_must_keep_half_of_its_largest_distance(arm):
    _, result = encounters_of(mindyn.load_robot(arm))
    (pair,) = result.checked
    assert GAP_M < LEAST_M
    assert pair.names == ("base", "disc")
    assert 0.4 * GAP_M < pair.required_m <= 0.5 * GAP_M
    assert pair.needed_m < GAP_M
    listed = {name for finding in result.findings if finding.kind is Kind.NARROW_PAIR for name in finding.joints}
    assert any("base - disc" in name for name in listed)


def test_ranges_without_contact_hold_no_position_with_contact(arm):
    robot = mindyn.load_robot(arm)
    limits, result = encounters_of(robot)
    rng = np.random.default_rng(1)
    free = free_ranges(robot, result, limits, np.zeros((1, 2)), 0.95, rng)
    assert free.lower[0] > -0.1
    assert free.upper[0] < 0.1
    assert np.ptp([free.lower[0], free.upper[0]]) > 0.02
    assert (free.lower[1], free.upper[1]) == (-2.0, 2.0)
    scene = load_scene(arm)
    q = dict(zip(("tilt", "turn"), rng.uniform(free.lower, free.upper, (300, 2)).T, strict=True))
    still = dict.fromkeys(q, np.zeros(300))
    motion = Motion(np.arange(300) / RATE_HZ, q, still, still)
    assert check_motion(scene, motion, floor_m=None).smallest[0] > 0.5 * GAP_M - 1e-3
    nowhere = free_ranges(robot, result, limits, np.array([[0.2, 0.0]]), 0.95, rng)
    assert np.array_equal(nowhere.lower, limits.lower), "around a place where they touch there is no range"


def test_a_motion_stays_in_the_ranges_where_the_disc_does_not_touch_the_fork(arm, tmp_path):
    design = design_motion(mindyn.load_robot(arm), **SHORT, floor=None)
    (narrowed,) = [finding for finding in design.findings if finding.kind is Kind.NARROWED_RANGE]
    assert "tilt" in narrowed.joints
    design.write(tmp_path, rate_hz=100.0)
    motion = read_motion(tmp_path / "motion.csv")
    result = check_motion(load_scene(arm), motion, floor_m=None)
    assert result.is_safe
    assert result.smallest[1] == "world - disc"
    reported = design.to_dict()["check"]["distances"]
    assert 0 < min(item["distance_m"] for item in reported) <= result.smallest[0]
    assert not result.find_overstated(reported)
    assert max(np.ptp(q) for q in motion.q.values()) > 0.1


def test_solids_that_overlap_nearly_everywhere_are_checked_if_they_can_separate(tmp_path):
    """Links 1 and 3 of this robot are apart at 0.3 % of all positions, by 0.3 mm, and else up to 50 mm deep."""
    robot = mindyn.load_robot(write_random_robot(54, tmp_path).original)
    ends = np.array([(joint.limits.lower, joint.limits.upper) for joint in robot.joints]).T
    probes = np.random.default_rng(0).uniform(*ends, (2000, robot.joint_count))
    encounters = find_encounters(robot, volumes_of(robot).volumes, [], [], probes, 0.05)
    pair = next(item for item in encounters.checked if set(item.names) == {"link1", "link3"})
    assert 0 < pair.required_m < 1e-3
    assert not any(
        "link1 - link3" in finding.joints for finding in encounters.findings if finding.kind is Kind.UNCHECKED_PAIR
    )
