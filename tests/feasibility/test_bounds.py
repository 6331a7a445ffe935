"""Bounds as conditions on link parameters: masses, centres, symmetry and shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from small_arms import planar_arm

from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.checks.answer import combine_answers
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.user_bounds import Bounds, bounds_from_shapes
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import Shape


@pytest.fixture(scope="module")
def space():
    return space_of(Regressor(planar_arm([0.5])))


def parameters(space, *, mass=2.0, centre=(0.1, 0.0, 0.0), Ixy=0.0):
    """x with both links of one mass; the centre of the second as given, and one product of its inertia."""
    x = np.zeros(space.size)
    x[space.masses] = mass
    x[space.link(1)][1:4] = mass * np.array(centre)
    x[space.link(1).start + 5] = Ixy
    return x


def test_masses_lie_in_their_range(space):
    bounds = Bounds(masses={"link2": (1.0, 3.0)})
    assert bounds.are_satisfied(space, parameters(space, mass=2.0, centre=(50.0, 0, 0)))
    assert not bounds.are_satisfied(space, parameters(space, mass=0.9))
    assert not bounds.are_satisfied(space, parameters(space, mass=3.1))
    assert Bounds(total_mass=(3.9, 4.1)).are_satisfied(space, parameters(space, mass=2.0))
    assert not Bounds(total_mass=(3.9, 4.1)).are_satisfied(space, parameters(space, mass=1.9))
    assert not Bounds(total_mass=(3.9, 4.1)).are_satisfied(space, parameters(space, mass=2.1))


def test_centres_lie_in_their_box(space):
    bounds = Bounds(centres={"link2": ((0.0, -0.1, -0.2), (0.3, 0.1, 0.2))})
    assert bounds.are_satisfied(space, parameters(space, centre=(0.2, -0.05, 0.15)))
    for outside in ((-0.01, 0, 0), (0.31, 0, 0), (0.1, 0.11, 0), (0.1, -0.11, 0), (0.1, 0, 0.21), (0.1, 0, -0.21)):
        assert not bounds.are_satisfied(space, parameters(space, centre=outside))


def test_symmetry_and_ranges_hold_together(space):
    bounds = Bounds(masses={"link2": (1.0, 3.0)}, symmetric={"link2": "xz"})
    assert bounds.are_satisfied(space, parameters(space))
    assert not bounds.are_satisfied(space, parameters(space, Ixy=0.1))  # symmetric about xz: Ixy, Iyz and mcy are zero
    assert not bounds.are_satisfied(space, parameters(space, mass=4.0))


@pytest.mark.parametrize(
    "box",
    [
        ((0.0, 0.0, 0.0), (0.1, -0.1, 0.1)),
        ((0.0, 0.0), (0.1, 0.1)),
        ((0.0, 0.0, 0.0), (0.1, 0.1, np.inf)),
        ((0.0, 0.0, 0.0),),
    ],
)
def test_a_centre_that_is_not_a_box_raises(box):
    with raises(InputError, Code.INVALID_VALUE, "link1"):
        Bounds(centres={"link1": box})


def test_boxes_about_shapes_hold_them():
    turned = Pose([[0, -1, 0], [1, 0, 0], [0, 0, 1]], (1.0, 0.0, 0.0))
    shapes = {
        "box": (Shape("box", (0.2, 0.4, 0.6)), [(-0.1, -0.2, -0.3), (0.1, 0.2, 0.3)]),
        "turned box": (Shape("box", (0.2, 0.4, 0.6), turned), [(0.8, -0.1, -0.3), (1.2, 0.1, 0.3)]),
        "sphere": (Shape("sphere", (0.3,)), [(-0.3,) * 3, (0.3,) * 3]),
        "cylinder": (Shape("cylinder", (0.1, 0.6)), [(-0.1, -0.1, -0.3), (0.1, 0.1, 0.3)]),
        "capsule": (Shape("capsule", (0.1, 0.6)), [(-0.1, -0.1, -0.4), (0.1, 0.1, 0.4)]),
    }
    robot = planar_arm([0.5])
    for shape, corners in shapes.values():
        shaped = replace(robot, links=(robot.links[0], replace(robot.links[1], shapes=(shape,))))
        result = bounds_from_shapes(shaped).centres
        assert list(result) == ["link2"]
        assert_close(result["link2"], corners, SAME_ALGEBRA)
    mesh = Shape("mesh", (1.0, 1.0, 1.0), filename="a.stl")
    shaped = replace(robot, links=(robot.links[0], replace(robot.links[1], shapes=(shapes["box"][0], mesh))))
    assert bounds_from_shapes(shaped).is_empty


def test_answers_combine_to_feasible_infeasible_or_undecided():
    assert combine_answers({}) is True
    assert combine_answers({"plausible": False}) is True  # what is unlikely can still be
    assert combine_answers({"consistent": True, "positive_definite": None}) is True
    assert combine_answers({"consistent": None, "positive_definite": True}) is None
    assert combine_answers({"positive_definite": True}) is True
    assert combine_answers({"positive_definite": None}) is None
    assert combine_answers({"consistent": True, "positive_definite": False}) is False
