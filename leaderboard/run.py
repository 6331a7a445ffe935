"""Run methods on the sets of the leaderboard, one after another, and keep a record of every result.

    MINDYN_REAL_DATA=FOLDER python -m leaderboard.run [--methods ours] [--method NAME_OR_FILE] [--set SET] [--record]

Without `--method`: `identify` and the plain pipeline on Pinocchio's regressor. `--methods` names a group: ours, peers
or all. `--record` keeps the results in leaderboard/records and writes the page again (python -m leaderboard.page); with
ours or all it also measures how fits to repeated recordings agree. The record of a peer that is not installed is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from leaderboard.sets import Manifest, RecipeError, prepare, read_manifests
from mindyn.applications.comparison.isolation import run_method
from mindyn.applications.comparison.log_comparison import group_splits, measure_agreement, score_method
from mindyn.applications.comparison.log_methods import require_methods
from mindyn.applications.comparison.log_sets import Split, read_sets
from mindyn.foundation.errors import MindynError
from mindyn.kernels.numerics.machine import host
from mindyn.robots.table import format_table

ROOT = Path(__file__).parent
RECORDS = ROOT / "records"
METHOD_FILES = ROOT / "methods"
ABLATIONS = tuple(str(METHOD_FILES / f"{file}.py") for file in ("without_load_friction", "without_selection"))
OURS = ("identify", "consistent", "weighted", *ABLATIONS)
PEERS = tuple(str(METHOD_FILES / f"{file}.py") for file in ("pinocchio_pipeline", "ridge", "figaroh", "mujoco_sysid"))
METHODS = {"default": ("identify", PEERS[0]), "ours": OURS, "peers": PEERS, "all": (*OURS, *PEERS)}
AGREEMENT = RECORDS / "agreement.json"
PACKAGES = ("mindyn", "numpy", "scipy", "clarabel", "pin", "mujoco", "figaroh")
CURVE_POINTS = 400


def run(
    folder: Path, methods: Sequence[str], names: Sequence[str] = (), *, record: bool = False
) -> list[dict[str, Any]]:
    """Score every method on every split of a prepared folder; return the records."""
    require_methods(methods)
    manifests, records = read_manifests(names), []
    for group in group_splits(read_sets(folder, list(manifests))):
        for method in methods:
            print(f"{method}: {', '.join(split.name for split in group)}", file=sys.stderr, flush=True)
            motions = [part.log for split in group for part in split.held_out]
            result, start = run_method(method, group[0], motions, folder), 0
            for split in group:
                scored = score_method(result, split.held_out, start)
                entry = {"method": result.name, "set": split.name, **_circumstances(), **asdict(scored)}
                if (
                    result.name == "identify"
                    and scored.total is not None
                    and manifests[split.name.split(",")[0]]["derived_numbers"]
                ):
                    entry["curves"] = _curves(split, result.torques[start])
                start += len(split.held_out)
                records.append(entry)
                if record and "No module named" not in scored.reason:
                    path = RECORDS / f"{_slug(split.name)}--{_slug(result.name)}.json"
                    path.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    return records


def record_agreement(folder: Path, names: Sequence[str] = ()) -> None:
    """Record how fits to single recordings agree: those for training, and a held-out one that repeats them."""
    manifests, agreements = read_manifests(names), {}
    for split in read_sets(folder, list(manifests)):
        key, _, part = split.name.partition(", ")
        repeats = [held.log.between(*held.rows) for held in split.held_out if manifests[key].get("repeated") == part]
        recordings = (*split.training, *repeats)
        print(f"agreement: {split.name}", file=sys.stderr, flush=True)
        agreement = measure_agreement(replace(split, training=recordings))
        if agreement is not None:
            agreements[split.name] = {"recordings": len(recordings), **asdict(agreement)}
    AGREEMENT.write_text(json.dumps({**_circumstances(), "agreements": agreements}) + "\n", encoding="utf-8")


def _circumstances() -> dict[str, Any]:
    """Return date, machine and versions of a record."""
    return {
        "date": f"{date.today():%Y-%m-%d}",
        "machine": f"{host().cpu}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _curves(split: Split, predicted: Any) -> dict[str, Any]:
    """Return measured and predicted torque of the first held-out log, thinned out for a plot."""
    log, (first, last) = split.held_out[0].log, split.held_out[0].rows
    rows = np.flatnonzero((log.rows >= first) & (log.rows < last))
    taken = rows[:: max(1, len(rows) // CURVE_POINTS)]
    digits = np.vectorize(lambda value: float(f"{value:.4g}"))
    return {
        "joints": list(log.joint_names),
        "time": digits(log.time[taken]).tolist(),
        "measured": digits(log.tau[taken].T).tolist(),
        "predicted": digits(predicted[taken].T).tolist(),
    }


def describe_licence(manifest: Manifest) -> str:
    """Return the licence of a set, and what may be published from it."""
    return f"{manifest['licence']}{'' if manifest['derived_numbers'] else ' (recipe only)'}"


def main() -> None:
    """Prepare the sets, run the methods and print the table."""
    from leaderboard.page import format_rows, list_failures, write_page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", help="name of a method of mindyn compare --logs, or a Python file")
    parser.add_argument("--methods", choices=list(METHODS), default="default")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    local = os.environ.get("MINDYN_REAL_DATA")
    methods = options.method or METHODS[options.methods]
    with tempfile.TemporaryDirectory(prefix="mindyn-leaderboard-") as name:
        try:
            folder = prepare(Path(name), options.set, (local and Path(local)) or None)
            records = run(folder, methods, options.set, record=options.record)
            if options.record and options.methods in ("ours", "all") and not options.set:
                record_agreement(folder)
        except (RecipeError, MindynError) as error:
            sys.exit(str(error))
    print(format_table(format_rows(records)))
    print(*list_failures(records), sep="\n")
    if options.record:
        write_page()


if __name__ == "__main__":
    main()
