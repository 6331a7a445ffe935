"""How often 95 % intervals hold the truth: random arms, soft joints, friction that grows with the load, encoders.

python tests/honesty/coverage.py [--arms 30] [--seconds 0] [--folder build/coverage]

Every arm is identified once, with nothing stated, from a log that repeats its motion or not; its result is kept, and
the next run goes on where this one ended. Wanted: 93 to 98 % of true values inside, median error 0.5 to 0.8 deviations.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic, process_time

import numpy as np

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from honesty.arms import Recording, file_of, random_arm, recorded, unknown

import mindyn

WANTED = (0.93, 0.98)
WANTED_MEDIAN = (0.5, 0.8)


def recording_of(seed: int) -> Recording:
    """Half of the motions repeat; joints give way, friction grows with the load and torque ripples in some."""
    rng = np.random.default_rng([seed, 9])
    return Recording(
        period_s=None if seed % 2 else 8.0,
        compliance=float(rng.choice([0.0, 2e-4, 5e-4])),
        load_friction=float(rng.choice([0.0, 0.0, 0.05])),
        ripple=float(rng.choice([0.0, 0.01])),
        noise=float(rng.uniform(0.005, 0.03)),
        encoder_rad=float(rng.choice([1e-5, 5e-5])),
    )


def truth_of(result, arm, how):
    """(p,) the arm's own values of the parameters that were asked for."""
    base = replace(result.base, robot=arm).values
    further = [how.load_friction if "load" in parameter.name else 0.0 for parameter in result.parameters[len(base) :]]
    return np.concatenate([base, further])


def trial(seed: int) -> dict:
    """One arm identified with nothing stated; every third file states no inertials."""
    arm, how = random_arm(seed), recording_of(seed)
    began = process_time()
    estimate = mindyn.identify(file_of(arm, seed) if seed % 3 else unknown(arm), recorded(arm, how, seed))
    truth, (low, high) = truth_of(estimate, arm, how), estimate.intervals
    without = np.array([name in estimate.dropped for name in estimate.names])
    held = (low <= truth) & (truth <= high)
    given = np.isfinite(low) & ~without
    centre = estimate.beta if estimate.physical is None else estimate.physical.unconstrained
    return {
        "seed": seed,
        "recording": asdict(how),
        "joints": arm.joint_count,
        "method": estimate.method,
        "friction": list(estimate.regressor.friction.shapes),
        "parameters": len(estimate.beta),
        "dropped": len(estimate.dropped),
        "inside": held[given].tolist(),
        "left_out_inside": held[np.isfinite(low) & without].tolist(),
        "deviations": (np.abs(truth - centre)[given] / estimate.deviations[given]).tolist(),
        "outside": [estimate.names[k] for k in np.flatnonzero(given & ~held)],
        "seconds": process_time() - began,
    }


def summary(trials: list[dict]) -> str:
    """Coverage over all intervals of all arms, and of motions that repeat and do not."""
    lines = []
    kinds = {
        "all": trials,
        "repeated": [trial for trial in trials if trial["recording"]["period_s"]],
        "not repeated": [trial for trial in trials if not trial["recording"]["period_s"]],
    }
    for name, chosen in kinds.items():
        inside = [held for item in chosen for held in item["inside"]]
        sizes = [size for item in chosen for size in item["deviations"]]
        if inside:
            lines.append(
                f"{name:14} {len(chosen):3} arms, {len(inside):5} intervals: {100 * np.mean(inside):.1f} % hold the "
                f"truth, median error {np.median(sizes):.2f} deviations"
            )
    beside = [held for trial in trials for held in trial.get("left_out_inside", ())]
    if beside:
        lines.append(f"{'left out':14} {len(beside):5} intervals: {100 * np.mean(beside):.1f} % hold the truth")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="number of the first; others are other arms and motions")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many; 0: when all arms are done")
    parser.add_argument("--folder", type=Path, default=Path("build/coverage"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    began = monotonic()
    for seed in range(options.first, options.first + options.arms):
        path = options.folder / f"{seed}.json"
        if path.exists():
            continue
        if options.seconds and monotonic() - began > options.seconds:
            break
        item = trial(seed)
        path.write_text(json.dumps(item), encoding="utf-8")
        held = np.mean(item["inside"])
        print(
            f"{seed:3} {item['method']}, {item['joints']} joints: {100 * held:.0f} % of {len(item['inside'])}",
            flush=True,
        )
    print(summary([json.loads(path.read_text(encoding="utf-8")) for path in sorted(options.folder.glob("*.json"))]))


if __name__ == "__main__":
    main()
