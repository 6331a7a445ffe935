"""Writing MJCF: bodies at their link frames, joints with anchor and axis, armature, damping and dry friction.

In a file that is edited these are set, and meshes, actuators, sensors, comments stay. Bodies without joints are parts
of the body that carries them, whose inertial is their sum: their own becomes zero. Bodies on joints that the robot
holds still move in the file, so they keep the file's inertial, and their carrier has the rest of the sum. The edited
text is read again, and has to give the values that were to be written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Comment, Element, SubElement

import numpy as np

from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import ExportError, RobotError, list_names
from mindyn.escaping import xml_document
from mindyn.estimators.estimate import Estimate
from mindyn.export.held_bodies import find_held_links, subtract_held_bodies
from mindyn.export.mjcf_bodies import JOINT_ATTRIBUTES, add_bodies, inertial_attributes, pose_attributes, require_mass
from mindyn.export.models import Prior, describe_omissions, resolve_model
from mindyn.export.writing import (
    CLOSABLE_LOOPS,
    comment_text,
    describe_held_joints,
    find_unsupported,
    format_numbers,
    joint_side_values,
    require_exportable,
    require_same_arm,
)
from mindyn.files import write_file_atomically
from mindyn.findings import Kind
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.robots.assembly import assemble
from mindyn.robots.files import find_leading_comments, read_text
from mindyn.robots.mjcf_loops import DEPENDENT_TEXT_PREFIX, mjcf_element_name
from mindyn.robots.mjcf_reader import read_mjcf
from mindyn.robots.mjcf_source import read_with_includes
from mindyn.robots.parts import Loop
from mindyn.robots.robot import Robot
from mindyn.robots.snapping import Snapper
from mindyn.robots.springs import Spring, find_springs

PIN_SPAN_M: Final = 0.1
"""Distance of the two points that hold a pin, m."""
STIFF_SOLVER: Final = ("0.002 1", "0.999999 0.999999 0.001")
"""solref and solimp of closed loops: as stiff as MuJoCo makes them."""
MJCF_COMMENT: Final = (
    "Inertials, armature, damping, frictionloss and springs by mindyn; bodies without joints count with their carrier."
)
RESCALING_SETTINGS: Final = ("settotalmass", "boundmass", "boundinertia", "balanceinertia")
"""Settings by which MuJoCo's compiler changes stated inertials."""
READ_BACK_TOLERANCE: Final = 1e-8
"""Relative to a link's largest parameter: MuJoCo turns inertias to their principal axes, 1e-15 of it or so."""


def robot_to_mjcf(robot: Robot, *, force: bool = False, notes: Sequence[str] = ()) -> str:
    """The MJCF text of a robot, without collision shapes and speed, acceleration, jerk limits; `notes` as comment.

    MuJoCo wants every link to be a possible body, so `force` helps only against what MJCF cannot express.
    """
    require_exportable(
        robot, "MJCF", find_unsupported(robot, armature=True, closing=CLOSABLE_LOOPS, springs=True), force=force
    )
    require_mass(robot, force=force)
    top = Element("mujoco", model=robot.name)
    if notes:
        top.append(Comment(comment_text(notes)))
    SubElement(top, "compiler", angle="radian", autolimits="true")
    SubElement(top, "option", gravity=format_numbers(robot.gravity))
    world = SubElement(top, "worldbody")
    bodies = add_bodies(world, robot)
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
    robot = resolve_model(model, prior, force=force)
    lost = find_unsupported(robot, armature=True, closing=CLOSABLE_LOOPS, springs=True)
    notes = describe_omissions(model, robot, lost)
    if source is None:
        require_mass(robot, force=force)
    lossy = isinstance(model, Estimate) and all(loop.kind in CLOSABLE_LOOPS for loop in robot.loops)
    if source is None:
        write_file_atomically(path, robot_to_mjcf(robot, force=force or lossy, notes=notes))
        return tuple(notes)
    require_exportable(robot, "MJCF", [] if lossy else lost, force=force)
    text, said = edit_mjcf(robot, source, path, notes)
    write_file_atomically(path, text)
    return (*notes, *said)


def _add_closure(equality: Element, bodies: dict[str, Element], loop: Loop) -> None:
    """Sites at the ends of a loop, held together: at its origin, along its axis where it is a pin, or welded."""
    ends = ((loop.first, loop.first_pose), (loop.second, loop.second_pose))
    for k in range({"ball": 1, "weld": 1, "pin": 2}.get(loop.kind, 0)):
        names = [f"{loop.name}/{k}{side}" for side in ("a", "b")]
        for name, (link, pose) in zip(names, ends, strict=True):
            SubElement(bodies[link], "site", pose_attributes(pose @ Pose(None, (0, 0, k * PIN_SPAN_M))), name=name)
        held = {"name": f"{loop.name}/{k}", "site1": names[0], "site2": names[1]}
        SubElement(equality, mjcf_element_name(loop), held, solref=STIFF_SOLVER[0], solimp=STIFF_SOLVER[1])


def edit_mjcf(
    robot: Robot, source: str | Path, out: str | Path, notes: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """The text of the source with the robot's values, for a file at `out`, and what else was changed or remains.

    notes  become part of the comment at the top, with those sentences
    """
    path = Path(source)
    stated = assemble(read_mjcf(path, Snapper(active=True)).select(robot.selection))
    require_same_arm(robot, stated, str(source))
    root, included = read_with_includes(path)
    said = [f"{included} included files stand in this one."] if included else []
    said += [*_remove_rescaling(root), *_set_gravity(root, robot, stated)]
    bodies, joints = _named_elements(root)
    described = read_mjcf(path, Snapper(active=True), xml_document(root, keep_whitespace=True))
    held = find_held_links(described, robot.selection.lock)
    wanted = subtract_held_bodies(robot, described, held, path.name)
    _edit_bodies(bodies, wanted, stated, held)
    torques = _edit_joints(joints, robot, stated)
    _edit_springs(joints, robot, stated, degrees=_last_section(root, "compiler").get("angle", "degree") != "radian")
    _require_read_back(robot, path, xml_document(root, keep_whitespace=True), wanted, torques)
    said += _move_assets(root, path.parent, Path(out).parent)
    said += [f"Still in the file, and no part of the model: {note}." for note in _remaining_parts(stated)]
    said += describe_held_joints(robot)
    root.insert(0, Comment(comment_text([MJCF_COMMENT, *said, *notes])))
    root[0].tail = "\n  "
    return xml_document(root, keep_whitespace=True, above=find_leading_comments(read_text(path))), tuple(said)


def _named_elements(root: Element) -> tuple[dict[str, Element], dict[str, Element]]:
    """Bodies and joints of the file by the names that the reader gives them: those without one by their number."""
    bodies: list[Element] = []
    joints: list[Element] = []

    def visit(element: Element) -> None:
        joints.extend(child for child in element if child.tag in ("joint", "freejoint") and element.tag == "body")
        for child in element:
            if child.tag == "body":
                bodies.append(child)
            if child.tag in ("body", "frame"):
                visit(child)

    for world in root.findall("worldbody"):
        visit(world)
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
                f"the file has no <body> for link {name!r} (several joints on one body, or a copy that MuJoCo makes), "
                f"but {phi[0]:.4g} kg are to be written on it",
                hint="give every joint its own <body> in the file",
            )
    for frame in stated.frames:
        # What is fixed to the root does not move: nothing is known of it, so it stays.
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


def _edit_joints(joints: Mapping[str, Element], robot: Robot, stated: Robot) -> dict[str, tuple[float, float, float]]:
    """Set what drives show at their joints; where the robot has no drive, what the file has there becomes zero."""
    shown = {drive.joint: (0.0, 0.0, 0.0) for drive in stated.drives}
    shown |= {drive.joint: joint_side_values(drive) for drive in robot.drives}
    for name, values in shown.items():
        if name not in joints:
            raise ExportError(f"the file has no <joint> {name!r} of its own: MuJoCo makes it as a copy")
        for key, value in zip(JOINT_ATTRIBUTES, values, strict=True):
            joints[name].set(key, repr(float(value)))
    return shown


def _edit_springs(joints: Mapping[str, Element], robot: Robot, stated: Robot, *, degrees: bool) -> None:
    """Set the springs of joints; where the robot has none, that of the file has no stiffness any more."""
    before, now = find_springs(stated.extras), find_springs(robot.extras)
    for name in (*before, *(name for name in now if name not in before)):
        spring = now.get(name, Spring(0.0, 0.0))
        joints[name].set("stiffness", repr(float(spring.stiffness)))
        if name in now and (name not in before or before[name].rest != spring.rest):
            turns = robot.joints[robot.joint_index(name)].kind == "revolute"
            joints[name].set("springref", repr(float(np.degrees(spring.rest) if degrees and turns else spring.rest)))


def _remove_rescaling(root: Element) -> list[str]:
    """Take out settings of the compiler by which stated inertials would not count."""
    changed = []
    for compiler in root.findall("compiler"):
        changed += [f"{key} {compiler.attrib.pop(key)}" for key in RESCALING_SETTINGS if key in compiler.attrib]
        if compiler.get("inertiafromgeom") == "true":
            compiler.set("inertiafromgeom", "auto")
            changed.append("inertiafromgeom true")
    return (
        [f"Taken out of <compiler>, since stated inertials would not count: {', '.join(changed)}."] if changed else []
    )


def _set_gravity(root: Element, robot: Robot, stated: Robot) -> list[str]:
    if np.allclose(robot.gravity, stated.gravity, rtol=0, atol=1e-12):
        return []
    _last_section(root, "option").set("gravity", format_numbers(robot.gravity))
    return [
        f"Gravity was {format_numbers(stated.gravity)} m/s^2 and is now {format_numbers(robot.gravity)}, as in the model."
    ]


def _last_section(root: Element, tag: str) -> Element:
    """The last section of a name, which overrides the others; a new one where there is none."""
    found = root.findall(tag)
    return found[-1] if found else SubElement(root, tag)


def _move_assets(root: Element, before: Path, now: Path) -> list[str]:
    """Folders of meshes and textures as seen from where the file will stand."""
    files = [one for asset in root.findall("asset") for one in asset if one.get("file")]
    if not files or before.resolve() == now.resolve():
        return []
    found: dict[str, str] = {}
    for compiler in root.findall("compiler"):
        for key in ("assetdir", "meshdir", "texturedir"):
            if key in compiler.attrib:
                value = compiler.attrib.pop(key)
                found |= {"meshdir": value, "texturedir": value} if key == "assetdir" else {key: value}
    compiler = _last_section(root, "compiler")
    for key in ("meshdir", "texturedir"):
        compiler.set(key, Path(os.path.relpath(before.resolve() / found.get(key, ""), now.resolve())).as_posix())
    return ["Folders of meshes and textures are given as seen from this file."]


def _remaining_parts(stated: Robot) -> list[str]:
    """What the reader left out and MuJoCo simulates: springs, tendons, gravity compensation, ..."""
    return [str(note).removesuffix(" were left out") for note in stated.findings if note.kind == Kind.DROPPED_PART]


def _require_read_back(
    robot: Robot, path: Path, text: str, wanted: Mapping[str, Array], torques: Mapping[str, tuple[float, float, float]]
) -> None:
    """Refuse an edit that does not give the values, whatever setting of the file stands in the way."""
    try:
        described = read_mjcf(path, Snapper(active=True), text)
    except RobotError as error:
        raise ExportError(f"{path.name} with the values of the robot: {error.message}") from error
    found = {link.name: link.phi for link in described.links}
    wrong = []
    for name, phi in wanted.items():
        again = found.get(name)
        if again is None or np.abs(again - phi).max() > READ_BACK_TOLERANCE * np.abs(phi).max(initial=0):
            wrong.append(f"the inertial of {name!r}")
    shown = {drive.joint: joint_side_values(drive) for drive in described.drives}
    for name, values in torques.items():
        if not np.allclose(shown.get(name, (0.0, 0.0, 0.0)), values, rtol=READ_BACK_TOLERANCE, atol=0):
            wrong.append(f"armature, damping or frictionloss of {name!r}")
    sprung, wished, none = find_springs(described.extras), find_springs(robot.extras), Spring(0.0, 0.0)
    for name in robot.joint_names:
        found_spring, wanted_spring = sprung.get(name, none), wished.get(name, none)
        lines = [(one.stiffness, one.stiffness * one.rest) for one in (found_spring, wanted_spring)]
        if not np.allclose(
            lines[0], lines[1], rtol=READ_BACK_TOLERANCE, atol=READ_BACK_TOLERANCE * abs(wanted_spring.stiffness)
        ):
            wrong.append(f"the spring of {name!r}")
    if wrong:
        raise ExportError(
            f"{path.name} of robot {robot.name!r} does not take what is written on it: {list_names(wrong)}",
            hint="write a file of our own instead: leave source (--source) out",
        )
