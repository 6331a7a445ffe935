"""Checks and parts that the writers of robot files share.

The robot that a writer writes, and notes about the estimate and the parts that a format cannot express.

Bodies on held joints: they keep the inertials of the file, and the link that carries them gets the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.catalogue import build_equation
from mindyn.foundation.algebra.inertia import check_consistency, mass_com_inertia, tensor_entries
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, ExportError, list_names
from mindyn.foundation.escaping import xml_comment
from mindyn.foundation.findings import Kind, info
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.robots.assembly import assemble_robot
from mindyn.robots.description import Description, FixedJoint, Selection
from mindyn.robots.parts import Drive, Link, LoopKind
from mindyn.robots.robot import Robot
from mindyn.robots.springs import is_spring
from mindyn.robots.urdf_reader import URDF_INERTIA

RobotFormat = Literal["urdf", "mjcf", "toml"]

ROBOT_FILES: Final[Mapping[RobotFormat, str]] = {"urdf": "model.urdf", "mjcf": "model.xml", "toml": "model.toml"}
"""File name of each format in suggested commands."""

CLOSABLE_LOOPS: Final[tuple[LoopKind, ...]] = ("pin", "ball", "weld")
"""Loops that MJCF can close with <connect> and <weld>."""

NEGLIGIBLE: Final = 1e-12
"""N m, N, kg m^2 or kg: smaller values are rounding errors of zero."""

NEGLIGIBLE_FRACTION: Final = 1e-3
"""Torque of a term relative to that of its joint, or rotor inertia relative to that of the links, below which notes do
not mention it."""
INTERVAL_DEVIATIONS: Final = 2.0
"""Half of an interval in standard deviations."""
SAME_PLACE_TOLERANCE = 1e-4
"""Largest difference between joints of the robot and the source, rad or m; snapping moves rotations by 1e-5."""


def choose_format(robot: Robot) -> RobotFormat:
    """Return the most widely supported format that can express the loops of a robot; URDF has only trees."""
    if not robot.loops:
        return "urdf"
    return "mjcf" if all(loop.kind in CLOSABLE_LOOPS for loop in robot.loops) else "toml"


def format_numbers(values: ArrayLike) -> str:
    """Return numbers as the text of an XML attribute, with all digits."""
    return " ".join(repr(float(value) + 0.0) for value in np.ravel(values))


def comment_text(notes: Sequence[str]) -> str:
    """Return sentences as the text of an XML comment."""
    return xml_comment(" ".join(notes))


def require_exportable(robot: Robot, file_format: str, lost: list[str], *, force: bool) -> None:
    """Raise `ExportError` for parts the format cannot express and for unphysical links, unless `force` is set."""
    if force:
        return
    robot.phi  # noqa: B018 - raises the error that names the links without parameters
    impossible = [
        f"{name} ({verdict.reason})" for name, verdict in robot.consistency().items() if not verdict.is_feasible
    ]
    if impossible:
        raise ExportError(
            f"links of {robot.name!r} are not physically consistent: {'; '.join(impossible)}",
            hint="make them consistent, or write them as they are with force=True (--force)",
            code=Code.NOT_FEASIBLE,
            subject=robot.name,
        )
    if lost:
        raise ExportError(
            f"{file_format} cannot express: {'; '.join(lost)}",
            hint="write TOML, which keeps everything, or omit these parts with force=True (--force)",
            code=Code.UNSUPPORTED,
            subject=robot.name,
        )


def find_unsupported(
    robot: Robot, *, armature: bool, closing: Sequence[LoopKind] = (), springs: bool = False
) -> list[str]:
    """List the parts of a robot, with numbers, that a format with joint-side damping and friction cannot express.

    `armature` and `springs` say whether joints of the format can have them; `closing` lists the loops it can close.
    """
    lost = [f"loop {loop.name!r}" for loop in robot.loops if loop.kind not in closing]
    of_formulas: dict[str, list[str]] = {}
    for extra in robot.extras:
        if not (springs and is_spring(extra)):
            of_formulas.setdefault(extra.formula, []).append(f"{extra.name!r} ({extra.coefficient:.4g})")
    lost += [f"the extra torque {formula} times {', '.join(terms)}" for formula, terms in of_formulas.items()]
    couplings, offsets = [], []
    for drive in robot.drives:
        if drive.coupling and (drive.rotor_inertia or (drive.side == "motor" and (drive.viscous or drive.coulomb))):
            ratios = ", ".join(f"{ratio:.4g} of {joint}" for joint, ratio in drive.coupling.items())
            couplings.append(f"{drive.joint!r} ({ratios})")
        if abs(offset := _joint_side_offset(drive)) > NEGLIGIBLE:
            unit = "N" if _is_prismatic(robot, drive) else "N m"
            offsets.append(f"{drive.joint!r} ({offset:.4g} {unit})")
    rotors = [] if armature else describe_rotors(robot)
    comparison = " (in brackets: of the links at q = 0)" if _has_known_inertia(robot) else ""
    lost += [f"the coupling of the drives of {', '.join(couplings)}"] if couplings else []
    lost += [f"the torque offset of the drives of {', '.join(offsets)}"] if offsets else []
    return [*lost, *([f"the rotor inertia at the joints{comparison}: {', '.join(rotors)}"] if rotors else [])]


def _is_prismatic(robot: Robot, drive: Drive) -> bool:
    return robot.joints[robot.joint_index(drive.joint)].kind == "prismatic"


def _has_known_inertia(robot: Robot) -> bool:
    """Return whether the inertia matrix at q = 0 can be computed."""
    return robot.has_parameters and not robot.has_dependents


def describe_rotors(robot: Robot) -> list[str]:
    """Describe each rotor that matters: its inertia at the joint, and that of the links (diagonal of M at q = 0)."""
    turning = [drive for drive in robot.drives if min(drive.rotor_inertia, joint_side_values(drive)[0]) > NEGLIGIBLE]
    links = None
    if turning and _has_known_inertia(robot):
        M = build_equation(robot, "inertia_matrix", check=False)(np.zeros(len(robot.joints)))
        links = np.diag(np.array(M))
    descriptions = []
    for drive in turning:
        rotor = joint_side_values(drive)[0]
        inertia = 0.0 if links is None else links[robot.joint_index(drive.joint)]
        if rotor < NEGLIGIBLE_FRACTION * inertia:
            continue
        unit = "kg" if _is_prismatic(robot, drive) else "kg m^2"
        descriptions.append(f"{drive.joint!r} {rotor:.3g} {unit}" + ("" if links is None else f" ({inertia:.3g})"))
    return descriptions


def joint_side_values(drive: Drive) -> tuple[float, float, float]:
    """Return the armature, damping and dry friction of a drive at its joint."""
    ratio = drive.ratio if drive.side == "motor" else 1.0
    return drive.ratio**2 * drive.rotor_inertia, ratio**2 * drive.viscous, abs(ratio) * drive.coulomb


def _joint_side_offset(drive: Drive) -> float:
    return drive.offset * (drive.ratio if drive.side == "motor" else 1.0)


def describe_held_joints(robot: Robot) -> list[str]:
    """Return a sentence about joints that move in the file but are held in the robot."""
    held = ", ".join(f"{name} = {position:g}" for name, position in robot.selection.lock.items())
    sentence = f"The values are valid for these held joints: {held}; links that they move keep their inertials."
    return [sentence] if held else []


def require_same_arm(robot: Robot, stated: Robot, source: str) -> None:
    """Raise `ExportError` if the source is another arm: the inertials would be in the wrong frames."""
    named = (("joints", stated.joint_names, robot.joint_names), ("links", stated.link_names, robot.link_names))
    for what, theirs, ours in named:
        if theirs != ours:
            raise ExportError(
                f"{source} has the {what} {', '.join(theirs)}; the robot has {', '.join(ours)}",
                hint="pass the file from which the robot was loaded",
                code=Code.DISAGREEMENT,
                subject=source,
            )
    for joint, stated_joint in zip(robot.joints, stated.joints, strict=True):
        pairs = (
            (joint.origin.matrix, stated_joint.origin.matrix),
            (joint.axis, stated_joint.axis),
            (joint.tip.matrix, stated_joint.tip.matrix),
        )
        if joint.kind != stated_joint.kind or not all(
            np.allclose(a, b, rtol=0, atol=SAME_PLACE_TOLERANCE) for a, b in pairs
        ):
            raise ExportError(
                f"joint {joint.name!r} has another pose or axis in {source} than in the robot",
                code=Code.DISAGREEMENT,
                subject=joint.name,
            )


def expressible_inertia(link: Link, file_format: str) -> tuple[float, Array, Array]:
    """Return mass, centre of mass and inertia about it; raise `ExportError` for a first moment without mass."""
    assert link.phi is not None
    mass, com, inertia = mass_com_inertia(link.phi)
    if mass == 0 and link.phi[1:4].any():
        message = f"{file_format} cannot express link {link.name!r}: its mass is 0 but its first moment is not"
        raise ExportError(message, code=Code.NOT_FEASIBLE, subject=link.name)
    return mass, com, inertia


def inertial_element(link: Link) -> Element:
    """Return URDF's <inertial> of a link: mass, centre of mass, inertia about it along the axes of the link frame."""
    mass, com, inertia = expressible_inertia(link, "URDF")
    inertial = Element("inertial")
    SubElement(inertial, "origin", xyz=format_numbers(com), rpy=format_numbers(np.zeros(3)))
    SubElement(inertial, "mass", value=repr(float(mass)))
    entries = zip(URDF_INERTIA, tensor_entries(inertia), strict=True)
    SubElement(inertial, "inertia", {key: repr(float(value)) for key, value in entries})
    return inertial


Prior = Robot | Literal["robot"] | None
"""The prior with which `build_full_model` completes an estimate."""


def resolve_model(
    given: Robot | Estimate, prior: Prior, *, friction: Literal["sign", "fitted"] = "sign", force: bool
) -> Robot:
    """Return the robot, or the full model of an estimate.

    An estimate that is not physically consistent, or whose model is not plausible, raises unless `force` is set.
    """
    if isinstance(given, Robot):
        return given
    from mindyn.identification.feasibility.conditions.default_limits import MASS_RATIOS
    from mindyn.identification.feasibility.exported_model_check import (
        CONSISTENT_REMEDY,
        FORCE_REMEDY,
        check_projection,
        require_plausible,
    )
    from mindyn.identification.feasibility.full_models.full_model import build_full_model

    try:
        model = build_full_model(given, prior, friction_at_zero=friction, force=force)
    except ExportError as error:
        projection = check_projection(given, prior)
        if projection is not None and projection.is_plausible:
            raise
        hint = f"{CONSISTENT_REMEDY}; {FORCE_REMEDY}"
        raise ExportError(error.message, hint=hint, code=error.code, subject=error.subject) from None
    if force:
        return model
    light = require_plausible(given, model, prior).light_links
    note = f"links with less than {MASS_RATIOS[0]:g} times the mass of the robot file: {', '.join(light)}"
    return replace(model, findings=(*model.findings, info(Kind.COMPLETED_PARAMETERS, note))) if light else model


def without_negligible(given: Robot | Estimate, model: Robot) -> Robot:
    """Return the model without negligible terms, so that notes name only the others.

    These are friction shapes and torque offsets below 0.1 % of the torque of their joint, and offsets whose interval
    contains zero. A shape that grows with the load is as large as the torque itself; others are at most 1.
    """
    if isinstance(given, Robot):
        return model
    torque = {residual.joint: NEGLIGIBLE_FRACTION * residual.rms_torque for residual in given.data.residuals}
    offsets = [(p.link_or_joint, k) for k, p in enumerate(given.parameters) if p.kind == "offset"]
    uncertain = {joint for joint, k in offsets if abs(given.beta[k]) < INTERVAL_DEVIATIONS * given.deviations[k]}
    limits = {extra.name: torque.get(extra.joint, 0.0) for extra in model.extras}
    limits |= {extra.name: NEGLIGIBLE_FRACTION for extra in model.extras if "load" in extra.formula}
    drives = []
    for drive in model.drives:
        small = drive.joint in uncertain or abs(_joint_side_offset(drive)) < torque.get(drive.joint, 0.0)
        drives.append(replace(drive, offset=0.0) if small else drive)
    extras = tuple(extra for extra in model.extras if abs(extra.coefficient) >= limits[extra.name])
    return replace(model, drives=tuple(drives), extras=extras)


def describe_omissions(given: Robot | Estimate, model: Robot, lost: list[str], remedy: str = "") -> list[str]:
    """Return sentences for a comment in the file: the origin of an estimate, omitted parts, and advice."""
    left_out = (
        [f"Omitted, because the format cannot express it: {'; '.join(lost)}.{remedy and f' {remedy}'}"] if lost else []
    )
    if isinstance(given, Robot):
        return left_out
    notes = [f"Note: {note}." for note in model_notes(given, model)]
    return [f"Identified: {given.status}", *left_out, *_offset_advice(without_negligible(given, model)), *notes]


def _offset_advice(model: Robot) -> list[str]:
    """Return advice for a model that was fitted with torque offsets and is written without them."""
    if not any(drive.offset for drive in model.drives):
        return []
    return [
        "The other values were fitted together with the offsets. For simulation, a fit without offsets is more "
        'accurate: identify --consistent --no-offsets, in Python PhysicallyConsistent(dropped=("offset",)).'
    ]


def model_notes(given: Estimate, model: Robot) -> tuple[str, ...]:
    """Return the findings that the full model adds to those of the robot of the estimate."""
    return tuple(map(str, model.findings[len(given.robot.findings) :]))


def find_held_poses(described: Description, lock: Mapping[str, float]) -> dict[str, Pose]:
    """Return the pose of the child in its parent for each joint that is held or mimics a held joint."""
    if not lock:
        return {}
    free = {joint.name for joint in described.joints if not isinstance(joint, FixedJoint)}
    held = described.select(Selection(lock)).joints
    return {joint.name: joint.origin for joint in held if isinstance(joint, FixedJoint) and joint.name in free}


def find_held_links(described: Description, lock: Mapping[str, float]) -> dict[str, str]:
    """Return the held joint for each link that moves with one in the file, directly or through fixed joints."""
    above, places = {joint.child: joint for joint in described.joints}, find_held_poses(described, lock)

    def moved_by(name: str) -> str | None:
        joint = above.get(name)
        if isinstance(joint, FixedJoint) and not joint.held:
            return moved_by(joint.parent)
        return joint.name if joint is not None and joint.name in places else None

    moving = {link.name: moved_by(link.name) for link in described.links} if lock else {}
    return {link: joint for link, joint in moving.items() if joint is not None}


def subtract_held_bodies(robot: Robot, described: Description, held: Mapping[str, str], file: str) -> dict[str, Array]:
    """Subtract bodies on held joints from phi of each moving link.

    Raises `ExportError` if the file gives no inertials for such a body, or if the rest is not a physical body.
    """
    known = {link.name: link.phi for link in robot.links if link.phi is not None}
    if not held:
        return known
    stated = {held[link.name] for link in described.links if link.name in held and link.phi is not None}
    unknown = [link for link, joint in held.items() if joint not in stated]
    if unknown:
        raise ExportError(
            f"{file} has no inertials for {list_names(unknown)}, which move with joints that the robot holds",
            hint="add them to the file: these bodies keep them, and the body that carries them gets the rest",
            code=Code.MISSING_VALUE,
            subject=unknown[0],
        )
    nothing = np.zeros(PARAMETERS_PER_LINK)
    alone = [
        link if link.name in held and link.phi is not None else Link(link.name, nothing) for link in described.links
    ]
    kept = assemble_robot(replace(described, links=tuple(alone)).select(robot.selection))
    rest = {}
    for link in kept.links:
        assert link.phi is not None
        if link.name not in known:
            continue
        rest[link.name] = known[link.name] - link.phi
        verdict = check_consistency(rest[link.name])
        if link.phi.any() and not verdict.is_feasible:
            raise ExportError(
                f"bodies on held joints have a mass of {link.phi[0]:.4g} kg in {file}; without them, {link.name!r}, "
                f"identified with {known[link.name][0]:.4g} kg, is not a physical body: {verdict.reason}",
                hint="reduce the inertials of these bodies in the file, or remove their joints",
                code=Code.NOT_FEASIBLE,
                subject=link.name,
            )
    return rest
