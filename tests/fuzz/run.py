"""`make study NAME=fuzz`: cases of near_special.py by seed, counted over several runs in build/fuzz.json.

python tests/fuzz/run.py [--cases 20000] [--seconds 0] [--thorough]: goes on after the last seed that was checked, until
`cases` are counted in all or the seconds of this run are spent; the first failures are kept with their seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.near_special import check_case, random_case

RECORD = Path("build/fuzz.json")
SAVED_EVERY = 20


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=20000, help="cases in all, earlier runs included")
    options.add_argument("--seconds", type=float, default=0.0, help="stop this run after so long; 0: no limit")
    options.add_argument("--thorough", action="store_true", help="every equation and form of every case")
    options.add_argument("--record", type=Path, default=RECORD)
    given = options.parse_args()
    empty = {"next_seed": 0, "cases": 0, "fallbacks": 0, "rejected_forms": 0, "worst": {}, "failures": []}
    state = json.loads(given.record.read_text()) if given.record.exists() else empty
    start = time.monotonic()
    while state["cases"] < given.cases and not (given.seconds and time.monotonic() - start > given.seconds):
        seed = state["next_seed"]
        _count(state, seed, thorough=given.thorough)
        state["next_seed"], state["cases"] = seed + 1, state["cases"] + 1
        if state["cases"] % SAVED_EVERY == 0:
            _save(given.record, state)
    _save(given.record, state)
    worst = max(state["worst"].values(), default=0.0)
    print(f"{state['cases']} cases, {len(state['failures'])} failed, worst error {worst:.1e}, "
          f"{state['fallbacks']} on standard parameters, {state['rejected_forms']} forms rejected")  # fmt: skip
    return 1 if state["failures"] else 0


def _count(state: dict, seed: int, *, thorough: bool) -> None:
    try:
        case = random_case(seed)
        result = check_case(case, thorough=thorough, compiled=seed % 10 == 0)
    except Exception as error:
        state["failures"].append({"seed": seed, "error": f"{type(error).__name__}: {error}"[:500]})
        return
    for what, error in result.errors.items():
        state["worst"][what] = max(state["worst"].get(what, 0.0), error)
    state["fallbacks"] += bool(result.fallbacks)
    state["rejected_forms"] += len(result.rejected)
    if result.wrong:
        state["failures"].append({"seed": seed, "source": case.source, "wrong": result.wrong})


def _save(path: Path, state: dict) -> None:
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".writing")
    beside.write_text(json.dumps(state, indent=1))
    beside.replace(path)


if __name__ == "__main__":
    sys.exit(main())
