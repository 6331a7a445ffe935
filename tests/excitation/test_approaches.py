"""The way from home to a motion and back: around what stands between, by the written file and the original shapes."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cli.program import mindyn_program
from oracles.collision_scene import load_scene
from oracles.motion_reference import Motion as Samples
from oracles.motion_reference import check_motion, read_motion
from raising import raises
from scipy.spatial import ConvexHull

import mindyn
from mindyn.foundation.errors import Code, UnsafeMotionError
from mindyn.foundation.findings import Kind
from mindyn.motions.excitation import design
from mindyn.motions.excitation.body_pairs import allow_distances_at, find_encounters, gaps_of
from mindyn.motions.excitation.constraints import Box
from mindyn.motions.excitation.motion_check import check_path
from mindyn.motions.excitation.motion_design import check_design
from mindyn.motions.excitation.motion_safety import SafetySettings, what_to_check
from mindyn.motions.excitation.motions import ApproachPath, Motion
from mindyn.motions.excitation.solving import Search
from mindyn.motions.excitation.volumes import Volume, cover, volumes_of
from mindyn.robots.link_solids import Solid, VolumeSource, mesh_solid
from mindyn.robots.mesh_files import Triangles

INERTIA = """<inertial><origin xyz="{com}"/><mass value="2"/>
<inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>"""
SHAPE = '<collision><origin xyz="{xyz}"/><geometry><box size="{size}"/></geometry></collision>'
POST = SHAPE.format(xyz="0.4 0 0.3", size="0.06 0.06 0.6")
"""On the base, in front of the arm: lower than the arm can reach over."""
JOINTS = (("waist", "base", "turret", "0 0 0.1", "0 0 1"), ("shoulder", "turret", "upper", "0 0 0.15", "0 1 0"))
JOINTS += (("elbow", "upper", "forearm", "0 0 0.3", "0 1 0"),)
SIZES = {"turret": ("0 0 0.05", "0.16 0.1 0.1"), "upper": ("0 0 0.15", "0.06 0.06 0.3")}
SIZES["forearm"] = ("0 0 0.15", "0.05 0.05 0.3")
SHORT = ("--seconds", "5", "--harmonics", "2", "--starts", "1", "--deadline-s", "10", "--rate-hz", "50")


@pytest.fixture
def arm(tmp_path):
    parts = [f'<link name="base">{POST}</link>']
    for name, (xyz, size) in SIZES.items():
        body = SHAPE.format(xyz=xyz, size=size)
        parts.append(f'<link name="{name}">{INERTIA.format(com=xyz)}{body}</link>')
    for name, parent, child, xyz, axis in JOINTS:
        parts.append(
            f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{xyz}"/><axis xyz="{axis}"/><limit lower="-2" upper="2" velocity="2" effort="80"/></joint>'
        )
    path = tmp_path / "arm.urdf"
    path.write_text(f'<robot name="arm">{"".join(parts)}</robot>')
    return path


def excite(arm, tmp_path, home, *, more=""):
    limits = tmp_path / "limits.toml"
    limits.write_text(f"home = {home}\n{more}")
    return mindyn_program("excite", arm, *SHORT, "--limits", limits, "--out", tmp_path / "motion")


def test_the_approach_avoids_obstacles_between_home_and_start(arm, tmp_path):
    home, start = [-0.9, 1.3, 0.2], [0.9, 1.3, 0.2]
    scene = load_scene(arm)
    share = np.linspace(0, 1, 200)
    names = [name for name, *_ in JOINTS]
    ended = excite(arm, tmp_path, home, more=f"start = {start}\n")
    assert ended.code == 0, ended.err
    assert "approach and return checked" in ended.out
    for name in ("motion.csv", "rehearsal.csv"):
        motion = read_motion(tmp_path / "motion" / name)
        q = np.stack([motion.q[joint] for joint in names], axis=1)
        assert np.abs(q[[0, -1]] - home).max() < 1e-6
        assert np.linalg.norm(q - start, axis=1).min() < 0.05
        assert check_motion(scene, motion).is_safe
    straight = type(motion)(
        share,
        {joint: a + share * (b - a) for joint, a, b in zip(names, home, start, strict=True)},
        *({joint: np.full(200, b - a) for joint, a, b in zip(names, home, start, strict=True)} for _ in range(2)),
    )
    assert check_motion(scene, straight).smallest[0] <= 0, "the test is void: nothing stands between"


def test_home_may_lie_at_the_end_of_a_range_but_not_beyond_it_nor_where_it_touches(arm, tmp_path):
    assert excite(arm, tmp_path, [2.0, -2.0, 0.0]).code in (0, 3)
    at_the_end = excite(arm, tmp_path, [2.0, -0.5, 0.0])
    assert at_the_end.code == 0, at_the_end.err
    beyond = excite(arm, tmp_path, [2.01, -0.5, 0.0])
    assert beyond.code == 1
    touching = excite(arm, tmp_path, [0.0, 1.3, 0.2])
    assert touching.code == 3
    assert "base - " in touching.err


def test_shapes_that_turn_in_covers_around_one_axis_are_measured():
    """A long box about the axis of a joint: its capsule lies still next to an obstacle, the box in it does not."""
    robot = mindyn.load_robot("planar2")
    corners = np.array(np.meshgrid([-0.3, 0.3], [-0.02, 0.02], [-0.05, 0.05])).reshape(3, 8).T
    blade = volumes_of(robot, radius={robot.link_names[0]: 0.35}).volumes
    joint = robot.joints[0].tip.inverse().translation
    around = next(item for item in blade if item.link == robot.link_names[0])
    ball = type(around.covers[0])(around.link, joint, joint, 0.35)
    turning = Volume(around.link, (ball,), (Solid(corners + joint),), VolumeSource.COLLISION)
    origin = mindyn.compile_model(robot).forward_kinematics(np.zeros((1, 2)), robot.link_names[0])[0]
    place = origin[:3, :3] @ joint + origin[:3, 3]
    centre = place + np.array([0.0, 0.38, 0.0])
    spot = type(ball)("", centre, centre, 0.05)
    post = Volume("", (spot,), (spot.solid,), VolumeSource.GIVEN)
    probes = np.random.default_rng(0).uniform(-3, 3, (300, 2))
    encounters = find_encounters(robot, [turning], [post], [], probes, 0.01)
    assert [item.names for item in encounters.checked] == [(around.link, "obstacle 1")]
    turn = np.linspace(0, np.pi, 100)[:, None] * [1.0, 0.0]
    reported = check_path(encounters, [(turn, None)], 0).distances[0].distance_m
    assert -0.01 < reported < 0.03 + 1e-6, "the end of the blade passes at 0.38 - 0.3 - 0.05 m"


def test_another_start_is_approached_if_no_path_reaches_the_best_one(monkeypatch):
    """The first motion lies behind a wall that no path passes; an error about home itself ends the design."""
    family, near, far = mindyn.Fourier(1), np.array([0.1, 0.2]), np.array([2.0, 0.2])
    groups = [[Motion(family, 6.0, start, np.zeros((2, 2)))] for start in (far, near)]
    asked = []

    def plan(code):
        def planned(home, starts, *_):
            asked.append(starts[0].tolist())
            if starts[0, 0] > 1:
                raise UnsafeMotionError("no path", subject="home", code=code)
            return 0, ApproachPath(np.stack([home, starts[0]]), np.ones(1))

        return planned

    monkeypatch.setattr(design, "approach_from", plan(Code.NOT_CONVERGED))
    motion, way = design.approach_first(np.zeros(2), groups, None, None, 0)
    assert motion is groups[1][0]
    assert way.places[-1].tolist() == near.tolist()
    assert asked == [far.tolist(), near.tolist()]
    with raises(UnsafeMotionError, Code.NOT_CONVERGED):
        design.approach_first(np.zeros(2), groups[:1], None, None, 0)
    monkeypatch.setattr(design, "approach_from", plan(Code.UNSAFE_MOTION))
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION):
        design.approach_first(np.zeros(2), groups, None, None, 0)


def test_a_search_keeps_motions_that_begin_elsewhere():
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=2.0, effort=4000.0)
    search = Search(SimpleNamespace(limits=limits), None)
    starts = ([0.0, 0.0], [0.1, 0.1], [1.5, 0.0], [0.0, -1.0])
    for value, start in zip((1.0, 1.1, 3.0, 2.0), starts, strict=True):
        search.others.append((value, Motion(mindyn.Fourier(1), 6.0, np.array(start), np.zeros((2, 2)))))
    assert [motion.start.tolist() for motion in search.results(0.2)] == [starts[0], starts[3], starts[2]]


def test_a_home_that_touches_is_rejected_before_the_search(arm, monkeypatch):
    def search(*_):
        raise AssertionError("a search for a home that is rejected is in vain")

    monkeypatch.setattr(design, "_search_motion", search)
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION, "home"):
        mindyn.design_motion(mindyn.load_robot(arm), seconds=5.0, motion=mindyn.MotionSettings(home=[0.0, 1.3, 0.2]))


def smallest_gap(scene, names, q):
    """Return the smallest distance over positions (N, n), by Pinocchio and coal."""
    still = {name: np.zeros(len(q)) for name in names}
    motion = Samples(np.arange(len(q)) / 250, dict(zip(names, q.T, strict=True)), still, still)
    return check_motion(scene, motion).smallest[0]


def test_a_home_nearer_than_the_clearance_is_left_and_reached_without_coming_nearer(arm, tmp_path):
    """The forearm is 37 mm from the post at home; the clearance is 60 mm, and the motion keeps it."""
    home, names = [0.0, 0.15, 1.1], [name for name, *_ in JOINTS]
    scene = load_scene(arm)
    at_home = smallest_gap(scene, names, np.array([home, home]))
    assert 0.015 < at_home < 0.05, "the test is void: home is far from everything, or touches"
    ended = excite(arm, tmp_path, home)
    assert ended.code == 0, ended.err
    assert Kind.NEAR_HOME in ended.err
    rows = read_motion(tmp_path / "motion" / "motion.csv")
    q = np.stack([rows.q[name] for name in names], axis=1)
    record = json.loads((tmp_path / "motion" / "motion.json").read_text())
    way_s = sum(record["approach"]["seconds"])
    inside = (rows.t >= way_s) & (rows.t <= rows.t[-1] - way_s)
    assert np.abs(q[[0, -1]] - home).max() < 1e-6
    assert smallest_gap(scene, names, q) > at_home - 0.004
    assert smallest_gap(scene, names, q[inside]) > 0.06 - 1e-4
    listed = [finding["joints"] for finding in record["findings"] if finding["kind"] == Kind.NEAR_HOME]
    assert listed == [["base - forearm"]]


def test_a_motion_may_not_come_as_near_as_its_approach(arm):
    robot = mindyn.load_robot(arm)
    search = mindyn.SearchSettings(starts=1, deadline_s=5.0)
    made = mindyn.design_motion(
        robot, seconds=5.0, motion=mindyn.MotionSettings(home=[-0.9, 0.3, 0.2]), search=search, rng=0
    )
    closest = made.check.closest.distance_m
    limits = made.limits
    positions = limits.middle + limits.reach * np.random.default_rng(0).uniform(-1, 1, (500, 3))
    volumes, encounters = what_to_check(robot, positions, SafetySettings())
    strict = tuple(replace(one, required_m=max(one.required_m, closest + 0.02)) for one in encounters.checked)
    safety = SimpleNamespace(encounters=replace(encounters, checked=strict), volumes=volumes)
    on_the_way = SimpleNamespace(encounters=encounters, volumes=volumes)
    with raises(UnsafeMotionError, Code.UNSAFE_MOTION):
        check_design(made, safety, on_the_way, 1.0)
    assert check_design(made, on_the_way, on_the_way, 1.0).check is not None


def test_a_home_nearer_than_the_tracking_error_is_rejected(arm):
    robot = mindyn.load_robot(arm)
    positions = np.random.default_rng(0).uniform(-1.9, 1.9, (500, 3))
    _, encounters = what_to_check(robot, positions, SafetySettings())
    gaps = [
        (gaps_of(encounters.bodies, one, encounters.bodies.poses(positions), is_exact=True), one)
        for one in encounters.checked
    ]
    seen = set()
    for row, q in enumerate(positions):
        near = [(float(gap[row]), one) for gap, one in gaps if gap[row] < one.needed_m]
        allowed = allow_distances_at(encounters, q, 0.01)
        for gap, one in near:
            changed = next(other for other in allowed.checked if other.names == one.names)
            assert changed.required_m >= 0.01 - 1e-12
            assert changed.required_m <= one.required_m
            if gap > 0.014:
                assert changed.needed_m <= gap, "home itself keeps the reduced distance"
                assert changed.required_m > gap - 0.005, "and little less is allowed"
                seen.add("allowed")
            elif gap < 0.01:
                assert changed.required_m == one.required_m
                seen.add("rejected")
        if not near:
            assert allowed is encounters
            seen.add("free")
    assert seen == {"allowed", "rejected", "free"}


def test_a_motion_is_designed_on_the_side_of_a_wall_where_home_is(arm):
    """The arm is always stretched out, and a wall divides what the waist can reach: 2.5 rad, and 1 rad with home."""
    robot = mindyn.load_robot(arm)
    limits = mindyn.MotionLimits.of(robot, lower=[-2.0, 0.9, -0.4], upper=[2.0, 1.5, 0.4], velocity=2.0)
    wall = Box((0.15, 0.12, 0.0), (0.9, 0.16, 1.2))
    safety = SafetySettings(obstacles=[wall], floor=-1.0, clearance_m=0.02)
    search = mindyn.SearchSettings(starts=1)
    design = mindyn.design_motion(
        robot,
        seconds=5.0,
        motion=mindyn.MotionSettings(home=[1.5, 1.2, 0.0]),
        limits=limits,
        safety=safety,
        search=search,
        rng=0,
    )
    t = np.linspace(0, design.run().seconds, 2000)
    assert design.approach is not None
    assert design.run().derivative(t, 0)[:, 0].min() > np.arctan2(0.16, 0.9)


def boxes(*ends):
    """Return the triangles of boxes, as one surface."""
    corners = [np.array(np.meshgrid(*np.transpose(pair))).reshape(3, 8).T for pair in ends]
    faces = [8 * k + simplex for k, box in enumerate(corners) for simplex in ConvexHull(box).simplices]
    return Triangles(np.concatenate(corners), np.array(faces))


def test_a_home_inside_the_hull_of_a_fork_is_measured_by_the_surfaces():
    """A small box between two prongs, 30 mm from each: the hull of the fork contains it."""
    robot = mindyn.load_robot("planar2")
    pose = mindyn.compile_model(robot).forward_kinematics(np.zeros((1, 2)), robot.link_names[1])[0]
    place = pose[:3, 3]
    prongs = [(np.array([-0.1, side - 0.01, -0.05]), np.array([0.1, side + 0.01, 0.05])) for side in (-0.05, 0.05)]
    fork = mesh_solid(boxes(*((place + low, place + high) for low, high in prongs)))
    low, high = np.array([-0.01] * 3), np.array([0.01] * 3)
    block = mesh_solid(boxes([low, high]))
    volumes = [
        Volume(name, *cover([solid], name, 1), VolumeSource.COLLISION)
        for name, solid in ((robot.root.name, fork), (robot.link_names[1], block))
    ]
    probes = np.random.default_rng(0).uniform(-3, 3, (300, 2))
    encounters = find_encounters(robot, volumes, [], [], probes, 0.06)
    (encounter,), home = encounters.checked, np.zeros(2)
    there = encounters.bodies.poses(home[None])
    assert gaps_of(encounters.bodies, encounter, there, is_exact=True)[0] < 0, "the test is void: no hull is in the way"
    (allowed,) = allow_distances_at(encounters, home, 0.01).checked
    assert allowed.by == "meshes"
    assert 0.025 < allowed.required_m < 0.03
    assert abs(gaps_of(encounters.bodies, allowed, there, is_exact=True)[0] - 0.03) < 1e-6
    (rejected,) = allow_distances_at(encounters, home, 0.04).checked
    assert rejected is encounter
