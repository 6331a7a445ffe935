"""Sound and spoiled logs of random arms: does `identify` name what is wrong with them, and nothing of sound ones?

python tests/honesty/spoiled.py [--logs 100] [--automatic 10] [--first 0] [--seconds 0] [--file build/spoiled.json]

Every log is identified with given settings, some with automatic ones too, and the findings of the estimate are compared
by kind. A fault is missed unless its finding is among the errors and warnings that a user sees; any error or warning of
a sound log is a false alarm. Rates have binomial 95 % bounds [Clopper & Pearson 1934], next to those of version 0.2.0.
What was done is kept, and the next run goes on.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np
from scipy.stats import beta

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from honesty.arms import TURN_RAD_S, Recording, file_of, motion, random_arm, recorded, torque, unknown

import mindyn
from mindyn.findings import Kind, Severity
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive

GIVEN_SETTINGS = EquationSettings(mindyn.Conditioning(position_cutoff_hz=10.0), friction=mindyn.Friction("tanh", 0.02))
ERRORS = {
    "zero 10": Kind.WRONG_JOINT_ZERO,
    "zero 90": Kind.WRONG_JOINT_ZERO,
    "current": Kind.MOTOR_CURRENT,
    "unit": Kind.WRONG_TORQUE_UNIT,
    "sign": Kind.WRONG_TORQUE_SIGN,
    "reversed": Kind.WRONG_TORQUE_SIGN,
    "swapped": Kind.SWAPPED_TORQUES,
    "sideways": Kind.WRONG_GRAVITY,
    "slope": Kind.WRONG_GRAVITY,
    "compensated": Kind.ABSENT_GRAVITY,
}
"""What users give wrongly."""
UNFIT = {
    "one joint": Kind.STILL_JOINT,
    "constant speed": Kind.POOR_MOTION,
    "noise": Kind.UNRELATED_TORQUE,
    "constant": Kind.CONSTANT_TORQUE,
    "saturated": Kind.SATURATED_TORQUE,
    "late joint": Kind.DELAYED_TORQUE,
    "passive": Kind.UNRELATED_TORQUE,
}
"""Logs that cannot identify their robot; `passive`: a double pendulum that swings on free joints, in three logs."""
SUBTLE = {"warming": Kind.FRICTION_DRIFT, "gain 20 %": Kind.SCALED_TORQUE, "gain 5 %": Kind.SCALED_TORQUE}
"""Faults that some logs determine, and others do not."""
SETS = {
    "no file, unit": Kind.IMPLAUSIBLE_WEIGHT,
    "no file, current": Kind.IMPLAUSIBLE_WEIGHT,
    "log without weight": Kind.ABSENT_GRAVITY,
    "log with a load": Kind.PAYLOAD_CHANGE,
    "mode": Kind.VIBRATION,
}
"""Files without masses, one log of three that differs, and a mode of 10 to 20 Hz in the torque."""
FAULTS = {**ERRORS, **UNFIT, **SUBTLE, **SETS}
SOUND = "sound"
HARMLESS = ("no file", "set", "impact")
"""No fault: a file without masses, three logs whose friction differs by up to a fifth, and an impact of 20 ms."""
TRUE_OF_HARMLESS = {"set": Kind.FRICTION_DRIFT}
"""Findings that are true: friction that differs between logs changes from the beginning to the end."""
WARMING = (0.4, 15.0)
"""Part of friction that goes, and s in which two thirds of it are gone."""
BASELINE = {
    "sound": (0, 100),
    "zero 10": (1, 100),
    "zero 90": (0, 100),
    "current": (0, 100),
    "unit": (0, 100),
    "sign": (0, 100),
    "sideways": (0, 100),
    "slope": (0, 100),
    "compensated": (0, 100),
    "one joint": (0, 100),
    "constant speed": (0, 100),
    "noise": (0, 100),
    "constant": (0, 100),
    "saturated": (0, 100),
    "late joint": (5, 100),
    "warming": (0, 100),
    "gain 20 %": (44, 100),
    "gain 5 %": (87, 100),
}
"""Misses (false alarms of sound logs) of version 0.2.0 with given settings, and logs."""


def drawn(seed: int):
    """An arm, its file and a sound log; and what draws the faults."""
    rng = np.random.default_rng([seed, 20])
    arm = random_arm(seed + 5000, int(rng.integers(4, 8)), shoulder=True)
    how = Recording(
        seconds=float(rng.uniform(15, 30)),
        period_s=None if rng.random() < 0.5 else 8.0,
        compliance=float(rng.choice([0.0, 3e-4])),
        load_friction=float(rng.choice([0.0, 0.05])),
        ripple=float(rng.choice([0.0, 0.01])),
        noise=float(rng.uniform(0.005, 0.03)),
    )
    return arm, how, file_of(arm, seed), recorded(arm, how, seed), rng


def swinging(rng):
    """Three logs of a double pendulum on free joints with a little friction; its torque is noise and an offset."""
    links = replace(mindyn.load_robot("planar2"), extras=())
    robot = replace(links, drives=tuple(Drive(name, 1.0, {}, 0.0, 2.0, 0.0, 0.0) for name in links.joint_names))
    logs = []
    for k in range(3):
        start = np.array([-np.pi / 2, 0.0]) + rng.uniform(-1.5, 1.5, 2)
        free = mindyn.simulate(robot, lambda *_: np.zeros(2), seconds=12.0, q0=start, drives=True, method="fixed")
        rows = np.arange(0, len(free.t), max(1, round(0.01 / (free.t[1] - free.t[0]))))
        tau = 0.2 * (rng.normal(size=(len(rows), 2)) + rng.normal(size=2))
        q = free.q[rows] + 2e-5 * rng.normal(size=(len(rows), 2))
        logs.append(log_from_arrays(robot.joint_names, free.t[rows], q, tau, name=f"run{k}.csv"))
    return links, logs


def log_set(seed: int, fault: str):
    """The robot as stated, and three short logs, of which the second may differ."""
    arm, how, robot, _, rng = drawn(seed)
    if fault == "passive":
        return swinging(rng)
    logs = []
    for k in range(3):
        warmth = 1 + rng.uniform(-0.2, 0.2, arm.joint_count)
        drives = [
            replace(d, viscous=w * d.viscous, coulomb=w * d.coulomb) for d, w in zip(arm.drives, warmth, strict=True)
        ]
        moved = replace(arm, drives=tuple(drives))
        if fault == "log with a load" and k == 1:
            mass = rng.uniform(0.03, 0.1) * sum(link.phi[0] for link in arm.links)
            moved = moved.with_payload(mass, rng.uniform(-0.1, 0.1, 3), 0.005 * mass * np.eye(3))
        log = replace(recorded(moved, replace(how, seconds=12.0), 3 * seed + k), name=f"run{k}.csv")
        if fault == "log without weight" and k == 1:
            log = replace(log, tau=log.tau - weight(arm, log.q, arm.gravity))
        logs.append(log)
    return robot, logs


def spoiled(seed: int, fault: str):
    """The robot as stated, and the log or logs with one fault."""
    if fault in ("set", "passive") or fault.startswith("log "):
        return log_set(seed, fault)
    arm, how, robot, log, rng = drawn(seed)
    n = arm.joint_count
    joint = int(rng.integers(0, n))
    q, tau = log.q.copy(), log.tau.copy()
    if fault.startswith("no file"):
        factor = {"unit": 1000.0, "current": rng.uniform(0.02, 0.1)}.get(fault.partition(", ")[2], 1.0)
        return unknown(arm), replace(log, tau=factor * tau)
    if fault in ("mode", "impact"):
        size = np.sqrt((tau**2).mean(axis=0))
        shape = np.sin(2 * np.pi * rng.uniform(10, 20) * log.time) * rng.uniform(0.7, 1.2)
        if fault == "impact":
            shape = 10 * (np.abs(log.time - 0.5 * log.time[-1]) < 0.01)
        return robot, replace(log, tau=tau + size * shape[:, None])
    if fault.startswith("zero"):
        q[:, 1] += np.deg2rad(float(fault.split()[1])) * rng.choice([-1, 1])
    elif fault == "current":
        tau *= rng.uniform(0.07, 0.13, n)
    elif fault == "unit":
        tau *= 1000.0
    elif fault == "warming":
        part, seconds = WARMING
        t, _, qd, _ = motion(arm, how, seed)
        friction = [d.viscous * v + d.coulomb * np.tanh(v / TURN_RAD_S) for d, v in zip(arm.drives, qd.T, strict=True)]
        tau -= part * (1 - np.exp(-t / seconds))[:, None] * np.column_stack(friction)
    elif fault.startswith("gain"):
        tau[:, joint] *= 1 + float(fault.split()[1]) / 100
    elif fault == "sign":
        tau[:, 1] *= -1
        short = round(8 * how.rate_hz)
        return robot, replace(log, q=q, tau=tau).take(slice(0, short))
    elif fault == "reversed":
        tau *= -1
    elif fault == "swapped":
        tau[:, [1, 2]] = tau[:, [2, 1]]
    elif fault == "sideways":
        axis = rng.choice([0, 1])
        g = np.zeros(3)
        g[axis] = 9.81 * rng.choice([-1, 1])
        return replace(robot, gravity=g), log
    elif fault in ("slope", "compensated"):
        tilt, way = rng.uniform(0.25, 0.6), rng.uniform(0, 2 * np.pi)
        level = np.array([np.sin(tilt) * np.cos(way), np.sin(tilt) * np.sin(way), -np.cos(tilt)])
        tau += weight(arm, q, 9.81 * level if fault == "slope" else np.zeros(3)) - weight(arm, q, arm.gravity)
    elif fault in ("one joint", "constant speed"):
        log = unfit_motion(arm, how, seed, fault, joint)
        return robot, log
    elif fault == "noise":
        tau = tau.std(axis=0) * rng.standard_normal(tau.shape)
    elif fault == "constant":
        tau = np.tile(tau.mean(axis=0), (len(tau), 1))
    elif fault == "saturated":
        limit = np.quantile(np.abs(tau[:, joint]), 0.9)
        tau[:, joint] = np.clip(tau[:, joint], -limit, limit)
    elif fault == "late joint":
        rows = round(0.04 * how.rate_hz)
        tau[rows:, 1] = tau[:-rows, 1]
        return robot, replace(log, q=q, tau=tau).take(slice(rows, None))
    return robot, replace(log, q=q, tau=tau)


def weight(arm, q, gravity):
    """(N, n) torque that holds the arm up at rest."""
    still = np.zeros_like(q.T)
    return np.asarray(mindyn.equation(replace(arm, gravity=gravity), "inverse_dynamics")(q.T, still, still)).T


def unfit_motion(arm, how, seed, fault, joint):
    """All joints held but one, or all at constant speed."""
    rng = np.random.default_rng([seed, 21])
    t, q, qd, qdd = motion(arm, how, seed)
    if fault == "one joint":
        moving = np.arange(arm.joint_count) == joint
        q = np.where(moving, q, q[0])
        qd, qdd = qd * moving, qdd * moving
    else:
        speed = rng.uniform(0.02, 0.1, arm.joint_count) * rng.choice([-1, 1], arm.joint_count)
        q, qd, qdd = q[0] + t[:, None] * speed, np.tile(speed, (len(t), 1)), np.zeros_like(q)
    tau = torque(arm, q, qd, qdd, how.load_friction)
    size = np.sqrt((tau**2).mean(axis=0)) + 1e-3 * np.abs(tau).max()
    tau = tau + how.noise * size * rng.standard_normal(tau.shape)
    q = np.round(q / how.encoder_rad) * how.encoder_rad + 0.3 * how.encoder_rad * rng.standard_normal(q.shape)
    return log_from_arrays(arm.joint_names, t, q, tau)


def joints_of(number: int, fault: str, robot) -> tuple[str, ...]:
    """The joints that a finding must name."""
    if fault.startswith(("zero", "late")) or fault == "sign":
        return (robot.joint_names[1],)
    if fault == "swapped":
        return robot.joint_names[1:3]
    if fault.startswith("gain"):
        *_, rng = drawn(number)
        return (robot.joint_names[int(rng.integers(0, len(robot.joint_names)))],)
    return ()


def seen(estimate) -> list:
    """Errors and warnings that a user sees."""
    return [
        finding
        for finding in estimate.findings
        if finding.severity is not Severity.INFO and finding.explained_by is None
    ]


def trial(number: int, fault: str, *, automatic: bool = False) -> dict:
    """Identify a sound or a spoiled log, and compare the findings."""
    robot, log = drawn(number)[2:4] if fault == SOUND else spoiled(number, fault)
    settings = () if automatic else (mindyn.LeastSquares(), GIVEN_SETTINGS)
    findings = [
        item for item in seen(mindyn.identify(robot, log, *settings)) if item.kind != TRUE_OF_HARMLESS.get(fault)
    ]
    wanted = FAULTS.get(fault)
    joints = {*joints_of(number, fault, robot)}
    named = [finding for finding in findings if finding.kind == wanted and joints <= {*finding.joints}]
    return {
        "number": number,
        "fault": fault,
        "automatic": automatic,
        "good": bool(named) if wanted else not findings,
        "usable": all(finding.severity is not Severity.ERROR for finding in findings),
        "others": [str(finding) for finding in findings if finding not in named[:1]],
    }


def bounds(count: int, of: int) -> tuple[float, float]:
    """Binomial 95 % bounds of a rate."""
    low = 0.0 if count == 0 else float(beta.ppf(0.025, count, of - count + 1))
    return low, 1.0 if count == of else float(beta.ppf(0.975, count + 1, of - count))


def rate(count: int, of: int) -> str:
    """A count with the bounds of its rate."""
    low, high = bounds(count, of)
    return f"{count:3} of {of:3} ({100 * low:4.1f} to {100 * high:5.1f} %)"


def summary(trials: list[dict]) -> str:
    """Misses by fault, with bounds, and logs with a second error or warning."""
    groups: dict[tuple[bool, str], list[dict]] = defaultdict(list)
    for entry in trials:
        groups[entry["automatic"], entry["fault"]].append(entry)
    lines = [f"{'settings':10}{'log':16}{'false alarms or misses':32}{'0.2.0':32}second finding"]
    for automatic in (False, True):
        for fault in (SOUND, *HARMLESS, *FAULTS):
            if expected := groups.get((automatic, fault)):
                missed = rate(sum(not item["good"] for item in expected), len(expected))
                before = "" if automatic or fault not in BASELINE else rate(*BASELINE[fault])
                second = sum(item["good"] and bool(item["others"]) for item in expected)
                lines.append(f"{'automatic' if automatic else 'given':10}{fault:16}{missed:32}{before:32}{second}")
    assessed = [trial for trial in trials if trial["fault"] == SOUND or trial["fault"] in UNFIT]
    wrong = sum(item["usable"] != (item["fault"] == SOUND) for item in assessed)
    lines += [f"{'':10}{'usable or not':16}{rate(wrong, len(assessed))}"] if assessed else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100, help="of each kind, with given settings")
    parser.add_argument("--automatic", type=int, default=10, help="of each kind, with automatic settings")
    parser.add_argument("--first", type=int, default=0, help="number of the first; others are other arms and motions")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many; 0: when all are done")
    parser.add_argument("--file", type=Path, default=Path("build/spoiled.json"))
    parser.add_argument("--faults", action="store_true", help="print what was missed, and second findings")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(options.file.read_text(encoding="utf-8")) if options.file.exists() else []
    known, began = {(item["number"], item["fault"], item["automatic"]) for item in done}, monotonic()
    for number in range(options.first, options.first + max(options.logs, options.automatic)):
        for automatic in (False, True):
            if number - options.first >= (options.automatic if automatic else options.logs):
                continue
            for fault in (SOUND, *HARMLESS, *FAULTS):
                if (number, fault, automatic) not in known:
                    done.append(trial(number, fault, automatic=automatic))
        options.file.write_text(json.dumps(done), encoding="utf-8")
        if options.seconds and monotonic() - began > options.seconds:
            break
    print(summary(done))
    for item in done if options.faults else ():
        if not item["good"] or item["others"]:
            print(item["number"], item["fault"], "missed" if not item["good"] else "named", item["others"])


if __name__ == "__main__":
    main()
