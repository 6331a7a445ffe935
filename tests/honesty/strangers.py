"""Logs as strangers record them: the automatic choice of `identify` compared with a plain cross-validated pipeline.

python tests/honesty/strangers.py [--logs 60] [--first 0] [--seconds 0] [--file build/strangers.json]

Random arms of 2 to 7 joints, some of them sliding; rates from 50 Hz to 2 kHz, uneven stamps, gaps, positions alone or
with speeds, coarse encoders, rests, heavy-tailed noise, friction that warms up, late torque, soft joints, drive gains
that are off, one motion over and over, a joint that stands still, short and fast motions, joints that mostly turn one
way; files with inertials that are right, wrong, placeholders or missing. Each log is identified with automatic
settings, and the model predicts the torque of another motion and of the same motion repeated. The peer is weighted
least squares on Pinocchio's columns with viscous, Coulomb and offset friction and rotors, after zero-phase Butterworth
filters of motion and torque; cut-offs and width are cross-validated. The aim: no crash, and no error more than a few
per cent above the peer's.
"""

from __future__ import annotations

import argparse
import json
import traceback
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from time import monotonic, process_time

import numpy as np
from scipy.signal import butter, sosfiltfilt

if __package__ in (None, ""):
    import sys

    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]
from honesty.arms import TURN_RAD_S, file_of, random_arm, unknown

import mindyn
from leaderboard.methods import pinocchio_pipeline as peer
from mindyn.errors import MindynError
from mindyn.logs.log import log_from_arrays
from mindyn.robots.parts import Limits
from mindyn.validation.validate import validate

WARM_S = 15.0
"""Time in which friction that warms up has come down by two thirds."""


@dataclass(frozen=True)
class Stranger:
    """How a log is recorded.

    joints, sliding   number of joints, and which of them slide
    file              "right", "wrong", "placeholder" or "none": the inertials of the robot's file
    seconds, rate_hz, period_s   of the recording; no period: a motion that never repeats
    jitter            of the stamps, part of the step
    gaps              parts of the log that are missing
    speeds            whether they are logged
    encoder_rad       resolution of positions
    rest_s            before and after the motion
    noise, tails      of the torque, part of each joint's rms; degrees of freedom of Student's t, 0: normal
    warming           part of friction that goes as the drives warm up
    delay_s           of the torque
    compliance        rad by which a joint gives way under its rms torque
    load_friction, stribeck, ripple   friction with the load, more of it at low speed, torque with the angle
    gains             how far the drives' gains are off
    still             a joint that never moves, -1: none
    course            "sines"; "short": 3 to 6 s at twice the speed; "one way": 3 to 8 s, and joints hardly turn back
    """

    joints: int = 6
    sliding: tuple[int, ...] = ()
    file: str = "right"
    seconds: float = 24.0
    rate_hz: float = 125.0
    period_s: float | None = None
    jitter: float = 0.0
    gaps: int = 0
    speeds: bool = False
    encoder_rad: float = 2e-5
    rest_s: float = 0.0
    noise: float = 0.02
    tails: int = 0
    warming: float = 0.0
    delay_s: float = 0.0
    compliance: float = 0.0
    load_friction: float = 0.0
    stribeck: float = 0.0
    ripple: float = 0.0
    gains: float = 0.0
    still: int = -1
    course: str = "sines"


def drawn(seed: int) -> Stranger:
    """Each feature in some of the logs."""
    rng = np.random.default_rng([seed, 40])
    n = int(rng.choice([2, 3, 5, 6, 6, 7, 7]))
    rate = float(rng.choice([50, 100, 125, 250, 500, 1000, 2000]))

    def some(p: float, *values):
        return rng.choice(values) if rng.random() < p else type(values[0])()

    how = Stranger(
        joints=n,
        sliding=(int(rng.integers(0, n)),) if rng.random() < 0.2 else (),
        file=str(rng.choice(["right", "right", "wrong", "placeholder", "none"])),
        seconds=float(rng.uniform(12, 40)) if rate < 300 else float(rng.uniform(10, 18)),
        rate_hz=rate,
        period_s=float(rng.uniform(4, 10)) if rng.random() < 0.35 else None,
        jitter=float(some(0.3, 0.1, 0.3)),
        gaps=int(some(0.2, 1, 3)),
        speeds=bool(rng.random() < 0.5),
        encoder_rad=float(rng.choice([1e-6, 2e-5, 1e-4, 1e-3])),
        rest_s=float(some(0.4, 0.5, 2.0)),
        noise=float(rng.choice([0.005, 0.02, 0.06])),
        tails=int(some(0.3, 3)),
        warming=float(some(0.3, 0.2, 0.4)),
        delay_s=float(some(0.35, 0.004, 0.02, 0.06)),
        compliance=float(some(0.3, 3e-4, 1e-3)),
        load_friction=float(some(0.3, 0.05, 0.1)),
        stribeck=float(some(0.3, 0.5)),
        ripple=float(some(0.3, 0.01, 0.03)),
        gains=float(some(0.3, 0.1, 0.2)),
        still=int(rng.integers(0, n)) if rng.random() < 0.07 else -1,
    )
    course = str(rng.choice(["sines", "short", "one way"], p=(0.6, 0.2, 0.2)))
    longest = {"short": 6.0, "one way": 8.0}
    seconds = float(rng.uniform(3, longest[course])) if course in longest else how.seconds
    return replace(how, course=course, seconds=seconds + 2 * how.rest_s if course in longest else seconds)


def arm_of(how: Stranger, seed: int):
    """The arm, its drives with friction of its own; and what its file says of it."""
    arm = random_arm(seed + 20000, how.joints, shoulder=seed % 2 == 0 and how.joints > 3)
    joints = list(arm.joints)
    for k in how.sliding:
        joints[k] = replace(joints[k], kind="prismatic", limits=Limits(-1.0, 1.0, 1.0))
    if how.course == "one way":
        joints = [replace(joint, limits=Limits(-20.0, 20.0, 5.0)) for joint in joints]
    arm = replace(arm, joints=tuple(joints))
    rng = np.random.default_rng([seed, 41])
    links = {
        "right": file_of(arm, seed).links,
        "none": unknown(arm).links,
        "wrong": tuple(replace(link, phi=link.phi * rng.uniform(0.3, 3)) for link in arm.links),
        "placeholder": tuple(replace(link, phi=arm.links[0].phi) for link in arm.links),
    }[how.file]
    return arm, replace(arm, links=links, drives=())


class Motion:
    """q, qd, qdd at any times: sines of many rates, or of whole periods; at rest before and after."""

    def __init__(self, how: Stranger, seed: int, faster: float = 1.0) -> None:
        rng, n = np.random.default_rng([seed, 42]), how.joints
        harmonics = np.repeat(np.arange(1, 6)[:, None], n, axis=1)
        rates = rng.uniform(0.05, 0.55, (6, n)) if how.period_s is None else harmonics / how.period_s
        self.rates = 2 * np.pi * rates
        self.phases = rng.uniform(0, 2 * np.pi, rates.shape)
        sizes = rng.uniform(0.3, 1.0, rates.shape) / self.rates
        sizes *= 0.7 * np.sqrt(2) / np.sqrt(((sizes * self.rates) ** 2).sum(axis=0))
        sizes *= np.minimum(1.0, 1.5 / sizes.sum(axis=0))
        self.centre = rng.uniform(-0.9, 0.9, n)
        unit = np.where(np.isin(np.arange(n), how.sliding), 0.3, 1.0)
        self.sizes, self.centre = sizes * unit, self.centre * unit
        self.drift = rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n) * unit * (how.course == "one way")
        if how.course == "one way":
            self.sizes *= 0.6 * np.abs(self.drift) / unit
        if how.still >= 0:
            self.sizes[:, how.still] = self.drift[how.still] = 0.0
        self.how, self.faster = how, 2 * faster if how.course == "short" else faster

    def __call__(self, t):
        along, rate, change = self._progress(t)
        angles = along[:, None, None] * self.rates + self.phases
        q = self.centre + along[:, None] * self.drift + (self.sizes * np.sin(angles)).sum(axis=1)
        first = self.drift + (self.sizes * self.rates * np.cos(angles)).sum(axis=1)
        second = -(self.sizes * self.rates**2 * np.sin(angles)).sum(axis=1)
        return q, first * rate[:, None], second * rate[:, None] ** 2 + first * change[:, None]

    def _progress(self, t):
        """Time along the motion with its first two derivatives: it starts and stops within a second."""
        rest, end = self.how.rest_s, self.how.seconds
        if not rest:
            return t * self.faster, np.full(len(t), self.faster), np.zeros(len(t))
        fine = np.linspace(-1.0, end + 1.0, 200 * int(end + 2) + 1)
        up, down = np.clip(fine - rest, 0, 1), np.clip(end - rest - fine, 0, 1)
        speed = self.faster * np.minimum(up, down) ** 2 * (3 - 2 * np.minimum(up, down))
        step = fine[1] - fine[0]
        along = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * step)])
        return tuple(np.interp(t, fine, item) for item in (along, speed, np.gradient(speed, step)))


def recorded(arm, how: Stranger, seed: int, motion: int, *, faster: float = 1.0, warm: float = 0.0):
    """Return the log of a motion that begins `warm` s after the drives were switched on."""
    rng = np.random.default_rng([seed, motion, 43])
    t = np.arange(0, how.seconds, 1 / how.rate_hz)
    t = t + how.jitter / how.rate_hz * rng.uniform(-1, 1, len(t))
    move = Motion(how, 1000 * seed + motion % 10, faster)
    tau = _torque(arm, how, seed, move(t - how.delay_s), warm + t)
    size = np.sqrt((tau**2).mean(axis=0)) + 1e-9
    q, qd, _ = move(t)
    q = q + how.compliance * _torque(arm, how, seed, move(t), warm + t) / size
    noise = rng.standard_t(how.tails, tau.shape) / np.sqrt(3) if how.tails else rng.normal(size=tau.shape)
    tau = tau + size * how.noise * noise
    units = np.where(np.isin(np.arange(how.joints), how.sliding), 0.3, 1.0)
    step = how.encoder_rad * units
    q = np.round(q / step) * step
    spread = how.encoder_rad * min(how.rate_hz, 250.0) / 4
    logged = qd + spread * units * rng.normal(size=qd.shape) if how.speeds else None
    log = log_from_arrays(arm.joint_names, t, q, tau, logged)
    kept = np.ones(len(t), dtype=bool)
    for _ in range(how.gaps):
        start = int(rng.uniform(0.1, 0.85) * len(t))
        kept[start : start + int(rng.uniform(0.05, 0.6) * how.rate_hz) + 3] = False
    return log.take(kept) if how.gaps else log


def _torque(arm, how: Stranger, seed: int, state, since):
    q, qd, qdd = state
    rng = np.random.default_rng([seed, 44])
    bare = replace(arm, drives=())
    rigid = np.asarray(mindyn.equation(bare, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
    rotors, viscous, coulomb, offset = (
        np.array([getattr(drive, name) for drive in arm.drives])
        for name in ("rotor_inertia", "viscous", "coulomb", "offset")
    )
    rigid = rigid + rotors * qdd
    direction = np.tanh(qd / TURN_RAD_S)
    cold = (1 - how.warming * (1 - np.exp(-since / WARM_S)))[:, None]
    slow = 1 + how.stribeck * np.exp(-((qd / 0.1) ** 2))
    friction = cold * (viscous * qd + (coulomb * slow + how.load_friction * np.abs(rigid)) * direction)
    tau = rigid + friction + offset
    tau = tau + how.ripple * np.sqrt((tau**2).mean(axis=0)) * np.sin(30 * q + rng.uniform(0, 6, how.joints))
    return tau * rng.uniform(1 - how.gains, 1 + how.gains, how.joints)


def peer_fit(robot, log):
    """The plain pipeline at its strongest: torque and columns may be filtered as well."""
    columns = peer._PinocchioColumns(peer.import_pinocchio(), robot)
    even = _even(log)
    rate = peer._rate_hz(even)
    settings = [
        peer._PipelineSetting(f, w) for f, w in product(peer.CUTOFFS_HZ, peer.FRICTION_WIDTHS) if f < 0.4 * rate
    ]
    scored = []
    for item, parallel in product(settings, (False, True)):
        Y = columns(even, item)
        filtered = _through(Y, rate, item.cutoff_hz / 2) if parallel else Y
        tau = _through(even.tau, rate, item.cutoff_hz / 2) if parallel else even.tau
        edge = min(len(tau) // 8, int(np.ceil(max(0.1, 0.5 / item.cutoff_hz) * rate)))
        step = max(1, int(rate / (8 * item.cutoff_hz))) if parallel else 1
        ends = np.linspace(edge, len(tau) - edge, peer.FOLD_COUNT + 1).astype(int)
        fits = np.array([peer._grams(filtered[a:b:step], tau[a:b:step]) for a, b in pairwise(ends)])
        raw = [peer._grams(Y[a:b], even.tau[a:b]) for a, b in pairwise(ends)]
        whole = fits.sum(axis=0)
        error = sum(peer._squares(g, peer._fit_weighted(whole - f)).sum() for g, f in zip(raw, fits, strict=True))
        scored.append((float(error), item, peer._fit_weighted(whole)))
    _, chosen, beta = min(scored, key=lambda entry: entry[0])
    return lambda other: columns(other, chosen) @ beta


def _through(x, rate, cutoff):
    return sosfiltfilt(butter(4, min(cutoff, 0.45 * rate), fs=rate, output="sos"), x, axis=0)


def _even(log):
    """The log on an even grid of 250 Hz at most, as people interpolate it."""
    t = np.linspace(log.time[0], log.time[-1], len(log))
    columns = [np.column_stack([np.interp(t, log.time, item) for item in x.T]) for x in (log.q, log.tau)]
    step = max(1, round(peer._rate_hz(log) / 250))
    if step > 1:
        columns = [_through(x, peer._rate_hz(log), 100.0)[::step] for x in columns]
    return log_from_arrays(log.joint_names, t[::step], *columns)


def share(predicted, log) -> float:
    edge = max(1, int(0.1 * peer._rate_hz(log)))
    rest = (predicted - log.tau)[edge:-edge]
    return float(np.linalg.norm(rest) / np.linalg.norm(log.tau[edge:-edge]))


def trial(seed: int, **changes) -> dict:
    """Identify one log by both pipelines; return their errors on another motion and on the same one repeated."""
    how = replace(drawn(seed), **changes)
    arm, robot = arm_of(how, seed)
    log = recorded(arm, how, seed, 0)
    clean = replace(how, jitter=0.0, gaps=0)
    others = {
        "another motion": recorded(arm, clean, seed, 1, faster=1.15, warm=how.seconds),
        "the same again": recorded(arm, clean, seed, 10, warm=how.seconds),
    }
    created = {"seed": seed, "how": asdict(how), "errors": {}, "peer": {}}
    began = process_time()
    created["seconds"] = 0.0
    try:
        estimate = mindyn.identify(robot, log)
        created |= {
            "method": estimate.method,
            "friction": str(estimate.regressor.friction.shapes),
            "conditioning": str(estimate.settings.fit_conditioning),
            "filter_hz": estimate.filter_hz,
            "dropped": len(estimate.dropped),
            "parameters": len(estimate.beta),
            "holds": None if estimate.identifiable is None else estimate.identifiable.holds,
            "findings": [finding.to_dict() for finding in estimate.findings],
            "promised": None if estimate.cross_validated is None else estimate.cross_validated.total,
        }
        created["seconds"] = process_time() - began
        created["errors"] = {name: validate(estimate, other).error.total for name, other in others.items()}
    except MindynError as error:
        created["rejected"] = str(error)
    except Exception:  # a crash is what is looked for
        created["crash"] = traceback.format_exc()
    predict = peer_fit(robot, log)
    created["peer"] = {name: share(predict(other), other) for name, other in others.items()}
    return created


def ratios(item: dict) -> dict[str, float]:
    return {name: error / item["peer"][name] for name, error in item["errors"].items()}


def line(item: dict) -> str:
    default = asdict(Stranger())
    how = ", ".join(f"{name} {value}" for name, value in item["how"].items() if value != default[name])
    if "crash" in item or "rejected" in item:
        message = item.get("rejected") or item["crash"].splitlines()[-1]
        return f"{item['seed']:4} {'crash' if 'crash' in item else 'rejected'}: {message[:150]} [{how}]"
    errors = "; ".join(
        f"{100 * error:.3g} % (peer {100 * item['peer'][name]:.3g} %, {ratios(item)[name]:.2f})"
        for name, error in item["errors"].items()
    )
    return f"{item['seed']:4} {errors}; {item['method']} {item['seconds']:.0f} s [{how}]"


def summary(trials: list[dict]) -> str:
    """Errors relative to the peer's: of all logs, and by the course of their motion."""
    crashed, rejected = (sum(word in trial for trial in trials) for word in ("crash", "rejected"))
    lines = [f"{len(trials)} logs, {crashed} crashes, {rejected} rejected"]
    assessed = [trial for trial in trials if trial["errors"] and trial["how"]["still"] < 0]
    for course, name in product(("all", "sines", "short", "one way"), ("another motion", "the same again")):
        values = np.array([ratios(item)[name] for item in assessed if course in ("all", item["how"]["course"])])
        if len(values):
            lines.append(
                f"{course:8} {name:15} error over the peer's: median {np.median(values):.3f}, above 1.03 in "
                f"{(values > 1.03).sum()} of {len(values)}, above 1.10 in {(values > 1.10).sum()}, "
                f"largest {values.max():.2f}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many; 0: when all are done")
    parser.add_argument("--file", type=Path, default=Path("build/strangers.json"))
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(options.file.read_text(encoding="utf-8")) if options.file.exists() else []
    known, began = {item["seed"] for item in done}, monotonic()
    for seed in range(options.first, options.first + options.logs):
        if seed in known:
            continue
        done.append(trial(seed))
        print(line(done[-1]), flush=True)
        options.file.write_text(json.dumps(done), encoding="utf-8")
        if options.seconds and monotonic() - began > options.seconds:
            break
    print(summary(done))


if __name__ == "__main__":
    main()
