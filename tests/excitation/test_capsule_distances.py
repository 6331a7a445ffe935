"""Capsules: distances against coal and brute force, and that they hold the shapes they are made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from excitation.independent_check import smallest_gaps
from robots import random_pose, random_robot

from mindyn import Capsule, load_robot
from mindyn.excitation.capsules import RADIUS_PART, around, capsules_of
from mindyn.excitation.clearance import Pairs, nearest
from mindyn.excitation.safety import Surroundings
from mindyn.robots.parts import Shape


def test_nearest_points_of_segments_are_those_of_a_fine_grid():
    rng = np.random.default_rng(0)
    ends = rng.normal(size=(4, 80, 1, 3))
    ends[1, :20] = ends[0, :20]  # points
    ends[3, 20:40] = ends[2, 20:40] + 0.7 * (ends[1, 20:40] - ends[0, 20:40])  # parallel segments
    found = nearest(np.moveaxis(ends, 0, -2))
    s = np.linspace(0, 1, 201)
    one = ends[0] + s[:, None] * (ends[1] - ends[0])
    other = ends[2] + s[:, None] * (ends[3] - ends[2])
    grid = np.linalg.norm(one[:, :, None] - other[:, None], axis=-1).min(axis=(1, 2))
    assert (found.distance[:, 0] <= grid + 1e-12).all()
    assert np.abs(found.distance[:, 0] - grid).max() < 0.01
    place = (ends[0] - ends[2])[:, 0] + found.s * (ends[1] - ends[0])[:, 0] - found.t * (ends[3] - ends[2])[:, 0]
    assert_close(np.linalg.norm(place, axis=-1), found.distance[:, 0], ORACLE)


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
        for mine, theirs in zip(kept.with_slopes(changed), fresh.with_slopes(changed), strict=True):
            assert_close(mine, theirs, SAME_ALGEBRA)
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
def test_a_capsule_around_a_shape_holds_all_of_it(shape):
    rng = np.random.default_rng(0)
    shape = replace(shape, pose=random_pose(rng))
    capsule = around(shape, "link")
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


def test_capsules_of_a_robot_without_shapes_join_its_joints():
    body = capsules_of(load_robot("ur10"))
    lengths = {c.link: float(np.linalg.norm(c.b - c.a)) for c in body.capsules}
    assert lengths["upper_arm_link"] == pytest.approx(0.612)
    assert f"{RADIUS_PART:g} of the summed joint distances" in body.origin
    assert all(c.radius == 0.03 for c in capsules_of(load_robot("ur10"), 0.03).capsules)


def test_shapes_come_before_joints_and_meshes_are_said_not_to_be_read():
    robot = load_robot("ur10")
    shapes = {
        "forearm_link": (Shape("cylinder", (0.07, 0.5)),),
        "wrist_1_link": (Shape("mesh", (1, 1, 1), filename="w"),),
    }
    links = tuple(replace(link, shapes=shapes.get(link.name, ())) for link in robot.links)
    body = capsules_of(replace(robot, links=links))
    (forearm,) = (c for c in body.capsules if c.link == "forearm_link")
    assert forearm.radius == 0.07
    assert "around the shapes of forearm_link;" in body.origin
    assert "wrist_1_link (its mesh is not read)" in body.origin


def test_given_capsules_of_unknown_links_are_refused():
    with pytest.raises(Exception, match="no link 'elbow2'"):
        Surroundings(capsules=(Capsule("elbow2", np.zeros(3), np.ones(3), 0.1),)).body(load_robot("ur10"))


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan")])
def test_capsules_have_a_positive_radius(radius):
    with pytest.raises(Exception, match="radius"):
        Capsule("", np.zeros(3), np.ones(3), radius)
