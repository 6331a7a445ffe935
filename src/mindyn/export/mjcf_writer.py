"""Writing MJCF: bodies at their link frames, joints with anchor and axis, armature, damping and dry friction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Comment, Element, SubElement

from mindyn.algebra.poses import Pose
from mindyn.algebra.rotations import to_quaternion
from mindyn.equations.loop_closure import closure_of
from mindyn.escaping import xml_document
from mindyn.estimators.estimate import Estimate
from mindyn.export.mjcf_editing import edited_mjcf, inertial_attributes
from mindyn.export.models import Prior, left_out_notes, model_of
from mindyn.export.writing import CLOSING, comment_text, joint_side, losses, require_exportable, written
from mindyn.files import write_whole
from mindyn.robots.mjcf_loops import DEPENDENT, read_from
from mindyn.robots.parts import Joint, Link, Loop
from mindyn.robots.robot import Robot

ALONG: Final = 0.1
"""Distance of the two points that hold a pin, m."""

STIFF: Final = ("0.002 1", "0.999999 0.999999 0.001")
"""solref and solimp of closed loops: as stiff as MuJoCo makes them."""


def robot_to_mjcf(robot: Robot, *, force: bool = False, notes: Sequence[str] = ()) -> str:
    """The MJCF text of a robot, without collision shapes and speed, acceleration, jerk limits; `notes` as comment.

    MuJoCo wants every link to be a possible body, so `force` helps only against what MJCF cannot express.
    """
    require_exportable(robot, "MJCF", losses(robot, armature=True, closing=CLOSING), force=force)
    top = Element("mujoco", model=robot.name)
    if notes:
        top.append(Comment(comment_text(notes)))
    SubElement(top, "compiler", angle="radian", autolimits="true")
    SubElement(top, "option", gravity=written(robot.gravity))
    world = SubElement(top, "worldbody")
    bodies = {robot.root.name: world}
    for joint, link in zip(robot.joints, robot.links, strict=True):
        body = SubElement(bodies[joint.parent], "body", _pose(joint.origin @ joint.tip), name=link.name)
        bodies[link.name] = body
        _inertial(body, link)
        _joint(body, robot, joint)
    for frame in robot.frames:
        SubElement(bodies[frame.link], "site", _pose(frame.pose), name=frame.name)
    if robot.has_dependents:
        equality = SubElement(top, "equality")
        for mimic in robot.mimics:
            line = written((mimic.offset, mimic.multiplier, 0, 0, 0))
            SubElement(equality, "joint", joint1=mimic.joint, joint2=mimic.of, polycoef=line)
        for loop in robot.loops:
            _closed(equality, bodies, loop)
    if robot.loops:
        custom = SubElement(top, "custom")
        for loop in robot.loops:
            if loop.kind in CLOSING:
                SubElement(custom, "text", name=f"{DEPENDENT}{loop.name}", data=json.dumps(loop.dependent))
        key = SubElement(SubElement(top, "keyframe"), "key", name="home")
        key.set("qpos", written(closure_of(robot).home))
    return xml_document(top)


def write_mjcf(
    model: Robot | Estimate,
    path: str | Path,
    *,
    source: str | Path | None = None,
    prior: Prior = "robot",
    force: bool = False,
) -> tuple[str, ...]:
    """Write a robot, or the full model behind an estimate, as MJCF with armature, damping and dry friction.

    Returns the sentences about the estimate, and about the edited source, that stand in the file's comment.

    source  the MJCF that the robot was loaded from: its inertials, armature, damping and frictionloss are set, the rest
            (meshes, actuators, sensors, defaults, loops, comments) stays
    prior   as in `full_model`
    force   writes links that no body can be; of a robot also leaves out what MJCF cannot express. Of an estimate that
            is always left out (couplings, offsets, extra torques; sliding loops only by force), and a comment in the
            file says so, with numbers

    Loops are closed by <connect> of sites, at one point of a ball and at two of a pin, or by <weld>; at the keyframe
    "home" they are closed.
    """
    robot = model_of(model, prior, force=force)
    lost = losses(robot, armature=True, closing=CLOSING)
    notes = left_out_notes(model, robot, lost)
    lossy = isinstance(model, Estimate) and all(loop.kind in CLOSING for loop in robot.loops)
    if source is None:
        write_whole(path, robot_to_mjcf(robot, force=force or lossy, notes=notes))
        return tuple(notes)
    require_exportable(robot, "MJCF", [] if lossy else lost, force=force)
    text, said = edited_mjcf(robot, source, path, notes)
    write_whole(path, text)
    return (*notes, *said)


def _closed(equality: Element, bodies: dict[str, Element], loop: Loop) -> None:
    """Sites at the ends of a loop, held together: at its origin, along its axis where it is a pin, or welded."""
    ends = ((loop.first, loop.first_pose), (loop.second, loop.second_pose))
    for k in range({"ball": 1, "weld": 1, "pin": 2}.get(loop.kind, 0)):
        names = [f"{loop.name}/{k}{side}" for side in ("a", "b")]
        for name, (link, pose) in zip(names, ends, strict=True):
            SubElement(bodies[link], "site", _pose(pose @ Pose(None, (0, 0, k * ALONG))), name=name)
        held = {"name": f"{loop.name}/{k}", "site1": names[0], "site2": names[1]}
        SubElement(equality, read_from(loop), held, solref=STIFF[0], solimp=STIFF[1])


def _pose(pose: Pose) -> dict[str, str]:
    return {"pos": written(pose.translation), "quat": written(to_quaternion(pose.rotation))}


def _inertial(body: Element, link: Link) -> None:
    if link.phi is not None and link.phi.any():
        SubElement(body, "inertial", inertial_attributes(link.phi))


def _joint(body: Element, robot: Robot, joint: Joint) -> None:
    X_link_joint = joint.tip.inverse()
    kind = "hinge" if joint.kind == "revolute" else "slide"
    element = SubElement(body, "joint", name=joint.name, type=kind)
    element.set("pos", written(X_link_joint.translation))
    element.set("axis", written(X_link_joint.rotation @ joint.axis))
    limits = joint.limits
    if limits.lower is not None and limits.upper is not None:
        element.set("range", written((limits.lower, limits.upper)))
    if limits.effort is not None:
        element.set("actuatorfrcrange", written((-limits.effort, limits.effort)))
    for drive in robot.drives:
        if drive.joint == joint.name:
            for key, value in zip(("armature", "damping", "frictionloss"), joint_side(drive), strict=True):
                element.set(key, repr(float(value)))
