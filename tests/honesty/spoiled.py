"""Sound and spoiled logs of random arms: is what is wrong with them said, and nothing of sound ones?

python tests/honesty/spoiled.py [--logs 300] [--first 0] [--seconds 0] [--file build/spoiled.json]

Wanted: every fault named in at least 95 % of its logs, false alarms in at most 1 % of sound ones, and logs that cannot
identify their robot told from those that can in 99 %. Subtle faults, friction that falls while drives warm up and one
joint's torque scaled, are counted: some logs tell them, others do not. What was done is kept, and the next run goes on.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from honesty.arms import TURN_RAD_S, Recording, file_of, motion, random_arm, recorded, torque

import mindyn
from mindyn.identification.absent_gravity import absent_gravity
from mindyn.identification.identifiable import identifiability
from mindyn.identification.joint_zeros import zeros
from mindyn.identification.log_doubts import sign_doubts, unexplained_doubts
from mindyn.identification.one_more_column import drift_doubts, gain_doubts
from mindyn.identification.stated_inertials import suspicions
from mindyn.logs.log import log_of_arrays
from mindyn.regression.rows import rows_of
from mindyn.regression.treatment import Treatment

TREATMENT = Treatment(mindyn.Conditioning(position_cutoff_hz=10.0), friction=mindyn.Friction("tanh", 0.02))
ERRORS = ("zero 10", "zero 90", "current", "unit", "sign", "sideways", "slope", "compensated")
"""What users state wrongly."""
UNFIT = ("one joint", "constant speed", "noise", "constant", "saturated", "late joint")
"""Logs that cannot identify their robot."""

SUBTLE = ("warming", "gain 20 %", "gain 5 %")
"""Doubts."""
WARMING = (0.4, 15.0)
"""Part of friction that goes, and s in which two thirds of it are gone."""


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


def spoiled(seed: int, fault: str):
    """The robot as stated, and the log with one fault."""
    arm, how, robot, log, rng = drawn(seed)
    n = arm.joint_count
    joint = int(rng.integers(0, n))
    q, tau = log.q.copy(), log.tau.copy()
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
    return log_of_arrays(arm.joint_names, t, q, tau)


def said(robot, log) -> tuple[list, object, list]:
    """Suspicions, the verdict on the log, and doubts, as `identify` has them, by a plain fit."""
    rows = rows_of(robot, log, TREATMENT)
    found, samples = mindyn.LeastSquares().fit(rows), rows.whole("this")
    verdict = identifiability(found, samples, [log])
    suspected = suspicions(robot, samples) or absent_gravity(found, samples) or zeros(found, samples)
    doubtful = unexplained_doubts(found, samples)
    if verdict.holds:
        doubtful += sign_doubts(found, samples) + drift_doubts(found, rows.blocks)
        doubtful += [] if suspected else gain_doubts(found, rows.evidence)
    return suspected, verdict, doubtful


def named(fault: str, number: int, robot, suspected, verdict, doubtful) -> bool:
    """Whether a fault was said by its name."""
    if fault in SUBTLE:
        *_, rng = drawn(number)
        scaled = f"joint{int(rng.integers(0, len(robot.joint_names))) + 1} "
        words = ("friction falls",) if fault == "warming" else (scaled, "torques of the other joints")
        return any(all(word in one for word in words) for one in doubtful)
    if fault in UNFIT:
        words = {
            "one joint": "hardly moves",
            "constant speed": "uncertain",
            "noise": "follow the motion",
            "constant": "never changes",
            "saturated": "stops at one value",
            "late joint": f"the torque of joint {robot.joint_names[1]} is about",
        }
        return any(words[fault] in one for one in verdict.because)
    kinds = {"current": "motor current", "unit": "torque unit", "sign": "torque sign"}
    kind = "gravity" if fault in ("sideways", "slope", "compensated") else kinds.get(fault, "joint zero")
    wanted = (robot.joint_names[1],) if kind in ("joint zero", "torque sign") else ()
    return any(one.kind == kind and one.joints == wanted for one in suspected)


def trial(number: int, fault: str | None) -> dict:
    """A sound log (no fault) or a spoiled one, and what was said of it."""
    if fault is None:
        _, _, robot, log, _ = drawn(number)
        suspected, verdict, doubtful = said(robot, log)
        alarms = [one.sentence for one in suspected] + list(verdict.because) + doubtful
        return {"fault": None, "good": not alarms, "fit": verdict.holds, "said": alarms, "number": number}
    robot, log = spoiled(number, fault)
    suspected, verdict, doubtful = said(robot, log)
    words = [one.sentence for one in suspected] + list(verdict.because) + doubtful
    good = named(fault, number, robot, suspected, verdict, doubtful)
    return {"fault": fault, "good": good, "fit": verdict.holds, "said": words, "number": number}


def summary(trials: list[dict]) -> str:
    """Shares by fault."""
    lines, count, good = [], Counter(one["fault"] for one in trials), Counter()
    for one in trials:
        good[one["fault"]] += one["good"]
    for fault in (None, *ERRORS, *UNFIT, *SUBTLE):
        if count[fault]:
            name = "sound, nothing said" if fault is None else fault
            lines.append(f"{name:20} {good[fault]:4} of {count[fault]:4} ({100 * good[fault] / count[fault]:.1f} %)")
    judged = [one for one in trials if one["fault"] is None or one["fault"] in UNFIT]
    right = sum(one["fit"] == (one["fault"] is None) for one in judged)
    if judged:
        lines.append(f"{'identifiable or not':20} {right:4} of {len(judged):4} ({100 * right / len(judged):.1f} %)")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=300, help="sound ones, and as many spoiled")
    parser.add_argument("--first", type=int, default=0, help="number of the first; others are other arms and motions")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many; 0: when all are done")
    parser.add_argument("--file", type=Path, default=Path("build/spoiled.json"))
    parser.add_argument("--faults", action="store_true", help="print what was said wrongly")
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(options.file.read_text(encoding="utf-8")) if options.file.exists() else []
    known, began = {(one["number"], one["fault"]) for one in done}, monotonic()
    faults = (*ERRORS, *UNFIT)
    for number in range(options.first, options.first + options.logs):
        for fault in (None, faults[number % len(faults)], SUBTLE[number % len(SUBTLE)]):
            if (number, fault) not in known:
                done.append(trial(number, fault))
        options.file.write_text(json.dumps(done), encoding="utf-8")
        if options.seconds and monotonic() - began > options.seconds:
            break
    print(summary(done))
    for one in done if options.faults else ():
        if not one["good"]:
            print(one["number"], one["fault"], one["said"])


if __name__ == "__main__":
    main()
