"""Count faults that are named and missed, and false alarms, in simulated fleets.

    python -m benchmarks.fleet.detection [--repetitions 10] [--first 0] [--arms 100] [--logs 8] [--workers 2]

Each repetition simulates a new fleet: 5 arms whose friction grows, 3 with an unknown payload, 2 with a wrong zero
position; friction and offsets of all arms vary by some percent. The exit code is 1 if one of the ten is not named in a
repetition, or if more than one other arm is named in all repetitions together.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl

import mindyn
from mindyn.applications.fleet.study_fleet import FleetStudy, study_fleet
from mindyn.regression.friction import Friction

ROBOT, RATE_HZ, SECONDS = "puma560", 100.0, 12.0
SIDECAR = """
side = "joint"
columns = { time = "t", position = "q{i}", torque = "tau{i}" }
units = { time = "s", position = "rad", torque = "N m" }
"""
EQUATION_SETTINGS = mindyn.EquationSettings(
    mindyn.Conditioning(rate_hz=RATE_HZ, stamps="uniform", motion_hz=8.0, delay_s=0.0),
    4.0,
    4,
    Friction("tanh", 0.05),
)
START = date(2026, 1, 1)


@dataclass(frozen=True)
class Fault:
    """Fault of an arm: growth of the friction of a joint over all logs, a payload, or a wrong zero position."""

    kind: str
    joint: int = 0
    size: float = 0.0


def draw_faults(rng: np.random.Generator, arms: int, joints: int) -> dict[int, Fault]:
    """Return ten arms (or all, if there are fewer), each with one fault."""
    chosen = rng.permutation(arms)[:10].tolist()
    created = {arm: Fault("friction", int(rng.integers(joints)), rng.uniform(0.3, 0.6)) for arm in chosen[:5]}
    created |= {arm: Fault("payload", 0, rng.uniform(0.8, 2.0)) for arm in chosen[5:8]}
    return created | {arm: Fault("zero", 1 + int(rng.integers(2)), rng.choice([-1, 1]) * 0.02) for arm in chosen[8:]}


def draw_motion(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Return a sum of sines and its derivatives."""
    t = np.arange(int(SECONDS * RATE_HZ)) / RATE_HZ
    w, a, phase = 2 * np.pi * rng.uniform(0.05, 0.5, (4, n)), rng.uniform(0.1, 0.4, (4, n)), rng.uniform(0, 6, (4, n))
    angle = t[:, None, None] * w + phase
    return t, (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1), -(a * w**2 * np.sin(angle)).sum(1)


class Arm:
    """An arm with its friction, offsets and fault."""

    def __init__(self, robot: mindyn.Robot, rng: np.random.Generator, fault: Fault | None) -> None:
        self.fault, self.rng = fault, rng
        carried = robot
        if fault is not None and fault.kind == "payload":
            inertia = fault.size * 0.002 * np.eye(3)
            carried = robot.with_payload(mass=fault.size, com=(0.01, 0.0, 0.06), inertia=inertia.tolist())
        self.links = mindyn.compile_model(carried)
        drives = robot.drives
        expected = rng.normal(1.0, 0.05, (2, len(drives)))
        ratio = np.array([abs(drive.ratio) if drive.side == "motor" else 1.0 for drive in drives])
        self.viscous = expected[0] * np.array([drive.viscous for drive in drives]) * ratio**2
        self.coulomb = expected[1] * np.array([drive.coulomb for drive in drives]) * ratio
        self.rotors = np.array([drive.rotor_inertia * drive.ratio**2 for drive in drives])
        self.offset = rng.normal(0.0, 0.05, len(drives))

    def log(self, age: float) -> pl.DataFrame:
        """Simulate a log; `age` goes from 0 to 1 over the study."""
        t, q, qd, qdd = draw_motion(self.rng, self.links.robot.joint_count)
        growth = np.ones(q.shape[1])
        zero = np.zeros(q.shape[1])
        if self.fault is not None and self.fault.kind == "friction":
            growth[self.fault.joint] += self.fault.size * age
        if self.fault is not None and self.fault.kind == "zero":
            zero[self.fault.joint] = self.fault.size
        friction = growth * (self.viscous * qd + self.coulomb * np.tanh(qd / 0.05))
        tau = self.links.inverse_dynamics(q, qd, qdd) + self.rotors * qdd + friction + self.offset
        noise = 0.02 * np.abs(tau).max(axis=0)
        tau = tau + self.rng.normal(size=q.shape) * noise
        logged = np.round((q - zero) * 1e5) / 1e5
        columns = {"t": t} | {f"q{i + 1}": logged[:, i] for i in range(q.shape[1])}
        return pl.DataFrame(columns | {f"tau{i + 1}": tau[:, i] for i in range(q.shape[1])})


def write_fleet(folder: Path, seed: int, arms: int, logs: int) -> dict[str, Fault]:
    """Write all logs of a fleet; return the fault of each faulty arm."""
    robot = mindyn.load_robot(ROBOT)
    rng = np.random.default_rng(seed)
    wrong = draw_faults(rng, arms, robot.joint_count)
    (folder / "logs.toml").write_text(SIDECAR)
    for number in range(arms):
        arm = Arm(robot, np.random.default_rng([seed, number]), wrong.get(number))
        for k in range(logs):
            day = START + timedelta(days=30 * k)
            place = folder / f"arm{number:03d}" / day.isoformat()
            place.mkdir(parents=True)
            arm.log(k / max(1, logs - 1)).write_parquet(place / "run.parquet")
    return {f"arm{number:03d}": fault for number, fault in wrong.items()}


def run_study(folder: Path, workers: int) -> FleetStudy:
    pattern = f"{folder}/logs/{{robot_id}}/{{date}}/*.parquet"
    return study_fleet(mindyn.load_robot(ROBOT), pattern, folder / "out", settings=EQUATION_SETTINGS, workers=workers)


def split_named(result: FleetStudy, wrong: dict[str, Fault]) -> tuple[set[str], list[str]]:
    """Return the faulty arms that are named with their fault, and all other named arms."""
    robot = mindyn.load_robot(ROBOT)
    right: set[str] = set()
    others: list[str] = []
    for difference in result.differences:
        fault = wrong.get(difference.robot)
        place = "" if fault is None or fault.kind == "payload" else robot.joint_names[fault.joint]
        fits = (
            fault is not None and difference.cause.what == fault.kind and (not place or difference.cause.where == place)
        )
        if fits:
            right.add(difference.robot)
        else:
            state = "healthy" if fault is None else fault
            others.append(f"{difference.robot} ({state}): {difference.sentence}, p = {difference.p:.1g}")
    return right, others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first fleet")
    parser.add_argument("--arms", type=int, default=100)
    parser.add_argument("--logs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    missed = alarms = 0
    for seed in range(options.first, options.first + options.repetitions):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "logs").mkdir()
            wrong = write_fleet(folder / "logs", seed, options.arms, options.logs)
            start = perf_counter()
            result = run_study(folder, options.workers)
            right, others = split_named(result, wrong)
        absent = sorted(set(wrong) - right)
        missed, alarms = missed + len(absent), alarms + len(others)
        print(
            f"fleet {seed}: {len(right)} of {len(wrong)} named, {len(others)} others, {perf_counter() - start:.0f} s",
            flush=True,
        )
        for line in [
            *(f"  not named: {item} {wrong[item]}" for item in absent),
            *(f"  named: {other}" for other in others),
        ]:
            print(line, flush=True)
    print(f"{options.repetitions} fleets: {missed} faults missed, {alarms} false alarms")
    sys.exit(bool(missed) or alarms > 1)


if __name__ == "__main__":
    main()
