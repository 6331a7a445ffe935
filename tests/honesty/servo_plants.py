"""How often the intervals of servo values contain the truth, for arms that MuJoCo simulates.

    python tests/honesty/servo_plants.py [--arms 5] [--condition "backlash of 0.5 deg"]

Each arm has random gains and is recorded under nine conditions, of which the model knows stiction, held targets, delays
and saturation. Stribeck friction, friction that grows with the load and backlash are not in the model: their rows show
what that costs. A value counts if the joint's scale is determined and the interval is finite. The last column is the
largest position error on another motion, relative to that of position = target.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from plants.mujoco_servo import ServoPlant, random_plant, record_servos, write_arm

import mindyn

CONDITIONS = {
    "stiction, 50 Hz": ({}, 50.0),
    "targets held at 25 Hz": ({}, 25.0),
    "delay of 5 ms": ({"delay_s": 0.005}, 50.0),
    "delay of 15 ms": ({"delay_s": 0.015}, 50.0),
    "delay of 30 ms, 25 Hz": ({"delay_s": 0.030}, 25.0),
    "Stribeck friction + 30 %": ({"stribeck": 0.3}, 50.0),
    "friction of 5 % of the load": ({"loaded": 0.05}, 50.0),
    "saturation at 1.2 N m": ({"limit": 1.2}, 50.0),
    "backlash of 0.5 deg": ({"backlash": 0.0087}, 50.0),
}


def count_hits(arm: mindyn.Robot, plant: ServoPlant, seed: int, rate_hz: float) -> tuple[np.ndarray, float]:
    """Return hits and values that count (2, 4), and the largest relative error on another motion."""
    logs = [record_servos(plant, 10 * seed + k, rate_hz=rate_hz) for k in range(2)]
    estimate = mindyn.identify_servos(arm, logs)
    true = np.column_stack([plant.kp, plant.kd, plant.fc, plant.ia])
    counts = np.isfinite(estimate.low) & estimate.has_scale[:, None]
    inside = (estimate.low <= true) & (true <= estimate.high) & counts
    replay = mindyn.replay_servos(estimate, record_servos(plant, 10 * seed + 9, rate_hz=rate_hz))
    return np.array([inside.sum(axis=0), counts.sum(axis=0)]), float((replay.errors / replay.target_errors).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=5)
    parser.add_argument("--condition", choices=CONDITIONS, help="only this one")
    given = parser.parse_args()
    arms = given.arms
    with tempfile.TemporaryDirectory() as folder:
        arm = mindyn.load_robot(write_arm(Path(folder)))
    print("| condition | kp | kd | friction | armature | error / position = target |\n|---|---|---|---|---|---|")
    total = np.zeros((2, 4))
    for name, (faults, rate_hz) in CONDITIONS.items():
        if given.condition not in (None, name):
            continue
        hits, worst = np.zeros((2, 4)), 0.0
        for seed in range(arms):
            plant = replace(random_plant(np.random.default_rng(seed)), **faults)
            found, error = count_hits(arm, plant, seed, rate_hz)
            hits, worst = hits + found, max(worst, error)
        total += hits
        print(f"| {name} | {' | '.join(f'{a:.0f}/{b:.0f}' for a, b in hits.T)} | {worst:.3f} |", flush=True)
    print(f"| all | {' | '.join(f'{a:.0f}/{b:.0f}' for a, b in total.T)} | |")
    print(f"{100 * total[0].sum() / total[1].sum():.1f} % of the intervals contain the truth")


if __name__ == "__main__":
    main()
