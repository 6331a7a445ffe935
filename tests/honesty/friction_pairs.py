"""Measure how often the friction curve of one recording lies in the band of another recording of the same robot.

python tests/honesty/friction_pairs.py [--pairs 300] [--first 1000] [--seconds 0] [--folder build/friction-pairs]
[--defaults] [--real]

Simulated pairs: a random arm performs two different motions; half of the motions repeat. The friction of each joint
follows another law: Coulomb and viscous friction, Stribeck, asymmetric, load-dependent, or saturating, which no fitted
law describes. In two thirds of the pairs friction decreases as the drives warm up, and the second recording starts at
most half a recording before or after the first, so that their temperatures overlap. The curves of least squares do not
depend on the selected law, because all laws are averaged; conditioning and law are therefore given. --defaults selects
all settings for each recording (twenty times slower). Results are stored, and the next run continues. Target: 93 to 98
% of the points of a curve lie in the band of the other.

--real: pairs of measured recordings (MINDYN_REAL_DATA), only training rows and repetitions. It prints the coverage, and
the median half-width and rms difference of the curves, relative to the rms of each curve. No prediction error is
computed.
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
from honesty.arms import FRICTION_WIDTH_RAD_S, Recording, build_robot_file, motion, random_arm, remove_masses
from honesty.repeated_runs import PLAIN, load_panda, load_ur10e, split_in_halves
from logs.real_sets import FOLDER, real_log, real_robot

import mindyn
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings

WANTED = (0.93, 0.98)
GIVEN = EquationSettings(mindyn.Conditioning(motion_hz=10.0), friction=mindyn.Friction("tanh", FRICTION_WIDTH_RAD_S))
LAWS = ("plain", "stribeck", "asymmetric", "load", "saturating")


@dataclass(frozen=True)
class TrueFriction:
    """Friction of one joint: law, Coulomb and viscous coefficients, and size, speed and exponent of the law."""

    law: str
    coulomb: float
    viscous: float
    size: float
    speed: float
    exponent: float

    def torque(self, qd, load):
        """Return the friction torque without offset."""
        s, u = np.tanh(qd / FRICTION_WIDTH_RAD_S), np.abs(qd)
        further = {
            "plain": 0.0,
            "stribeck": self.coulomb * self.size * s * np.exp(-((u / self.speed) ** self.exponent)),
            "asymmetric": 0.5 * self.viscous * (self.size - 0.6) * u,
            "load": 0.12 * self.size * np.abs(load) * s,
            "saturating": self.coulomb * self.size * np.tanh(qd / (3 * self.speed)),
        }[self.law]
        return self.coulomb * s + self.viscous * qd + further


def draw_friction(arm, seed):
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


def record_pair(seed: int):
    """Return the robot file, two logs, a function (joint, speeds, load) of the true curve of each, and the
    frictions."""
    rng = np.random.default_rng([seed, 51])
    arm = random_arm(seed, int(rng.integers(2, 4)))
    frictions, bare = draw_friction(arm, seed), replace(arm, drives=())
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
        rigid = np.asarray(mindyn.build_equation(bare, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
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
    return (build_robot_file(arm, seed) if seed % 3 else remove_masses(arm)), logs, truths, frictions


def compare_curves(first, second, truth=None):
    """Return the points at which two friction curves and the true one can be compared, one entry for each curve."""
    others = {curve.joint: curve for curve in second.uncertainty.friction_curves}
    entries = []
    for curve in first.uncertainty.friction_curves:
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


def run_pair(seed: int, *, by_default: bool) -> dict:
    """Identify one simulated pair, and compare its curves in both directions."""
    robot, logs, truths, frictions = record_pair(seed)
    began = monotonic()
    given = () if by_default else (PLAIN, GIVEN)
    result = [mindyn.identify(robot, log, *given) for log in logs]
    entries = [
        {**entry, "law": frictions[entry["joint"]].law}
        for k in (0, 1)
        for entry in compare_curves(result[k], result[1 - k], truths[1 - k])
    ]
    shapes = [[*estimate.settings.shape.shapes] for estimate in result]
    return {"seed": seed, "entries": entries, "shapes": shapes, "seconds": monotonic() - began}


def collect_points(pairs, key):
    return np.concatenate([np.zeros(0), *(entry[key] for pair in pairs for entry in pair["entries"])])


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def summarize(pairs) -> str:
    """Summarize the coverage of all points, by law."""

    def line(name, chosen):
        torque, width, other = (collect_points(chosen, key) for key in ("torque", "half_width", "other"))
        if not len(torque):
            return f"{name:14} no curve"
        gap, truth = other - torque, collect_points(chosen, "truth")
        text = f"{name:14} {len(torque):6} points: {100 * np.mean(np.abs(gap) <= width):.1f} % in the band of the other"
        together = np.hypot(width, collect_points(chosen, "other_half_width"))
        text += f", {100 * np.mean(np.abs(gap) <= together):.1f} % of bands agree"
        if len(truth):
            text += f", {100 * np.mean(np.abs(truth - torque) <= width):.1f} % contain the truth of the other"
        size = np.concatenate([np.full(len(e["torque"]), rms(e["torque"])) for p in chosen for e in p["entries"]])
        middle, difference = 100 * np.median(width / size), 100 * rms(gap / size)
        return f"{text}; median half-width {middle:.1f} % of the friction, rms difference {difference:.1f} %"

    lines = [line(f"{len(pairs)} pairs", pairs)]
    for law in sorted({entry["law"] for pair in pairs for entry in pair["entries"] if "law" in entry}):
        only = [{"entries": [entry for entry in pair["entries"] if entry["law"] == law]} for pair in pairs]
        lines.append(line(law, only))
    return "\n".join(lines)


def real_pairs():
    """Return robots with two recordings each, or two halves of one."""
    arm = real_robot("kuka_lwr4")
    whole = real_log("kuka_lwr4", "measurements_1.npz").between(500, 5027)
    robot = real_robot("ur10_unisa")
    (seven, joints), (six, free) = load_panda(), load_ur10e("free.parquet")
    kr300 = real_robot("kuka_kr300")
    return {
        "LWR4+, halves": (arm, *split_in_halves(whole)),
        "UR10, halves": (
            robot,
            *split_in_halves(real_log("ur10_unisa", "ur10_exciting_trajectory.csv").between(0, 1720)),
        ),
        "KR300, two motions": (kr300, *(real_log("kuka_kr300", f"traj_{k}.mat") for k in "AB")),
        "Panda, halves": (seven, *split_in_halves(joints)),
        "UR10e, halves": (six, *split_in_halves(free)),
        "UR10e loaded, two motions": (six, *(load_ur10e(f"loaded_{k}.parquet")[1] for k in (1, 2))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument(
        "--first", type=int, default=1000, help="first seed; seeds below 1000 were used to tune the band"
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all pairs are done")
    parser.add_argument("--folder", type=Path, default=Path("build/friction-pairs"))
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    if options.real:
        if not FOLDER.is_dir():
            raise SystemExit("MINDYN_REAL_DATA names no folder with the real logs")
        for name, (robot, *logs) in real_pairs().items():
            result = [mindyn.identify(robot, log) for log in logs]
            print(
                f"{name}: {summarize([{'entries': compare_curves(result[k], result[1 - k])} for k in (0, 1)])}",
                flush=True,
            )
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    began, seeds = monotonic(), range(options.first, options.first + options.pairs)
    paths = {seed: options.folder / f"{seed}.json" for seed in seeds}
    for seed, path in paths.items():
        if path.exists():
            continue
        if options.seconds and monotonic() - began > options.seconds:
            break
        path.write_text(json.dumps(run_pair(seed, by_default=options.defaults)), encoding="utf-8")
    done = [json.loads(path.read_text(encoding="utf-8")) for path in paths.values() if path.exists()]
    print(summarize(done))
    print(f"{len(done)} of {len(seeds)} pairs are done")


if __name__ == "__main__":
    main()
