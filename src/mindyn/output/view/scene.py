"""`describe_scene`: a robot and its surroundings as numbers that the script of a page draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.pages.plots import pack_levels
from mindyn.motions.excitation.motion_safety import SafetySettings
from mindyn.output.view.dependence import describe_dependence, rest_position, slider_ranges, whole_positions
from mindyn.output.view.link_drawings import DrawnLinks, describe_inertia
from mindyn.output.view.playback import Playback
from mindyn.robots.robot import Robot

UNITS = {"revolute": "rad", "prismatic": "m"}


def describe_scene(
    robot: Robot, drawn: DrawnLinks, safety: SafetySettings | None, playback: Playback | None
) -> dict[str, Any]:
    """Return links, joints, surroundings and poses."""
    home = rest_position(robot)
    low, high = slider_ranges(robot, home)
    primary = {name: k for k, name in enumerate(robot.primary_names)}
    joints = [
        {
            "name": joint.name,
            "kind": joint.kind,
            "parent": parent + 1,
            "origin": _matrix(joint.origin),
            "axis": joint.axis.tolist(),
            "tip": _matrix(joint.tip),
            "primary": primary.get(joint.name),
            "lower": joint.limits.lower,
            "upper": joint.limits.upper,
            "unit": UNITS[joint.kind],
        }
        for joint, parent in zip(robot.joints, robot.parents, strict=True)
    ]
    scene = {
        "links": [
            {"name": link.name, "inertia": describe_inertia(link), "impossible": drawn.impossible.get(k)}
            for k, link in enumerate((robot.root, *robot.links))
        ],
        "joints": joints,
        "meshes": drawn.meshes.parts,
        "capsules": drawn.capsules,
        "solid": drawn.solid,
        "lines": drawn.lines,
        "gravity": robot.gravity.tolist(),
        "tip": _tip(robot),
        "home": home.tolist(),
        "ranges": [low.tolist(), high.tolist()],
        "dependence": describe_dependence(robot, home, low, high) if playback is None else None,
        "rest": whole_positions(robot, home[None])[0].tolist(),
        **_surroundings(safety),
    }
    return scene | ({} if playback is None else {"playback": _describe_playback(robot, playback)})


def _tip(robot: Robot) -> dict[str, Any]:
    """Return the link and the point whose path is drawn: the last frame, or the frame of the last link."""
    if not robot.frames:
        return {"link": len(robot.links), "at": [0.0, 0.0, 0.0]}
    frame = robot.frames[-1]
    return {"link": robot.link_index(frame.link) + 1, "at": frame.pose.translation.tolist()}


def _matrix(pose: Pose) -> list[float]:
    """Return the rows of a homogeneous matrix, 16 numbers."""
    return [round(float(value), 9) for value in pose.matrix.ravel()]


def _surroundings(safety: SafetySettings | None) -> dict[str, Any]:
    """Return the height of the floor, boxes, posts and the finite faces of the workspace."""
    if safety is None:
        return {"floor": None, "boxes": [], "posts": [], "workspace": None}
    height, whole = float(safety.room.lower[2]), safety.workspace
    finite = whole is not None and bool(np.isfinite([whole.lower, whole.upper]).all())
    return {
        "floor": height if np.isfinite(height) else None,
        "boxes": [[box.lower.tolist(), box.upper.tolist()] for box in safety.boxes],
        "posts": [{"a": post.a.tolist(), "b": post.b.tolist(), "radius": post.radius} for post in safety.posts],
        "workspace": [whole.lower.tolist(), whole.upper.tolist()] if whole is not None and finite else None,
    }


def _describe_playback(robot: Robot, playback: Playback) -> dict[str, Any]:
    poses = whole_positions(robot, playback.q)
    closest = playback.closest
    return {
        "times": [round(float(t), 4) for t in playback.time],
        "joints": pack_levels(poses.ravel()),
        "phases": [[name, begin, end] for name, begin, end in playback.phases],
        "rehearsal": playback.rehearsal_speed,
        "closest": None if closest is None else closest.to_dict(robot),
        "residual": None if playback.residual is None else pack_levels(playback.residual.ravel()),
        "torque": None if playback.torque is None else pack_levels(playback.torque.ravel()),
        "plot": playback.plot,
    }
