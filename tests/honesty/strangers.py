"""Compare `identify` with automatic settings and a plain cross-validated pipeline on logs of varying quality.

python tests/honesty/strangers.py [--logs 60] [--first 0] [--seconds 0] [--file build/strangers.json]

The logs are of random arms with 2 to 7 joints, some prismatic. They vary in rate (50 Hz to 2 kHz), jitter, gaps, logged
velocities, encoder resolution, rests, heavy-tailed noise, warming friction, delay, flexible joints, wrong drive gains,
repetition, joints that do not move, short and fast motions, and joints that mostly turn one way. The inertial
parameters of the robot file are correct, wrong, placeholders or missing. The identified model predicts the torque of
another motion and of the same motion repeated. The peer is weighted least squares on Pinocchio's columns with viscous,
Coulomb and offset friction and rotors, after zero-phase Butterworth filters; cut-offs and friction width are
cross-validated. Target: no crash, and no error more than a few per cent above that of the peer.
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
from honesty.arms import FRICTION_WIDTH_RAD_S, build_robot_file, random_arm, remove_masses

import mindyn
from leaderboard.methods import pinocchio_pipeline as peer
from mindyn.applications.validation.validate import validate
from mindyn.foundation.errors import MindynError
from mindyn.logs.log import log_from_arrays
from mindyn.robots.parts import Limits

WARM_S = 15.0
"""Time constant of friction that decreases as drives warm up."""


@dataclass(frozen=True)
class RecordingSetup:
    """Settings of a simulated log.

    joints, sliding   number of joints, and numbers of the prismatic ones
    file              inertial parameters of the robot file: "right", "wrong", "placeholder" or "none"
    seconds, rate_hz, period_s   length, rate and period of the motion; no period: it never repeats
    jitter            jitter of the stamps relative to the step
    gaps              number of gaps
    speeds            whether velocities are logged
    encoder_rad       resolution of positions
    rest_s            standstill before and after the motion
    noise, tails      torque noise relative to the rms of each joint; degrees of freedom of Student's t, 0: normal
    warming           fraction of friction that is lost while the drives warm up
    delay_s           delay of the torque
    compliance        deflection of a joint under its rms torque, rad
    load_friction, stribeck, ripple   load-dependent friction, additional friction at low speed, torque over the angle
    gains             largest relative error of the drive gains
    still             number of a joint that never moves, -1: none
    course            "sines"; "short": 3 to 6 s at twice the speed; "one way": 3 to 8 s, joints hardly reverse
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


def draw_setup(seed: int) -> RecordingSetup:
    """Return random settings of a log."""
    rng = np.random.default_rng([seed, 40])
    n = int(rng.choice([2, 3, 5, 6, 6, 7, 7]))
    rate = float(rng.choice([50, 100, 125, 250, 500, 1000, 2000]))

    def some(p: float, *values):
        return rng.choice(values) if rng.random() < p else type(values[0])()

    how = RecordingSetup(
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


def build_arm(how: RecordingSetup, seed: int):
    """Return the arm with its drives, and the robot file."""
    arm = random_arm(seed + 20000, how.joints, shoulder=seed % 2 == 0 and how.joints > 3)
    joints = list(arm.joints)
    for k in how.sliding:
        joints[k] = replace(joints[k], kind="prismatic", limits=Limits(-1.0, 1.0, 1.0))
    if how.course == "one way":
        joints = [replace(joint, limits=Limits(-20.0, 20.0, 5.0)) for joint in joints]
    arm = replace(arm, joints=tuple(joints))
    rng = np.random.default_rng([seed, 41])
    links = {
        "right": build_robot_file(arm, seed).links,
        "none": remove_masses(arm).links,
        "wrong": tuple(replace(link, phi=link.phi * rng.uniform(0.3, 3)) for link in arm.links),
        "placeholder": tuple(replace(link, phi=arm.links[0].phi) for link in arm.links),
    }[how.file]
    return arm, replace(arm, links=links, drives=())


class Motion:
    """Motion q, qd, qdd as a function of time: a sum of sines, with a rest before and after."""

    def __init__(self, how: RecordingSetup, seed: int, faster: float = 1.0) -> None:
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
        """Return the time along the motion and its first two derivatives; it starts and stops within 1 s."""
        rest, end = self.how.rest_s, self.how.seconds
        if not rest:
            return t * self.faster, np.full(len(t), self.faster), np.zeros(len(t))
        fine = np.linspace(-1.0, end + 1.0, 200 * int(end + 2) + 1)
        up, down = np.clip(fine - rest, 0, 1), np.clip(end - rest - fine, 0, 1)
        speed = self.faster * np.minimum(up, down) ** 2 * (3 - 2 * np.minimum(up, down))
        step = fine[1] - fine[0]
        along = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * step)])
        return tuple(np.interp(t, fine, item) for item in (along, speed, np.gradient(speed, step)))


def record_log(arm, how: RecordingSetup, seed: int, motion: int, *, faster: float = 1.0, warm: float = 0.0):
    """Return the log of a motion that starts `warm` s after the drives are switched on."""
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


def _torque(arm, how: RecordingSetup, seed: int, state, since):
    q, qd, qdd = state
    rng = np.random.default_rng([seed, 44])
    bare = replace(arm, drives=())
    rigid = np.asarray(mindyn.build_equation(bare, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
    rotors, viscous, coulomb, offset = (
        np.array([getattr(drive, name) for drive in arm.drives])
        for name in ("rotor_inertia", "viscous", "coulomb", "offset")
    )
    rigid = rigid + rotors * qdd
    direction = np.tanh(qd / FRICTION_WIDTH_RAD_S)
    cold = (1 - how.warming * (1 - np.exp(-since / WARM_S)))[:, None]
    slow = 1 + how.stribeck * np.exp(-((qd / 0.1) ** 2))
    friction = cold * (viscous * qd + (coulomb * slow + how.load_friction * np.abs(rigid)) * direction)
    tau = rigid + friction + offset
    tau = tau + how.ripple * np.sqrt((tau**2).mean(axis=0)) * np.sin(30 * q + rng.uniform(0, 6, how.joints))
    return tau * rng.uniform(1 - how.gains, 1 + how.gains, how.joints)


def fit_peer(robot, log):
    """Fit the plain pipeline; a filter of torque and columns is one of its options. Return its prediction function."""
    columns = peer._PinocchioColumns(peer.import_pinocchio(), robot)
    even = _resample(log)
    rate = peer._rate_hz(even)
    settings = [
        peer._PipelineSetting(f, w) for f, w in product(peer.CUTOFFS_HZ, peer.FRICTION_WIDTHS) if f < 0.4 * rate
    ]
    scored = []
    for item, parallel in product(settings, (False, True)):
        Y = columns(even, item)
        filtered = _lowpass(Y, rate, item.cutoff_hz / 2) if parallel else Y
        tau = _lowpass(even.tau, rate, item.cutoff_hz / 2) if parallel else even.tau
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


def _lowpass(x, rate, cutoff):
    return sosfiltfilt(butter(4, min(cutoff, 0.45 * rate), fs=rate, output="sos"), x, axis=0)


def _resample(log):
    """Return the log interpolated to a uniform rate of at most 250 Hz."""
    t = np.linspace(log.time[0], log.time[-1], len(log))
    columns = [np.column_stack([np.interp(t, log.time, item) for item in x.T]) for x in (log.q, log.tau)]
    step = max(1, round(peer._rate_hz(log) / 250))
    if step > 1:
        columns = [_lowpass(x, peer._rate_hz(log), 100.0)[::step] for x in columns]
    return log_from_arrays(log.joint_names, t[::step], *columns)


def relative_error(predicted, log) -> float:
    edge = max(1, int(0.1 * peer._rate_hz(log)))
    rest = (predicted - log.tau)[edge:-edge]
    return float(np.linalg.norm(rest) / np.linalg.norm(log.tau[edge:-edge]))


def run_trial(seed: int, **changes) -> dict:
    """Identify one log by both pipelines; return their errors on another motion and on the same one repeated."""
    how = replace(draw_setup(seed), **changes)
    arm, robot = build_arm(how, seed)
    log = record_log(arm, how, seed, 0)
    clean = replace(how, jitter=0.0, gaps=0)
    others = {
        "another motion": record_log(arm, clean, seed, 1, faster=1.15, warm=how.seconds),
        "the same again": record_log(arm, clean, seed, 10, warm=how.seconds),
    }
    created = {"seed": seed, "how": asdict(how), "errors": {}, "peer": {}}
    began = process_time()
    created["seconds"] = 0.0
    try:
        estimate = mindyn.identify(robot, log)
        created |= {
            "method": estimate.provenance.method,
            "friction": str(estimate.regressor.friction.shapes),
            "conditioning": str(estimate.settings.fit_conditioning),
            "equations_hz": estimate.settings.filtering.equations_hz,
            "dropped": len(estimate.values.dropped),
            "parameters": len(estimate.beta),
            "holds": None if estimate.data.identifiable is None else estimate.data.identifiable.holds,
            "findings": [finding.to_dict() for finding in estimate.findings],
            "promised": None if estimate.data.cross_validated is None else estimate.data.cross_validated.total,
        }
        created["seconds"] = process_time() - began
        created["errors"] = {name: validate(estimate, other).error.total for name, other in others.items()}
    except MindynError as error:
        created["rejected"] = str(error)
    except Exception:  # crashes are counted
        created["crash"] = traceback.format_exc()
    predict = fit_peer(robot, log)
    created["peer"] = {name: relative_error(predict(other), other) for name, other in others.items()}
    return created


def error_ratios(item: dict) -> dict[str, float]:
    return {name: error / item["peer"][name] for name, error in item["errors"].items()}


def format_trial(item: dict) -> str:
    default = asdict(RecordingSetup())
    how = ", ".join(f"{name} {value}" for name, value in item["how"].items() if value != default[name])
    if "crash" in item or "rejected" in item:
        message = item.get("rejected") or item["crash"].splitlines()[-1]
        return f"{item['seed']:4} {'crash' if 'crash' in item else 'rejected'}: {message[:150]} [{how}]"
    errors = "; ".join(
        f"{100 * error:.3g} % (peer {100 * item['peer'][name]:.3g} %, {error_ratios(item)[name]:.2f})"
        for name, error in item["errors"].items()
    )
    return f"{item['seed']:4} {errors}; {item['method']} {item['seconds']:.0f} s [{how}]"


def summarize(trials: list[dict]) -> str:
    """Summarize the errors relative to those of the peer, for all logs and by kind of motion."""
    crashed, rejected = (sum(word in trial for trial in trials) for word in ("crash", "rejected"))
    lines = [f"{len(trials)} logs, {crashed} crashes, {rejected} rejected"]
    assessed = [trial for trial in trials if trial["errors"] and trial["how"]["still"] < 0]
    for course, name in product(("all", "sines", "short", "one way"), ("another motion", "the same again")):
        values = np.array([error_ratios(item)[name] for item in assessed if course in ("all", item["how"]["course"])])
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
    parser.add_argument("--first", type=int, default=0, help="seed of the first log")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all logs are done")
    parser.add_argument("--file", type=Path, default=Path("build/strangers.json"))
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(options.file.read_text(encoding="utf-8")) if options.file.exists() else []
    known, began = {item["seed"] for item in done}, monotonic()
    for seed in range(options.first, options.first + options.logs):
        if seed in known:
            continue
        done.append(run_trial(seed))
        print(format_trial(done[-1]), flush=True)
        options.file.write_text(json.dumps(done), encoding="utf-8")
        if options.seconds and monotonic() - began > options.seconds:
            break
    print(summarize(done))


if __name__ == "__main__":
    main()
