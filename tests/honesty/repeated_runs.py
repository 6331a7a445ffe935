"""Measure how often two recordings of one measured robot agree within their intervals.

MINDYN_REAL_DATA=... python tests/honesty/repeated_runs.py

It prints the fraction of parameters with |b1 - b2| <= sqrt(h1^2 + h2^2), where h is half of the 95 % interval: about
95 % if the intervals are correct. Both runs are fitted by least squares with the same settings and all parameters. No
prediction error is computed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from logs.real_sets import FOLDER, SI, real_log, real_robot

import mindyn
from mindyn.regression.settings import EquationSettings

PLAIN = mindyn.LeastSquares(covariance="correlated")


def measure_agreement(robot, item, other, cutoff_hz: float) -> tuple[float, float]:
    """Return the fraction of parameters that agree, with the intervals of `identify` and with those of noise alone."""
    settings = EquationSettings(
        mindyn.Conditioning(motion_hz=2.5 * cutoff_hz),
        equations_hz=cutoff_hz,
        friction=mindyn.Friction("tanh", 0.02),
    )
    both = [mindyn.identify(robot, log, PLAIN, settings) for log in (item, other)]
    fractions = []
    for result in (both, [each.by_noise_alone() for each in both]):
        differences = np.abs(result[0].beta - result[1].beta)
        fractions.append(
            float(
                np.mean(differences <= np.hypot(result[0].uncertainty.half_widths, result[1].uncertainty.half_widths))
            )
        )
    return fractions[0], fractions[1]


def read_set(folder: str, model: str, file: str, **metadata):
    """Return the robot and a log of a set; `metadata` describes the log."""
    robot = mindyn.load_robot(FOLDER / folder / "model" / model)
    return robot, mindyn.read_log(FOLDER / folder / file, robot, metadata={"units": SI, "side": "joint", **metadata})


def load_panda():
    """Return the Panda and the training rows of its log."""
    columns = {"time": "t", "position": "q{i}", "velocity": "qd{i}", "torque": "tau{i}"}
    robot, log = read_set("panda_gaz2019", "panda.toml", "exciting.parquet", columns=columns)
    return robot, log.between(0, 14380)


def load_ur10e(file: str):
    """Return the UR10e and a log; its currents are read as torques, which does not affect the agreement of two runs."""
    columns = {"time": "t_s", "position": "q{i}_rad", "velocity": "qd{i}_rad_s", "torque": "current{i}_A"}
    return read_set("ur10e_innopolis", "ur10e.urdf", file, columns=columns)


def split_in_halves(log):
    return log.take(slice(0, len(log) // 2)), log.take(slice(len(log) // 2, None))


def main() -> None:
    if not FOLDER.is_dir():
        raise SystemExit("MINDYN_REAL_DATA names no folder with the real logs")
    arm = real_robot("kuka_lwr4")
    runs = [real_log("kuka_lwr4", f"measurements_{k}.npz") for k in (1, 2, 3)]
    robot = real_robot("ur10_unisa")
    whole = real_log("ur10_unisa", "ur10_exciting_trajectory.csv")
    (seven, joints), (six, free) = load_panda(), load_ur10e("free.parquet")
    loaded = [load_ur10e(f"loaded_{k}.parquet")[1] for k in (1, 2)]
    cases = {
        "LWR4+, one motion twice": (arm, runs[0], runs[1], 8.0),
        "LWR4+, two motions": (arm, runs[0], runs[2], 8.0),
        "UR10, there and back": (robot, *split_in_halves(whole), 5.0),
        "UR10e, halves of a motion": (six, *split_in_halves(free), 5.0),
        "UR10e loaded, two motions": (six, *loaded, 5.0),
        "Panda, halves of a motion": (seven, *split_in_halves(joints), 8.0),
    }
    for name, case in cases.items():
        fraction, noise = measure_agreement(*case)
        print(
            f"{name:26} {100 * fraction:.0f} % agree within their intervals ({100 * noise:.0f} % by noise alone)",
            flush=True,
        )


if __name__ == "__main__":
    main()
