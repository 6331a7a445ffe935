"""Robots with loops are drawn closed."""

from __future__ import annotations

import numpy as np
import pytest

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.kernels.skeleton import compute_skeleton
from mindyn.output.report.motion_sections import draw_skeleton


@pytest.mark.parametrize("name", ["five_bar", "slider_crank", "palletiser"])
def test_both_ends_of_a_loop_coincide_in_every_pose(name):
    robot = mindyn.load_robot(name)
    closure = home_closure(robot)
    t = np.linspace(0, 1, 7)[:, None]
    q = closure.home[list(closure.primary)] + 0.3 * np.sin(3 * t + np.arange(len(closure.primary)))
    drawn = compute_skeleton(robot, q, t[:, 0], np.ones_like(q))
    assert drawn.names == robot.joint_names
    assert len(drawn.torques[0]) == len(robot.joints)
    first, second = drawn.points - 2, drawn.points - 1
    holders = [robot.link_index(robot.loops[0].first) + 1, robot.link_index(robot.loops[0].second) + 1]
    assert first in drawn.paths[holders[0]]
    assert second in drawn.paths[holders[1]]
    for frame in drawn.frames:
        points = np.reshape(frame[: 3 * drawn.points], (-1, 3))
        assert np.abs(points[first] - points[second]).max() <= 1e-4
    still = draw_skeleton(robot, [])
    assert len(still.frames) == 1
