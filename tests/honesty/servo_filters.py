"""Cut-offs that `identify` selects for position servos: MuJoCo's leg, motions that become faster, and sums of sines.

python tests/honesty/servo_filters.py [--logs 30] [--first 100]

Every log has other gains, friction, armature, noise and encoder steps; targets change with every row or with every
fourth. Half of the logs are chirps, triangles or sines. Settings are selected on the first 65 % of the rows; the torque
of the rest is compared below 15 Hz with that of a fixed filter of 15 Hz. Wanted: no log far above the fixed filter.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from scipy.signal import sawtooth

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import servos

import mindyn
from mindyn.identification.prediction.prediction import predict_log
from mindyn.identification.selection.choose import choose
from mindyn.logs import log_from_targets
from mindyn.logs.filters import lowpass
from mindyn.regression.friction import Friction

RATE, SECONDS, BAND_HZ, TRAINING = 200.0, 20.0, 15.0, 0.65
FIXED = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=37.5), BAND_HZ, 1, Friction("tanh", 0.05))


def band_error(estimate, log) -> float:
    """Return the relative error of the torque of a log below 15 Hz."""
    prediction = predict_log(estimate, log)
    measured, predicted = (lowpass(x, BAND_HZ, RATE)[prediction.scored] for x in (log.tau, prediction.predicted))
    return float(np.sqrt(((measured - predicted) ** 2).sum() / (measured**2).sum()))


def targets(rng, seed: int):
    """Return times and targets: triangles or sines that become faster, or sums of sines."""
    t = np.arange(int(SECONDS * RATE)) / RATE
    if seed % 3 == 2:
        return t, servos.leg_targets(SECONDS, RATE, seed)[1]
    first, last = rng.uniform(0.25, 0.4), rng.uniform(0.7, 2.5)
    phase = 2 * np.pi * (first * t + (last - first) * t**2 / (2 * SECONDS))
    size = rng.uniform(0.2, 0.5, 3) * [0.8, 1.0, 1.6] * rng.choice([-1, 1], 3)
    triangles = sawtooth(phase, 0.5)[:, None]
    wave = np.sin(phase[:, None] + rng.uniform(0, 6, 3)) if seed % 3 else triangles
    return t, np.array([0.1, 0.8, -1.8]) + size * wave


def recorded(seed: int):
    """Return the leg, the log of the first rows, and that of the rest."""
    rng = np.random.default_rng([seed, 77])
    servos.KP, servos.KV = rng.uniform(15, 40, 3), rng.uniform(0.5, 2.0, 3)
    servos.FRICTION = np.exp(rng.uniform(np.log(0.05), np.log(0.7), 3))
    servos.ARMATURE, servos.DAMPING = rng.uniform(0.005, 0.03, 3), rng.uniform(0.02, 0.2, 3)
    t, target = targets(rng, seed)
    held = rng.choice([1, 4])
    target = target[np.arange(len(t)) // held * held]
    q = servos.simulate_leg(target, RATE) + rng.normal(0, rng.choice([3e-5, 1e-4, 2.5e-4]), target.shape)
    step = rng.choice([3e-5, 1.5e-4, 1.5e-3])
    q, cut = np.round(q / step) * step, int(TRAINING * len(t))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "leg.xml").write_text(servos.leg_xml())
        leg = mindyn.load_robot(Path(folder) / "leg.xml")
    parts = (slice(0, cut), slice(cut, None))
    return leg, *(log_from_targets(servos.JOINTS, t[a], q[a], target[a], servos.KP, servos.KV) for a in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=30)
    parser.add_argument("--first", type=int, default=100, help="seeds below 30 selected the rule")
    given = parser.parse_args()
    errors = []
    for seed in range(given.first, given.first + given.logs):
        leg, training, rest = recorded(seed)
        choice = choose(leg, training)
        fits = (
            mindyn.LeastSquares().fit(mindyn.build_rows(leg, training, FIXED)),
            choice.estimator.fit(mindyn.build_rows(leg, training, choice.settings)),
        )
        errors.append([band_error(fit, rest) for fit in fits])
        print(f"log {seed}: 15 Hz {100 * errors[-1][0]:.2f} %, selected {100 * errors[-1][1]:.2f} %", flush=True)
    fixed, selected = np.array(errors).T
    ratios = selected / fixed
    print(
        f"median error {100 * np.median(fixed):.2f} % with 15 Hz, {100 * np.median(selected):.2f} % selected; ratio: "
        f"geometric mean {np.exp(np.log(ratios).mean()):.2f}, largest {ratios.max():.2f}"
    )


if __name__ == "__main__":
    main()
