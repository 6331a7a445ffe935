"""Convert a robot to a Pinocchio model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.errors import Code, ExportError, MissingExtraError
from mindyn.foundation.hints import Command, install_command
from mindyn.output.export.write_checks import expressible_inertia, find_unsupported, joint_side_values
from mindyn.robots.mimics import find_mimic_root, mimic_map
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

if TYPE_CHECKING:
    import pinocchio


def to_pinocchio(robot: Robot, *, with_drives: bool = False) -> pinocchio.Model:
    """Convert a robot to a `pinocchio.Model`, whose rnea, crba and aba agree with `compile_model(robot)`.

    Joint k of the robot is joint k + 1 of the model, so q, qd and tau keep their order. Mimic joints become mimic
    joints of Pinocchio, so q, qd and tau are those of the primary joints; Pinocchio's rnea and crba
    support them (with a new Data for each call), its aba does not. Links and frames become frames of the model, and
    limits and gravity are copied.

    Parameters
    ----------
    robot : Robot
        Robot without loops.
    with_drives : bool
        Copy rotor inertia as armature, which rnea, crba and aba include, and viscous and dry friction as damping and
        friction limits, which they ignore.

    Returns
    -------
    pinocchio.Model
        The model, with the joints of the robot in the same order.

    Raises
    ------
    MissingExtraError
        If Pinocchio is not installed.
    MissingPhysicsError
        If a link has no parameters.
    ExportError
        If the robot has loops, or drives that Pinocchio cannot express (couplings, offsets, extra torques).

    Examples
    --------
    >>> mindyn.to_pinocchio(mindyn.load_robot("scara")).njoints  # doctest: +SKIP
    5
    """
    pin = import_pinocchio()
    _require_tree(robot)
    robot.phi  # noqa: B018 - raises the error that names the links without parameters
    model = pin.Model()
    model.name = robot.name
    model.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
    tips = {-1: IDENTITY}
    for k, (joint, link) in enumerate(zip(robot.joints, robot.links, strict=True)):
        parent = robot.parents[k]
        place = _placement(pin, tips[parent] @ joint.origin)
        index = model.addJoint(parent + 1, _joint_model(pin, joint), place, joint.name, *_limits(joint))
        model.addJointFrame(index)
        tips[k] = joint.tip
        model.appendBodyToJoint(index, _body_inertia(pin, link), _placement(pin, joint.tip))
        model.addFrame(pin.Frame(link.name, index, _placement(pin, joint.tip), pin.FrameType.BODY))
    for frame in robot.frames:
        k = robot.link_index(frame.link)
        pose = _placement(pin, tips[k] @ frame.pose)
        model.addFrame(pin.Frame(frame.name, k + 1, pose, pin.FrameType.OP_FRAME))
    model = _add_mimics(pin, model, robot)
    if with_drives:
        _set_drives(model, robot)
    return model


def _add_mimics(pin: Any, model: Any, robot: Robot) -> Any:
    """Turn joints into mimic joints; each follows the joint at the start of its mimic chain."""
    following = {mimic.joint: mimic for mimic in robot.mimics}
    for name in following:
        of, multiplier, offset = find_mimic_root(name, following)
        if robot.joint_index(of) > robot.joint_index(name):
            raise ExportError(
                f"joint {name!r} mimics {of!r}, which comes after it; Pinocchio's mimic joints follow earlier joints",
                hint=f"let {of!r} mimic {name!r} in the robot, with the inverse multiplier",
                code=Code.UNSUPPORTED,
                subject=name,
            )
        model = pin.transformJointIntoMimic(model, model.getJointId(of), model.getJointId(name), multiplier, offset)
    return model


def _set_drives(model: Any, robot: Robot) -> None:
    """Set armature, damping and dry friction; those of mimic joints are added to the joints they follow."""
    lost = find_unsupported(robot, armature=True)
    if lost:
        raise ExportError(
            f"Pinocchio cannot express: {'; '.join(lost)}",
            hint="remove them from the drives of the robot, or pass with_drives=False",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    mimics = mimic_map(robot)
    armature, damping, friction = np.zeros((3, len(mimics.free)))
    for drive in robot.drives:
        turns = mimics.matrix[robot.joint_index(drive.joint)]  # one nonzero entry
        shown = joint_side_values(drive)
        armature += shown[0] * turns**2
        damping += shown[1] * turns**2
        friction += shown[2] * np.abs(turns)
    model.armature, model.damping = armature, damping
    model.lowerDryFrictionLimit, model.upperDryFrictionLimit = -friction, friction


def import_pinocchio() -> Any:
    """Import Pinocchio, or raise `MissingExtraError` with the install command."""
    try:
        import pinocchio
    except ImportError as error:
        raise MissingExtraError(
            "Pinocchio is not installed", hint=install_command("pinocchio"), subject="pinocchio"
        ) from error
    return pinocchio


def _require_tree(robot: Robot) -> None:
    if robot.loops:
        raise ExportError(
            f"robot {robot.name!r} has {robot.dependence}, but a Pinocchio model is a tree",
            hint="convert the tree with to_pinocchio(dataclasses.replace(robot, loops=(), home=None)) and close the "
            "loops with Pinocchio's constraint models",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )
    for k, parent in enumerate(robot.parents):
        if parent not in (-1, *robot.path(k - 1)) and k:
            raise ExportError(
                f"joint {robot.joint_names[k]!r} continues a branch after another branch has started; "
                "Pinocchio's inertia matrix is correct only if the joints are listed depth first",
                hint="list the joints of the robot depth first",
                code=Code.UNSUPPORTED,
                subject=robot.joint_names[k],
            )


def _placement(pin: Any, pose: Pose) -> Any:
    return pin.SE3(np.array(pose.rotation), np.array(pose.translation))


def _joint_model(pin: Any, joint: Joint) -> Any:
    """Return Pinocchio's joint model; joints about a coordinate axis get the faster specialised model."""
    kind = "Revolute" if joint.kind == "revolute" else "Prismatic"
    for axis, letter in zip(np.eye(3), "XYZ", strict=True):
        if (joint.axis == axis).all():
            return getattr(pin, f"JointModel{kind[0]}{letter}")()
    return getattr(pin, f"JointModel{kind}Unaligned")(*joint.axis)


def _limits(joint: Joint) -> tuple[Any, ...]:
    """Return effort, velocity, lower and upper limits in Pinocchio's order; missing limits are infinite."""
    limits, inf = joint.limits, np.inf
    stated = ((limits.effort, inf), (limits.velocity, inf), (limits.lower, -inf), (limits.upper, inf))
    return tuple(np.array([absent if value is None else value]) for value, absent in stated)


def _body_inertia(pin: Any, link: Link) -> Any:
    inertia = expressible_inertia(link, "Pinocchio")
    try:
        return pin.Inertia(*inertia)
    except (RuntimeError, ValueError) as error:
        raise ExportError(
            f"Pinocchio cannot express link {link.name!r}: {link.consistency().reason or error}",
            hint="correct the inertial parameters of the link; this lists them",
            command=Command("robots", "ROBOT"),
            code=Code.NOT_FEASIBLE,
            subject=link.name,
        ) from error
