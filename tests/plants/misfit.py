"""Measure how often intervals contain the true values if the model lacks something: MuJoCo plants.

python tests/plants/misfit.py [--logs 10] [--first 0] [--families sound,play] [--file build/misfit.json] [--seconds S]
[--defaults]

sound       noise alone
friction    friction that changes over the angle of the joint, 5 % of the torque
load        load-dependent friction of 5 %, on a motion that hardly reveals it
play        the motor's encoder sees the gear's play, 1 to 3 mrad, depending on the sign of the torque
compliance  the motor's encoder sees a deflection of 1 to 3 mrad under the rms torque
delay       torques that are 2 to 8 ms late, differently for each joint
ripple      a torque of 3 % over 8 to 20 times the angle
warming     friction that falls by 10 to 20 % during the log

Only parameters with half-widths below 30 % of their value count; friction counts by its curve at the speeds of the log.
The table has coverage, the median half-width relative to the value, and how often a finding says that the residuals
depend on a condition. Settings are given; --defaults selects all (ten times slower). Results are stored; the next run
continues.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

import mindyn
from mindyn.foundation.errors import MindynError
from mindyn.foundation.findings import Kind
from mindyn.logs.log import log_from_arrays
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive
from plants.choices import rigid_torques
from plants.mujoco_arm import random_arm_file, random_drives, record

FAMILIES = ("sound", "friction", "load", "play", "compliance", "delay", "ripple", "warming")
MAX_WIDTH = 0.3
LEAST_SQUARES = mindyn.LeastSquares(covariance="correlated")
GIVEN_SETTINGS = EquationSettings(
    mindyn.Conditioning(motion_hz=10.0), equations_hz=5.0, keep_every=2, friction=mindyn.Friction("tanh", 0.02)
)
FRICTION_WIDTH_RAD_S = 0.02


def record_case(family: str, seed: int):
    """Return the robot of the file, its log, the true robot, and functions (joint, speeds) of the true friction."""
    rng = np.random.default_rng([seed, FAMILIES.index(family), 11])
    n = int(rng.choice([3, 4, 6]))
    with tempfile.TemporaryDirectory() as folder:
        path, file = random_arm_file(rng, n, Path(folder), mass_error=float(rng.choice([0.1, 0.25])))
        drives = random_drives(rng, path)
        rec = record(path, drives, rng, seconds=float(rng.uniform(12, 25)), speed=float(rng.uniform(0.6, 1.2)))
        robot, true = mindyn.load_robot(file), mindyn.load_robot(path)
        rigid = rigid_torques(path, rec)
    rotor, viscous, coulomb = drives.armature, drives.viscous, drives.coulomb
    listed = zip(true.joint_names, rotor, viscous, coulomb, strict=True)
    true = replace(true, drives=tuple(Drive(j, 1.0, {}, float(r), float(v), float(c), 0.0) for j, r, v, c in listed))
    direction = np.tanh(rec.qd / FRICTION_WIDTH_RAD_S)
    q, tau = rec.q.copy(), rigid + rotor * rec.qdd
    friction = viscous * rec.qd + coulomb * direction
    sizes = np.sqrt(((tau + friction) ** 2).mean(axis=0))
    phases = rng.uniform(0, 2 * np.pi, n)
    if family == "friction":
        friction = friction + 0.07 * sizes * np.sin(2 * q + phases) * direction
    if family == "load":
        friction = friction + 0.05 * np.abs(tau) * direction
    if family == "warming":
        friction = friction * (1 - rng.uniform(0.1, 0.2) * (1 - np.exp(-rec.time / 8.0)))[:, None]
    tau = tau + friction
    if family == "play":
        q += rng.uniform(0.0005, 0.0015) * np.tanh(tau / (0.05 * sizes))
    if family == "compliance":
        q += rng.uniform(0.001, 0.003) * tau / sizes
    if family == "delay":
        late = rng.uniform(0.002, 0.008, n)
        tau = np.column_stack([np.interp(rec.time - d, rec.time, c) for d, c in zip(late, tau.T, strict=True)])
    if family == "ripple":
        tau = tau + 0.03 * np.sqrt(2) * sizes * np.sin(rng.integers(8, 20, n) * q + phases)
    q = 2e-5 * np.round(q / 2e-5)
    tau = tau + float(rng.choice([0.005, 0.02])) * sizes * rng.standard_normal(tau.shape)
    mean_loss, twist = 1.0, np.zeros(n)
    if family == "friction":
        twist = 0.07 * sizes * np.sin(2 * rec.q + phases).mean(axis=0)
    if family == "warming":
        mean_loss = float(np.mean(friction / np.where(direction == 0, np.inf, viscous * rec.qd + coulomb * direction)))
    loads = np.abs(rigid + rotor * rec.qdd).mean(axis=0)

    def curve(joint: int, speed: np.ndarray) -> np.ndarray:
        s = np.tanh(speed / FRICTION_WIDTH_RAD_S)
        loaded = 0.05 * loads[joint] * s if family == "load" else 0.0
        return mean_loss * (viscous[joint] * speed + coulomb[joint] * s) + loaded + twist[joint] * s

    return robot, log_from_arrays(robot.joint_names, rec.time, q, tau), true, curve


def run_case(family: str, seed: int, *, by_default: bool) -> dict:
    """Identify one log, and compare intervals and bands with the truth."""
    robot, log, true, curve = record_case(family, seed)
    try:
        estimate = mindyn.identify(robot, log, *(() if by_default else (LEAST_SQUARES, GIVEN_SETTINGS)))
    except MindynError as error:
        return {"raised": error.message}
    truth = replace(estimate.base, robot=true).values
    low, high = estimate.intervals[:, : len(truth)]
    beta, rigid = estimate.beta[: len(truth)], estimate.regressor.rigid[: len(truth)]
    half = (high - low) / 2
    counted = rigid & np.isfinite(half) & (half > 0) & (half < MAX_WIDTH * np.abs(beta))
    result: dict = {
        "inside": ((low <= truth) & (truth <= high))[counted].tolist(),
        "widths": (half / np.abs(beta))[counted].tolist(),
        "consistent": estimate.values.physical is not None,
        "findings": [(f.kind.name, f.message) for f in estimate.findings if f.kind is Kind.DEPENDENT_RESIDUAL],
        "curves": [],
    }
    for friction in estimate.uncertainty.friction_curves or ():
        joint = estimate.regressor.joint_names.index(friction.joint)
        wanted = curve(joint, friction.speed)
        size = float(np.sqrt((friction.torque**2).mean()))
        inside = np.abs(wanted - friction.torque) <= friction.half_width
        result["curves"].append((float(inside.mean()), float(np.median(friction.half_width) / size)))
    return result


def summarize(family: str, rows: list[dict]) -> str:
    """Return a line of the table."""
    inside = np.concatenate([np.array(row["inside"], dtype=float) for row in rows])
    widths = np.concatenate([row["widths"] for row in rows])
    curves = np.array([curve for row in rows for curve in row["curves"] if curve[1] < MAX_WIDTH])
    found = sum(any(kind == "DEPENDENT_RESIDUAL" for kind, _ in row["findings"]) for row in rows)
    return (
        f"{family:11} rigid {100 * inside.mean():5.1f} % of {len(inside)}, half-width {100 * np.median(widths):.2f} %; "
        f"friction {100 * curves[:, 0].mean():5.1f} % of {len(curves)} curves, {100 * np.median(curves[:, 1]):.1f} %; "
        f"finding in {found} of {len(rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--file", type=Path, default=Path("build/misfit.json"))
    parser.add_argument("--defaults", action="store_true", help="select all settings (ten times slower)")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all logs are done")
    options = parser.parse_args()
    stored = json.loads(options.file.read_text()) if options.file.is_file() else {}
    way = "default" if options.defaults else "given"
    begin, families = monotonic(), options.families.split(",")
    seeds = range(options.first, options.first + options.logs)
    for seed in seeds:
        for family in families:
            if (key := f"{family} {seed} {way}") not in stored and (
                not options.seconds or monotonic() - begin < options.seconds
            ):
                stored[key] = run_case(family, seed, by_default=options.defaults)
                options.file.parent.mkdir(parents=True, exist_ok=True)
                options.file.write_text(json.dumps(stored))
    for family in families:
        rows = [row for seed in seeds if "inside" in (row := stored.get(f"{family} {seed} {way}", {}))]
        if rows:
            print(summarize(family, rows))


if __name__ == "__main__":
    main()
