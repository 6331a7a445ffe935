"""Methods on held-out rows of measured robots, in one table: `mindyn compare --logs` with what the logs' notes say.

    MINDYN_REAL_DATA=folder python -m benchmarks.identification.real_methods [set ...] [--record]

Every method runs with its defaults and chooses its own settings on the training rows. The TX40's coupled wrist and the
KR300's gas spring are stated, for all methods but Pinocchio's alike.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # what the notes of the sets say stands there

# ruff: noqa: E402
from logs.real_sets import FOLDER
from real.test_identification import described

from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine
from mindyn.comparison.log_comparison import compare_on_logs
from mindyn.comparison.log_sets import read_sets
from mindyn.comparison.methods import LOG_METHODS

STATED = ("staubli_tx40", "kuka_kr300")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("sets", nargs="*")
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    splits = [
        replace(split, robot=described(split.name)) if split.name in STATED else split
        for split in read_sets(FOLDER, options.sets or None)
    ]
    found = compare_on_logs(splits, LOG_METHODS, lambda line: print(line, file=sys.stderr))
    publish(
        Section(
            "real_methods",
            "Methods on real robots",
            "MINDYN_REAL_DATA=... python -m benchmarks.identification.real_methods",
            this_machine(),
            [
                "Held-out torque error; every method chooses its own settings on the training rows. `identify` chooses "
                "the kind of fit too. The last line is a plain pipeline on Pinocchio's regressor."
            ],
            found.rows(),
            found.notes(),
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
