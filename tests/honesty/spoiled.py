"""Count false alarms and misses of `identify` on correct and faulty logs of random arms.

python tests/honesty/spoiled.py [--logs 100] [--automatic 10] [--first 0] [--seconds 0] [--file build/spoiled.json]

Every log is identified with given settings, some also with automatic ones, and the findings are compared by kind. A
fault is missed unless its finding is among the errors and warnings that a user sees; any error or warning on a correct
log is a false alarm. Rates have binomial 95 % bounds [Clopper & Pearson 1934], next to those of version 0.2.0. Results
are stored, and the next run continues.
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
from honesty.arms import (
    FRICTION_WIDTH_RAD_S,
    Recording,
    build_robot_file,
    motion,
    random_arm,
    record_log,
    remove_masses,
    torque,
)

import mindyn
from mindyn.foundation.findings import Kind, Severity
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive

GIVEN_SETTINGS = EquationSettings(mindyn.Conditioning(motion_hz=10.0), friction=mindyn.Friction("tanh", 0.02))
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
"""Wrong metadata."""
UNFIT = {
    "one joint": Kind.STILL_JOINT,
    "constant speed": Kind.POOR_MOTION,
    "noise": Kind.UNRELATED_TORQUE,
    "constant": Kind.CONSTANT_TORQUE,
    "saturated": Kind.SATURATED_TORQUE,
    "late joint": Kind.DELAYED_TORQUE,
    "passive": Kind.UNRELATED_TORQUE,
}
"""Logs that cannot identify their robot; `passive`: three logs of a double pendulum that swings on free joints."""
SUBTLE = {"warming": Kind.FRICTION_DRIFT, "gain 20 %": Kind.SCALED_TORQUE, "gain 5 %": Kind.SCALED_TORQUE}
"""Faults that not every log can show."""
SETS = {
    "no file, unit": Kind.IMPLAUSIBLE_WEIGHT,
    "no file, current": Kind.IMPLAUSIBLE_WEIGHT,
    "log without weight": Kind.ABSENT_GRAVITY,
    "log with a load": Kind.PAYLOAD_CHANGE,
    "mode": Kind.FAST_RESIDUAL,
}
"""Files without masses, one log of three that differs, and a mode of 10 to 20 Hz in the torque."""
FAULTS = {**ERRORS, **UNFIT, **SUBTLE, **SETS}
SOUND = "sound"
HARMLESS = ("no file", "set", "impact")
"""No fault: a file without masses, three logs whose friction differs by up to 20 %, and an impact of 20 ms."""
TRUE_OF_HARMLESS = {"set": Kind.FRICTION_DRIFT}
"""Findings that are correct: friction that differs between logs drifts."""
WARMING = (0.4, 15.0)
"""Fraction of friction that is lost, and the time constant, s."""
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
"""Misses (false alarms on correct logs) of version 0.2.0 with given settings, and number of logs."""


def draw_log(seed: int):
    """Return an arm, its settings, its robot file, a correct log, and the generator of the faults."""
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
    return arm, how, build_robot_file(arm, seed), record_log(arm, how, seed), rng


def simulate_pendulum(rng):
    """Simulate three logs of a double pendulum on free joints with little friction; its torque is noise and an
    offset."""
    links = replace(mindyn.load_robot("planar2"), extras=())
    robot = replace(links, drives=tuple(Drive(name, 1.0, {}, 0.0, 2.0, 0.0, 0.0) for name in links.joint_names))
    logs = []
    for k in range(3):
        start = np.array([-np.pi / 2, 0.0]) + rng.uniform(-1.5, 1.5, 2)
        free = mindyn.simulate(robot, lambda *_: np.zeros(2), seconds=12.0, q0=start, with_drives=True, method="fixed")
        rows = np.arange(0, len(free.t), max(1, round(0.01 / (free.t[1] - free.t[0]))))
        tau = 0.2 * (rng.normal(size=(len(rows), 2)) + rng.normal(size=2))
        q = free.q[rows] + 2e-5 * rng.normal(size=(len(rows), 2))
        logs.append(log_from_arrays(robot.joint_names, free.t[rows], q, tau, name=f"run{k}.csv"))
    return links, logs


def build_log_set(seed: int, fault: str):
    """Return the robot file and three short logs, the second of which may differ."""
    arm, how, robot, _, rng = draw_log(seed)
    if fault == "passive":
        return simulate_pendulum(rng)
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
        log = replace(record_log(moved, replace(how, seconds=12.0), 3 * seed + k), name=f"run{k}.csv")
        if fault == "log without weight" and k == 1:
            log = replace(log, tau=log.tau - holding_torque(arm, log.q, arm.gravity))
        logs.append(log)
    return robot, logs


def build_faulty_log(seed: int, fault: str):
    """Return the robot file and the log or logs with one fault."""
    if fault in ("set", "passive") or fault.startswith("log "):
        return build_log_set(seed, fault)
    arm, how, robot, log, rng = draw_log(seed)
    n = arm.joint_count
    joint = int(rng.integers(0, n))
    q, tau = log.q.copy(), log.tau.copy()
    if fault.startswith("no file"):
        factor = {"unit": 1000.0, "current": rng.uniform(0.02, 0.1)}.get(fault.partition(", ")[2], 1.0)
        return remove_masses(arm), replace(log, tau=factor * tau)
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
        friction = [
            d.viscous * v + d.coulomb * np.tanh(v / FRICTION_WIDTH_RAD_S) for d, v in zip(arm.drives, qd.T, strict=True)
        ]
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
        tau += holding_torque(arm, q, 9.81 * level if fault == "slope" else np.zeros(3)) - holding_torque(
            arm, q, arm.gravity
        )
    elif fault in ("one joint", "constant speed"):
        log = record_unfit_motion(arm, how, seed, fault, joint)
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


def holding_torque(arm, q, gravity):
    """Return the torque (N, n) that holds the arm at rest."""
    still = np.zeros_like(q.T)
    return np.asarray(mindyn.build_equation(replace(arm, gravity=gravity), "inverse_dynamics")(q.T, still, still)).T


def record_unfit_motion(arm, how, seed, fault, joint):
    """Return a log in which all joints but one are held, or all move at constant speed."""
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


def expected_joints(number: int, fault: str, robot) -> tuple[str, ...]:
    """Return the joints that a finding must name."""
    if fault.startswith(("zero", "late")) or fault == "sign":
        return (robot.joint_names[1],)
    if fault == "swapped":
        return robot.joint_names[1:3]
    if fault.startswith("gain"):
        *_, rng = draw_log(number)
        return (robot.joint_names[int(rng.integers(0, len(robot.joint_names)))],)
    return ()


def visible_findings(estimate) -> list:
    """Return the errors and warnings that a user sees."""
    return [
        finding
        for finding in estimate.findings
        if finding.severity is not Severity.INFO and finding.explained_by is None
    ]


def run_trial(number: int, fault: str, *, automatic: bool = False) -> dict:
    """Identify a correct or faulty log, and compare the findings."""
    robot, log = draw_log(number)[2:4] if fault == SOUND else build_faulty_log(number, fault)
    settings = () if automatic else (mindyn.LeastSquares(), GIVEN_SETTINGS)
    findings = [
        item
        for item in visible_findings(mindyn.identify(robot, log, *settings))
        if item.kind != TRUE_OF_HARMLESS.get(fault)
    ]
    wanted = FAULTS.get(fault)
    joints = {*expected_joints(number, fault, robot)}
    named = [finding for finding in findings if finding.kind == wanted and joints <= {*finding.joints}]
    return {
        "number": number,
        "fault": fault,
        "automatic": automatic,
        "good": bool(named) if wanted else not findings,
        "usable": all(finding.severity is not Severity.ERROR for finding in findings),
        "others": [str(finding) for finding in findings if finding not in named[:1]],
    }


def rate_bounds(count: int, of: int) -> tuple[float, float]:
    """Return binomial 95 % bounds of a rate."""
    low = 0.0 if count == 0 else float(beta.ppf(0.025, count, of - count + 1))
    return low, 1.0 if count == of else float(beta.ppf(0.975, count + 1, of - count))


def format_rate(count: int, of: int) -> str:
    """Format a count with the bounds of its rate."""
    low, high = rate_bounds(count, of)
    return f"{count:3} of {of:3} ({100 * low:4.1f} to {100 * high:5.1f} %)"


def summarize(trials: list[dict]) -> str:
    """Summarize misses by fault with bounds, and logs with a second error or warning."""
    groups: dict[tuple[bool, str], list[dict]] = defaultdict(list)
    for entry in trials:
        groups[entry["automatic"], entry["fault"]].append(entry)
    lines = [f"{'settings':10}{'log':16}{'false alarms or misses':32}{'0.2.0':32}second finding"]
    for automatic in (False, True):
        for fault in (SOUND, *HARMLESS, *FAULTS):
            if expected := groups.get((automatic, fault)):
                missed = format_rate(sum(not item["good"] for item in expected), len(expected))
                before = "" if automatic or fault not in BASELINE else format_rate(*BASELINE[fault])
                second = sum(item["good"] and bool(item["others"]) for item in expected)
                lines.append(f"{'automatic' if automatic else 'given':10}{fault:16}{missed:32}{before:32}{second}")
    assessed = [trial for trial in trials if trial["fault"] == SOUND or trial["fault"] in UNFIT]
    wrong = sum(item["usable"] != (item["fault"] == SOUND) for item in assessed)
    lines += [f"{'':10}{'usable or not':16}{format_rate(wrong, len(assessed))}"] if assessed else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100, help="logs of each kind with given settings")
    parser.add_argument("--automatic", type=int, default=10, help="logs of each kind with automatic settings")
    parser.add_argument("--first", type=int, default=0, help="seed of the first arm")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all logs are done")
    parser.add_argument("--file", type=Path, default=Path("build/spoiled.json"))
    parser.add_argument("--faults", action="store_true", help="print missed faults and second findings")
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
                    done.append(run_trial(number, fault, automatic=automatic))
        options.file.write_text(json.dumps(done), encoding="utf-8")
        if options.seconds and monotonic() - began > options.seconds:
            break
    print(summarize(done))
    for item in done if options.faults else ():
        if not item["good"] or item["others"]:
            print(item["number"], item["fault"], "missed" if not item["good"] else "named", item["others"])


if __name__ == "__main__":
    main()
