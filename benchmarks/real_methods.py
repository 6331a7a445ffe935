"""Which methods beat least squares on held-out rows of the real logs, in one table.

    MINDYN_REAL_DATA=folder python benchmarks/real_methods.py [set ...] [--json FILE]

Conditioning, filter and friction columns are those that `identify` chooses on the training rows, the same for every
method; `identify`'s own line also leaves out the parameters that it chooses to. Scores are total relative torque errors
on the held-out rows as logged. Methods that cannot run on such logs are listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the sets, their splits and what their notes say are described there

# ruff: noqa: E402
from logs.real_sets import FOLDER, real_log
from real.test_identification import SPLITS, described

from mindyn.errors import InputError, MindynError
from mindyn.estimators.energy_difference import EnergyDifference
from mindyn.estimators.identify import identify
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.estimators.last_link_first import LastLinkFirst
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.total_least_squares import TotalLeastSquares
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.logs.pipeline import condition
from mindyn.robots.table import text_table
from mindyn.validation.validate import validate

PLAIN = "weighted least squares"
NO_LOOP = "controller and reference of the recording are not known"
IMPOSSIBLE = {
    "closed-loop instruments": NO_LOOP,
    "output error": NO_LOOP,
    "step by step": "needs tests of its own: single joints, breakaway, constant speed",
}


def methods(chosen, samples):
    """For each name a fit with the settings that `identify` chose."""
    robot, regressor = chosen.robot, chosen.regressor
    shared = {"friction": regressor.friction, "extra": regressor.extra}
    filtered = {**shared, "filter_hz": chosen.filter_hz, "decimation": chosen.provenance["decimation"]}
    plain = LeastSquares(**filtered)

    def without_extra():
        if regressor.extra:
            raise InputError(f"no declared columns ({', '.join(one.name for one in regressor.extra)})")
        return EnergyDifference("momentum", friction=regressor.friction).fit(robot, samples)

    @cache
    def consistent():
        return PhysicallyConsistent(**filtered).fit(robot, samples)

    return {
        PLAIN: lambda: plain.fit(robot, samples),
        "ordinary least squares": lambda: replace(plain, weights="ordinary").fit(robot, samples),
        "robust least squares": lambda: replace(plain, robust=True).fit(robot, samples),
        "last link first": lambda: LastLinkFirst(**filtered).fit(robot, samples),
        "instrumental variables": lambda: InstrumentalVariables(**filtered).fit(robot, samples),
        "physically consistent": consistent,
        "instrumental variables from it": lambda: InstrumentalVariables(consistent(), **filtered).fit(robot, samples),
        "momentum difference": without_extra,
        "total least squares": lambda: TotalLeastSquares(**shared).fit(
            robot, plain.gather(plain.regressor(robot), samples)
        ),
    }


def scores(name):
    """Total held-out error (%) of every method on one set, or why there is none."""
    robot, extra = described(name)
    training, (file, start, stop) = SPLITS[name]
    logs = [real_log(name, path).between(first, last) for path, first, last in training]
    held_out = real_log(name, file)
    begin = perf_counter()
    chosen = identify(robot, logs, extra=extra)
    print(f"{name}: settings chosen in {perf_counter() - begin:.0f} s", file=sys.stderr)
    cut = chosen.conditioning if chosen.filter_hz is None else replace(chosen.conditioning, edge_s=0.0)
    samples = condition(logs, chosen.robot, cut).samples
    found = {"identify": _total(chosen, chosen, held_out, start, stop)}
    for method, fit in methods(chosen, samples).items():
        try:
            found[method] = _total(fit(), chosen, held_out, start, stop)
        except MindynError as error:
            found[method] = error.message
    return found | IMPOSSIBLE


def _total(estimate, chosen, log, start, stop):
    judged = replace(estimate, conditioning=chosen.conditioning, filter_hz=chosen.filter_hz)
    return 100 * validate(judged, log, rows=[(start, stop)]).error.total


def table(found):
    """A line for each method: error on every set, and by how much it beats weighted least squares."""
    lines, notes = [("held-out error [%]", *found)], []
    for method in next(iter(found.values())):
        cells = []
        for name, one in found.items():
            value, plain = one[method], one[PLAIN]
            if isinstance(value, str):
                cells.append("-")
                notes.append(f"{method}: {value}" if method in IMPOSSIBLE else f"{method}, {name}: {value}")
            else:
                cells.append(f"{value:.2f} ({100 * (value / plain - 1):+.1f} %)")
        lines.append((method, *cells))
    return "\n".join([text_table(lines), "", *dict.fromkeys(notes)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", default=list(SPLITS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    found = {name: scores(name) for name in options.sets}
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
