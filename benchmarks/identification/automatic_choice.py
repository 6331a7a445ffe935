"""Compare the fit that `identify` selects with its candidates, on held-out rows of measured logs.

    MINDYN_REAL_DATA=folder python -m benchmarks.identification.automatic_choice [set ...] [--before COMMIT]
    [--training] [--record]

For every set it prints the held-out error of the selected fit, of plain least squares, and of physically consistent
fits without and with the robot file as prior, all with the settings that were selected on training rows; the regret
(error of the selected fit relative to the best of the three, minus one); and the processor time of the selection. Rows
and error measure are those of splits.json and score.py in the folder: every row as logged. `--before DIR` also
identifies the logs with the checkout of another version in DIR. `--training` selects and prints no held-out error: use
only this while a rule is being developed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from time import process_time

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # descriptions of the sets and their splits

# ruff: noqa: E402
from logs.real_sets import FOLDER, real_log
from real.test_identification import SPLITS, described

import mindyn
from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine
from mindyn.applications.validation.validate import validate
from mindyn.foundation.errors import MindynError
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.identify import identify
from mindyn.identification.selection.choose import choose
from mindyn.regression.build_rows import build_rows

TITLES = {
    "staubli_tx40": "TX40",
    "ur10_unisa": "UR10",
    "kuka_lwr4": "LWR4+, repeated",
    "kuka_kr300": "KR300",
    "panda_gaz2019": "Panda",
}
PANDA = {
    "columns": {"time": "t", "position": "q{i}", "velocity": "qd{i}", "torque": "tau{i}"},
    "units": {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "N m"},
    "side": "joint",
}
TARGETS = {"TX40": 18.1, "UR10": 4.3, "LWR4+, repeated": 1.65, "KR300": 13.2, "Panda": 2.70}
"""Held-out errors, %, that the selection should reach."""


def load_training(name):
    """Return the robot and the training logs."""
    if name == "panda_gaz2019":
        return panda(), [panda_log().between(0, 14380)]
    return described(name), [real_log(name, path).between(first, last) for path, first, last in SPLITS[name][0]]


def panda():
    return mindyn.load_robot(FOLDER / "panda_gaz2019" / "model" / "panda.toml")


def panda_log():
    return mindyn.read_log(FOLDER / "panda_gaz2019" / "exciting.parquet", panda(), metadata=PANDA)


def load_held_out(name):
    """Return, for each title, the log and its scored rows."""
    if name == "panda_gaz2019":
        return {TITLES[name]: (panda_log().between(14380, 20544), None, None)}  # stamps jitter: samples are not rows
    file, start, stop = SPLITS[name][1]
    parts = {TITLES[name]: (real_log(name, file), start, stop)}
    if name == "kuka_lwr4":
        parts["LWR4+, another motion"] = (real_log(name, "measurements_3.npz"), 520, 5007)
    return parts


def score(result, part):
    log, start, stop = part
    return 100 * validate(result, log, rows=None if start is None else [(start, stop)]).error.total


def fit_candidates(robot, logs, chosen):
    """Fit the candidates with the selected settings."""
    names = build_rows(robot, logs, chosen.settings).regressor.names  # shapes that no joint has may be dropped too
    dropped = tuple(name for name in chosen.dropped if name in names)
    wanted = {"plain": mindyn.LeastSquares(dropped=dropped), "consistent": PhysicallyConsistent(prior=None)}
    if any(link.phi is not None for link in robot.links):
        wanted["with prior"] = PhysicallyConsistent(prior="robot")
    result = {}
    for words, estimator in wanted.items():
        try:
            result[words] = fit_with_settled_load(estimator, robot, logs, chosen.settings)
        except MindynError as error:
            print(f"  {words}: {error.message}", file=sys.stderr)
    return result


def fit_with_settled_load(estimator, robot, logs, settings):
    """Return the fit with its own values as the reference of load-dependent friction."""
    result = estimator.fit(build_rows(robot, logs, settings)).with_own_load()
    for _ in range(2 if result.regressor.friction.needs_load else 0):
        result = estimator.fit(build_rows(robot, logs, result.settings)).with_own_load()
    return result


def time_other_version(checkout, name):
    """Return the processor time of `identify` in another checkout on the same logs."""
    if name == "panda_gaz2019":
        make = f"""r = mindyn.load_robot({str(FOLDER / name / "model" / "panda.toml")!r})
logs = [mindyn.read_log({str(FOLDER / name / "exciting.parquet")!r}, r, metadata={PANDA!r}).between(0, 14380)]"""
    else:
        make = f"""from real.test_identification import SPLITS, described
from logs.real_sets import real_log
r = described({name!r})
logs = [real_log({name!r}, path).between(a, b) for path, a, b in SPLITS[{name!r}][0]]"""
    timed = "t = time.process_time()\nmindyn.identify(r, logs)\nprint(time.process_time() - t)"
    script = f"import mindyn, time\n{make}\n{timed}"
    paths = f"{Path(checkout) / 'src'}{os.pathsep}{Path(checkout) / 'tests'}"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout.splitlines()[-1])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("sets", nargs="*", default=list(TITLES))
    parser.add_argument("--before", help="checkout of another version, to compare processor times")
    parser.add_argument("--training", action="store_true", help="print no held-out error")
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    lines = [
        ("set", "selected", "plain", "consistent", "with prior", "regret", "target", "processor time", "selected fit")
    ]
    regrets = []
    for name in options.sets:
        robot, logs = load_training(name)
        begin = process_time()
        choice = choose(robot, logs)
        chosen = None if options.training else identify(robot, logs, choice.estimator, choice.settings)
        taken = process_time() - begin
        time = f"{taken:.1f} s"
        if options.before:
            time += f" ({taken / time_other_version(options.before, name):.2f}x)"
        why = next(
            (finding.message for finding in choice.findings if finding.kind == "selected estimator"), "least squares"
        )
        print(f"{name}: {time}; {why}", file=sys.stderr, flush=True)
        if chosen is None:
            continue
        others = fit_candidates(robot, logs, choice)
        for title, part in load_held_out(name).items():
            total = score(chosen, part)
            each = {words: score(other, part) for words, other in others.items()}
            regret = total / min(total, *each.values()) - 1
            if title != "LWR4+, another motion":
                regrets.append(regret)
            cells = [
                f"{each[words]:.2f} %" if words in each else "-" for words in ("plain", "consistent", "with prior")
            ]
            bar = f"{TARGETS[title]:.2f} %" if title in TARGETS else "-"
            lines.append((title, f"{total:.2f} %", *cells, f"{100 * regret:.1f} %", bar, time, why.split(" was")[0]))
            print("  ".join(lines[-1]), file=sys.stderr, flush=True)
    if len(lines) == 1:
        return
    median, largest = statistics.median(regrets), max(regrets)
    publish(
        Section(
            "automatic_choice",
            "Automatic selection by identify",
            "MINDYN_REAL_DATA=... python -m benchmarks.identification.automatic_choice --before CHECKOUT",
            this_machine(),
            [
                "Held-out torque error with default settings: the fit that was selected on the training rows, and "
                "the candidates with the same conditioning and friction. Processor time is that of the whole "
                "`identify`; in brackets, relative to commit 90d9a94. Regret: the error relative to that of the "
                "best candidate, minus one. Target: the error that the selection should reach."
            ],
            lines,
            [
                f"Regret: median {100 * median:.1f} %, largest {100 * largest:.1f} %, LWR4+ on another motion "
                "excluded: its log repeats one motion, and a finding reports this."
            ],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
