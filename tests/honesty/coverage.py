"""Measure how often 95 % intervals contain the true value: random arms, flexible joints, load-dependent friction.

python tests/honesty/coverage.py [--arms 30] [--seconds 0] [--folder build/coverage]

Each arm is identified once with automatic settings, from a log whose motion may repeat. Results are stored, and the
next run continues. Target: 93 to 98 % of the true values inside, median error 0.5 to 0.8 deviations.
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
from honesty.arms import Recording, build_robot_file, random_arm, record_log, remove_masses

import mindyn

WANTED = (0.93, 0.98)
WANTED_MEDIAN = (0.5, 0.8)


def draw_recording(seed: int) -> Recording:
    """Return random settings of a log: half of the motions repeat; some logs have compliance, load friction or
    ripple."""
    rng = np.random.default_rng([seed, 9])
    return Recording(
        period_s=None if seed % 2 else 8.0,
        compliance=float(rng.choice([0.0, 2e-4, 5e-4])),
        load_friction=float(rng.choice([0.0, 0.0, 0.05])),
        ripple=float(rng.choice([0.0, 0.01])),
        noise=float(rng.uniform(0.005, 0.03)),
        encoder_rad=float(rng.choice([1e-5, 5e-5])),
    )


def find_true_values(result, arm, how):
    """Return the true values (p,) of the estimated parameters."""
    base = replace(result.base, robot=arm).values
    further = [how.load_friction if "load" in parameter.name else 0.0 for parameter in result.parameters[len(base) :]]
    return np.concatenate([base, further])


def run_trial(seed: int) -> dict:
    """Identify one arm with automatic settings; every third robot file has no inertial parameters."""
    arm, how = random_arm(seed), draw_recording(seed)
    began = process_time()
    estimate = mindyn.identify(
        build_robot_file(arm, seed) if seed % 3 else remove_masses(arm), record_log(arm, how, seed)
    )
    truth, (low, high) = find_true_values(estimate, arm, how), estimate.intervals
    without = np.array([name in estimate.values.dropped for name in estimate.names])
    held = (low <= truth) & (truth <= high)
    given = np.isfinite(low) & ~without
    centre = estimate.beta if estimate.values.physical is None else estimate.values.physical.unconstrained
    return {
        "seed": seed,
        "recording": asdict(how),
        "joints": arm.joint_count,
        "method": estimate.provenance.method,
        "friction": list(estimate.regressor.friction.shapes),
        "parameters": len(estimate.beta),
        "dropped": len(estimate.values.dropped),
        "inside": held[given].tolist(),
        "dropped_inside": held[np.isfinite(low) & without].tolist(),
        "deviations": (np.abs(truth - centre)[given] / estimate.deviations[given]).tolist(),
        "outside": [estimate.names[k] for k in np.flatnonzero(given & ~held)],
        "seconds": process_time() - began,
    }


def summarize(trials: list[dict]) -> str:
    """Summarize the coverage of all intervals, and of motions that repeat and do not."""
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
                f"{name:14} {len(chosen):3} arms, {len(inside):5} intervals: {100 * np.mean(inside):.1f} % contain "
                f"the truth, median error {np.median(sizes):.2f} deviations"
            )
    dropped = [held for trial in trials for held in trial.get("dropped_inside", ())]
    if dropped:
        lines.append(f"{'dropped':14} {len(dropped):5} intervals: {100 * np.mean(dropped):.1f} % contain the truth")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="seed of the first arm")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all arms are done")
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
        item = run_trial(seed)
        path.write_text(json.dumps(item), encoding="utf-8")
        held = np.mean(item["inside"])
        print(
            f"{seed:3} {item['method']}, {item['joints']} joints: {100 * held:.0f} % of {len(item['inside'])}",
            flush=True,
        )
    print(summarize([json.loads(path.read_text(encoding="utf-8")) for path in sorted(options.folder.glob("*.json"))]))


if __name__ == "__main__":
    main()
