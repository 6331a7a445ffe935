"""Count how often each rule of automatic identification fails, on simulated logs made for that rule.

python tests/honesty/families.py [--logs 20] [--first 0] [--seconds 0] [--file build/families.json] [--checkout FOLDER]

All settings are automatic. A rule fails if:

one way       joints hardly turn back: the error on another motion is above 30 % of the torque
short         fast motions of 3 to 6 s: as above
consistent    correct file: the values are not physically consistent
wrong file    masses of the file 0.3 to 3 times the true ones: the error on another motion is more than a tenth above
              that of the same log without masses in the file
no delay      a delay of more than one sample is applied although there is none
delay         a delay of 20 to 60 ms is missed by more than one sample
ends          motion at full speed at both ends of the log: the fit's error is more than a fifth larger with the ends

`spoiled.py` has the families of faulty logs, `friction_pairs.py` those of friction curves. Results are stored, and the
next run continues. `--checkout` takes the sources of another version, such as 0.2.0, for the same logs; give it another
`--file`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np

if __package__ in (None, ""):
    import sys

    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]
from honesty.arms import remove_masses
from honesty.spoiled import format_rate
from honesty.strangers import RecordingSetup, build_arm, record_log, relative_error
from honesty.versions import ROOT, Worker, save_log, save_robot

LARGE_ERROR = 0.3
FAMILIES = ("one way", "short", "consistent", "wrong file", "no delay", "delay", "ends")
BASELINE = {
    "one way": (2, 12),
    "short": (0, 12),
    "consistent": (12, 12),
    "wrong file": (0, 12),
    "no delay": (0, 12),
    "delay": (0, 12),
    "ends": (2, 12),
}
"""Failures of version 0.2.0, and number of logs."""


def draw_setup(seed: int, family: str) -> RecordingSetup:
    """Return random settings of a log of a family."""
    rng = np.random.default_rng([seed, 60])
    how = RecordingSetup(
        joints=int(rng.integers(4, 8)),
        seconds=float(rng.uniform(12, 20)),
        rate_hz=100.0,
        noise=float(rng.uniform(0.005, 0.03)),
        load_friction=float(rng.choice([0.0, 0.05])),
        stribeck=float(rng.choice([0.0, 0.5])),
        speeds=bool(rng.random() < 0.5),
        rest_s=0.0 if family == "ends" else 0.5,
    )
    if family in ("one way", "short"):
        return replace(how, course=family, seconds=float(rng.uniform(3, 6)) + 1)
    delay = float(rng.uniform(0.02, 0.06)) if family == "delay" else 0.0
    return replace(how, delay_s=delay, file="wrong" if family == "wrong file" else "right")


def check_failure(worker: Worker, seed: int, family: str) -> bool:
    """Identify a log, and return whether the rule of its family fails."""
    how = draw_setup(seed, family)
    arm, robot = build_arm(how, seed)
    log = record_log(arm, how, seed, 0)
    other = record_log(arm, how, seed, 1, faster=1.15)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = [save_log(folder / "train.csv", log), save_log(folder / "other.csv", other)]
        estimate = worker.fit(save_robot(folder, robot), *logs)
        if family == "wrong file":
            without_file = worker.fit(save_robot(folder, remove_masses(robot)), *logs)
    torque, predicted = (np.array(item) for item in estimate.torques)
    if family == "consistent":
        return not estimate.is_consistent
    if family in ("no delay", "delay"):
        return bool(abs(estimate.delay_s - how.delay_s) > 1.01 / how.rate_hz)
    if family == "ends":
        edge = int(how.rate_hz)
        residual, tau = torque - log.tau, log.tau
        inner = np.linalg.norm(residual[edge:-edge]) / np.linalg.norm(tau[edge:-edge])
        return bool(np.linalg.norm(residual) / np.linalg.norm(tau) > 1.2 * inner)
    error = relative_error(predicted, other)
    if family == "wrong file":
        return error > 1.1 * relative_error(np.array(without_file.torques[1]), other)
    return error > LARGE_ERROR


def summarize(done: list[dict]) -> str:
    """Return the failures of every family, next to those of version 0.2.0."""
    logs = Counter(item["family"] for item in done)
    failed = Counter(item["family"] for item in done if item["fails"])
    lines = [f"{'family':14}{'failures':32}0.2.0"]
    for family in FAMILIES:
        if logs[family]:
            before = format_rate(*BASELINE[family]) if family in BASELINE else ""
            lines.append(f"{family:14}{format_rate(failed[family], logs[family]):32}{before}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=20, help="logs of each family")
    parser.add_argument("--first", type=int, default=0, help="seed of the first log")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all logs are done")
    parser.add_argument("--file", type=Path, default=Path("build/families.json"))
    parser.add_argument("--checkout", type=Path, default=ROOT, help="repository of the version to run")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(options.file.read_text(encoding="utf-8")) if options.file.exists() else []
    known, began = {(item["seed"], item["family"]) for item in done}, monotonic()
    with Worker(options.checkout.resolve()) as worker:
        for seed in range(options.first, options.first + options.logs):
            for family in FAMILIES:
                if (seed, family) in known or (options.seconds and monotonic() - began > options.seconds):
                    continue
                done.append({"seed": seed, "family": family, "fails": check_failure(worker, seed, family)})
                options.file.write_text(json.dumps(done), encoding="utf-8")
    print(summarize(done))


if __name__ == "__main__":
    main()
