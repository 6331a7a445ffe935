"""`draw_picture`: the robot as a still SVG picture, for browsers without WebGL or scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.pages.document import Html, tag
from mindyn.motions.excitation.volumes import link_segments
from mindyn.output.view.link_drawings import DrawnLinks
from mindyn.robots.robot import Robot

WIDTH: Final = 640
HEIGHT: Final = 400
MARGIN: Final = 20
"""Pixels of the picture, and around the robot."""
VIEW: Final = np.array([[0.64, 0.77, 0.0], [0.29, -0.24, 0.93]])
"""Right and up of the picture, in the root frame."""
LINE_PART: Final = 0.012
"""Radius of lines relative to the size of the robot."""


def draw_picture(robot: Robot, drawn: DrawnLinks, poses: Array, label: str) -> Html:
    """Return the volumes of the links, and lines between their joints, in parallel projection.

    poses  (links, 4, 4) of the root and of the moving links
    """
    strokes = [(k, np.array(a), np.array(b), float(r)) for k, a, b, r in _strokes(robot, drawn)]
    ends = [_transform_points(poses[k], np.stack([a, b])) for k, a, b, _ in strokes]
    if not ends:
        return tag("svg", {"class": "still", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": label})
    seen = [points @ VIEW.T for points in ends]
    low = np.min([points.min(axis=0) - r for points, (*_, r) in zip(seen, strokes, strict=True)], axis=0)
    high = np.max([points.max(axis=0) + r for points, (*_, r) in zip(seen, strokes, strict=True)], axis=0)
    scale = float(min((np.array([WIDTH, HEIGHT]) - 2 * MARGIN) / np.maximum(high - low, 1e-6)))
    centre, size = (low + high) / 2, float(np.max(high - low))
    shapes = []
    for points, (k, _, _, radius) in zip(seen, strokes, strict=True):
        x, y = ((points - centre) * [scale, -scale] + [WIDTH / 2, HEIGHT / 2]).T
        shapes.append(
            tag(
                "line",
                {
                    "x1": f"{x[0]:.1f}",
                    "y1": f"{y[0]:.1f}",
                    "x2": f"{x[1] + 0.01:.2f}",
                    "y2": f"{y[1]:.1f}",
                    "stroke": "#8795a6" if k else "#5d6874",
                    "stroke-opacity": "0.75",
                    "stroke-linecap": "round",
                    "stroke-width": f"{2 * max(radius, LINE_PART * size) * scale:.1f}",
                },
            )
        )
    view = {"class": "still", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": label}
    return tag("svg", view, shapes)


def _strokes(robot: Robot, drawn: DrawnLinks) -> Sequence[tuple[int, Sequence[float], Sequence[float], float]]:
    """Return link number, ends and radius of every volume; lines between joints for links without one."""
    volumes = [(part["link"], part["a"], part["b"], part["radius"]) for part in drawn.capsules]
    covered = {part[0] for part in volumes}
    names = (robot.root.name, *robot.link_names)
    bare = [(k, a.tolist(), b.tolist(), 0.0) for k, name in enumerate(names) for a, b in link_segments(robot, name)
            if k not in covered]  # fmt: skip
    return [*volumes, *bare]


def _transform_points(pose: Array, points: Array) -> Array:
    return np.asarray(points @ pose[:3, :3].T + pose[:3, 3])
