"""Identify servo arms whose licence allows derived numbers, and write them as robots that mindyn bundles.

    MINDYN_REAL_DATA=FOLDER python -m leaderboard.servo_zoo

SO-101: of the 25 motions in the order of their names, every second one is held out. The robot is written as TOML, with
its servo values, their intervals and its held-out position error as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from leaderboard.motor_zoo import motors_of, write_motor
from leaderboard.zoo import FOLDER, write_docs
from mindyn import Log, identify_servos, load_robot, read_log, replay_servos, write_toml
from mindyn import __version__ as mindyn_version
from mindyn.identification import ServoEstimate, ServoReplay
from mindyn.robots.robot import Robot

NAME = "so101"
UNITS = {"kp": "N m/rad", "kd": "N m s/rad", "fc": "N m", "armature": "kg m^2"}
SOURCE = "https://github.com/isaac-sim2real/sage/tree/4ffd2627df9d23e279b35712a67e629ce0c0dfa7"
CONDITIONS = (
    "12 V, registers P 16, I 0, D 32, no payload, gripper held closed; the source does not state temperature and "
    "firmware. Masses of so101_new_calib.urdf of the SO-ARM100 project."
)
CAUTION = (
    "Measured on one arm with these registers; other gains, voltages and specimens differ. Do not use the values of "
    "shoulder_pan and wrist_roll as torques: gravity does not load these joints, so only kd/kp and fc/kp hold. "
    "Not for payloads, the gripper or torque limits; rows in contact were left out."
)
MOTOR, GEAR = "sts3215", 345.0
MOTOR_TITLE = "Feetech STS3215 at 12 V with gear 1:345, as position servo"
MOTOR_CAUTION = (
    "The gain is that of the registers P 16, D 32 and of 12 V; damping is that of servo and gear together. Values "
    "scale with the masses of the arm's robot file. The gear is that of the arm's bill of materials, not measured."
)


def read_motions(folder: Path) -> tuple[Robot, list[Log], list[Log]]:
    """Return the robot, training motions and held-out motions."""
    robot = load_robot(folder / "model" / "so101_new_calib.urdf", lock={"gripper": 0.0})
    logs = [
        read_log(
            path,
            robot,
            columns={"time": "t", "position": "q.{joint}", "target": "cmd.{joint}"},
            units={"time": "s", "position": "rad"},
            side="joint",
            metadata={"kp": "unknown"},
        )
        for path in sorted(folder.glob("*.parquet"))
    ]
    return robot, logs[::2], logs[1::2]


def describe_servos(
    estimate: ServoEstimate, replay: ServoReplay, rows: int, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what was identified, as JSON values; `facts` are title, set, source, licence, command and conditions."""
    servos = []
    for j, joint in enumerate(estimate.joint_names):
        for k, (parameter, unit) in enumerate(UNITS.items()):
            numbers = (estimate.values[j, k], estimate.low[j, k], estimate.high[j, k])
            value, low, high = (float(f"{x:.6g}") if np.isfinite(x) else None for x in numbers)
            has_scale = bool(estimate.has_scale[j])
            entry = {"joint": joint, "parameter": parameter, "unit": unit, "value": value, "low": low, "high": high}
            servos.append({**entry, "has_scale": has_scale})
    total = float(np.sqrt(np.mean(replay.errors**2) / np.mean(replay.target_errors**2)))
    return {
        **facts,
        "date": f"{date.today():%Y-%m-%d}",
        "mindyn": mindyn_version,
        "held_out": {
            "quantity": "position",
            "total": total,
            "joints": replay.errors.tolist(),
            "target_errors": replay.target_errors.tolist(),
            "rows": rows,
        },
        "delay_s": estimate.delay_s,
        "limits": [float(limit) if np.isfinite(limit) else None for limit in estimate.limit],
        "limits_damping": estimate.limits_damping.tolist(),
        "table": None if estimate.table is None else asdict(estimate.table),
        "servos": servos,
        "findings": [finding.to_dict() for finding in estimate.findings],
    }


def write_servo_entry(
    name: str, estimate: ServoEstimate, held_out: Sequence[Log], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the robot of a servo estimate as TOML and JSON, with its error on held-out logs; return the JSON values."""
    entry = describe_servos(estimate, replay_servos(estimate, held_out), sum(map(len, held_out)), facts)
    write_toml(estimate.to_robot(), FOLDER / f"{name}.toml")
    (FOLDER / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {100 * entry['held_out']['total']:.1f} % of the position error of position = target")
    return entry


def main() -> None:
    """Identify the SO-101 and its motors, and write them."""
    local = os.environ.get("MINDYN_REAL_DATA")
    if local is None:
        sys.exit("set MINDYN_REAL_DATA to a folder with so101_sage: the motions as Parquet, and model/")
    robot, training, held_out = read_motions(Path(local) / "so101_sage")
    estimate = identify_servos(robot, training)
    facts = {
        "set": "so101_sage",
        "source": SOURCE,
        "licence": "Apache-2.0",
        "command": "python -m leaderboard.servo_zoo",
    }
    facts["conditions"] = CONDITIONS
    motors = dict.fromkeys(estimate.joint_names, MOTOR)
    of_arm = {"title": "SO-101 follower arm", **facts, "caution": CAUTION, "motors": motors}
    write_servo_entry(NAME, estimate, held_out, of_arm)
    measured = {"robot": f"zoo/{NAME}", "specimens": ", ".join(estimate.joint_names)}
    values = motors_of(estimate, estimate.joint_names)
    write_motor(MOTOR, {"title": MOTOR_TITLE, **facts, "caution": MOTOR_CAUTION}, measured, values, GEAR)
    write_docs()


if __name__ == "__main__":
    main()
