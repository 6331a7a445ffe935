"""Servo arms and legs from targets and positions: position errors of replays on motions that the fit did not see.

    MINDYN_REAL_DATA=folder python -m benchmarks.identification.servo_arms

SO-101: of the 25 motions in the order of their names, every second one is held out; a fit to frequency_sweep
alone is replayed on the other eleven of them. The exported MJCF is replayed in
MuJoCo as `mindyn export --check` does. Go2: the last 35 % of the rows, with the masses of its public MJCF, and with
given and unknown gains.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # the folder of the sets is described there

# ruff: noqa: E402
from logs.real_sets import FOLDER

import mindyn
from benchmarks.identification.go2_legs import GIVEN, LEGS, UNKNOWN, leg_logs
from mindyn.logs import log_from_targets
from mindyn.output.export.servo_replay import replay_in_mujoco

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")
LEG = """<mujoco model="leg"><compiler angle="radian"/><worldbody>
<body name="hip_link"><inertial pos="{hip_x} {hip_y} -0.000105" mass="0.678" diaginertia="0.00048 0.00088 0.0006"/>
<joint name="hip" axis="1 0 0"/><body name="thigh_link" pos="0 {side} 0">
<inertial pos="-0.00374 {thigh_y} -0.0327" mass="1.152" diaginertia="0.00584 0.0058 0.00103"/>
<joint name="thigh" axis="0 1 0"/><body name="calf_link" pos="0 0 -0.213">
<inertial pos="0.0063 {calf_y} -0.1414" mass="0.241352" diaginertia="0.00149 0.00146 0.000053"/>
<joint name="calf" axis="0 1 0"/></body></body></body></worldbody></mujoco>"""
"""Leg with the masses of MuJoCo Menagerie's go2.xml (BSD-3-Clause), the moments of inertia along the axes rounded."""


def read_motion(path: Path) -> mindyn.Log:
    """Return a motion of the SO-101."""
    table = polars.read_parquet(path)
    q, target = (table.select([f"{s}.{j}" for j in JOINTS]).to_numpy().astype(float) for s in ("q", "cmd"))
    return log_from_targets(JOINTS, table["t"], q, target, "unknown", name=path.stem)


def write_leg(folder: Path, name: str) -> mindyn.Robot:
    """Return a leg of the Go2."""
    x, y = (1 if name[0] == "F" else -1), (1 if name[1] == "L" else -1)
    places = {"hip_x": -0.0054 * x, "hip_y": 0.00194 * y, "side": 0.0955 * y, "thigh_y": -0.0223 * y}
    path = folder / f"{name}.xml"
    path.write_text(LEG.format(**places, calf_y=-0.00062 * y))
    return mindyn.load_robot(path)


def row(label: str, values: np.ndarray, digits: int = 1) -> str:
    return f"| {label} | {' | '.join(f'{value:.{digits}f}' for value in values)} |"


def measure_arm(folder: Path) -> None:
    """Print the errors of the SO-101, and the ranges of its values over five groups of training motions."""
    robot = mindyn.load_robot(FOLDER / "so101_sage" / "model" / "so101_new_calib.urdf", lock={"gripper": 0.0})
    logs = [read_motion(path) for path in sorted((FOLDER / "so101_sage").glob("*.parquet"))]
    training, held_out = logs[::2], logs[1::2]
    sweep = next(log for log in logs if log.name == "frequency_sweep")
    print("| mrad, 12 held-out motions | pan | lift | elbow | wrist flex | wrist roll |\n|---|---|---|---|---|---|")
    others = [log for log in held_out if log is not sweep]
    for label, some, rows in (("13 motions", training, held_out), ("frequency_sweep", [sweep], others)):
        start = time.process_time()
        estimate = mindyn.identify_servos(robot, some)
        seconds = time.process_time() - start
        path = mindyn.write_mjcf(estimate, folder / "so101.xml")
        replay = replay_in_mujoco(estimate, path, rows)
        print(row(f"position = target, rows of {label}", 1e3 * replay.internal.target_errors))
        print(row(f"best delayed target, rows of {label}", 1e3 * replay.internal.delayed_errors))
        print(row(f"{label}: own simulation ({seconds:.1f} s)", 1e3 * replay.internal.errors))
        print(row(f"{label}: exported file in MuJoCo", 1e3 * replay.mujoco.errors))
        print(row(f"{label}: ratio to position = target", replay.mujoco.errors / replay.mujoco.target_errors, 2))
        print(row(f"{label}: exported / own", replay.ratios, 2))
    groups = [mindyn.identify_servos(robot, logs[k::5]) for k in range(5)]
    for label, values in (
        ("kp", np.array([g.kp for g in groups])),
        ("fc/kp", np.array([g.fc / g.kp for g in groups])),
    ):
        spread = 100 * np.ptp(values, axis=0) / 2 / np.median(values, axis=0)
        print(row(f"half range / median over five groups of five, %: {label}", spread, 0))


def measure_legs(folder: Path) -> None:
    """Print the errors of the legs on the last 35 % of the rows."""
    print("| mrad, last 35 % | gains | hip | thigh | calf |\n|---|---|---|---|---|")
    for leg in LEGS:
        robot = write_leg(folder, leg)
        for label, gains in (("given", GIVEN), ("unknown", UNKNOWN)):
            training, held_out = leg_logs(leg, gains)
            replay = mindyn.replay_servos(mindyn.identify_servos(robot, training), held_out)
            print(row(f"{leg} | {label}", 1e3 * replay.errors))
        print(row(f"{leg} | position = target", 1e3 * replay.target_errors))
        print(row(f"{leg} | best delayed target", 1e3 * replay.delayed_errors))


def main() -> None:
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    with tempfile.TemporaryDirectory() as folder:
        measure_arm(Path(folder))
        measure_legs(Path(folder))


if __name__ == "__main__":
    main()
