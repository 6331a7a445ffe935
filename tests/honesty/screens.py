"""Count how often commands print something wrong or hide it, on simulated logs; for this version and another one.

python tests/honesty/screens.py [--logs 20] [--first 0] [--before CHECKOUT] [--family NAME] [--file build/screens.json]

`--before` runs the same logs with the sources of another checkout, such as one of version 0.2.0. Every log is a file,
and `worker.py` identifies it. A rule fails if:

uneven            uneven stamps: the held-out error differs by more than 3 % from the noise that was added
disjoint rows     training and held-out rows of one file do not overlap, and are rejected
common rows       they overlap, and are accepted
payload           currents, gains 7 % off (rms): the 95 % interval does not contain the mass
calibrated        as above, after calibration with another load, which was weighed
determined        a wide motion: the mass is called not determined
undetermined      only the last joint moves, the others by 0.1 mrad: the answer is not that the mass is hidden
weak motion       the vertical first joint moves, the others by 1 % of their motion: the mass is called determined,
                  and its interval does not contain it
delay shown       a delay of 20 to 60 ms: the screen does not show it within one sample
all shown         a fault of `spoiled.py`: the screen lacks an error or warning, or does not name a log by its file
cause             vibration, other friction or sensor noise in the held-out log: the screen does not name this cause, or
                  asks for a higher speed because of another one, or calls a model poor because of sensor noise
missed joint      a joint misses 100 % or more of its torque: the headline is good or usable with care
duration          a log with gaps: its duration in the report is not the sum of its segments
wrong sign        the torque of one joint is reversed: no line about this joint names the sign

Results are stored, and the next run continues.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]
from honesty import arms
from honesty.spoiled import ERRORS, build_faulty_log, format_rate
from honesty.strangers import RecordingSetup, build_arm, record_log
from honesty.versions import ROOT, Worker, save_log, save_robot

import mindyn

MAX_SCORE_DIFFERENCE = 0.03
GAIN_DEVIATION = 0.07
SHOWN_FAULTS = (*ERRORS, "one joint", "constant speed", "noise", "saturated", "late joint", "warming", "mode")
SHOWN_SETS = ("log without weight", "log with a load")
CAUSES = {
    "vibration": "vibration",
    "friction": "friction curve|friction grows|presliding",
    "noise": "sensor noise|noise of its sensor|noise floor",
}
"""How the screen names a cause, as a regular expression."""
SIGN = "(wrong|opposite) sign"
GOOD_HEADLINE = r"The model is (good|usable,? with care)\."


def draw_setup(seed: int, **changes: Any) -> RecordingSetup:
    """Return the settings of a short log."""
    rng = np.random.default_rng([seed, 70])
    how = RecordingSetup(
        joints=int(rng.integers(3, 6)),
        seconds=float(rng.uniform(12, 18)),
        rate_hz=100.0,
        noise=float(rng.uniform(0.005, 0.03)),
        rest_s=0.5,
    )
    return replace(how, **changes)


def check_scores(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Compare the reported error with the noise of the held-out log, which is much larger than other errors."""
    how = draw_setup(seed)
    arm, robot = build_arm(how, seed)
    train, other, exact = (
        thin_rows(record_log(arm, replace(how, rate_hz=4 * how.rate_hz, noise=noise), seed, motion), seed)
        for noise, motion in ((0.01, 0), (0.5, 1), (0.0, 1))
    )
    validate_screen(worker, folder, robot, train, other, "--out", folder / "run", "--no-report")
    rms = json.loads((folder / "run" / "validation.json").read_text(encoding="utf-8"))["rmse"]
    ratio = np.sqrt(np.mean(np.square(rms) / ((other.tau - exact.tau) ** 2).mean(axis=0)))
    return {"uneven": abs(ratio - 1) > MAX_SCORE_DIFFERENCE}


def thin_rows(log, seed: int):
    """Return every second to sixth row, drawn at random."""
    return log.take(np.cumsum(np.random.default_rng([seed, 77]).integers(2, 7, len(log) // 7)))


def read_page(path: Path) -> str:
    """Return the text of a page without its tags."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8"))))


def check_rows(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Identify one part of a file and validate on another part, which overlaps it or not."""
    how = draw_setup(seed)
    arm, robot = build_arm(how, seed)
    log, path = record_log(arm, how, seed, 0), save_robot(folder, robot)
    (folder / "fixed.toml").write_text("motion_hz = 10.0\ndelay_s = 0.0\n", encoding="utf-8")
    half = int(np.random.default_rng([seed, 71]).uniform(0.4, 0.6) * len(log))
    accepted = {}
    for name, start in (("disjoint rows", half), ("common rows", half - 50)):
        train = save_log(folder / "train.csv", log, rows=(0, half))
        other = save_log(folder / "other.csv", log, rows=(start, len(log)))
        words = (train, "--validate", other, "--method", "ordinary", "--conditioning", folder / "fixed.toml")
        accepted[name] = "all joints" in worker.identify(path, *words)["text"]
    return {"disjoint rows": not accepted["disjoint rows"], "common rows": accepted["common rows"]}


def check_payloads(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Weigh a load by currents, with and without calibration, and by motions of one joint."""
    rng = np.random.default_rng([seed, 72])
    arm = arms.random_arm(seed + 30000, 6, shoulder=True)
    gains = 10 * (1 + GAIN_DEVIATION * rng.normal(size=arm.joint_count))
    how = arms.Recording(seconds=20.0, noise=0.01)

    def load_arm():
        mass = rng.uniform(0.03, 0.15) * sum(link.phi[0] for link in arm.links)
        return mass, arm.with_payload(mass, rng.uniform(-0.1, 0.1, 3), 0.005 * mass * np.eye(3))

    (mass, loaded), (weighed_mass, weighed) = load_arm(), load_arm()
    logs = {
        "free": arms.record_log(arm, how, 10 * seed),
        "loaded": arms.record_log(loaded, how, 10 * seed + 1),
        "weighed": arms.record_log(weighed, how, 10 * seed + 2),
        "held": record_one_joint(loaded, how, 10 * seed + 3, -1, 1e-4),
        "weak": record_one_joint(loaded, how, 10 * seed + 3, 0, 0.01),
    }
    paths = {name: str(save_log(folder / f"{name}.csv", log, gains=gains)) for name, log in logs.items()}
    answer = worker.ask(
        robot=str(save_robot(folder, arms.build_robot_file(arm, seed))),
        free=paths["free"],
        loaded=[paths["loaded"], paths["held"], paths["weak"]],
        weighed=paths["weighed"],
        mass=weighed_mass,
    )
    wide, held, weak, *calibrated = answer["loads"]
    covered = [low <= mass <= high for low, high, _ in (wide, weak, *calibrated)]
    fails = {
        "payload": not covered[0],
        "determined": wide[-1] != "determined",
        "undetermined": held[-1] != "hidden",
        "weak motion": weak[-1] == "determined" and not covered[1],
    }
    return fails | ({"calibrated": not covered[2]} if calibrated else {})


def record_one_joint(arm, how: arms.Recording, seed: int, joint: int, part: float):
    """Return a log in which one joint moves, and the others by a part of their motion."""
    rng = np.random.default_rng([seed, 73])
    t, q, *rates = arms.motion(arm, how, seed)
    parts = np.full(arm.joint_count, part)
    parts[joint] = 1.0
    q, qd, qdd = q[0] + parts * (q - q[0]), *(parts * x for x in rates)
    tau = arms.torque(arm, q, qd, qdd)
    tau = tau + how.noise * np.sqrt((tau**2).mean(axis=0)) * rng.normal(size=tau.shape)
    return mindyn.log_from_arrays(arm.joint_names, t, q + 0.3 * how.encoder_rad * rng.normal(size=q.shape), tau)


def check_delay(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Look for the delay on the screen."""
    how = draw_setup(seed, delay_s=float(np.random.default_rng([seed, 74]).uniform(0.02, 0.06)))
    arm, robot = build_arm(how, seed)
    log = save_log(folder / "train.csv", record_log(arm, how, seed, 0))
    lines = worker.identify(save_robot(folder, robot), log)["text"].splitlines()
    shown = [float(x) / 1000 for line in lines for x in re.findall(r"([\d.]+) ms", line)]
    return {"delay shown": not any(abs(delay - how.delay_s) < 1.01 / how.rate_hz for delay in shown)}


def check_findings(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Compare the screen with the errors and warnings of the saved estimate."""
    kinds = (*SHOWN_FAULTS, *SHOWN_SETS)
    robot, logs = build_faulty_log(seed, kinds[seed % len(kinds)])
    listed = logs if isinstance(logs, list) else [logs]
    paths = [save_log(folder / f"day{chr(97 + k)}.csv", log) for k, log in enumerate(listed)]
    text = worker.identify(save_robot(folder, robot), *paths, "--out", folder / "run", "--no-report")["text"]
    saved = json.loads((folder / "run" / "estimate.json").read_text(encoding="utf-8"))
    lines = [item if isinstance(item, str) else item["sentence"] for item in saved.get("notes", [])]
    for item in saved.get("findings", []):
        if item["severity"] != "info":
            lines.append(item["kind"] if item["explained_by"] else item["message"])
    numbered = re.search(r"\blog \d", text, flags=re.IGNORECASE)
    return {"all shown": bool(numbered) or not all(line in text for line in lines)}


def check_cause(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Look for the cause of the largest residual of a held-out log."""
    cause = tuple(CAUSES)[seed % len(CAUSES)]
    how, rng = draw_setup(seed), np.random.default_rng([seed, 75])
    arm, robot = build_arm(how, seed)
    weaker = [replace(drive, viscous=0.3 * drive.viscous, coulomb=0.3 * drive.coulomb) for drive in arm.drives]
    other = record_log(replace(arm, drives=tuple(weaker)) if cause == "friction" else arm, how, seed, 1)
    size, tau = np.sqrt((other.tau**2).mean(axis=0)), other.tau
    if cause == "vibration":
        waves = np.sin(2 * np.pi * rng.uniform(10, 20) * other.time[:, None] + rng.uniform(0, 6, how.joints))
        tau = tau + rng.uniform(0.3, 0.8) * size * waves
    if cause == "noise":
        tau = tau + rng.uniform(0.2, 0.5) * size * rng.normal(size=tau.shape)
    text = validate_screen(worker, folder, robot, record_log(arm, how, seed, 0), replace(other, tau=tau))
    unfounded = "The model is poor|Do not use it" if cause == "noise" else "higher speed|--speed"
    return {"cause": re.search(CAUSES[cause], text) is None or re.search(unfounded, text) is not None}


def validate_screen(worker: Worker, folder: Path, robot, log, other, *words: object) -> str:
    """Return the screen of an identification with a held-out log."""
    train, held_out = save_log(folder / "train.csv", log), save_log(folder / "other.csv", other)
    return worker.identify(save_robot(folder, robot), train, "--validate", held_out, *words)["text"]


def check_report(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Reverse the weakest torque of a held-out log with gaps, and read its duration and the headlines."""
    how = draw_setup(seed)
    arm, robot = build_arm(how, seed)
    other = record_log(arm, replace(how, gaps=2), seed, 1)
    weakest = np.argmin((other.tau**2).mean(axis=0))
    signs = np.where(np.arange(how.joints) == weakest, -1.0, 1.0)
    log, run = record_log(arm, how, seed, 0), folder / "run"
    text = validate_screen(worker, folder, robot, log, replace(other, tau=signs * other.tau), "--out", run)
    page, steps = read_page(run / "report.html"), np.diff(other.time)
    shown = re.search(r"other\.csv[^<]{0,40}samples(?: over|,) ([\d.]+) s", page)
    together = steps[steps < 2.5 / how.rate_hz].sum()
    return {
        "missed joint": re.search(GOOD_HEADLINE, text + page) is not None,
        "duration": shown is None or abs(float(shown[1]) - together) > 4 / how.rate_hz,
    }


def check_sign(worker: Worker, folder: Path, seed: int) -> dict[str, bool]:
    """Reverse a torque of the training log, and look for a line that says so."""
    how = draw_setup(seed)
    arm, robot = build_arm(how, seed)
    log = record_log(arm, how, seed, 0)
    joint = int(np.random.default_rng([seed, 76]).integers(0, how.joints))
    signs = np.where(np.arange(how.joints) == joint, -1.0, 1.0)
    path = save_log(folder / "train.csv", replace(log, tau=signs * log.tau))
    lines = worker.identify(save_robot(folder, robot), path)["text"].splitlines()
    return {"wrong sign": not any(log.joint_names[joint] in line and re.search(SIGN, line) for line in lines)}


CHECKS: dict[tuple[str, ...], Callable[[Worker, Path, int], dict[str, bool]]] = {
    ("uneven",): check_scores,
    ("disjoint rows", "common rows"): check_rows,
    ("payload", "calibrated", "determined", "undetermined", "weak motion"): check_payloads,
    ("delay shown",): check_delay,
    ("all shown",): check_findings,
    ("cause",): check_cause,
    ("missed joint", "duration"): check_report,
    ("wrong sign",): check_sign,
}
FAMILIES = tuple(family for families in CHECKS for family in families)


def run_check(worker: Worker, families: tuple[str, ...], seed: int) -> dict[str, bool]:
    """Return whether the rules of families that share a log fail; a command that crashes fails all of them."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            fails = CHECKS[families](worker, Path(folder), seed)
        except FileNotFoundError:
            return dict.fromkeys(families, True)
    return {family: bool(failed) for family, failed in fails.items()}


def summarize(done: dict[str, dict[str, bool]]) -> str:
    """Return the failures of every family, one column for each version."""
    versions = list(dict.fromkeys(key.split("/")[0] for key in done))
    lines = [f"{'family':16}" + "".join(f"{version:32}" for version in versions)]
    for family in FAMILIES:
        cells = []
        for version in versions:
            fails = [item[family] for key, item in done.items() if key.startswith(f"{version}/") and family in item]
            cells.append(f"{format_rate(sum(fails), len(fails)) if fails else 'not available':32}")
        lines.append(f"{family:16}{''.join(cells)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=20, help="logs of each family")
    parser.add_argument("--first", type=int, default=0, help="seed of the first log")
    parser.add_argument("--before", type=Path, help="checkout of another version")
    parser.add_argument("--family", choices=FAMILIES, help="only this family and those that share its logs")
    parser.add_argument("--file", type=Path, default=Path("build/screens.json"))
    options = parser.parse_args()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(options.file.read_text(encoding="utf-8")) if options.file.exists() else {}
    for checkout in (ROOT, *([options.before.resolve()] if options.before else [])):
        version = "now" if checkout == ROOT else "before"
        with Worker(checkout) as worker:
            for families in CHECKS:
                for seed in range(options.first, options.first + options.logs):
                    key = f"{version}/{families[0]}/{seed}"
                    if key in done or options.family not in (None, *families):
                        continue
                    done[key] = run_check(worker, families, seed)
                    options.file.write_text(json.dumps(done), encoding="utf-8")
    print(summarize(done))


if __name__ == "__main__":
    main()
