"""Identify servo arms whose licence allows derived numbers, and write them as robots that mindyn bundles.

    MINDYN_REAL_DATA=FOLDER python -m leaderboard.servo_zoo

SO-101: of the 25 motions in the order of their names, every second one is held out. The robot is written as TOML, with
its servo values, their intervals and its held-out position error as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

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


def describe_servos(estimate: ServoEstimate, replay: ServoReplay, rows: int) -> dict[str, Any]:
    """Return what was identified, as JSON values."""
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
        "title": "SO-101 follower arm",
        "set": "so101_sage",
        "source": SOURCE,
        "licence": "Apache-2.0",
        "date": f"{date.today():%Y-%m-%d}",
        "mindyn": mindyn_version,
        "command": "python -m leaderboard.servo_zoo",
        "conditions": CONDITIONS,
        "caution": CAUTION,
        "held_out": {
            "quantity": "position",
            "total": total,
            "joints": replay.errors.tolist(),
            "target_errors": replay.target_errors.tolist(),
            "rows": rows,
        },
        "delay_s": estimate.delay_s,
        "table": None if estimate.table is None else asdict(estimate.table),
        "servos": servos,
        "findings": [finding.to_dict() for finding in estimate.findings],
    }


def main() -> None:
    """Identify the SO-101, and write it."""
    local = os.environ.get("MINDYN_REAL_DATA")
    if local is None:
        sys.exit("set MINDYN_REAL_DATA to a folder with so101_sage: the motions as Parquet, and model/")
    robot, training, held_out = read_motions(Path(local) / "so101_sage")
    estimate = identify_servos(robot, training)
    entry = describe_servos(estimate, replay_servos(estimate, held_out), sum(map(len, held_out)))
    write_toml(estimate.to_robot(), FOLDER / f"{NAME}.toml")
    (FOLDER / f"{NAME}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    print(f"{NAME}: {100 * entry['held_out']['total']:.1f} % of the position error of position = target")
    write_docs()


if __name__ == "__main__":
    main()
