"""Actuators of position servos: MJCF's <position kp kv>, and a YAML table for Isaac Lab."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from mindyn.foundation.errors import Code, ExportError
from mindyn.foundation.files import write_file_atomically
from mindyn.identification.estimators.estimate import Estimate
from mindyn.logs.servos import Servo
from mindyn.output.export.writing import Prior, joint_side_values, resolve_model
from mindyn.robots.robot import Robot


def add_position_actuators(root: Element, joints: Sequence[str], servo: Servo) -> list[str]:
    """Set kp and kv of the joints' <position> actuators, or add them; return notes for the comment in the file."""
    _require_positive_gains(joints, servo)
    elements = [element for section in root.findall("actuator") for element in section]
    others = {element.get("joint") for element in elements if element.tag != "position"}
    section = root.find("actuator")
    for joint, kp, kd, limit in zip(joints, servo.kp, servo.kd, servo.limit, strict=True):
        if joint in others:
            continue
        of_joint = [element for element in elements if element.get("joint") == joint]
        if not of_joint:
            section = SubElement(root, "actuator") if section is None else section
            of_joint = [SubElement(section, "position", name=f"{joint}_servo", joint=joint)]
        for element in of_joint:
            element.attrib.pop("dampratio", None)
            element.set("kp", repr(float(kp)))
            element.set("kv", repr(float(kd)))
            if np.isfinite(limit):
                element.set("forcerange", f"{-float(limit)!r} {float(limit)!r}")
    kept = [f"Joints {', '.join(sorted(filter(None, others)))} keep their own actuators."] if others else []
    delay = [f"The target acts {servo.delay_s:g} s after its stamp, which MJCF does not express."]
    merged = ["Damping includes kd of the servos: kv is 0."] if not servo.kd.any() else []
    return [*kept, *(delay if servo.delay_s else []), *merged]


def _require_positive_gains(joints: Sequence[str], servo: Servo) -> None:
    wrong = [name for name, kp in zip(joints, servo.kp, strict=True) if not kp > 0]
    if wrong:
        raise ExportError(
            f"kp of {', '.join(wrong)} is not positive: a simulated servo would be unstable",
            hint="check the sign of the target and of the position",
            code=Code.NOT_FEASIBLE,
            subject=wrong[0],
        )


def write_isaac_lab(
    estimate: Estimate, path: str | Path, *, prior: Prior = "robot", force: bool = False
) -> tuple[str, ...]:
    """Write the actuators of an estimate as YAML with the fields of Isaac Lab's `DelayedPDActuatorCfg`.

    Stiffness and damping are kp and kd of the servo; viscous friction is separate, and includes kd if that is unknown.

    Parameters
    ----------
    estimate : Estimate
        Estimate from logs with position targets.
    path : str or Path
        File to write.
    prior : Robot, "robot" or None
        Determines what an estimate leaves open, as in `full_model`.
    force : bool
        Write an estimate even if it is not physically consistent.

    Returns
    -------
    tuple of str
        Notes.

    Raises
    ------
    ExportError
        If the estimate is not from logs with position targets, or a gain is not positive.
    """
    servo = estimate.servo
    if servo is None:
        raise ExportError(
            "the estimate is not from logs with position targets, so the gains of its servos are unknown",
            hint="identify logs with columns.target and kp",
            code=Code.MISSING_VALUE,
            subject="servo",
        )
    model = resolve_model(estimate, prior, force=force)
    return write_isaac_lab_servos(model, servo, path)


def write_isaac_lab_servos(robot: Robot, servo: Servo, path: str | Path) -> tuple[str, ...]:
    """Write the drives of a robot and its servos as `write_isaac_lab` does, and return notes."""
    joints = robot.primary_names
    _require_positive_gains(joints, servo)
    drives = {drive.joint: joint_side_values(drive) for drive in robot.drives}
    armature, viscous, coulomb = ({joint: drives.get(joint, (0.0, 0.0, 0.0))[k] for joint in joints} for k in range(3))
    tables: dict[str, dict[str, float]] = {
        "stiffness": dict(zip(joints, servo.kp.tolist(), strict=True)),
        "damping": dict(zip(joints, servo.kd.tolist(), strict=True)),
        "armature": armature,
        "friction": coulomb,
        "dynamic_friction": coulomb,
        "viscous_friction": viscous,
    }
    if np.isfinite(servo.limit).all():
        tables["effort_limit"] = dict(zip(joints, servo.limit.tolist(), strict=True))
    lines = [
        f"# Actuators of {json.dumps(robot.name)}, identified by mindyn. SI units at the joints.",
        "# friction and dynamic_friction are torques (Isaac Sim 5.0 and later); min_delay and max_delay of",
        "# DelayedPDActuatorCfg are delay_s divided by the time step of the simulation.",
        f"joint_names_expr: {json.dumps(list(joints))}",
        f"delay_s: {servo.delay_s!r}",
    ]
    for name, values in tables.items():
        lines += [f"{name}:", *(f"  {json.dumps(joint)}: {float(value)!r}" for joint, value in values.items())]
    write_file_atomically(path, "\n".join(lines) + "\n")
    return ("viscous_friction includes kd of the servos",) if not servo.kd.any() else ()
