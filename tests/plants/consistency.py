"""Compare rules that choose between least squares and a consistent fit, by the error on another motion.

python tests/plants/consistency.py [--logs 10] [--first 0] [--families weak,rich] [--file build/consistency.json]

weak   one slow sine as training, another faster motion held out
rich   five sines
gains  rich, but the torque of each joint has a gain error of 10 %, which no consistent values explain
blank  weak, and the file has no inertial parameters

Each plant is an arm in MuJoCo with stiction, partly Stribeck friction and load-dependent friction; the file's masses
are 10 to 50 % wrong. For each rule the table has the mean and the largest ratio of the error of the chosen fit to that
of the better one. A rule of size takes the consistent fit unless its error on blocks is larger by that fraction.
Results are stored; the next run continues.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

import mindyn
from mindyn.foundation.errors import MindynError
from mindyn.identification.selection import choose
from mindyn.logs.log import log_from_arrays
from plants.mujoco_arm import random_arm_file, random_drives, record

FAMILIES = ("weak", "rich", "gains", "blank")
SIZES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def run_case(family: str, seed: int) -> dict:
    """Return the errors of both fits on blocks and on another motion, and today's choice."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    n = int(rng.choice([4, 6]))
    is_weak = family in ("weak", "blank")
    with tempfile.TemporaryDirectory() as folder:
        true, file = random_arm_file(rng, n, Path(folder), mass_error=float(rng.choice([0.1, 0.25, 0.5])))
        stribeck, load = float(rng.choice([0.0, 0.4])), float(rng.choice([0.0, 0.08]))
        drives = random_drives(rng, true, stribeck=stribeck, load=load)
        speed = rng.uniform(0.2, 0.5) if is_weak else rng.uniform(0.6, 1.0)
        rec = record(true, drives, rng, seconds=12.0, speed=float(speed), sines=1 if is_weak else 5)
        other = record(true, drives, rng, seconds=8.0, speed=float(speed * rng.uniform(1.0, 2.0)))
        robot = mindyn.load_robot(file)
    if family == "blank":
        robot = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))
    gains = np.exp(0.1 * rng.standard_normal(n)) if family == "gains" else np.ones(n)
    noise = float(rng.choice([0.005, 0.02, 0.05]))
    sizes = np.sqrt((rec.tau**2).mean(axis=0))
    log = log_from_arrays(
        robot.joint_names, rec.time, rec.q, gains * rec.tau + noise * sizes * rng.standard_normal(rec.tau.shape)
    )
    held_out = log_from_arrays(robot.joint_names, other.time, other.q, gains * other.tau)
    candidates: list = []

    def see(plain, consistent):
        candidates[:] = plain, consistent
        return ""

    try:
        with patch.object(choose, "_format_cost", see):
            chosen = mindyn.identify(robot, log)
        plain, consistent = candidates
        if consistent is None:
            return {"raised": "no consistent fit"}
        errors = {}
        for name, candidate in (("plain", plain), ("consistent", consistent)):
            fit = mindyn.identify(robot, log, candidate.estimator, candidate.settings)
            errors[name] = mindyn.validate(fit, [held_out]).error.total
    except MindynError as error:
        return {"raised": error.message}
    return {
        "blocks": consistent.error / plain.error - 1,
        "significant": bool(consistent.is_significantly_worse_than(plain)),
        "chosen": "plain" if chosen.values.physical is None else "consistent",
        **errors,
    }


def regret(row: dict, choice: str) -> float:
    """Return the error of the chosen fit relative to the better one."""
    return row[choice] / min(row["plain"], row["consistent"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--file", type=Path, default=Path("build/consistency.json"))
    options = parser.parse_args()
    stored = json.loads(options.file.read_text()) if options.file.is_file() else {}
    for family in options.families.split(","):
        for seed in range(options.first, options.first + options.logs):
            if (key := f"{family} {seed}") not in stored:
                stored[key] = run_case(family, seed)
                options.file.parent.mkdir(parents=True, exist_ok=True)
                options.file.write_text(json.dumps(stored))
        keys = [f"{family} {seed}" for seed in range(options.first, options.first + options.logs)]
        rows = [stored[key] for key in keys if "raised" not in stored[key]]
        print(f"{family}: {len(rows)} of {options.logs} logs with both fits")
        rules = {"significance": [row["chosen"] for row in rows]}
        for size in SIZES:
            rules[f"{100 * size:.0f} %"] = ["consistent" if row["blocks"] <= size else "plain" for row in rows]
        for rule, choices in rules.items():
            values = np.array([regret(row, choice) for row, choice in zip(rows, choices, strict=True)])
            worse = int((values > 1.05).sum())
            print(f"  {rule:12} mean {values.mean():.3f}, largest {values.max():.2f}, worse by over 5 %: {worse}")


if __name__ == "__main__":
    main()
