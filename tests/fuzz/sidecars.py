"""Sidecar files changed by their schema, their structure and their text: each is taken or rejected by an error of ours.

    python tests/fuzz/sidecars.py --count 20000

Case k is the same in every run. The record (build/fuzz-sidecars.json, or `--record`) holds the next seed, how many
cases ended how for each operator, what escaped, and the most processor time and memory that was taken: a run goes on
where the last one ended. `--only SEED` runs one case and shows what escapes.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
sys.path.insert(0, str(Path(__file__).parents[1] / "io"))

from hostile_logs import arrays, columns, csv_text
from wrong_values import WRONG, find_paths, replace_entry

import mindyn
from mindyn.foundation.errors import MindynError
from mindyn.identification.log_drafts import draft_log
from mindyn.logs.log_errors import ACCEPTABLE_FINDINGS
from mindyn.logs.metadata import SIDECAR_SCHEMA, SIGNALS
from mindyn.logs.units import UNIT_FACTORS

ROOT = Path(__file__).parents[2]
LONGEST_S, LARGEST_KB, LONGEST_MESSAGE = 20.0, 2 * 2**20, 8000
ROWS = 60
PLACES = list(find_paths(SIDECAR_SCHEMA))
DATES = (date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
ODD: tuple[Any, ...] = (
    *WRONG,
    *DATES,
    "q{i}",
    "q{i0}",
    "{joint}",
    "{i:09}",
    "{i:99999999}",
    "tau",
    "t",
    "joint1",
    "motor",
)
Table = dict[str, Any]


def good_sidecar(rng: random.Random, is_array: bool) -> Table:
    """Return a random sidecar of keys that each may have, many of them right for the log."""
    names = {"position": "q", "torque": "tau"}
    table: Table = {
        "side": rng.choice(["joint", "joint", "motor", {"position": "joint", "torque": "motor"}]),
        "columns": {"time": "t", **{s: c if is_array else f"{c}{{i}}" for s, c in names.items()}},
        "units": {"time": "s", "position": "rad", "torque": rng.choice(["N m", "N m", "A"])},
    }
    further = {
        "joints": rng.sample(["joint1", "joint2"], 2),
        "gears": rng.choice([[100, -50], [2, 3.5], [[1, 0.5], [0, 2]], [[1, 1], [1, 1]]]),
        "current_gains": rng.choice([[1.5, 2.5], {"joint1": 1, "joint2": 2.0}]),
        "position_offset": {"joint1": 0.1, "joint2": -0.2},
        "rate_hz": rng.choice([100, 200.0, 1e-3, 1e6]),
        "separator": rng.choice([",", ";", "\t", " "]),
        "decimal": rng.choice([".", ","]),
        "skip_rows": rng.choice([0, 1, 5, 1000]),
        "rows": sorted(rng.sample(range(80), 2)),
        "accept": rng.sample(ACCEPTABLE_FINDINGS, rng.randrange(4)),
        "draft": rng.random() < 0.1,
    }
    needed = ["joints"] if is_array else []
    needed += ["gears"] if table["side"] != "joint" else []
    needed += ["current_gains"] if table["units"]["torque"] == "A" else []
    chosen = {*needed, *(name for name in further if rng.random() < 0.05)}
    return {**table, **{name: further[name] for name in further if name in chosen}}


def _wrong_value(table: Table, rng: random.Random) -> Table:
    return replace_entry(table, rng.choice(PLACES), rng.choice(ODD))


def _two_swapped(table: Table, rng: random.Random) -> Table:
    a, b = rng.choices(list(table), k=2)
    return {**table, a: table[b], b: table[a]}


def _nested(table: Table, rng: random.Random) -> Table:
    key, value = rng.choice(list(table.items()))
    for _ in range(rng.choice([1, 2, 5, 30])):
        value = [value] if rng.random() < 0.5 else {rng.choice([*SIGNALS, "joint1", ""]): value}
    return {**table, key: value}


def _renamed(table: Table, rng: random.Random) -> Table:
    key = rng.choice(list(table))
    other = rng.choice(
        [key.upper(), key + "s", f" {key}", key[:-1], "", "é", key * 50, rng.choice(list(SIDECAR_SCHEMA["properties"]))]
    )
    return {other if name == key else name: value for name, value in table.items()}


def _entries_renamed(table: Table, rng: random.Random) -> Table:
    tables = [name for name, value in table.items() if isinstance(value, Mapping) and value]
    if not tables:
        return _renamed(table, rng)
    key = rng.choice(tables)
    return {**table, key: _renamed(dict(table[key]), rng)}


def _longer(table: Table, rng: random.Random) -> Table:
    key, count = rng.choice(list(table)), rng.choice([3, 100, 10_000])
    value = table[key]
    if isinstance(value, list) and value:
        return {**table, key: (value * count)[:count]}
    if isinstance(value, Mapping):
        return {**table, key: {**value, **{f"x{k}": rng.choice(ODD[:20]) for k in range(count // 10)}}}
    return {**table, key: (str(value) * count)[:200_000]}


def _other_units(table: Table, rng: random.Random) -> Table:
    units = [unit for known in UNIT_FACTORS.values() for unit in known]
    chosen = {s: rng.choice([rng.choice(units), {"joint1": rng.choice(units), "joint2": "rad"}]) for s in UNIT_FACTORS}
    given = table.get("units", {})
    known = given if isinstance(given, Mapping) else {}
    return {**table, "units": {**known, **dict(rng.sample(list(chosen.items()), 2))}}


def _other_files(table: Table, rng: random.Random) -> Table:
    names = [
        "log.csv",
        "log.npz",
        "log.parquet",
        "log.csv.toml",
        ".",
        "..",
        "/dev/null",
        "/",
        "nothing",
        "a\0b",
        "x" * 5000,
    ]
    return {**table, "files": {signal: rng.choice(names) for signal in rng.sample(SIGNALS, rng.randrange(1, 4))}}


def _without(table: Table, rng: random.Random) -> Table:
    gone = rng.choice(list(table))
    return {name: value for name, value in table.items() if name != gone}


TABLES: tuple[Callable[[Table, random.Random], Table], ...] = (
    *(_wrong_value, _wrong_value, _two_swapped, _nested, _renamed, _entries_renamed, _longer),
    *(_other_units, _other_files, _without),
)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {_text(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value if item is not None) + "]"
    if isinstance(value, date):
        return value.isoformat()
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value)


def _plain(lines: list[str], _: random.Random) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _repeated_line(lines: list[str], rng: random.Random) -> bytes:
    return _plain([*lines, rng.choice(lines or [""])], rng)


def _tables_after(lines: list[str], rng: random.Random) -> bytes:
    header = rng.choice(["[columns]", "[[columns]]", "[units.position]", "[side]", "[files]", '["columns"."time"]'])
    return _plain([*lines, header, 'joint1 = "rad"', "time = 5"], rng)


def _dotted(lines: list[str], rng: random.Random) -> bytes:
    keys = ["units.position.joint1", "columns.time", "side.torque", "a.b.c", "rows.first", "columns.position.joint1"]
    return _plain(
        [*lines, f"{rng.choice(keys)} = {_text(rng.choice([item for item in ODD if item is not None]))}"], rng
    )


def _bytes(lines: list[str], rng: random.Random) -> bytes:
    text = bytearray(_plain(lines, rng))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.randrange(3)] = rng.choice(
            [b"\0", b"\xff", b"\r", b"\xef\xbb\xbf", b"#", b'"""', b"=", b"9" * 400]
        )
    return bytes(text)


TEXTS = (_plain, _plain, _plain, _repeated_line, _tables_after, _dotted, _bytes)


class Cases:
    """Logs in a folder, and one changed sidecar for each seed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.arm = folder, mindyn.load_robot("planar2")
        (folder / "log.csv").write_text(csv_text(ROWS))
        np.savez(folder / "log.npz", **arrays(ROWS))
        pl.DataFrame(columns(ROWS)).write_parquet(folder / "log.parquet")

    def run(self, seed: int) -> str:
        """Run a case; return how it was changed and how it ended. Anything but an error of ours escapes."""
        rng = random.Random(seed)
        path = self.folder / rng.choice(["log.csv", "log.npz", "log.parquet"])
        table, done = good_sidecar(rng, path.suffix == ".npz"), []
        for _ in range(rng.randrange(3)):
            change = rng.choice(TABLES)
            table = change(table, rng) if table else {}
            done.append(change.__name__)
        write = rng.choice(TEXTS)
        for item in self.folder.glob("*.toml"):
            item.unlink()
        sidecar = path.with_name(rng.choice([f"{path.name}.toml", f"{path.stem}.log.toml", "logs.toml"]))
        sidecar.write_bytes(write([f"{json.dumps(k)} = {_text(v)}" for k, v in table.items() if v is not None], rng))
        name = "+".join([*done, write.__name__])
        try:
            if rng.random() < 0.05:
                draft_log(path, self.arm)
            mindyn.condition(self.arm, mindyn.read_log(path, self.arm))
        except MindynError as error:
            if len(str(error)) > LONGEST_MESSAGE:
                raise AssertionError(f"a message of {len(str(error))} characters: {str(error)[:200]}") from error
            return f"{name} rejected"
        return f"{name} taken"


def run_cases(cases: Cases, path: Path, count: int, seconds: float) -> int:
    """Run cases up to `count` in all and keep the record; 1 where something escaped or took too much."""
    record: Table = {"next_seed": 0, "ends": {}, "escaped": {}, "most_s": 0.0, "most_kb": 0}
    if path.exists():
        record |= json.loads(path.read_text())
    path.parent.mkdir(exist_ok=True)
    ends, end = Counter(record["ends"]), time.monotonic() + seconds
    while record["next_seed"] < count and time.monotonic() < end:
        seed, start, fault = record["next_seed"], time.process_time(), ""
        try:
            ends[cases.run(seed)] += 1
        except BaseException as error:  # a panic of polars does not derive from Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"{type(error).__name__} {Path(where.filename).name}:{where.lineno} {str(error)[:200]}"
        took, kb = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grew = kb > max(LARGEST_KB, record["most_kb"])
        record |= {"next_seed": seed + 1, "most_s": max(record["most_s"], took), "most_kb": max(record["most_kb"], kb)}
        if fault or took > LONGEST_S or grew:
            record["escaped"][str(seed)] = fault or f"{took:.1f} s, {kb} kB"
            print(seed, record["escaped"][str(seed)], flush=True)
        if seed % 100 == 99:
            path.write_text(json.dumps(record | {"ends": dict(ends)}, indent=1))
    path.write_text(json.dumps(record | {"ends": dict(ends)}, indent=1))
    taken = sum(number for name, number in ends.items() if name.endswith("taken"))
    most = f"at most {record['most_s']:.2f} s and {record['most_kb'] / 2**20:.2f} GB"
    print(f"{record['next_seed']} cases, {taken} taken, {most}; escaped: {record['escaped'] or 'none'}")
    return 1 if record["escaped"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--record", type=Path, default=ROOT / "build" / "fuzz-sidecars.json")
    parser.add_argument("--only", type=int, help="run this seed alone and let what escapes be seen")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="mindyn-fuzz-") as name:
        cases = Cases(Path(name))
        if given.only is not None:
            print(cases.run(given.only))
            return 0
        return run_cases(cases, given.record, given.count, given.seconds)


if __name__ == "__main__":
    raise SystemExit(main())
