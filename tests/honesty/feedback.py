"""Measure how often intervals of instrumental variables contain the truth if a controller feeds encoder noise back.

python tests/honesty/feedback.py [--arms 30] [--first 0]

Random arms with two or three joints run under computed torque. The controller reads noisy encoders and their
differences, so torque and instruments contain the noise of the columns. Instruments are fitted to unfiltered rows, and
with the settings that `choose` selects. The exit code is 1 unless 93 to 98 % of the intervals of the latter contain the
truth. Intervals of `identify` are wider, because they include model errors, which these arms do not have.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from estimators.closed_loops import driven_arm, sines

import mindyn
from mindyn.foundation.errors import InputError
from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables
from mindyn.motions.simulation.controllers import ComputedTorque

RATE_HZ, SECONDS = 500.0, 10.0
WANTED = (0.93, 0.98)
UNFILTERED = mindyn.EquationSettings(
    mindyn.Conditioning(rate_hz=RATE_HZ, stamps="uniform", motion_hz=None, delay_s=0.0),
    drive_parameters="stated",
)
AUTOMATIC = replace(mindyn.EquationSettings.automatic(), drive_parameters="stated")


@dataclass
class NoisyFeedback:
    """A controller that reads noisy encoders (rad) and their differences as velocities, and stores readings and
    torques."""

    law: ComputedTorque
    noise: float
    rng: np.random.Generator
    seen: list[np.ndarray] = field(default_factory=list)
    torques: list[np.ndarray] = field(default_factory=list)

    def __call__(self, t: float, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        read = q + self.noise * self.rng.normal(size=len(q))
        speed = (read - self.seen[-1]) * RATE_HZ if self.seen else qd
        self.seen.append(read)
        self.torques.append(self.law(t, read, speed))
        return self.torques[-1]


def record_log(seed: int, noise_rad: float | None = None) -> tuple[mindyn.Robot, mindyn.Log]:
    """Return an arm and the log of its controller: encoders, and the mean torque around each reading."""
    rng = np.random.default_rng([seed, 5])
    arm = driven_arm(seed, joints=2 + seed % 2)
    reference = sines(arm, seed)
    bandwidth = rng.uniform(15.0, 25.0)
    law = ComputedTorque(arm, reference, bandwidth**2, 2 * bandwidth, with_drives=True)
    drawn = float(rng.choice([5e-5, 1e-4, 2e-4]))
    loop = NoisyFeedback(law, drawn if noise_rad is None else noise_rad, rng)
    q0, qd0, _ = reference(0.0)
    mindyn.simulate(
        arm, loop, seconds=SECONDS, q0=q0, qd0=qd0, rate_hz=RATE_HZ, with_drives=True, method="fixed",
        longest_step_s=1 / RATE_HZ,
    )  # fmt: skip
    held = np.array(loop.torques)
    tau = (held + np.concatenate([held[:1], held[:-1]])) / 2
    return arm, mindyn.log_from_arrays(arm.joint_names, np.arange(len(tau)) / RATE_HZ, np.array(loop.seen), tau)


def assess_intervals(result: mindyn.Estimate, arm: mindyn.Robot) -> tuple[np.ndarray, np.ndarray, float]:
    """Return which intervals contain the truth, errors in deviations, and the largest error relative to the largest
    value."""
    base = replace(result.base, robot=arm).values
    truth = np.concatenate([base, np.zeros(len(result.beta) - len(base))])
    low, high = result.intervals
    given = np.isfinite(low)
    errors = np.abs(result.beta - truth)
    held = ((low <= truth) & (truth <= high))[given]
    return held, (errors / result.deviations)[given], float(errors.max() / np.abs(truth).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="seed of the first arm")
    parser.add_argument("--noise", type=float, help="encoder noise, rad; default: 5e-5, 1e-4 or 2e-4 at random")
    options = parser.parse_args()
    names = ("unfiltered", "selected", "identify")
    result: dict[str, list[tuple[np.ndarray, np.ndarray, float]]] = {name: [] for name in names}
    method = InstrumentalVariables()
    for seed in range(options.first, options.first + options.arms):
        arm, log = record_log(seed, options.noise)
        chosen = mindyn.choose(arm, log, method, AUTOMATIC).settings
        with suppress(InputError):  # noise may make the first model indefinite
            result["unfiltered"].append(assess_intervals(method.fit(mindyn.build_rows(arm, log, UNFILTERED)), arm))
        try:
            result["selected"].append(assess_intervals(method.fit(mindyn.build_rows(arm, log, chosen)), arm))
            result["identify"].append(assess_intervals(mindyn.identify(arm, log, method, chosen), arm))
        except InputError as error:
            print(f"{seed}: {chosen.equations_hz and round(chosen.equations_hz, 1)} Hz, rejected: {error.message[:90]}")
            continue
        held, _, error = result["selected"][-1]
        used = chosen.equations_hz and round(chosen.equations_hz, 1)
        print(f"{seed}: {used} Hz, {held.sum()} of {len(held)}, off by {100 * error:.2g} %", flush=True)
    for name, trials in result.items():
        inside, sizes = (np.concatenate([trial[k] for trial in trials]) for k in (0, 1))
        rejected = f", {options.arms - len(trials)} rejected" if len(trials) < options.arms else ""
        print(
            f"rows {name}: {len(trials)} arms{rejected}, {100 * inside.mean():.1f} % of {len(inside)} intervals "
            f"contain the truth, median error {np.median(sizes):.2f} deviations, largest error "
            f"{100 * np.median([trial[2] for trial in trials]):.2g} % of the largest value"
        )
    coverage = np.concatenate([item[0] for item in result["selected"]]).mean()
    sys.exit(not WANTED[0] <= coverage <= WANTED[1])


if __name__ == "__main__":
    main()
