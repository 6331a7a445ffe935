"""Two recordings of one measured robot: do they agree within their intervals?

MINDYN_REAL_DATA=... python tests/honesty/repeated_runs.py

The share of parameters with |b1 - b2| <= sqrt(h1^2 + h2^2), h half the 95 % interval: about 95 % where intervals hold.
Fits are plain, of all parameters, with the same settings for both runs; no error of prediction is computed.
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


def agreement(robot, item, other, cutoff_hz: float) -> tuple[float, float]:
    """Shares of parameters that agree: by intervals as they are, and by noise alone."""
    settings = EquationSettings(
        mindyn.Conditioning(position_cutoff_hz=2.5 * cutoff_hz),
        filter_hz=cutoff_hz,
        friction=mindyn.Friction("tanh", 0.02),
    )
    both = [mindyn.identify(robot, log, PLAIN, settings) for log in (item, other)]
    shares = []
    for result in (both, [each.by_noise_alone() for each in both]):
        apart = np.abs(result[0].beta - result[1].beta)
        shares.append(float(np.mean(apart <= np.hypot(result[0].half_widths, result[1].half_widths))))
    return shares[0], shares[1]


def measured(folder: str, model: str, file: str, **stated):
    """Robot and log of a set whose columns are q1, q2, ...; `stated` says the rest."""
    robot = mindyn.load_robot(FOLDER / folder / "model" / model)
    return robot, mindyn.read_log(FOLDER / folder / file, robot, metadata={"units": SI, "side": "joint", **stated})


def panda():
    """The Panda and the training rows of its log."""
    columns = {"time": "t", "position": "q{i}", "velocity": "qd{i}", "torque": "tau{i}"}
    robot, log = measured("panda_gaz2019", "panda.toml", "exciting.parquet", columns=columns)
    return robot, log.between(0, 14380)


def ur10e(file: str):
    """The UR10e; its currents are taken for torques, which two runs of one robot agree on as well."""
    columns = {"time": "t_s", "position": "q{i}_rad", "velocity": "qd{i}_rad_s", "torque": "current{i}_A"}
    return measured("ur10e_innopolis", "ur10e.urdf", file, columns=columns)


def halves(log):
    return log.take(slice(0, len(log) // 2)), log.take(slice(len(log) // 2, None))


def main() -> None:
    if not FOLDER.is_dir():
        raise SystemExit("MINDYN_REAL_DATA names no folder with the real logs")
    arm = real_robot("kuka_lwr4")
    runs = [real_log("kuka_lwr4", f"measurements_{k}.npz") for k in (1, 2, 3)]
    robot = real_robot("ur10_unisa")
    whole = real_log("ur10_unisa", "ur10_exciting_trajectory.csv")
    (seven, joints), (six, free) = panda(), ur10e("free.parquet")
    loaded = [ur10e(f"loaded_{k}.parquet")[1] for k in (1, 2)]
    cases = {
        "LWR4+, one motion twice": (arm, runs[0], runs[1], 8.0),
        "LWR4+, two motions": (arm, runs[0], runs[2], 8.0),
        "UR10, there and back": (robot, *halves(whole), 5.0),
        "UR10e, halves of a motion": (six, *halves(free), 5.0),
        "UR10e loaded, two motions": (six, *loaded, 5.0),
        "Panda, halves of a motion": (seven, *halves(joints), 8.0),
    }
    for name, case in cases.items():
        share, noise = agreement(*case)
        print(
            f"{name:26} {100 * share:.0f} % agree within their intervals ({100 * noise:.0f} % by noise alone)",
            flush=True,
        )


if __name__ == "__main__":
    main()
