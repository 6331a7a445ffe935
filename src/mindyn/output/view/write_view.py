"""`write_view`: write one page that shows a robot in space, with a motion or a log."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.equations.loop_constraints import open_tree
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, InputError, MindynError, UnsafeMotionError
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.foundation.pages.document import Extras, render_document
from mindyn.identification.estimators.estimate import Estimate
from mindyn.logs.log import Log
from mindyn.motions.excitation.body_pairs import Encounters
from mindyn.motions.excitation.motion_design import MotionDesign
from mindyn.motions.excitation.motion_safety import PROBES, SafetySettings, what_to_check
from mindyn.motions.excitation.motions import Run
from mindyn.motions.excitation.volumes import Volume
from mindyn.output.view.dependence import rest_position, slider_ranges, whole_positions
from mindyn.output.view.link_drawings import DrawnLinks, draw_links
from mindyn.output.view.picture import draw_picture
from mindyn.output.view.playback import Playback, play_log, play_motion
from mindyn.output.view.scene import describe_scene
from mindyn.output.view.view_sections import (
    distance_section,
    joints_section,
    limits_section,
    links_section,
    space_section,
    torque_section,
)
from mindyn.robots.meshes import Meshes, read_meshes
from mindyn.robots.robot import Robot, require_robot


def write_view(
    robot: Robot,
    path: str | Path,
    *,
    motion: MotionDesign | Run | None = None,
    log: Log | None = None,
    estimate: Estimate | None = None,
    safety: SafetySettings | None = None,
    meshes: Meshes | None = None,
) -> Path:
    """Write a page that shows a robot in space: alone, with a planned motion, or with a log.

    Alone, its joints have sliders, and links whose inertia no body can have are red. A motion plays from home and back,
    with the closest pair of bodies in red. A log plays with measured, predicted and residual torque.

    Parameters
    ----------
    robot : Robot
        Robot to show.
    path : str or Path
        File to write.
    motion : MotionDesign or Run, optional
        Planned motion of this robot.
    log : Log, optional
        Recorded motion of this robot.
    estimate : Estimate, optional
        Model that predicts the torque of the log; by default that of the robot file.
    safety : SafetySettings, optional
        Floor, obstacles and volumes; by default those of the design, or the base plane.
    meshes : Meshes, optional
        Meshes of the links (`read_meshes`); by default those of the file that the robot was loaded from.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    InputError
        If both a motion and a log are given, or their joints are not those of the robot.

    Examples
    --------
    >>> mindyn.write_view(mindyn.load_robot("ur10"), "ur10.html")  # doctest: +SKIP
    """
    require_robot(robot, "write_view")
    if motion is not None and log is not None:
        raise InputError(
            "both a motion and a log are given; a page shows one of them",
            hint="write two pages",
            code=Code.DISAGREEMENT,
            subject="log",
        )
    drawn_meshes = _meshes_of(robot) if meshes is None else meshes
    if isinstance(motion, MotionDesign):
        safety = motion.safety if safety is None else safety
    around = SafetySettings() if safety is None else safety
    volumes, encounters, findings = _bodies_of(robot, around)
    playback: Playback | None = None
    if motion is not None:
        known = motion.encounters if isinstance(motion, MotionDesign) and motion.encounters is not None else encounters
        playback = play_motion(robot, motion.run() if isinstance(motion, MotionDesign) else motion, known)
    elif log is not None:
        playback = play_log(robot, log, estimate)
    drawn = draw_links(robot, drawn_meshes, volumes)
    page = build_page(robot, drawn, around, playback, [*drawn_meshes.findings, *findings])
    return write_file_atomically(path, page)


def _meshes_of(robot: Robot) -> Meshes:
    """Return the meshes of the file that the robot was loaded from; none for a robot without a file."""
    return read_meshes(robot.file, robot) if robot.file and Path(robot.file).is_file() else Meshes()


def _bodies_of(
    robot: Robot, around: SafetySettings
) -> tuple[tuple[Volume, ...], Encounters | None, list[Finding]]:  # fmt: skip
    """Return the volumes of the links and the pairs to check; only the volumes if nothing can be checked."""
    low, high = slider_ranges(robot, rest_position(robot))
    probes = np.random.default_rng(0).uniform(low, high, (PROBES, len(low)))
    try:
        volumes, encounters = what_to_check(robot, probes, around)
    except UnsafeMotionError as unchecked:
        return (), None, [info(Kind.UNCHECKED_PAIR, f"no distance is shown: {unchecked.message}")]
    except MindynError as unchecked:
        return (), None, [info(Kind.UNCHECKED_PAIR, f"no distance is shown: {unchecked.message}")]
    return volumes.volumes, encounters, []


def build_page(
    robot: Robot, drawn: DrawnLinks, safety: SafetySettings, playback: Playback | None, findings: list[Finding]
) -> str:
    """Return the HTML text of the page."""
    scene = describe_scene(robot, drawn, safety, playback)
    q = rest_position(robot) if playback is None else playback.q[0]
    picture = draw_picture(robot, drawn, link_poses(robot, q), f"Picture of {robot.name}")
    sections = [space_section(robot, drawn, scene, playback, picture, findings)]
    if playback is None:
        sections += [joints_section(robot, scene), links_section(robot, drawn), limits_section(robot)]
    else:
        if playback.closest is not None:
            sections.append(distance_section(playback.closest))
        if playback.torques is not None:
            sections.append(torque_section(robot, playback.torques))
        sections.append(limits_section(robot))
    about = f"{robot.joint_count} joints" if playback is None else f"{playback.title}, {playback.time[-1]:.4g} s"
    return render_document(f"{robot.name} in space", about, sections, heading=robot.name, extras=view_extras())


def link_poses(robot: Robot, q: Array) -> Array:
    """Return the poses (links, 4, 4) of the root and of the moving links at positions (n,) of the primary joints."""
    tree, poses = open_tree(robot), [np.eye(4)]
    for joint, parent, position in zip(tree.joints, tree.parents, whole_positions(robot, q[None])[0], strict=True):
        poses.append(poses[parent + 1] @ joint.at(float(position)).matrix)
    return np.stack(poses)


def view_extras() -> Extras:
    """Return the style and the scripts of pages that show a robot in space."""
    return Extras(_asset("view.css"), (_asset("three.js"), _asset("view.js")))


def _asset(name: str) -> Any:
    return files("mindyn.output.view").joinpath("assets", name).read_text(encoding="utf-8")
