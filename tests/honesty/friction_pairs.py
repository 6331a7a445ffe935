"""Two recordings of one robot: does the friction curve of one lie in the band of the other?

python tests/honesty/friction_pairs.py [--pairs 300] [--first 1000] [--seconds 0] [--folder build/friction-pairs]
[--defaults] [--real]

Simulated pairs: a random arm moves twice, by different motions; half of the motions repeat. The friction of each joint
follows another law: Coulomb and viscous alone, Stribeck, different in both directions, growing with the load, or
saturating, which no fitted law describes. In two thirds of the pairs it falls as the drives warm up, and the second
recording begins at most half of a recording before or after the first, so that their temperatures overlap. The curves
of least squares do not depend on the law that was selected, since all laws are averaged: conditioning and law are given
here. With --defaults everything is selected for each recording by itself (twenty times slower). Each result is kept,
and the next run goes on where this one ended. Wanted: 93 to 98 % of the points of a curve lie in the band of the other.

--real: pairs of measured recordings (MINDYN_REAL_DATA), training rows and repetitions alone; coverage, and the median
half-width and rms difference of the curves, both relative to the rms of each curve. No error of prediction is computed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import numpy as np

if __package__ in (None, ""):
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from honesty.arms import TURN_RAD_S, Recording, file_of, motion, random_arm, unknown
from honesty.repeated_runs import PLAIN, halves, panda, ur10e
from logs.real_sets import FOLDER, real_log, real_robot

import mindyn
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings

WANTED = (0.93, 0.98)
GIVEN = EquationSettings(mindyn.Conditioning(position_cutoff_hz=10.0), friction=mindyn.Friction("tanh", TURN_RAD_S))
LAWS = ("plain", "stribeck", "asymmetric", "load", "saturating")


@dataclass(frozen=True)
class TrueFriction:
    """Friction of one joint: its law, Coulomb and viscous part, size and speed of the law, growth with the load."""

    law: str
    coulomb: float
    viscous: float
    size: float
    speed: float
    exponent: float

    def torque(self, qd, load):
        """Friction torque without offset."""
        s, u = np.tanh(qd / TURN_RAD_S), np.abs(qd)
        further = {
            "plain": 0.0,
            "stribeck": self.coulomb * self.size * s * np.exp(-((u / self.speed) ** self.exponent)),
            "asymmetric": 0.5 * self.viscous * (self.size - 0.6) * u,
            "load": 0.12 * self.size * np.abs(load) * s,
            "saturating": self.coulomb * self.size * np.tanh(qd / (3 * self.speed)),
        }[self.law]
        return self.coulomb * s + self.viscous * qd + further


def drawn_friction(arm, seed):
    rng = np.random.default_rng([seed, 50])
    return [
        TrueFriction(
            str(rng.choice(LAWS)),
            drive.coulomb,
            drive.viscous,
            float(rng.uniform(0.3, 1.0)),
            float(rng.uniform(0.05, 0.3)),
            float(rng.choice([1.0, 2.0])),
        )
        for drive in arm.drives
    ]


def recordings(seed: int):
    """The robot's file, two logs, and the true friction curve of a joint (number, speeds, load) in each."""
    rng = np.random.default_rng([seed, 51])
    arm = random_arm(seed, int(rng.integers(2, 4)))
    frictions, bare = drawn_friction(arm, seed), replace(arm, drives=())
    how = Recording(
        seconds=20.0,
        period_s=None if seed % 2 else 5.0,
        ripple=float(rng.choice([0.0, 0.01])),
        noise=float(rng.uniform(0.005, 0.03)),
        encoder_rad=float(rng.choice([1e-5, 5e-5])),
    )
    warming = (rng.random() < 2 / 3) * rng.uniform(0.05, 0.3) * rng.uniform(0.5, 1.5, arm.joint_count)
    time_constant = rng.uniform(0.3, 2.0) * how.seconds
    first = rng.uniform(0, 1) * how.seconds
    logs, truths = [], []
    for start in (first, max(0.0, first + rng.uniform(-0.5, 0.5) * how.seconds)):
        t, q, qd, qdd = motion(arm, how, int(rng.integers(2**31)))
        rigid = np.asarray(mindyn.equation(bare, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
        rigid = rigid + qdd * [drive.rotor_inertia for drive in arm.drives]
        level = 1 + warming * np.exp(-(start + t[:, None]) / time_constant)
        tau = rigid + [drive.offset for drive in arm.drives]
        for j, friction in enumerate(frictions):
            tau[:, j] += level[:, j] * friction.torque(qd[:, j], rigid[:, j])
        size = np.sqrt((tau**2).mean(axis=0))
        tau += size * how.ripple * np.sin(30 * q + rng.uniform(0, 6, q.shape[1]))
        tau += size * how.noise * rng.normal(size=q.shape)
        q = np.round(q / how.encoder_rad) * how.encoder_rad + 0.3 * how.encoder_rad * rng.normal(size=q.shape)
        logs.append(log_from_arrays(arm.joint_names, t, q, tau))
        mean_level = level.mean(axis=0)
        truths.append(lambda j, v, load, g=mean_level: g[j] * frictions[j].torque(v, load))
    return (file_of(arm, seed) if seed % 3 else unknown(arm)), logs, truths, frictions


def compared(first, second, truth=None):
    """Points at which the curves of two estimates, and the true one, may be compared: one entry for each curve."""
    others = {curve.joint: curve for curve in second.friction_curves}
    entries = []
    for curve in first.friction_curves:
        other = others.get(curve.joint)
        for way in (-1, 1):
            u = curve.speed[way * curve.speed > 0]
            v = other.speed[way * other.speed > 0] if other is not None else u[:0]
            if not len(v) or not len(u):
                continue
            at = (curve.speed >= max(u.min(), v.min())) & (curve.speed <= min(u.max(), v.max()))
            joint = first.regressor.joint_names.index(curve.joint)
            loaded = other.load_coefficient * (curve.load - other.load) * way  # both curves under the same load
            entries.append(
                {
                    "joint": joint,
                    "speed": curve.speed[at].tolist(),
                    "torque": curve.torque[at].tolist(),
                    "half_width": curve.half_width[at].tolist(),
                    "deviations": curve.deviations[:, at].tolist(),
                    "other": (np.interp(curve.speed[at], other.speed, other.torque) + loaded).tolist(),
                    "other_half_width": np.interp(curve.speed[at], other.speed, other.half_width).tolist(),
                    "truth": [] if truth is None else truth(joint, curve.speed[at], curve.load).tolist(),
                }
            )
    return entries


def pair_of(seed: int, *, by_default: bool) -> dict:
    """One simulated pair, compared in both directions."""
    robot, logs, truths, frictions = recordings(seed)
    began = monotonic()
    given = () if by_default else (PLAIN, GIVEN)
    result = [mindyn.identify(robot, log, *given) for log in logs]
    entries = [
        {**entry, "law": frictions[entry["joint"]].law}
        for k in (0, 1)
        for entry in compared(result[k], result[1 - k], truths[1 - k])
    ]
    shapes = [[*estimate.settings.shape.shapes] for estimate in result]
    return {"seed": seed, "entries": entries, "shapes": shapes, "seconds": monotonic() - began}


def points(pairs, key):
    return np.concatenate([np.zeros(0), *(entry[key] for pair in pairs for entry in pair["entries"])])


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def summary(pairs) -> str:
    """Coverage over all points of all curves, by law."""

    def line(name, chosen):
        torque, width, other = (points(chosen, key) for key in ("torque", "half_width", "other"))
        if not len(torque):
            return f"{name:14} no curve"
        apart, truth = other - torque, points(chosen, "truth")
        text = f"{name:14} {len(torque):6} points: {100 * np.mean(np.abs(apart) <= width):.1f} % in the other's band"
        together = np.hypot(width, points(chosen, "other_half_width"))
        text += f", {100 * np.mean(np.abs(apart) <= together):.1f} % of bands agree"
        if len(truth):
            text += f", {100 * np.mean(np.abs(truth - torque) <= width):.1f} % hold the truth of the other"
        size = np.concatenate([np.full(len(e["torque"]), rms(e["torque"])) for p in chosen for e in p["entries"]])
        middle, difference = 100 * np.median(width / size), 100 * rms(apart / size)
        return f"{text}; median half-width {middle:.1f} % of the friction, rms difference {difference:.1f} %"

    lines = [line(f"{len(pairs)} pairs", pairs)]
    for law in sorted({entry["law"] for pair in pairs for entry in pair["entries"] if "law" in entry}):
        only = [{"entries": [entry for entry in pair["entries"] if entry["law"] == law]} for pair in pairs]
        lines.append(line(law, only))
    return "\n".join(lines)


def real_pairs():
    """Robots with two recordings each, or two halves of one."""
    arm = real_robot("kuka_lwr4")
    whole = real_log("kuka_lwr4", "measurements_1.npz").between(500, 5027)
    robot = real_robot("ur10_unisa")
    (seven, joints), (six, free) = panda(), ur10e("free.parquet")
    kr300 = real_robot("kuka_kr300")
    return {
        "LWR4+, halves": (arm, *halves(whole)),
        "UR10, halves": (robot, *halves(real_log("ur10_unisa", "ur10_exciting_trajectory.csv").between(0, 1720))),
        "KR300, two motions": (kr300, *(real_log("kuka_kr300", f"traj_{k}.mat") for k in "AB")),
        "Panda, halves": (seven, *halves(joints)),
        "UR10e, halves": (six, *halves(free)),
        "UR10e loaded, two motions": (six, *(ur10e(f"loaded_{k}.parquet")[1] for k in (1, 2))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--first", type=int, default=1000, help="seeds below 1000 tuned the band")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many; 0: when all pairs are done")
    parser.add_argument("--folder", type=Path, default=Path("build/friction-pairs"))
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    if options.real:
        if not FOLDER.is_dir():
            raise SystemExit("MINDYN_REAL_DATA names no folder with the real logs")
        for name, (robot, *logs) in real_pairs().items():
            result = [mindyn.identify(robot, log) for log in logs]
            print(f"{name}: {summary([{'entries': compared(result[k], result[1 - k])} for k in (0, 1)])}", flush=True)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    began, seeds = monotonic(), range(options.first, options.first + options.pairs)
    paths = {seed: options.folder / f"{seed}.json" for seed in seeds}
    for seed, path in paths.items():
        if path.exists():
            continue
        if options.seconds and monotonic() - began > options.seconds:
            break
        path.write_text(json.dumps(pair_of(seed, by_default=options.defaults)), encoding="utf-8")
    done = [json.loads(path.read_text(encoding="utf-8")) for path in paths.values() if path.exists()]
    print(summary(done))
    print(f"{len(done)} of {len(seeds)} pairs are done")


if __name__ == "__main__":
    main()
