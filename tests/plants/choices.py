"""Compare rules that select a fit (estimator, friction shapes, offsets) by the error on another motion.

python tests/plants/choices.py [--logs 10] [--first 0] [--families weak,short] [--file build/choices.json] [--seconds S]

weak         one slow sine as training, another faster motion held out
rich         five sines
gains        rich, but the torque of each joint has a gain error of 10 %, which no consistent values explain
blank        weak, and the file has no inertial parameters
short        5 to 8 s
few speeds   one slow sine with friction without shapes, or with Stribeck friction; held out up to 4 times as fast
motor side   signal of a motor: gear losses that differ between driving and braking, strong Stribeck friction, gains
compensated  a signal from which 90 to 120 % of the friction were subtracted
some loads   load-dependent friction at half of the joints

Each plant is an arm in MuJoCo; the file's masses are 10 to 50 % wrong, and the torques of half of the logs have
offsets. A rule is compared with the best of all candidates, which are least squares and physically consistent fits
with and without friction shapes and offsets, and with a plain pipeline (weighted least squares on Pinocchio's columns,
filter and friction width by cross-validation). Results are stored; the next run continues.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import monotonic
from unittest.mock import patch

import mujoco
import numpy as np

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

from honesty.strangers import fit_peer

import mindyn
from mindyn.foundation.errors import MindynError
from mindyn.identification.fitting import fit
from mindyn.identification.selection import choose
from mindyn.logs.log import log_from_arrays
from mindyn.regression.experiment import Experiment
from plants.mujoco_arm import Drives, Recording, _load, random_arm_file, random_drives, record

FAMILIES = ("weak", "rich", "gains", "blank", "short", "few speeds", "motor side", "compensated", "some loads")
MAX_REGRET = 1.05


def signal_of(family: str, path: str, drives: Drives, rec: Recording, setup: np.random.Generator) -> np.ndarray:
    """Return the torque (N, n) that the log of a family contains, without noise and offset."""
    n = rec.q.shape[1]
    if family == "gains":
        return rec.tau * np.exp(0.1 * setup.standard_normal(n))
    if family not in ("motor side", "compensated", "some loads"):
        return rec.tau
    rigid = rigid_torques(path, rec) + drives.armature * rec.qdd
    direction = np.tanh(rec.qd / 0.02)
    plain = drives.coulomb * direction + drives.viscous * rec.qd
    if family == "compensated":
        return rigid + plain * (1 - setup.uniform(0.9, 1.2, n))
    if family == "some loads":
        loaded = setup.uniform(0.08, 0.15, n) * (setup.permutation(n) < (n + 1) // 2)
        return rigid + plain + loaded * np.abs(rigid) * direction
    driving, braking = setup.uniform(0.08, 0.16, n), setup.uniform(0.0, 0.06, n)
    losses = np.where(rigid * rec.qd > 0, driving, braking)
    stribeck = setup.uniform(0.2, 0.6, n) * drives.coulomb * np.exp(-((rec.qd / 0.1) ** 2)) * direction
    gains = np.exp(0.05 * setup.standard_normal(n))
    return gains * (rigid + plain + stribeck + losses * np.abs(rigid) * direction)


def rigid_torques(path: str, rec: Recording) -> np.ndarray:
    """Return the torque (N, n) of the links by MuJoCo."""
    model = _load(path)
    data, tau = mujoco.MjData(model), np.empty_like(rec.q)
    for k, (q, qd, qdd) in enumerate(zip(rec.q, rec.qd, rec.qdd, strict=True)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q, qd, qdd
        mujoco.mj_inverse(model, data)
        tau[k] = data.qfrc_inverse
    return tau


def record_case(family: str, seed: int):
    """Return the robot of the file, its log, and a log of another motion without noise."""
    rng = np.random.default_rng([seed, FAMILIES.index(family), 7])
    n = int(rng.choice([3, 4, 6]))
    is_weak = family in ("weak", "blank", "few speeds")
    seconds = float(rng.uniform(5, 8)) if family == "short" else 12.0
    with tempfile.TemporaryDirectory() as folder:
        true, file = random_arm_file(rng, n, Path(folder), mass_error=float(rng.choice([0.1, 0.25, 0.5])))
        stribeck, load = float(rng.choice([0.0, 0.4])), float(rng.choice([0.0, 0.08]))
        if family in ("motor side", "compensated", "some loads", "short"):
            stribeck = load = 0.0
        drives = random_drives(rng, true, stribeck=stribeck, load=load)
        speed = rng.uniform(0.2, 0.5) if is_weak else rng.uniform(0.6, 1.0)
        rec = record(true, drives, rng, seconds=seconds, speed=float(speed), sines=1 if is_weak else 5)
        faster = rng.uniform(1.5, 4.0) if family == "few speeds" else rng.uniform(1.0, 2.0)
        other = record(true, drives, rng, seconds=8.0, speed=float(speed * faster))
        robot = mindyn.load_robot(file)
        tau, truth = (signal_of(family, true, drives, r, np.random.default_rng([seed, 8])) for r in (rec, other))
    # Torque sensors of half of the logs have an offset.
    offset = rng.choice([0.0, 0.05]) * rng.standard_normal(n) * np.sqrt((tau**2).mean(axis=0))
    tau, truth = tau + offset, truth + offset
    if family == "blank":
        robot = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))
    noise = float(rng.choice([0.005, 0.02, 0.05])) * np.sqrt((tau**2).mean(axis=0))
    log = log_from_arrays(robot.joint_names, rec.time, rec.q, tau + noise * rng.standard_normal(tau.shape))
    return robot, log, log_from_arrays(robot.joint_names, other.time, other.q, truth)


def run_case(family: str, seed: int) -> dict:
    """Return the errors of all candidates on held-out rows and on another motion, and which one was selected."""
    robot, log, held_out = record_case(family, seed)
    seen: list = []
    decide = choose.decide_between

    def remember(plain, consistent):
        seen[:] = [*plain, *consistent]
        return decide(plain, consistent)

    try:
        with patch.object(choose, "decide_between", remember):
            choice = choose.choose(robot, log)
    except MindynError as error:
        return {"raised": error.message}
    rows = []
    for candidate in seen:
        shape = candidate.settings.shape
        row = {
            "consistent": candidate.words != "least squares",
            "shapes": list(shape.shapes),
            "without": [list(pair) for pair in shape.without],
            "offset": not any(str(name).startswith(("fo", "offset")) for name in candidate.estimator.dropped),
            "blocks": [score.criterion for score in candidate.scores],
            "conditions": [score.criterion for score in candidate.conditions],
            "selected": candidate.estimator is choice.estimator,
        }
        try:
            picked = choose.Choice(candidate.estimator, candidate.settings, (), None, ())
            estimate, _ = fit(Experiment(robot, log), picked, estimator_is_given=True)
            row["other"] = mindyn.validate(estimate, [held_out]).error.total
        except MindynError as error:
            row["raised"] = error.message
        rows.append(row)
    result: dict = {"rows": rows}
    try:
        peer = fit_peer(robot, log)(held_out)
        result["peer"] = float(np.sqrt(((peer - held_out.tau) ** 2).sum() / (held_out.tau**2).sum()))
    except Exception as error:
        result["peer_raised"] = str(error)
    return result


def geometric_mean(values) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def select_by_significance(rows: list[dict]) -> dict:
    """Return the consistent fit with offsets unless its blocks are 10 % worse, about as before losses decided."""
    with_offsets = [row for row in rows if row["offset"] or not row["consistent"]]
    plain = [row for row in with_offsets if not row["consistent"]]
    consistent = [row for row in with_offsets if row["consistent"]]

    def least(listed):
        return min(listed, key=lambda row: geometric_mean(row["blocks"]))

    if not consistent:
        return least(plain)
    best, other = least(consistent), least(plain)
    return best if geometric_mean(best["blocks"]) <= 1.02 * geometric_mean(other["blocks"]) else other


def summarize(family: str, cases: list[dict]) -> str:
    """Return the lines of a family: regret relative to the best candidate, and logs worse than the plain pipeline."""
    rules = {
        "selected": lambda rows: next(row for row in rows if row["selected"]),
        "blocks alone, offsets kept": select_by_significance,
        "always consistent": lambda rows: min(
            [row for row in rows if row["consistent"]] or rows, key=lambda row: geometric_mean(row["blocks"])
        ),
        "always least squares": lambda rows: min(
            [row for row in rows if not row["consistent"]], key=lambda row: geometric_mean(row["blocks"])
        ),
    }
    lines = [f"{family}: {len(cases)} logs"]
    for name, rule in rules.items():
        errors = np.array([rule(case["rows"])["other"] for case in cases])
        best = np.array([min(row["other"] for row in case["rows"] if "other" in row) for case in cases])
        ratios = errors / best
        peers = np.array([case.get("peer", np.inf) for case in cases])
        lines.append(
            f"  {name:27} mean regret {geometric_mean(ratios):.3f}, largest {ratios.max():.2f}, worse than the best by "
            f"over 5 %: {(ratios > MAX_REGRET).sum()}; worse than the pipeline by over 5 %: "
            f"{(errors > MAX_REGRET * peers).sum()}, mean ratio {geometric_mean(errors / np.minimum(peers, 1e9)):.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--file", type=Path, default=Path("build/choices.json"))
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all logs are done")
    options = parser.parse_args()
    stored = json.loads(options.file.read_text()) if options.file.is_file() else {}
    begin, families, seeds = (
        monotonic(),
        options.families.split(","),
        range(options.first, options.first + options.logs),
    )
    for seed in seeds:
        for family in families:
            if (key := f"{family} {seed}") not in stored and (
                not options.seconds or monotonic() - begin < options.seconds
            ):
                stored[key] = run_case(family, seed)
                options.file.parent.mkdir(parents=True, exist_ok=True)
                options.file.write_text(json.dumps(stored))
    for family in families:
        cases = [case for seed in seeds if "rows" in (case := stored.get(f"{family} {seed}", {}))]
        cases = [case for case in cases if all("other" in row for row in case["rows"])]
        if cases:
            print(summarize(family, cases))


if __name__ == "__main__":
    main()
