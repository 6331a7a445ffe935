"""Write MJCF, either as a new file or by editing an existing one.

Editing sets inertials, armature, damping, friction and springs, and keeps meshes, actuators, sensors and comments.
Bodies without joints are part of the body that carries them: it gets the sum, and their own inertials become zero.
Bodies on joints that the robot holds still move in the file, so they keep the inertials of the file and their carrier
gets the rest of the sum. The edited text is read back and must give the intended values.

Bodies and joints of a new MJCF file: link frames, joint axes, armature, damping, friction and springs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Comment, Element, SubElement

import numpy as np

from mindyn.equations.catalogue import build_equation
from mindyn.equations.loop_closure import home_closure
from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import quaternion_from_rotation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, ExportError, RobotError, list_names
from mindyn.foundation.escaping import xml_document
from mindyn.foundation.findings import Kind
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.elasticity.records import Elasticity
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.logs.servos import Servo
from mindyn.output.export.servo_actuators import add_position_actuators
from mindyn.output.export.write_checks import (
    CLOSABLE_LOOPS,
    Prior,
    comment_text,
    describe_held_joints,
    describe_omissions,
    find_held_links,
    find_unsupported,
    format_numbers,
    joint_side_values,
    require_exportable,
    require_same_arm,
    resolve_model,
    subtract_held_bodies,
    without_negligible,
)
from mindyn.robots.assembly import assemble_robot
from mindyn.robots.description import Description
from mindyn.robots.mjcf_loops import DEPENDENT_TEXT_PREFIX, mjcf_element_name
from mindyn.robots.mjcf_reader import read_mjcf
from mindyn.robots.mjcf_source import read_with_includes
from mindyn.robots.parts import Drive, Joint, Link, Loop
from mindyn.robots.robot import Robot
from mindyn.robots.safe_robot_files import find_leading_comments, read_text, require_root
from mindyn.robots.snapping import Snapper
from mindyn.robots.springs import Spring, find_springs

JOINT_ATTRIBUTES: Final = ("armature", "damping", "frictionloss")
"""Attributes of an MJCF joint, in the order of `joint_side_values`."""
ELASTIC_SUFFIX: Final = "_elastic"
"""End of the name of the spring of a joint, whose position is that of the link relative to the motor."""
MIN_ROTOR_FRACTION: Final = 0.01
"""Least rotor inertia of an elastic joint relative to the inertia of its links at q = 0."""
DEFAULT_STEP_S: Final = 0.002
STEP_OF_RADIAN: Final = 0.2
"""Time step relative to that of one radian of the fastest vibration; above 2, MuJoCo's integration is unstable."""
FRICTION_SOLVER: Final = "0.001 1"
"""solreffriction of joints with friction. With MuJoCo's default of 20 ms, friction reverses about 10 ms before the
velocity does; MuJoCo itself raises this value to two time steps."""
FRICTION_IMPEDANCE: Final = ".9999 .9999 .001 .5 2"
"""solimpfriction of joints with friction. With MuJoCo's default a joint that should stick creeps under gravity: replays
of an SO-101 are 2 to 4 times worse. Contacts of the file keep their own settings."""


def _set_joint_values(element: Element, values: Sequence[float]) -> None:
    """Set armature, damping and friction of a joint."""
    for key, value in zip(JOINT_ATTRIBUTES, values, strict=True):
        element.set(key, repr(float(value)))
    if values[-1] and "solreffriction" not in element.attrib:
        element.set("solreffriction", FRICTION_SOLVER)
    if values[-1] and "solimpfriction" not in element.attrib:
        element.set("solimpfriction", FRICTION_IMPEDANCE)


def add_bodies(world: Element, robot: Robot, elasticity: Elasticity | None = None) -> dict[str, Element]:
    """Add a body for each link and return the bodies by link name.

    An elastic joint is two joints on one axis: that of the motor, with armature and friction, and a spring.

    A massless link between two joints gets no body: its joint moves to the next body. MuJoCo accepts several joints on
    one body, but no moving body without mass.
    """
    bodies = {robot.root.name: world}
    between: dict[str, tuple[Element, Pose, list[tuple[Joint, Pose]]]] = {}
    for joint, link in zip(robot.joints, robot.links, strict=True):
        on, X, waiting = between.get(joint.parent) or (bodies[joint.parent], IDENTITY, [])
        X_joint = X @ joint.origin
        X_link = X_joint @ joint.tip
        waiting = [*waiting, (joint, X_joint)]
        if _is_massless_connector(robot, link):
            between[link.name] = on, X_link, waiting
            continue
        body = SubElement(on, "body", pose_attributes(X_link), name=link.name)
        bodies[link.name] = body
        if link.phi is not None and link.phi.any():
            SubElement(body, "inertial", inertial_attributes(link.phi))
        for waiting_joint, X_waiting in waiting:
            _add_joint(body, robot, waiting_joint, X_link.inverse() @ X_waiting)
            if elasticity is not None:
                _add_spring_joint(body, elasticity, waiting_joint.name)
    return bodies


def _add_rotors(robot: Robot, elasticity: Elasticity) -> tuple[Robot, float, list[str]]:
    """Return the robot with a rotor on every elastic joint, the time step of their vibrations, and notes.

    MuJoCo accepts no motor without inertia, and integrates springs explicitly.
    """
    inertia = np.diag(np.array(build_equation(robot, "inertia_matrix", check=False)(np.zeros(len(robot.joints)))))
    drives, step, small = {drive.joint: drive for drive in robot.drives}, DEFAULT_STEP_S, []
    for entry in elasticity.joints:
        if not entry.is_determined or entry.joint not in robot.joint_names:
            continue
        drive = drives.get(entry.joint, Drive(entry.joint))
        of_links = float(inertia[robot.joint_index(entry.joint)])
        rotor = joint_side_values(drive)[0]
        if rotor < MIN_ROTOR_FRACTION * of_links:
            rotor = MIN_ROTOR_FRACTION * of_links
            drives[entry.joint] = replace(drive, rotor_inertia=rotor / drive.ratio**2)
            small.append(entry.joint)
        step = min(step, STEP_OF_RADIAN * float(np.sqrt(1 / (entry.stiffness * (1 / rotor + 1 / of_links)))))
    notes = [f"Time step: {step:.2g} s, for the vibration of the springs."] if step < DEFAULT_STEP_S else []
    if small:
        notes.append(f"Rotor inertia of {MIN_ROTOR_FRACTION:g} of the links assumed: {list_names(small)}.")
    return replace(robot, drives=tuple(drives.values())), step, notes


def _add_spring_joint(body: Element, elasticity: Elasticity, name: str) -> None:
    """Add the spring between motor and link to the body of an elastic joint, after the joint of its motor."""
    if name not in (entry.joint for entry in elasticity.joints) or not elasticity[name].is_determined:
        return
    motor, values = body.findall("joint")[-1], elasticity[name]
    spring = SubElement(body, "joint", name=f"{name}{ELASTIC_SUFFIX}")
    for key in ("type", "pos", "axis"):
        spring.set(key, motor.attrib[key])
    spring.set("stiffness", repr(float(values.stiffness)))
    if values.damping > 0:
        spring.set("damping", repr(float(values.damping)))


def _is_massless_connector(robot: Robot, link: Link) -> bool:
    """Return whether a link without mass only connects two joints."""
    if link.phi is None or link.phi.any() or any(link.name in (loop.first, loop.second) for loop in robot.loops):
        return False
    return sum(joint.parent == link.name for joint in robot.joints) == 1


def require_mass(robot: Robot, *, force: bool) -> None:
    """Raise `ExportError` for moving links without mass that MuJoCo does not accept, unless `force` is set."""
    empty = [link for link in robot.links if link.phi is not None and not link.phi.any()]
    massless = [link.name for link in empty if not _is_massless_connector(robot, link)]
    if massless and not force:
        raise ExportError(
            f"MuJoCo does not accept moving bodies without mass: {list_names(massless)}",
            hint="lock their joints (lock=, --lock), give them a mass, or write them as they are with force=True "
            "(--force)",
            code=Code.UNSUPPORTED,
            subject=massless[0],
        )


def _add_joint(body: Element, robot: Robot, joint: Joint, X_link_joint: Pose) -> None:
    kind = "hinge" if joint.kind == "revolute" else "slide"
    element = SubElement(body, "joint", name=joint.name, type=kind)
    element.set("pos", format_numbers(X_link_joint.translation))
    element.set("axis", format_numbers(X_link_joint.rotation @ joint.axis))
    limits = joint.limits
    if limits.lower is not None and limits.upper is not None:
        element.set("range", format_numbers((limits.lower, limits.upper)))
    if limits.effort is not None:
        element.set("actuatorfrcrange", format_numbers((-limits.effort, limits.effort)))
    for drive in robot.drives:
        if drive.joint == joint.name:
            _set_joint_values(element, joint_side_values(drive))
    if (spring := find_springs(robot.extras).get(joint.name)) is not None:
        element.set("stiffness", repr(float(spring.stiffness)))
        element.set("springref", repr(float(spring.rest)))


def pose_attributes(pose: Pose) -> dict[str, str]:
    """Return the position and orientation attributes of a body or site."""
    return {"pos": format_numbers(pose.translation), "quat": format_numbers(quaternion_from_rotation(pose.rotation))}


def inertial_attributes(phi: Array) -> dict[str, str]:
    """Return the attributes of MJCF's <inertial> for link parameters phi (10,)."""
    mass, com, J = mass_com_inertia(phi)
    stated = {"pos": format_numbers(com), "mass": repr(float(mass))}
    if not phi.any():
        return {**stated, "diaginertia": "0 0 0"}  # MuJoCo diagonalises a full tensor and rejects zero
    # MuJoCo's order: xx yy zz xy xz yz.
    return {**stated, "fullinertia": format_numbers((J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]))}


PIN_SPAN_M: Final = 0.1
"""Distance between the two points that close a pin joint."""
STIFF_SOLVER: Final = ("0.002 1", "0.999999 0.999999 0.001")
"""solref and solimp of closed loops: the stiffest that MuJoCo accepts."""
MJCF_COMMENT: Final = (
    "Inertials, armature, damping, frictionloss and springs by mindyn; bodies without joints are included in the body "
    "that carries them."
)
RESCALING_SETTINGS: Final = ("settotalmass", "boundmass", "boundinertia", "balanceinertia")
"""Compiler settings with which MuJoCo changes the given inertials."""
READ_BACK_TOLERANCE: Final = 1e-8
"""Relative to the largest parameter of a link. MuJoCo rotates inertias to principal axes, an error of about 1e-15."""


def robot_to_mjcf(
    robot: Robot,
    *,
    force: bool = False,
    notes: Sequence[str] = (),
    servo: Servo | None = None,
    elasticity: Elasticity | None = None,
) -> str:
    """Return the MJCF text of a robot with `notes` as a comment, the actuators of a servo, and elastic joints.

    MJCF has no velocity, acceleration and jerk limits, and collision shapes are not written. `force` omits parts that
    MJCF cannot express; MuJoCo itself still rejects links that are not physical bodies.
    """
    require_exportable(
        robot, "MJCF", find_unsupported(robot, armature=True, closing=CLOSABLE_LOOPS, springs=True), force=force
    )
    step = None
    if elasticity is not None:
        robot, step, added = _add_rotors(robot, elasticity)
        notes = [*notes, *added]
    top = Element("mujoco", model=robot.name)
    actuators = Element("mujoco")
    if servo is not None:
        notes = [*notes, *add_position_actuators(actuators, robot.primary_names, servo)]
    if notes:
        top.append(Comment(comment_text(notes)))
    SubElement(top, "compiler", angle="radian", autolimits="true")
    option = SubElement(top, "option", gravity=format_numbers(robot.gravity))
    if step is not None:
        option.set("timestep", repr(step))
    world = SubElement(top, "worldbody")
    bodies = add_bodies(world, robot, elasticity)
    for frame in robot.frames:
        if frame.link in bodies:
            SubElement(bodies[frame.link], "site", pose_attributes(frame.pose), name=frame.name)
    if robot.has_dependents:
        equality = SubElement(top, "equality")
        for mimic in robot.mimics:
            line = format_numbers((mimic.offset, mimic.multiplier, 0, 0, 0))
            SubElement(equality, "joint", joint1=mimic.joint, joint2=mimic.of, polycoef=line)
        for loop in robot.loops:
            _add_closure(equality, bodies, loop)
    if robot.loops:
        custom = SubElement(top, "custom")
        for loop in robot.loops:
            if loop.kind in CLOSABLE_LOOPS:
                SubElement(custom, "text", name=f"{DEPENDENT_TEXT_PREFIX}{loop.name}", data=json.dumps(loop.dependent))
        key = SubElement(SubElement(top, "keyframe"), "key", name="home")
        home = home_closure(robot).home
        named = [joint.get("name", "") for joint in world.iter("joint")]  # MuJoCo's order: depth first
        key.set("qpos", format_numbers([home[robot.joint_index(name)] for name in named]))
    top.extend(actuators)
    return xml_document(top)


def write_mjcf(
    model: Robot | Estimate | ServoEstimate,
    path: str | Path,
    *,
    source: str | Path | None = None,
    prior: Prior = "robot",
    force: bool = False,
    elasticity: Elasticity | None = None,
) -> Path:
    """Write a robot, or the full model of an estimate, as MJCF with armature, damping and dry friction.

    An estimate from logs with position targets also gets <position> actuators with kp and kv. Joints with friction get
    `solimpfriction` and `solreffriction` with which they stick under load, unless the source has its own.

    Parts of an estimate that MJCF cannot express (couplings, torque offsets, extra torques) are omitted, and a comment
    in the file lists them. Loops become <connect> constraints between sites (one for a ball, two for a pin) or <weld>;
    they are closed at the keyframe "home".

    Parameters
    ----------
    model : Robot, Estimate or ServoEstimate
        Robot or estimate to write.
    path : str or Path
        File to write.
    source : str, Path or None
        MJCF file from which the robot was loaded. Its inertials, armature, damping, frictionloss and springs are set,
        the rest stays.
    prior : Robot, "robot" or None
        Determines what an estimate leaves open, as in `build_full_model`.
    force : bool
        Write links that are not physical bodies, and omit parts of a robot that MJCF cannot express.
    elasticity : Elasticity, optional
        Result of `identify_elasticity`. Each joint with a determined stiffness becomes two joints on one axis: that of
        the motor, with its name, armature and friction, and NAME_elastic, with stiffness and damping, whose position is
        that of the link relative to the motor. Hysteresis and backlash are omitted.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    ExportError
        If a link is not physical, if MJCF cannot express the robot, if `source` is another robot, or if elastic joints
        are asked for in a source or in closed loops.

    Examples
    --------
    >>> mindyn.write_mjcf(mindyn.load_robot("ur10"), "ur10.xml").name
    'ur10.xml'
    """
    text, _ = render_mjcf(model, path, source, prior, force=force, elasticity=elasticity)
    return write_file_atomically(path, text)


def render_mjcf(
    model: Robot | Estimate | ServoEstimate,
    path: str | Path,
    source: str | Path | None,
    prior: Prior,
    *,
    force: bool,
    elasticity: Elasticity | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Return the text of `write_mjcf` for a file at `path`, and the notes in its comment."""
    if elasticity is not None:
        _require_elastic_joints(model, source)
    if isinstance(model, ServoEstimate):
        return _render_servos(model, path, source, force=force)
    robot = resolve_model(model, prior, force=force)
    servo = model.data.servo if isinstance(model, Estimate) else None
    lost = find_unsupported(without_negligible(model, robot), armature=True, closing=CLOSABLE_LOOPS, springs=True)
    notes = describe_omissions(model, robot, lost)
    if elasticity is not None:
        notes = [*notes, *_describe_elastic_joints(elasticity)]
    lossy = isinstance(model, Estimate) and all(loop.kind in CLOSABLE_LOOPS for loop in robot.loops)
    if source is None:
        require_mass(robot, force=force)
        text = robot_to_mjcf(robot, force=force or lossy, notes=notes, servo=servo, elasticity=elasticity)
        return text, tuple(notes)
    require_exportable(robot, "MJCF", [] if lossy else lost, force=force)
    text, changes = edit_mjcf(robot, source, path, notes, servo)
    return text, (*notes, *changes)


def _require_elastic_joints(model: Robot | Estimate | ServoEstimate, source: str | Path | None) -> None:
    """Raise `ExportError` if elastic joints cannot be written: they change the number of joints."""
    if source is not None:
        raise ExportError(
            "elastic joints cannot be added to an existing file: its keyframes and equalities count joints",
            hint="write a new file: omit source (--source)",
            code=Code.UNSUPPORTED,
            subject="source",
        )
    if isinstance(model, ServoEstimate) or (model if isinstance(model, Robot) else model.robot).has_dependents:
        raise ExportError(
            "elastic joints are supported for robots without loops, mimic joints and position servos",
            hint="export without elasticity (--elastic)",
            code=Code.UNSUPPORTED,
            subject="elasticity",
        )


def _describe_elastic_joints(elasticity: Elasticity) -> list[str]:
    """Return sentences about the springs, and about what MJCF does not express."""
    elastic = [entry for entry in elasticity.joints if entry.is_determined]
    rigid = [entry.joint for entry in elasticity.joints if not entry.is_determined]
    notes = [f"Joints NAME{ELASTIC_SUFFIX} are the springs of {list_names([entry.joint for entry in elastic])}."]
    notes = notes if elastic else ["No stiffness is determined: all joints are rigid."]
    if elastic and rigid:
        notes.append(f"Rigid, because their stiffness is not determined: {list_names(rigid)}.")
    if lost := [entry.joint for entry in elastic if entry.hysteresis or entry.backlash]:
        notes.append(f"Omitted: hysteresis and backlash of {list_names(lost)}.")
    return notes


def _render_servos(
    estimate: ServoEstimate, path: str | Path, source: str | Path | None, *, force: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the text and notes for the robot of a servo estimate: masses of its file, drives and servos as estimated.

    The time step is that of the fit.
    """
    robot = estimate.to_robot()
    assumed = [name for name, has in zip(estimate.joint_names, estimate.has_scale, strict=True) if not has]
    notes = [
        "Servos, damping, frictionloss and armature by mindyn; masses of the robot file.",
        *describe_held_joints(robot),
    ]
    if assumed:
        notes.append(f"The scale of {', '.join(assumed)} is assumed; the motion under targets does not depend on it.")
    if source is not None:
        text, changes = edit_mjcf(robot, source, path, notes, estimate.servo)
        return text, (*notes, *changes)
    require_mass(robot, force=force)
    return robot_to_mjcf(robot, force=force, notes=notes, servo=estimate.servo), tuple(notes)


def _add_closure(equality: Element, bodies: dict[str, Element], loop: Loop) -> None:
    """Add sites at both ends of a loop and the constraint that joins them: one point, two for a pin, or a weld."""
    ends = ((loop.first, loop.first_pose), (loop.second, loop.second_pose))
    for k in range({"ball": 1, "weld": 1, "pin": 2}.get(loop.kind, 0)):
        names = [f"{loop.name}/{k}{side}" for side in ("a", "b")]
        for name, (link, pose) in zip(names, ends, strict=True):
            SubElement(bodies[link], "site", pose_attributes(pose @ Pose(None, (0, 0, k * PIN_SPAN_M))), name=name)
        held = {"name": f"{loop.name}/{k}", "site1": names[0], "site2": names[1]}
        SubElement(equality, mjcf_element_name(loop), held, solref=STIFF_SOLVER[0], solimp=STIFF_SOLVER[1])


def edit_mjcf(
    robot: Robot, source: str | Path, out: str | Path, notes: Sequence[str] = (), servo: Servo | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return the source text with the values of the robot, for a file at `out`, and sentences about other changes.

    The position actuators get the gains of `servo`. `notes` and these sentences become the comment at the top of the
    file.
    """
    path = Path(source)
    root, included = read_with_includes(path)
    require_root(root, "mujoco", "MJCF")
    stated = assemble_robot(read_mjcf(path, Snapper(active=True)).select(robot.selection))
    require_same_arm(robot, stated, str(source))
    changes = [f"{included} included files were merged into this file."] if included else []
    changes += [*_remove_rescaling(root), *_set_gravity(root, robot, stated)]
    bodies, joints = _named_elements(root)
    described = read_mjcf(path, Snapper(active=True), xml_document(root, keep_whitespace=True))
    held = find_held_links(described, robot.selection.lock)
    wanted = subtract_held_bodies(robot, described, held, path.name)
    _edit_bodies(bodies, wanted, stated, held)
    _edit_joints(joints, robot, stated)
    _edit_springs(joints, robot, stated, degrees=_last_section(root, "compiler").get("angle", "degree") != "radian")
    _require_read_back(robot, path, xml_document(root, keep_whitespace=True), wanted)
    changes += [] if servo is None else add_position_actuators(root, robot.primary_names, servo)
    changes += _move_assets(root, path.parent, Path(out).parent)
    changes += [f"{note}; they remain in this file." for note in stated.findings if note.kind == Kind.DROPPED_PART]
    changes += describe_held_joints(robot)
    root.insert(0, Comment(comment_text([MJCF_COMMENT, *changes, *notes])))
    root[0].tail = "\n  "
    return xml_document(root, keep_whitespace=True, above=find_leading_comments(read_text(path))), tuple(changes)


def _named_elements(root: Element) -> tuple[dict[str, Element], dict[str, Element]]:
    """Return the bodies and joints of the file by name; the reader numbers those without a name."""
    bodies = [body for world in root.findall("worldbody") for body in world.iter("body")]
    joints = [child for body in bodies for child in body if child.tag in ("joint", "freejoint")]
    return (
        {element.get("name") or f"body{k}": element for k, element in enumerate(bodies, 1)},
        {element.get("name") or f"joint{k}": element for k, element in enumerate(joints)},
    )


def _edit_bodies(
    bodies: Mapping[str, Element], wanted: Mapping[str, Array], stated: Robot, held: Collection[str]
) -> None:
    for name, phi in wanted.items():
        if name in bodies:
            _set_inertial(bodies[name], phi)
        elif phi.any():
            raise ExportError(
                f"the file has no <body> for link {name!r}, whose mass is {phi[0]:.4g} kg: it has several joints on "
                "one body, or MuJoCo creates the body as a copy",
                hint="give every joint its own <body> in the file",
                code=Code.UNSUPPORTED,
                subject=name,
            )
    for frame in stated.frames:
        # Parts fixed to the root do not move, so the model has no values for them.
        if frame.link != stated.root.name and frame.name in bodies and frame.name not in held:
            _set_inertial(bodies[frame.name], np.zeros(PARAMETERS_PER_LINK))


def _set_inertial(body: Element, phi: Array) -> None:
    inertial = body.find("inertial")
    if inertial is None:
        inertial = Element("inertial")
        inertial.tail = body.text or "\n"
        body.insert(0, inertial)
    inertial.attrib.clear()
    inertial.attrib.update(inertial_attributes(phi))


def _edit_joints(joints: Mapping[str, Element], robot: Robot, stated: Robot) -> None:
    """Set armature, damping and friction of the joints; they become zero for joints without a drive."""
    shown = {drive.joint: (0.0, 0.0, 0.0) for drive in stated.drives}
    shown |= {drive.joint: joint_side_values(drive) for drive in robot.drives}
    for name, values in shown.items():
        if name not in joints:
            raise ExportError(
                f"the file has no <joint> {name!r}: MuJoCo creates it as a copy", code=Code.UNSUPPORTED, subject=name
            )
        _set_joint_values(joints[name], values)


def _edit_springs(joints: Mapping[str, Element], robot: Robot, stated: Robot, *, degrees: bool) -> None:
    """Set the springs of the joints; stiffness becomes zero for joints without a spring."""
    before, now = find_springs(stated.extras), find_springs(robot.extras)
    for name in (*before, *(name for name in now if name not in before)):
        spring = now.get(name, Spring(0.0, 0.0))
        joints[name].set("stiffness", repr(float(spring.stiffness)))
        if name in now and (name not in before or before[name].rest != spring.rest):
            turns = robot.joints[robot.joint_index(name)].kind == "revolute"
            joints[name].set("springref", repr(float(np.degrees(spring.rest) if degrees and turns else spring.rest)))


def _remove_rescaling(root: Element) -> list[str]:
    """Remove compiler settings that would override the given inertials."""
    changed = []
    for compiler in root.findall("compiler"):
        changed += [f"{key} {compiler.attrib.pop(key)}" for key in RESCALING_SETTINGS if key in compiler.attrib]
        if compiler.get("inertiafromgeom") == "true":
            compiler.set("inertiafromgeom", "auto")
            changed.append("inertiafromgeom true")
    return [f"Removed from <compiler>, because they override the inertials: {', '.join(changed)}."] if changed else []


def _set_gravity(root: Element, robot: Robot, stated: Robot) -> list[str]:
    if np.allclose(robot.gravity, stated.gravity, rtol=0, atol=1e-12):
        return []
    _last_section(root, "option").set("gravity", format_numbers(robot.gravity))
    return [
        f"Gravity changed from {format_numbers(stated.gravity)} m/s^2 to {format_numbers(robot.gravity)}, as in the "
        "model."
    ]


def _last_section(root: Element, tag: str) -> Element:
    """Return the last section with this tag, which overrides the others, or add one."""
    sections = root.findall(tag)
    return sections[-1] if sections else SubElement(root, tag)


def _move_assets(root: Element, before: Path, now: Path) -> list[str]:
    """Make the folders of meshes and textures relative to the new file."""
    files = [asset_file for asset in root.findall("asset") for asset_file in asset if asset_file.get("file")]
    if not files or before.resolve() == now.resolve():
        return []
    folders: dict[str, str] = {}
    for compiler in root.findall("compiler"):
        for key in ("assetdir", "meshdir", "texturedir"):
            if key in compiler.attrib:
                value = compiler.attrib.pop(key)
                folders |= {"meshdir": value, "texturedir": value} if key == "assetdir" else {key: value}
    compiler = _last_section(root, "compiler")
    for key in ("meshdir", "texturedir"):
        compiler.set(key, Path(os.path.relpath(before.resolve() / folders.get(key, ""), now.resolve())).as_posix())
    return ["Folders of meshes and textures are relative to this file."]


def _require_read_back(robot: Robot, path: Path, text: str, wanted: Mapping[str, Array]) -> None:
    """Raise `ExportError` if the edited file does not read back with the intended values."""
    try:
        described = read_mjcf(path, Snapper(active=True), text)
    except RobotError as error:
        raise ExportError(
            f"{path.name} cannot be read after editing: {error.message}", code=Code.UNREADABLE, subject=path.name
        ) from error
    phi_by_link = {link.name: link.phi for link in described.links if link.name in wanted and link.phi is not None}
    intended = _editable_values(robot, wanted, robot)
    read = _editable_values(robot, phi_by_link, described)
    none = np.zeros(1)
    wrong = [
        label
        for label in dict.fromkeys((*intended, *read))
        if not _is_close(read.get(label, none), intended.get(label, none))
    ]
    if wrong:
        raise ExportError(
            f"editing {path.name} for robot {robot.name!r} does not give the intended values: {list_names(wrong)}",
            hint="write a new file instead: omit source (--source)",
            code=Code.INACCURATE,
            subject=path.name,
        )


def _editable_values(robot: Robot, phi_by_link: Mapping[str, Array], given: Robot | Description) -> dict[str, Array]:
    """Return the values that editing sets, by what they are, for the joints of the robot."""
    values = {f"the inertial of {name!r}": phi for name, phi in phi_by_link.items()}
    for drive in given.drives:
        if drive.joint in robot.joint_names:
            pairs = zip(JOINT_ATTRIBUTES, joint_side_values(drive), strict=True)
            values |= {f"{key} of {drive.joint!r}": np.array([value]) for key, value in pairs}
    for joint, spring in find_springs(given.extras).items():
        if joint in robot.joint_names:
            values[f"the spring of {joint!r}"] = spring.stiffness * np.array([1.0, spring.rest])
    return values


def _is_close(read: Array, intended: Array) -> bool:
    return bool(np.abs(read - intended).max() <= READ_BACK_TOLERANCE * np.abs(intended).max())
