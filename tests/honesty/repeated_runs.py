"""Two recordings of one measured robot: do they agree within their intervals?

MINDYN_REAL_DATA=... python tests/honesty/repeated_runs.py

The share of parameters with |b1 - b2| <= sqrt(h1^2 + h2^2), h half the 95 % interval: about 95 % where intervals hold.
Fits are plain, of all parameters, with one treatment for both runs; no held-out row is looked at.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from logs.real_sets import FOLDER, real_log, real_robot

import mindyn
from mindyn.regression.treatment import Treatment

PLAIN = mindyn.LeastSquares(covariance="correlated")


def agreement(robot, one, other, cutoff_hz: float) -> tuple[float, float]:
    """Shares of parameters that agree: by intervals as they are, and by noise alone."""
    treatment = Treatment(
        mindyn.Conditioning(position_cutoff_hz=2.5 * cutoff_hz),
        filter_hz=cutoff_hz,
        friction=mindyn.Friction("tanh", 0.02),
    )
    both = [mindyn.identify(robot, log, PLAIN, treatment) for log in (one, other)]
    shares = []
    for found in (both, [each.by_noise_alone() for each in both]):
        apart = np.abs(found[0].beta - found[1].beta)
        shares.append(float(np.mean(apart <= np.hypot(found[0].half_widths, found[1].half_widths))))
    return shares[0], shares[1]


def main() -> None:
    if not FOLDER.is_dir():
        raise SystemExit("MINDYN_REAL_DATA names no folder with the real logs")
    arm = real_robot("kuka_lwr4")
    runs = [real_log("kuka_lwr4", f"measurements_{k}.npz") for k in (1, 2, 3)]
    robot = real_robot("ur10_unisa")
    whole = real_log("ur10_unisa", "ur10_exciting_trajectory.csv")
    half = len(whole) // 2
    cases = {
        "LWR4+, one motion twice": (arm, runs[0], runs[1], 8.0),
        "LWR4+, two motions": (arm, runs[0], runs[2], 8.0),
        "UR10, there and back": (robot, whole.take(slice(0, half)), whole.take(slice(half, None)), 5.0),
    }
    for name, case in cases.items():
        share, noise = agreement(*case)
        print(
            f"{name:26} {100 * share:.0f} % agree within their intervals ({100 * noise:.0f} % by noise alone)",
            flush=True,
        )


if __name__ == "__main__":
    main()
