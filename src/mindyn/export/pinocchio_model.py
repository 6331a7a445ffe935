"""`to_pinocchio`: a robot as Pinocchio's `Model`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mindyn.algebra.inertia import mass_com_inertia
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.errors import ExportError, MissingExtraError
from mindyn.export.writing import find_unsupported, joint_side_values
from mindyn.robots.mimics import find_mimic_root, mimic_map
from mindyn.robots.parts import Joint, Link
from mindyn.robots.robot import Robot

if TYPE_CHECKING:
    import pinocchio


def to_pinocchio(robot: Robot, *, drives: bool = False) -> pinocchio.Model:
    """The kinematic chain as a `pinocchio.Model`: rnea, crba, aba, ... of it are those of `compile_model(robot)`.

    Joint k of the robot is joint k + 1 of the model, so q, qd and tau keep their order; mimic joints are Pinocchio's
    (3.4 or later), so that q, qd and tau are those of the primary joints. Its rnea and crba (with a Data of its
    own for each call) know them, its aba does not. Links and frames of the robot are frames of the model; limits and
    gravity go along.

    drives  rotor inertia becomes armature, which Pinocchio's rnea, crba and aba count; viscous friction becomes damping
            and dry friction the limits of friction, which they do not. What Pinocchio has no words for (couplings,
            offsets, extra torques) is an error with its numbers; without `drives` all of it stays behind
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
    if drives:
        _set_drives(model, robot)
    return model


def _add_mimics(pin: Any, model: Any, robot: Robot) -> Any:
    """The model with its mimic joints, each following the joint at the end of its chain."""
    following = {mimic.joint: mimic for mimic in robot.mimics}
    for name in following:
        of, multiplier, offset = find_mimic_root(name, following)
        if robot.joint_index(of) > robot.joint_index(name):
            raise ExportError(
                f"joint {name!r} mimics {of!r}, which comes after it: mimic joints of Pinocchio follow earlier ones",
                hint=f"let {of!r} mimic {name!r} in the robot, by the inverse of its multiplier",
            )
        if not hasattr(pin, "transformJointIntoMimic"):
            raise ExportError(
                f"joint {name!r} mimics {of!r}, which this Pinocchio does not know", hint="pip install -U pin"
            )
        model = pin.transformJointIntoMimic(model, model.getJointId(of), model.getJointId(name), multiplier, offset)
    return model


def _set_drives(model: Any, robot: Robot) -> None:
    """Armature, damping and dry friction of the primary joints; what mimic joints have shows at those they follow."""
    lost = find_unsupported(robot, armature=True)
    if lost:
        raise ExportError(f"Pinocchio cannot express: {'; '.join(lost)}", hint="leave them out of the robot's drives")
    mimics = mimic_map(robot)
    armature, damping, friction = np.zeros((3, len(mimics.free)))
    for drive in robot.drives:
        turns = mimics.matrix[robot.joint_index(drive.joint)]  # of one joint alone
        shown = joint_side_values(drive)
        armature += shown[0] * turns**2
        damping += shown[1] * turns**2
        friction += shown[2] * np.abs(turns)
    model.armature, model.damping = armature, damping
    model.lowerDryFrictionLimit, model.upperDryFrictionLimit = -friction, friction


def import_pinocchio() -> Any:
    """Pinocchio, or an error that says how to install it."""
    try:
        import pinocchio
    except ImportError as error:
        raise MissingExtraError("this needs Pinocchio", hint="pip install 'mindyn[pinocchio]'") from error
    return pinocchio


def _require_tree(robot: Robot) -> None:
    if robot.loops:
        raise ExportError(
            f"robot {robot.name!r} has {robot.dependence}, and a Pinocchio model is a tree",
            hint="leave them out: to_pinocchio(dataclasses.replace(robot, loops=(), home=None)), and close them by "
            "Pinocchio's constraint models",
        )
    for k, parent in enumerate(robot.parents):
        if parent not in (-1, *robot.path(k - 1)) and k:
            raise ExportError(
                f"joint {robot.joint_names[k]!r} continues a branch after another one has begun; "
                "Pinocchio's inertia matrix is right only for branches listed one after the other",
                hint="list the joints of the robot depth first",
            )


def _placement(pin: Any, pose: Pose) -> Any:
    return pin.SE3(np.array(pose.rotation), np.array(pose.translation))


def _joint_model(pin: Any, joint: Joint) -> Any:
    """Pinocchio's joint of the kind: the faster one made for a coordinate axis, where the axis is one."""
    kind = "Revolute" if joint.kind == "revolute" else "Prismatic"
    for axis, letter in zip(np.eye(3), "XYZ", strict=True):
        if (joint.axis == axis).all():
            return getattr(pin, f"JointModel{kind[0]}{letter}")()
    return getattr(pin, f"JointModel{kind}Unaligned")(*joint.axis)


def _limits(joint: Joint) -> tuple[Any, ...]:
    """Largest effort and speed, lowest and highest position, as Pinocchio takes them; infinite where not stated."""
    limits, inf = joint.limits, np.inf
    stated = ((limits.effort, inf), (limits.velocity, inf), (limits.lower, -inf), (limits.upper, inf))
    return tuple(np.array([absent if value is None else value]) for value, absent in stated)


def _body_inertia(pin: Any, link: Link) -> Any:
    assert link.phi is not None
    mass, com, inertia = mass_com_inertia(link.phi)
    if mass == 0 and link.phi[1:4].any():
        raise ExportError(f"Pinocchio cannot express link {link.name!r}: no mass, but a first moment")
    try:
        return pin.Inertia(mass, com, inertia)
    except (RuntimeError, ValueError) as error:
        raise ExportError(
            f"Pinocchio cannot express link {link.name!r}: {link.consistency().reason or error}",
            hint="correct the inertial parameters of the link; mindyn robots ROBOT lists them",
        ) from error
