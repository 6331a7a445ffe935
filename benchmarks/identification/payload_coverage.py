"""Measure how often a payload lies inside its 95 % intervals: load-dependent friction, encoder noise, gains 1 % off.

    python -m benchmarks.identification.payload_coverage [--runs 200] [--seed 0]

Each run has other drive gains (1 % each, the same with and without the load), load, motions and noise. The arm is
identified from one motion, the load from the other. The exit code is 1 unless 93 to 98 % of the masses and of the
centres lie inside.
"""

import argparse
import sys
from dataclasses import replace
from time import process_time

import numpy as np

import mindyn
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive

RATE_HZ, SECONDS = 200.0, 20.0
ENCODER, TORQUE, GAIN, LOAD_FRICTION = 2e-5, 0.2, 0.01, 0.05
"""rad, N m, and parts of the torque: standard deviations, and the friction of each N m that a gear carries."""
WITHIN = (0.93, 0.98)
MIDDLE = np.array([0.0, 0.0, 0.0, -1.5, 0.0, 1.8, 0.0])
EQUATION_SETTINGS = EquationSettings(
    mindyn.Conditioning(motion_hz=8.0),
    equations_hz=8.0,
    keep_every=5,
    friction=Friction("tanh", 0.02, shapes=("load",)),
)


def load_arm() -> mindyn.Robot:
    """Return the bundled Panda with drives."""
    robot = mindyn.load_robot("panda")
    drives = tuple(Drive(name, 1.0, {}, 0.1, 1.0, 0.8, 0.0, "joint") for name in robot.joint_names)
    return replace(robot, drives=drives)


def simulate_log(robot: mindyn.Robot, rng: np.random.Generator, gains: np.ndarray) -> mindyn.Log:
    """Return a log of a smooth random motion; its torques are the true ones times the gains."""
    n = robot.joint_count
    t = np.arange(int(RATE_HZ * SECONDS)) / RATE_HZ
    w, phase = rng.uniform(0.6, 4.0, (4, n)), rng.uniform(0, 6.28, (4, n))
    parts = [0.25 * w**k * np.sin(t[:, None, None] * w + phase + k * np.pi / 2) for k in range(3)]
    q, qd, qdd = (part.sum(axis=1) for part in parts)
    q += MIDDLE
    carried = mindyn.compile_model(
        replace(robot, drives=tuple(replace(d, viscous=0.0, coulomb=0.0) for d in robot.drives)), with_drives=True
    )
    rigid = carried.inverse_dynamics(q, qd, qdd)
    turn = np.tanh(qd / 0.02)
    tau = rigid + qd + 0.8 * turn + LOAD_FRICTION * np.abs(rigid) * turn
    logged = gains * tau + rng.normal(0, TORQUE, tau.shape)
    return mindyn.log_from_arrays(robot.joint_names, t, q + rng.normal(0, ENCODER, q.shape), logged)


def inside(seed: int) -> tuple[bool, np.ndarray, float]:
    """Whether the mass and each coordinate of the centre lie in their intervals; the width of the mass's, kg."""
    rng, robot = np.random.default_rng(seed), load_arm()
    gains = 1 + GAIN * rng.normal(size=robot.joint_count)
    mass, centre = rng.uniform(0.5, 3.0), rng.uniform((-0.08, -0.08, 0.02), (0.08, 0.08, 0.18))
    loaded = robot.with_payload(mass, centre, mass * 0.03**2 * np.eye(3))
    estimate = mindyn.identify(
        robot, [simulate_log(robot, rng, gains)], mindyn.LeastSquares(covariance="correlated"), EQUATION_SETTINGS
    )
    load = mindyn.identify_payload(estimate, simulate_log(loaded, rng, gains), gain_deviation=GAIN)
    low, high = load.mass_interval
    return low <= mass <= high, np.abs(load.centre - centre) <= load.centre_half_widths, high - low


def main() -> int:
    """Run the cases and print the coverage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    masses, centres, widths, start = [], [], [], process_time()
    for k in range(given.runs):
        mass, centre, width = inside(1000 * given.seed + k)
        masses.append(mass)
        centres.append(centre)
        widths.append(width)
        if (k + 1) % 20 == 0:
            print(
                f"{k + 1}: mass {np.mean(masses):.3f}, centre {np.mean(centres, axis=0).round(3)}, "
                f"interval of the mass {np.mean(widths):.3f} kg, {process_time() - start:.0f} s",
                flush=True,
            )
    shares = {"mass": float(np.mean(masses)), "centre": float(np.mean(centres))}
    for name, share in shares.items():
        print(f"{name}: {100 * share:.1f} % of {given.runs} runs inside the 95 % interval")
    return int(not all(WITHIN[0] <= share <= WITHIN[1] for share in shares.values()))


if __name__ == "__main__":
    sys.exit(main())
