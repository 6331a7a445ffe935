"""Writing MJCF: bodies at their link frames, joints with anchor and axis, armature, damping and dry friction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Comment, Element, SubElement

from mindyn.algebra.inertia import mass_com_inertia
from mindyn.algebra.poses import Pose
from mindyn.algebra.rotations import to_quaternion
from mindyn.escaping import xml_document
from mindyn.estimators.estimate import Estimate
from mindyn.export.models import Prior, left_out_notes, model_of
from mindyn.export.writing import comment_text, joint_side, losses, require_exportable, written
from mindyn.files import write_whole
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot


def robot_to_mjcf(robot: Robot, *, force: bool = False, notes: Sequence[str] = ()) -> str:
    """The MJCF text of a robot, without collision shapes and speed, acceleration, jerk limits; `notes` as comment.

    MuJoCo wants every link to be a possible body, so `force` helps only against what MJCF cannot express.
    """
    require_exportable(robot, "MJCF", losses(robot, armature=True), force=force)
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
    if robot.mimics:
        equality = SubElement(top, "equality")
        for mimic in robot.mimics:
            line = written((mimic.offset, mimic.multiplier, 0, 0, 0))
            SubElement(equality, "joint", joint1=mimic.joint, joint2=mimic.of, polycoef=line)
    return xml_document(top)


def write_mjcf(
    model: Robot | Estimate, path: str | Path, *, prior: Prior = "robot", force: bool = False
) -> tuple[str, ...]:
    """Write a robot, or the full model behind an estimate, as MJCF with armature, damping and dry friction.

    Returns the sentences about the estimate that stand in the file's comment.

    prior  as in `full_model`
    force  writes links that no body can be; of a robot also leaves out what MJCF cannot express. Of an estimate that is
           always left out (couplings, offsets, extra torques; loops only by force), and a comment in the file says so
    """
    robot = model_of(model, prior, force=force)
    notes = left_out_notes(model, robot, losses(robot, armature=True))
    lossy = isinstance(model, Estimate) and not robot.loops
    write_whole(path, robot_to_mjcf(robot, force=force or lossy, notes=notes))
    return tuple(notes)


def _pose(pose: Pose) -> dict[str, str]:
    return {"pos": written(pose.translation), "quat": written(to_quaternion(pose.rotation))}


def _inertial(body: Element, link: Link) -> None:
    if link.phi is None or not link.phi.any():
        return
    mass, com, J = mass_com_inertia(link.phi)
    # MuJoCo's order: xx yy zz xy xz yz.
    entries = (J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2])
    SubElement(body, "inertial", pos=written(com), mass=repr(float(mass)), fullinertia=written(entries))


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
