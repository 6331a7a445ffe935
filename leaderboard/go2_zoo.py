"""Identify a leg of the Unitree Go2 and the motors of its four legs, and write them into the zoo.

    MINDYN_REAL_DATA=FOLDER python -m leaderboard.go2_zoo

`FOLDER/go2_iit/chirp.parquet` is `datasets/go2/traj_0.pt` of the source with the columns t_s, q_LEG_JOINT_rad and
target_LEG_JOINT_rad, LEG of FL FR RL RR, JOINT of hip thigh calf. The first 65 % of the rows are fitted, the last 35 %
held out. Masses and geometry are those of go2.urdf in the package example-robot-data (BSD-3-Clause).
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import polars as pl

import mindyn
from leaderboard.motor_zoo import MotorValues, motors_of, write_motor
from leaderboard.servo_zoo import write_servo_entry
from leaderboard.zoo import write_docs
from mindyn import Log, Robot, identify_servos
from mindyn.identification import ServoEstimate
from mindyn.logs import log_from_targets

NAME, LEG = "go2_leg", "FL"
LEGS, JOINTS = ("FL", "FR", "RL", "RR"), ("hip", "thigh", "calf")
TRAINING = 0.65
ROBOT_FILE = "cmeel.prefix/share/example-robot-data/robots/go2_description/urdf/go2.urdf"
SOURCE = "https://github.com/iit-DLSLab/sim2real-robot-identification/tree/06739ea0424fa8b2e141df0942ecdaf27a5c8600"
CONDITIONS = (
    "Chirp of 23.5 s at 200 Hz, trunk held, legs hanging; kp = 20 N m/rad and kd = 1.5 N m s/rad in the configuration "
    "of the source, which does not state temperature, voltage and firmware. Masses of go2.urdf (Unitree)."
)
CAUTION = (
    "Measured on one robot, in the air: the values say nothing about ground contact. Damping is that of servo and "
    "joint together. Values scale with the masses of the robot file; gravity gives gains below the configured ones."
)
MOTORS = {"go2_hip_thigh": ("hip", "thigh"), "go2_calf": ("calf",)}
"""Motors, and the joints that have them."""


def load_leg(leg: str) -> Robot:
    """Return a leg of the robot, without shapes and frames."""
    path = Path(str(metadata.distribution("example-robot-data").locate_file(ROBOT_FILE)))
    names = mindyn.load_robot(path).joint_names
    robot = mindyn.load_robot(path, lock={name: 0.0 for name in names if not name.startswith(leg)})
    root, *links = (replace(link, shapes=()) for link in (robot.root, *robot.links))
    return replace(robot, name=f"go2_leg_{leg}", source="", root=root, links=tuple(links), frames=())


def read_leg(folder: Path, leg: str) -> tuple[Log, Log]:
    """Return the training rows and the held-out rows of a leg."""
    table = pl.read_parquet(folder / "chirp.parquet")
    q, target = (np.column_stack([table[f"{s}_{leg}_{j}_rad"] for j in JOINTS]) for s in ("q", "target"))
    names = [f"{leg}_{joint}_joint" for joint in JOINTS]
    log = log_from_targets(names, table["t_s"], q.astype(float), target.astype(float), "unknown", name="chirp")
    cut = int(TRAINING * len(log))
    return log.between(0, cut), log.between(cut, len(log))


def fit_leg(folder: Path, leg: str) -> tuple[ServoEstimate, Log]:
    """Return the servos of a leg from its training rows, and the held-out rows."""
    training, held_out = read_leg(folder, leg)
    return identify_servos(load_leg(leg), training), held_out


def main() -> None:
    """Identify all legs, and write the front left one and the motors."""
    local = os.environ.get("MINDYN_REAL_DATA")
    if local is None:
        sys.exit("set MINDYN_REAL_DATA to a folder with go2_iit/chirp.parquet")
    facts = {"set": "go2_iit", "source": SOURCE, "licence": "BSD-3-Clause", "command": "python -m leaderboard.go2_zoo"}
    facts |= {"conditions": CONDITIONS, "caution": CAUTION}
    fits = {leg: fit_leg(Path(local) / "go2_iit", leg) for leg in LEGS}
    motors = {f"{LEG}_{joint}_joint": motor for motor, joints in MOTORS.items() for joint in joints}
    estimate, held_out = fits[LEG]
    write_servo_entry(NAME, estimate, [held_out], {"title": "Unitree Go2, front left leg", **facts, "motors": motors})
    for motor, joints in MOTORS.items():
        values: MotorValues = defaultdict(list)
        for leg, (fit, _) in fits.items():
            of_leg = motors_of(
                fit, [f"{leg}_{joint}_joint" for joint in joints], ("viscous", "coulomb", "rotor_inertia")
            )
            for parameter, specimens in of_leg.items():
                values[parameter] += specimens
        title = f"Unitree Go2, motor of {' and '.join(joints)} with gear"
        measured = {"robot": f"zoo/{NAME}", "specimens": f"{', '.join(joints)} of the legs {', '.join(LEGS)}"}
        write_motor(motor, {"title": title, **facts}, measured, values)
    write_docs()


if __name__ == "__main__":
    main()
