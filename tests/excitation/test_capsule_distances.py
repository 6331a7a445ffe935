"""Capsules: distances against coal and brute force, and that they hold the shapes they are made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from excitation.independent_check import smallest_gaps
from raising import raises
from robots import random_pose, random_robot

from mindyn import load_robot
from mindyn.foundation.errors import Code, MindynError, UnknownNameError
from mindyn.motions import Capsule
from mindyn.motions.excitation.capsule_pairs import Pairs, nearest
from mindyn.motions.excitation.volumes import volumes_of
from mindyn.robots.link_solids import VolumeSource
from mindyn.robots.parts import Shape


def test_nearest_points_of_segments_are_those_of_a_fine_grid():
    rng = np.random.default_rng(0)
    ends = rng.normal(size=(4, 80, 1, 3))
    ends[1, :20] = ends[0, :20]  # points
    ends[3, 20:40] = ends[2, 20:40] + 0.7 * (ends[1, 20:40] - ends[0, 20:40])  # parallel segments
    result = nearest(np.moveaxis(ends, 0, -2))
    s = np.linspace(0, 1, 201)
    item = ends[0] + s[:, None] * (ends[1] - ends[0])
    other = ends[2] + s[:, None] * (ends[3] - ends[2])
    grid = np.linalg.norm(item[:, :, None] - other[:, None], axis=-1).min(axis=(1, 2))
    assert (result.distance[:, 0] <= grid + 1e-12).all()
    assert np.abs(result.distance[:, 0] - grid).max() < 0.01
    place = (ends[0] - ends[2])[:, 0] + result.s * (ends[1] - ends[0])[:, 0] - result.t * (ends[3] - ends[2])[:, 0]
    assert_close(np.linalg.norm(place, axis=-1), result.distance[:, 0], ORACLE)


def test_gaps_that_are_kept_follow_their_positions():
    """Nearest points are kept for the slopes; positions changed in place, or fewer of them, are new ones."""
    robot, rng = random_robot(1, joints=4), np.random.default_rng(1)
    capsules = [Capsule(name, rng.normal(size=3), rng.normal(size=3), 0.05) for name in robot.link_names]
    numbers = np.array([(0, 2), (1, 3)])
    kept, q = Pairs(robot, capsules, numbers), rng.uniform(-1, 1, (6, 4))
    before = kept.gaps(q)
    for changed in (q, q[:3]):
        changed += 0.3
        fresh = Pairs(robot, capsules, numbers)
        assert_close(kept.gaps(changed), fresh.gaps(changed), SAME_ALGEBRA)
        assert_close(kept.slopes(changed), fresh.slopes(changed), SAME_ALGEBRA)
    assert not np.array_equal(before, kept.gaps(q))


@pytest.mark.parametrize("seed", range(4))
def test_gaps_of_a_robots_capsules_equal_coals(seed):
    robot = random_robot(seed, joints=5)
    rng = np.random.default_rng(seed)
    capsules = [Capsule(name, rng.normal(size=3), rng.normal(size=3), 0.05) for name in robot.link_names]
    capsules.append(Capsule("", rng.normal(size=3), rng.normal(size=3), 0.02))
    pairs = [(i, j) for j in range(6) for i in range(j)]
    for q in rng.uniform(-2, 2, (5, 5)):
        gaps = Pairs(robot, capsules, np.array(pairs)).gaps(q[None])[0]
        reference = np.array(list(smallest_gaps(robot, capsules, q[None], pairs).values()))
        apart = reference > 1e-3  # of bodies that overlap, coal measures the depth another way
        assert apart.sum() > 5
        assert_close(gaps[apart], reference[apart], 1e-6)


@pytest.mark.parametrize(
    "shape",
    [
        Shape("box", (0.3, 0.1, 0.2)),
        Shape("cylinder", (0.1, 0.4)),
        Shape("capsule", (0.1, 0.4)),
        Shape("sphere", (0.2,)),
    ],
    ids=lambda shape: shape.kind,
)
def test_the_cover_of_a_shape_holds_all_of_it(shape):
    rng = np.random.default_rng(0)
    robot = load_robot("planar2")
    shape = replace(shape, pose=random_pose(rng))
    body = volumes_of(replace(robot, links=(replace(robot.links[0], shapes=(shape,)), robot.links[1]), file=""))
    (volume,) = (volume for volume in body.volumes if volume.link == robot.links[0].name)
    assert volume.source is VolumeSource.COLLISION
    (capsule,) = volume.covers
    points = shape.pose.rotation @ surface(shape, rng).T + shape.pose.translation[:, None]
    axis = capsule.b - capsule.a
    s = np.clip(axis @ (points - capsule.a[:, None]) / max(axis @ axis, 1e-12), 0, 1)
    distance = np.linalg.norm(points - capsule.a[:, None] - axis[:, None] * s, axis=0)
    assert distance.max() <= capsule.radius + 1e-12
    assert distance.max() > 0.9 * capsule.radius


def surface(shape: Shape, rng) -> np.ndarray:
    u = rng.normal(size=(4000, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    if shape.kind == "box":
        return np.sign(u) * np.array(shape.dimensions) / 2
    if shape.kind == "sphere":
        return u * shape.dimensions[0]
    radius, length = shape.dimensions
    if shape.kind == "capsule":
        return u * radius + np.sign(u[:, 2:]) * [0, 0, length / 2]
    round_ = u[:, :2] / np.linalg.norm(u[:, :2], axis=1)[:, None] * radius
    return np.column_stack([round_, rng.uniform(-length / 2, length / 2, len(u))])


def test_given_radii_join_the_joints_and_are_no_guess():
    body = volumes_of(load_robot("ur10"), radius={"upper_arm_link": 0.03})
    (arm,) = (volume for volume in body.volumes if volume.link == "upper_arm_link")
    assert arm.source is VolumeSource.GIVEN
    assert all(cover.radius == 0.03 for cover in arm.covers)
    assert max(np.linalg.norm(cover.b - cover.a) for cover in arm.covers) == pytest.approx(0.612)


def test_given_capsules_of_unknown_links_are_rejected():
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "elbow2"):
        volumes_of(load_robot("ur10"), capsules=(Capsule("elbow2", np.zeros(3), np.ones(3), 0.1),))


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan")])
def test_capsules_have_a_positive_radius(radius):
    with raises(MindynError, Code.OUT_OF_RANGE, "radius"):
        Capsule("", np.zeros(3), np.ones(3), radius)
