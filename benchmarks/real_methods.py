"""Which methods beat least squares on held-out rows of the real logs, in one table.

    MINDYN_REAL_DATA=folder python benchmarks/real_methods.py [set ...] [--record]

Conditioning, filter and friction columns are those that `identify` chooses on the training rows, the same for every
method; `identify`'s own line also leaves out the parameters that it chooses to. Scores are total relative torque errors
on the held-out rows as logged. Methods that cannot run on such logs are listed with the reason.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the sets, their splits and what their notes say are described there

# ruff: noqa: E402
from logs.real_sets import FOLDER, real_log
from real.test_identification import SPLITS, described
from sections import Section, arguments, publish
from timing import this_machine

from mindyn.errors import MindynError
from mindyn.estimators.energy_difference import EnergyDifference
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.estimators.last_link_first import LastLinkFirst
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.total_least_squares import TotalLeastSquares
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.identification.identify import identify
from mindyn.regression.rows import rows_of
from mindyn.validation.validate import validate

TITLES = {"staubli_tx40": "TX40", "ur10_unisa": "UR10", "kuka_lwr4": "LWR4+, repeated", "kuka_kr300": "KR300"}
SCORED = {name: {TITLES[name]: held_out} for name, (_, held_out) in SPLITS.items()}
SCORED["kuka_lwr4"]["LWR4+, another motion"] = ("measurements_3.npz", 520, 5007)
"""Held-out rows of each set, by what they are."""
PLAIN = "weighted least squares"
NO_LOOP = "controller and reference of the recording are not known"
IMPOSSIBLE = {
    "closed-loop instruments": NO_LOOP,
    "output error": NO_LOOP,
    "step by step": "needs tests of its own: single joints, breakaway, constant speed",
}


def methods(chosen, logs):
    """For each name a fit with the settings that `identify` chose."""

    @cache
    def fitted(estimator):
        treatment = estimator.treatment_for(chosen.robot, chosen.treatment)
        return estimator.fit(rows_of(chosen.robot, logs, treatment))

    consistent = partial(fitted, PhysicallyConsistent())
    return {
        PLAIN: partial(fitted, LeastSquares()),
        "ordinary least squares": partial(fitted, LeastSquares(weights="ordinary")),
        "robust least squares": partial(fitted, LeastSquares(robust=True)),
        "last link first": partial(fitted, LastLinkFirst()),
        "instrumental variables": partial(fitted, InstrumentalVariables()),
        "physically consistent": consistent,
        "instrumental variables from it": lambda: fitted(InstrumentalVariables(consistent())),
        "momentum difference": partial(fitted, EnergyDifference("momentum")),
        "total least squares": partial(fitted, TotalLeastSquares()),
    }


def scores(name):
    """For every held-out part of one set the total error (%) of every method, or why there is none."""
    robot = described(name)
    logs = [real_log(name, path).between(first, last) for path, first, last in SPLITS[name][0]]
    begin = perf_counter()
    chosen = identify(robot, logs)
    print(f"{name}: settings chosen in {perf_counter() - begin:.0f} s", file=sys.stderr)
    fits = {"`identify`, parameters left out": lambda: chosen, **methods(chosen, logs)}
    found = {title: {} for title in SCORED[name]}
    for method, fit in fits.items():
        for title, held_out in SCORED[name].items():
            try:
                found[title][method] = _total(fit(), chosen, name, *held_out)
            except MindynError as error:
                found[title][method] = error.message
    return found


def _total(estimate, chosen, name, file, start, stop):
    judged = replace(estimate, treatment=chosen.treatment)
    return 100 * validate(judged, real_log(name, file), rows=[(start, stop)]).error.total


def table(found):
    """A line for each method: error on every set, and by how much it differs from weighted least squares; why not."""
    lines, notes = [("method", *found)], {}
    for method in next(iter(found.values())):
        cells = []
        for name, one in found.items():
            value, plain = one[method], one[PLAIN]
            if isinstance(value, str):
                cells.append("-")
                notes[f"{method[0].upper()}{method[1:]}, {name.split(',')[0]}: {value}."] = None
            else:
                apart = 100 * (value / plain - 1)
                cells.append(f"{value:.2f} %" + (f" ({apart:+.1f})" if method != PLAIN and abs(apart) < 100 else ""))
        lines.append((method, *cells))
    return lines, list(notes)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("sets", nargs="*", default=list(SPLITS))
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    found = {title: one for name in options.sets for title, one in scores(name).items()}
    lines, notes = table(found)
    publish(
        Section(
            "real_methods",
            "Methods on measured robots",
            "MINDYN_REAL_DATA=... python benchmarks/real_methods.py",
            this_machine(),
            [
                "Held-out torque error, conditioning and friction as `identify` chooses them on the training rows, for "
                "every method alike; in brackets, by how many percent it differs from weighted least squares. The "
                "noise that total least squares asks for is not stated in these logs."
            ],
            lines,
            [
                *notes,
                "Methods that need what these logs have not: "
                f"{'; '.join(f'{method} ({why})' for method, why in IMPOSSIBLE.items())}.",
            ],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
