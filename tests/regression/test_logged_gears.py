"""Gears that logs state couple a robot's drives, where they couple joints at all and say the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mindyn
from mindyn.logs.conversion import add_logged_gears
from mindyn.logs.metadata import LogMetadata
from mindyn.robots import Mimic

ROBOT = replace(mindyn.load_robot("planar2"), drives=())
COUPLED = LogMetadata(gears=((50.0, 0.0), (10.0, 40.0)))
DIAGONAL = LogMetadata(gears=(50.0, 40.0))


@pytest.mark.parametrize("count", [1, 2])
def test_coupled_gears_become_drives(count):
    robot, notes = add_logged_gears(ROBOT, [COUPLED] * count)
    assert np.array_equal(robot.gear_matrix, [[50.0, 0.0], [10.0, 40.0]])
    assert "coupled by the log's gears" in notes[0]


@pytest.mark.parametrize("statements", [[DIAGONAL], [LogMetadata()], []])
def test_without_coupling_nothing_is_taken(statements):
    assert add_logged_gears(ROBOT, statements) == (ROBOT, [])


@pytest.mark.parametrize("other", [DIAGONAL, LogMetadata(), LogMetadata(gears=((50.0, 0.0), (11.0, 40.0)))])
@pytest.mark.parametrize("turned", [False, True])
def test_different_gears_are_reported_and_none_is_used(other, turned):
    given = [other, COUPLED] if turned else [COUPLED, other]
    robot, notes = add_logged_gears(ROBOT, given)
    assert robot == ROBOT
    assert "different gears" in notes[0]


def test_a_robot_whose_joints_depend_on_each_other_keeps_its_drives():
    robot = replace(ROBOT, mimics=(Mimic(ROBOT.joint_names[1], ROBOT.joint_names[0]),))
    statement = LogMetadata(gears=((50.0,),))
    assert add_logged_gears(robot, [statement]) == (robot, [])
