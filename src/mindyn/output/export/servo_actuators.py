"""Actuators of position servos: MJCF's <position kp kv>, and a YAML table for Isaac Lab."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Final
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, ExportError
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.logs.servos import Servo
from mindyn.output.export.write_checks import Prior, joint_side_values, resolve_model
from mindyn.robots.robot import Robot

ENGINE_NOTES: Final = (
    "# These values are fitted with friction that sticks exactly (implicit Coulomb friction, steps of 2 ms). PhysX",
    "# bounds friction for each step, which sticks as well if its solver converges. Newton's MuJoCo solver has soft",
    "# friction: set solimpfriction to 0.9999 0.9999 0.001 0.5 2, as in the MJCF export, otherwise joints that should",
    "# rest creep under gravity. Isaac Sim before 5.0 reads friction as a coefficient of the load, which these torques",
    "# are not. mindyn replays MJCF in MuJoCo only: replay a log in your engine before you train with these values.",
)
"""Comment of the YAML file: what other engines do with friction."""
SHORTEST_STEP_S: Final = 0.0005
"""Time step for which the history of delayed inputs is long enough."""


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
            if servo.is_held:
                _delay_targets(element, servo.delay_s)
            if np.isfinite(limit):
                element.set("forcerange", f"{-float(limit)!r} {float(limit)!r}")
    kept = [f"Joints {', '.join(sorted(filter(None, others)))} keep their own actuators."] if others else []
    how = "call mj_initCtrlHistory after a reset" if servo.is_held else "which is not in this file"
    delay = [f"The target acts {servo.delay_s:g} s after its stamp: {how}."]
    merged = ["Damping includes kd of the servos: kv is 0."] if not servo.kd.any() else []
    return [*kept, *(delay if servo.delay_s else []), *merged]


def _delay_targets(element: Element, delay_s: float) -> None:
    """Set the delay of an actuator's input, with a history that is long enough for steps of `SHORTEST_STEP_S`.

    The history is interpolated: without that, MuJoCo rounds delays up to whole steps.
    """
    for name in ("delay", "nsample", "interp"):
        element.attrib.pop(name, None)
    if delay_s > 0:
        element.set("delay", repr(float(delay_s)))
        element.set("nsample", str(2 + ceil(delay_s / SHORTEST_STEP_S)))
        element.set("interp", "linear")


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
        Determines what an estimate leaves open, as in `build_full_model`.
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
    servo = estimate.data.servo
    if servo is None:
        raise ExportError(
            "the estimate is not from logs with position targets, so the gains of its servos are unknown",
            hint="identify logs with columns.target and kp",
            code=Code.MISSING_VALUE,
            subject="servo",
        )
    model = resolve_model(estimate, prior, force=force)
    return write_isaac_lab_servos(model, servo, path)


Ranges = Mapping[str, Mapping[str, tuple[float, float]]]
"""Ends of intervals by name of the table and joint."""


def servo_ranges(estimate: ServoEstimate) -> Ranges:
    """Return the 95 % intervals of an estimate by the names of the tables; joints whose values are open are absent."""
    ends = np.stack([estimate.low, estimate.high], axis=-1)
    names = {"stiffness": 0, "viscous_friction": 1, "friction": 2, "armature": 3}
    return {
        name: {
            joint: (float(low), float(high))
            for joint, (low, high) in zip(estimate.joint_names, ends[:, place], strict=True)
            if np.isfinite([low, high]).all()
        }
        for name, place in names.items()
    }


def write_isaac_lab_servos(
    robot: Robot, servo: Servo, path: str | Path, ranges: Ranges = MappingProxyType({})
) -> tuple[str, ...]:
    """Write the drives of a robot and its servos as `write_isaac_lab` does, and return notes.

    ranges  intervals, which follow as a table `ranges` for domain randomisation
    """
    write_file_atomically(path, isaac_lab_text(robot, servo, ranges))
    return ("viscous_friction includes kd of the servos",) if not servo.kd.any() else ()


def isaac_lab_text(robot: Robot, servo: Servo, ranges: Ranges = MappingProxyType({})) -> str:
    """Return the text of `write_isaac_lab_servos`."""
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
        *ENGINE_NOTES,
        f"joint_names_expr: {json.dumps(list(joints))}",
        f"delay_s: {servo.delay_s!r}",
    ]
    for name, values in tables.items():
        lines += [f"{name}:", *(f"  {json.dumps(joint)}: {float(value)!r}" for joint, value in values.items())]
    if ranges:
        lines += ["# 95 % intervals, for domain randomisation; values that the logs leave open have none.", "ranges:"]
    for name, intervals in ranges.items():
        lines += [f"  {name}:" if intervals else f"  {name}: {{}}"]
        lines += [f"    {json.dumps(joint)}: [{low!r}, {high!r}]" for joint, (low, high) in intervals.items()]
    return "\n".join(lines) + "\n"
