"""Count false statements of `identify` on logs of arms that MuJoCo simulates.

python tests/plants/study.py [--logs 10] [--first 0] [--classes sound,late] [--file build/plants.json] [--joints 6]

sound       noise, friction with Stribeck effect and load, wrong masses in the file: no error finding, no delay
weightless  the torque lacks gravity: reported
late joint  the torque of one joint is 40 ms late: reported
late        all torques are 20 to 60 ms late: corrected within 3 ms
noise       noise of 0.5 to 4 times the torque: not called good, unless the torque of another motion is right
short       the first 3 s: as above

"false good": the verdict is good, and the torque of another motion without noise is wrong by more than 10 % of its
rms, or more than 5 % of the torques of a joint lie outside twice the stated 95 % band. Results are stored; the next
run continues.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]
from honesty.spoiled import format_rate

import mindyn
from mindyn.foundation.errors import MindynError
from mindyn.foundation.findings import Kind, Severity
from mindyn.identification.prediction.prediction import predict_log
from mindyn.identification.prediction.prediction_errors import scored_rows
from mindyn.identification.prediction.torque_bands import torque_bands
from mindyn.logs.log import log_from_arrays
from mindyn.output.report.parameter_rows import parameter_rows
from mindyn.output.report.verdict import Commands, build_verdict, summarize_verdict
from plants.mujoco_arm import random_arm_file, random_drives, record

CLASSES = ("sound", "weightless", "late joint", "late", "noise", "short")
GOOD = ("good", "noise")


@dataclass(frozen=True)
class Case:
    """A log of a class, another motion of the same arm by the same recorder, and what was drawn."""

    robot: mindyn.Robot
    log: mindyn.Log
    other: mindyn.Log
    drawn: dict

    @property
    def training(self) -> mindyn.Log:
        """The first 70 % of the log."""
        return self.log.take(slice(0, round(0.7 * len(self.log))))

    @property
    def held_out(self) -> mindyn.Log:
        """The rest of the log."""
        return self.log.take(slice(round(0.7 * len(self.log)), len(self.log)))


def record_case(name: str, seed: int, joints: int | None = None) -> Case:
    """Record a log of a class, and another motion without noise."""
    rng = np.random.default_rng([seed, CLASSES.index(name)])
    n = joints or int(rng.choice([3, 4, 5, 6, 6, 7]))
    rate = float(rng.choice([50, 100, 100, 250]))
    seconds = float(rng.uniform(15, 25))
    stribeck, load = float(rng.choice([0.0, 0.4])), float(rng.choice([0.0, 0.0, 0.08]))
    with tempfile.TemporaryDirectory() as folder:
        true, file = random_arm_file(rng, n, Path(folder), mass_error=float(rng.choice([0.0, 0.1, 0.25])))
        drives = random_drives(rng, true, stribeck=stribeck, load=load)
        speeds, sines = rng.uniform(0.7, 1.4, 2), int(rng.choice([1, 2, 5]))
        rec = record(true, drives, rng, seconds=seconds, rate_hz=rate, speed=speeds[0], sines=sines)
        other = record(true, drives, rng, seconds=8.0, rate_hz=rate, speed=speeds[1])
        robot = mindyn.load_robot(file)
    sizes = np.sqrt((rec.tau**2).mean(axis=0))
    noise = float(rng.uniform(0.5, 4)) if name == "noise" else float(rng.choice([0.005, 0.02, 0.05]))
    tau, delay, late = rec.tau.copy(), 0.0, list[int]()
    if name == "weightless":
        tau -= rec.weight
    if name == "late":
        delay, late = float(rng.uniform(0.02, 0.06)), list(range(n))
    if name == "late joint":
        delay, late = 0.04, [int(rng.choice(np.flatnonzero(sizes > 0.2 * sizes.max())))]
    tau = _delayed(rec.time, tau, delay, late)
    step = float(rng.choice([1e-5, 1e-4, 5e-4]))
    q = step * np.round(rec.q / step)
    tau += noise * sizes * rng.standard_normal(tau.shape)
    log = log_from_arrays(robot.joint_names, rec.time, q, tau)
    if name == "short":
        log = log.take(slice(0, int(4.3 * rate)))
    clean = other.tau if name == "late joint" else _delayed(other.time, other.tau, delay, late)
    drawn = {"n": n, "rate": rate, "noise": noise, "delay": delay, "stribeck": stribeck, "load": load, "sines": sines}
    return Case(robot, log, log_from_arrays(robot.joint_names, other.time, other.q, clean), drawn)


def _delayed(time: np.ndarray, tau: np.ndarray, delay: float, joints: list[int]) -> np.ndarray:
    """Return torques (N, n) that show those of some joints `delay` s later."""
    later = tau.copy()
    for joint in joints:
        later[:, joint] = np.interp(time - delay, time, tau[:, joint])
    return later


def run_case(name: str, seed: int, joints: int | None = None) -> dict:
    """Identify the first 70 % of a log, and compare the statements with the truth."""
    case = record_case(name, seed, joints)
    start = process_time()
    try:
        estimate = mindyn.identify(case.robot, case.training)
        validation = mindyn.validate(estimate, [case.held_out])
    except MindynError as error:
        return case.drawn | {"raised": error.message}
    feasibility = mindyn.check_feasible(estimate)
    verdict = build_verdict(estimate, validation, validation.predictions, estimate.findings)
    summary = summarize_verdict(verdict, parameter_rows(estimate), feasibility.answers, Commands("", "", "urdf"))
    conditioning = estimate.settings.conditioning
    applied = conditioning.delay_s if isinstance(conditioning.delay_s, tuple) else (conditioning.motion_delay_s,)
    prediction = predict_log(estimate, case.other)
    return case.drawn | {
        "seconds": process_time() - start,
        "grade": summary.grade,
        "headline": summary.headline,
        "held_out": validation.error.total,
        "uncertainty": estimate.data.identifiable and estimate.data.identifiable.uncertainty,
        "wrong": prediction.error.total,
        "errors": prediction.error.relative.round(4).tolist(),
        "outside": rows_outside(estimate, case.other).round(4).tolist(),
        "delays": [float(value) for value in applied],
        "findings": [
            (f.kind.name, f.severity.name, f.message, None if f.explained_by is None else f.explained_by.name)
            for f in estimate.findings
        ],
    }


def rows_outside(estimate: mindyn.Estimate, log: mindyn.Log) -> np.ndarray:
    """Return the fraction (n,) of the rows at which the torque of each joint is outside twice the 95 % band.

    The ends of the log, where filters are one-sided, do not count, as in every validation.
    """
    samples = estimate.samples_of(log)
    lower, upper = torque_bands(estimate, samples)
    outside = np.abs(samples.tau - (lower + upper) / 2) > upper - lower
    return outside[scored_rows(len(outside), samples.rate_hz)].mean(axis=0)


def is_failure(name: str, row: dict) -> bool:
    """Return whether the statements about a log of a class are wrong."""
    if "raised" in row:
        return name != "short"
    kinds = {kind for kind, *_ in row["findings"]}
    errors = {kind for kind, severity, *_ in row["findings"] if severity == Severity.ERROR.name}
    if name == "weightless":
        return Kind.ABSENT_GRAVITY.name not in kinds
    if name == "late joint":
        return Kind.DELAYED_TORQUE.name not in kinds and row["wrong"] > 0.1
    if name == "late":
        return abs(np.median(row["delays"]) - row["delay"]) > 0.003
    if name == "sound":
        accused = {Kind.DELAYED_TORQUE, Kind.ABSENT_GRAVITY, Kind.WRONG_TORQUE_SIGN, Kind.SWAPPED_TORQUES}
        accused |= {Kind.WRONG_JOINT_ZERO, Kind.WRONG_GRAVITY, Kind.WRONG_TORQUE_UNIT, Kind.MOTOR_CURRENT}
        return bool(errors or kinds & {kind.name for kind in accused})
    return is_false_good(row)


def is_false_good(row: dict) -> bool:
    """Return whether the model is called good, although the torque of another motion contradicts it."""
    return "raised" not in row and row["grade"] in GOOD and (row["wrong"] > 0.1 or max(row["outside"]) > 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--joints", type=int)
    parser.add_argument("--classes", default=",".join(CLASSES))
    parser.add_argument("--file", type=Path, default=Path("build/plants.json"))
    options = parser.parse_args()
    stored = json.loads(options.file.read_text()) if options.file.is_file() else {}
    for name in options.classes.split(","):
        failures = goods = 0
        for seed in range(options.first, options.first + options.logs):
            key = f"{name} {seed} {options.joints or ''}".strip()
            if key not in stored:
                stored[key] = run_case(name, seed, options.joints)
                options.file.parent.mkdir(parents=True, exist_ok=True)
                options.file.write_text(json.dumps(stored))
            row = stored[key]
            failures += is_failure(name, row)
            goods += is_false_good(row)
        print(
            f"{name:12} failures {format_rate(failures, options.logs)}, false good {format_rate(goods, options.logs)}"
        )


if __name__ == "__main__":
    main()
