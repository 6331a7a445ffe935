"""Count how often intervals of joint compliance contain the true value, on elastic arms that MuJoCo simulates.

python tests/plants/elastic_study.py [--logs 10] [--first 0] [--kinds elastic] [--file FILE] [--seconds 0]

Three arms, each with `--logs` logs of 20 s at 250 Hz, with another stiffness over two decades (deflections of 0.1 to 10
mrad), noise of 5 to 30 urad on both encoders and 1 % on the torque, hysteresis (Dahl) of 0 or 20 % of the amplitude of
the torque, and backlash of 0 or 1 arcmin. Each log is used for the link model and for the elasticity. Further logs have
rigid joints, or only a vertical axis: no stiffness may be determined there. Results are stored; the next run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import monotonic

import numpy as np

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]
from honesty.spoiled import format_rate

import mindyn
from mindyn.identification import identify_elasticity
from plants.mujoco_arm import random_arm_file, random_drives
from plants.mujoco_elastic_arm import Elastic, plan_motion, record_elastic

ARMS = (2, 3, 4)
"""Number of joints of each arm."""
KINDS = ("elastic", "rigid", "vertical")
ARCMIN = np.pi / 180 / 60


def run_case(kind: str, arm: int, number: int, seconds: float = 20.0) -> dict:
    """Record a log, identify it, and return truth and interval of every joint."""
    of_arm, rng = np.random.default_rng([arm, 54]), np.random.default_rng([arm, KINDS.index(kind), number])
    n = 1 if kind == "vertical" else ARMS[arm]
    with tempfile.TemporaryDirectory() as folder:
        path, _ = random_arm_file(of_arm, n, Path(folder))
        if kind == "vertical":
            path = _vertical_arm(Path(folder), of_arm)
        drives = random_drives(of_arm, path)
        motion, torque = plan_motion(path, rng, float(rng.uniform(0.7, 1.4)), seconds)
        stiffness = torque / 10 ** rng.uniform(-4, -2, n)
        has_hysteresis, has_backlash = bool(number % 2), bool(number // 2 % 2)
        elastic = Elastic(
            stiffness,
            2 * rng.uniform(0.02, 0.1, n) * np.sqrt(stiffness * drives.armature),
            0.2 * torque * has_hysteresis,
            rng.uniform(0.05, 0.2, n) * torque / stiffness,
            np.full(n, ARCMIN * has_backlash),
        )
        recording = record_elastic(path, drives, elastic, motion, seconds=seconds)
        robot = mindyn.load_robot(path)
    noise = float(rng.uniform(5e-6, 3e-5))
    q, motor = (values + noise * rng.standard_normal(values.shape) for values in (recording.q, recording.motor_q))
    if kind == "rigid":
        motor = recording.q + noise * rng.standard_normal(q.shape)
    tau = recording.tau + 0.01 * recording.tau.std(axis=0) * rng.standard_normal(q.shape)
    log = mindyn.log_from_arrays(robot, recording.time, q, tau, motor_q=motor)
    estimate = mindyn.identify(robot, log)
    joints = identify_elasticity(estimate, log).joints
    return {
        "hysteresis": has_hysteresis,
        "backlash": has_backlash,
        "noise": noise,
        "truth": (0 * stiffness if kind == "rigid" else 1 / stiffness).tolist(),
        "compliance": [joint.compliance for joint in joints],
        "intervals": [joint.compliance_interval for joint in joints],
        "states": [joint.state for joint in joints],
        "hysteresis found": [joint.hysteresis for joint in joints],
        "backlash found": [joint.backlash for joint in joints],
        "residual": [joint.relative_residual for joint in joints],
    }


def _vertical_arm(folder: Path, rng: np.random.Generator) -> str:
    """Write an arm with one vertical axis: its torque is proportional to its acceleration."""
    for _ in range(100):
        path, _ = random_arm_file(rng, 1, folder)
        if 'euler="0 0 0"' in Path(path).read_text():
            return path
    raise RuntimeError("no vertical axis")


def count_covered(results: dict[str, dict], kind: str) -> tuple[int, int, int]:
    """Return the numbers of joints, of intervals that contain the truth, and of determined joints."""
    joints = [
        (truth, interval, state)
        for key, row in results.items()
        if key.startswith(kind)
        for truth, interval, state in zip(row["truth"], row["intervals"], row["states"], strict=True)
    ]
    covered = sum(low <= truth <= high for truth, (low, high), _ in joints)
    return len(joints), covered, sum(state == "determined" for _, _, state in joints)


def main() -> None:
    """Run the cases that are missing in the file, and print rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time; 0: when all cases are done")
    parser.add_argument("--file", type=Path, default=Path("build/elastic-arms.json"))
    options = parser.parse_args()
    results = json.loads(options.file.read_text()) if options.file.exists() else {}
    start = monotonic()
    for number in range(options.first, options.first + options.logs):
        for arm in range(len(ARMS)):
            for kind in options.kinds.split(","):
                key = f"{kind} {arm} {number}"
                if key in results or (options.seconds and monotonic() - start > options.seconds):
                    continue
                results[key] = run_case(kind, arm, number)
                options.file.parent.mkdir(parents=True, exist_ok=True)
                options.file.write_text(json.dumps(results))
    for kind in KINDS:
        count, covered, determined = count_covered(results, kind)
        print(f"{kind}: {format_rate(covered, count)} intervals contain the truth, {determined} of {count} determined")


if __name__ == "__main__":
    main()
