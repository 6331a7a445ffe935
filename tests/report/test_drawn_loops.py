"""Robots with loops are drawn closed."""

from __future__ import annotations

from base64 import b64decode

import numpy as np
import pytest

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.output.view.link_drawings import draw_links
from mindyn.output.view.playback import Torques, play_torques
from mindyn.output.view.scene import describe_scene
from mindyn.robots.meshes import Meshes


def place_links(scene, positions):
    """Return the pose of every link as the script of the page computes it."""
    poses = [np.eye(4)]
    for joint, q in zip(scene["joints"], positions, strict=True):
        moved, axis = np.eye(4), np.array(joint["axis"])
        if joint["kind"] == "revolute":
            cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
            moved[:3, :3] += np.sin(q) * cross + (1 - np.cos(q)) * cross @ cross
        else:
            moved[:3, 3] = q * axis
        origin, tip = (np.reshape(joint[name], (4, 4)) for name in ("origin", "tip"))
        poses.append(poses[joint["parent"]] @ origin @ moved @ tip)
    return poses


@pytest.mark.parametrize("name", ["five_bar", "slider_crank", "palletiser"])
def test_both_ends_of_a_loop_coincide_in_every_pose(name):
    robot = mindyn.load_robot(name)
    closure = home_closure(robot)
    t = np.linspace(0, 1, 7)[:, None]
    q = closure.home[list(closure.primary)] + 0.3 * np.sin(3 * t + np.arange(len(closure.primary)))
    playback = play_torques("log", q, Torques(t[:, 0], np.ones_like(q), None, "nothing"))
    scene = describe_scene(robot, draw_links(robot, Meshes(), ()), None, playback)
    joints = scene["playback"]["joints"]
    levels = np.frombuffer(b64decode(joints.data), "<u2").reshape(len(t), len(robot.joints))
    loop = robot.loops[0]
    ends = ((loop.first, loop.first_pose), (loop.second, loop.second_pose))
    for row in joints.low + levels / 65535 * (joints.high - joints.low):
        poses = place_links(scene, row)
        first, second = (poses[robot.link_index(link) + 1] @ pose.matrix for link, pose in ends)
        assert np.abs(first[:3, 3] - second[:3, 3]).max() <= 1e-4 * max(1.0, np.abs(first[:3, 3]).max())
