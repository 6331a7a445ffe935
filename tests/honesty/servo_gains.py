"""Measure how often 95 % intervals of gain ratios and of kd contain the truth: MuJoCo's leg under position servos.

python tests/honesty/servo_gains.py [--logs 40] [--step 1.5e-4]

Every log has other targets, noise, encoder steps and gains of the servos. Target: 93 to 98 % of true values inside.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import servos

import mindyn
from mindyn.identification import estimate_gains
from mindyn.logs import log_from_targets
from mindyn.regression.friction import Friction

RATE = 200.0
SETTINGS = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=40.0), 10.0, 2, Friction("tanh", 0.02))


def trial(seed: int, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of ratios, and of kd in every second log, in half-widths of their intervals, and in percent."""
    rng = np.random.default_rng([seed, 3])
    servos.KP, servos.KV = rng.uniform(15, 40, 3), rng.uniform(0.5, 1.5, 3)
    servos.FRICTION = rng.uniform(0.05, 0.5, 3)
    t, target = servos.leg_targets(20, RATE, seed)
    speed = servos.leg_targets(20, RATE, seed + 1000)[1] - [0.1, 0.6, -1.2] if seed % 2 else None
    q = servos.simulate_leg(target, RATE, speed=0.0 if speed is None else speed) + rng.normal(
        0, 0.5 * step, target.shape
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "leg.xml").write_text(servos.leg_xml())
        leg = mindyn.load_robot(Path(folder) / "leg.xml")
    names, delay = servos.JOINTS, 0.5 / RATE
    read = np.round(q / step) * step
    log = log_from_targets(names, t, read, target, "unknown", "unknown", target_velocity=speed, target_delay_s=delay)
    gains = estimate_gains(leg, [log], SETTINGS, "free")
    k = names.index(gains.reference)
    ratios, half_widths = gains.ratios(gains.reference)
    errors, widths = np.delete(ratios - servos.KP / servos.KP[k], k), np.delete(half_widths, k)
    sizes = np.delete(servos.KP / servos.KP[k], k)
    if speed is not None:
        errors = np.append(errors, gains.damping - servos.KV / servos.KP[k])
        widths = np.append(widths, gains.factor * gains.damping_deviations)
        sizes = np.append(sizes, servos.KV / servos.KP[k])
    return errors / widths, 100 * errors / sizes


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--step", type=float, default=1.5e-4)
    given = parser.parse_args()
    trials = [trial(seed, given.step) for seed in range(given.logs)]
    relative, percent = (np.concatenate([part[k] for part in trials]) for k in (0, 1))
    print(f"{len(relative)} intervals, {100 * (np.abs(relative) <= 1).mean():.1f} % contain the truth")
    print(
        f"errors: mean {percent.mean():.2f} %, deviation {percent.std():.2f} %, largest {np.abs(percent).max():.2f} %"
    )
