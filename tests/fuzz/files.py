"""Robots, logs, sidecars, saved estimates and commands, mutated: each is accepted or rejected by an error of mindyn.

`make study NAME=fuzz-files` runs it; `--seconds` says for how long. Seeds go on after the last of earlier runs
(build/fuzz-files.json, or `--record`), which also counts cases by what they tried and keeps what escaped. What was read
goes on: a log is conditioned, an estimate predicts. A library that ends the process is found by the last hundred that
was noted.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PanicException
from scipy.io import savemat

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))

from changes import change_arrays, change_bytes, change_json, change_words
from hostile_logs import ARRAYS, SIDECAR, arrays, columns, csv_text
from readers import mutate as changed_text
from readers import seeds as robot_texts
from readers import try_case as try_robot
from typer.main import get_command

import mindyn
from mindyn.cli.main import app, load_command, run
from mindyn.foundation.errors import MindynError

ROOT = Path(__file__).parents[2]
ESTIMATE = ROOT / "tests" / "estimators" / "saved_estimate.json"
ROWS = 100
Writer = Callable[[Path, dict[str, np.ndarray]], None]


def write_hdf5(path: Path, values: dict[str, np.ndarray]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in values.items():
            file.create_dataset(name, data=array)


def write_bag(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("create table topics (id integer, name text, type text, serialization_format text)")
        base.execute("create table messages (id integer, topic_id integer, timestamp integer, data blob)")
        base.execute("insert into topics values (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')")
        base.executemany("insert into messages values (?, 1, ?, ?)", [(k, k, bytes(60)) for k in range(20)])
    base.close()


WRITERS: dict[str, Writer] = {
    "log.parquet": lambda path, values: pl.DataFrame(values).write_parquet(path),
    "log.npz": lambda path, values: np.savez(path, **values),
    "packed.npz": lambda path, values: np.savez_compressed(path, **values),
    "log.mat": lambda path, values: savemat(path, values, do_compression=True),
    "log.h5": write_hdf5,
}


class Cases:
    """Good files, and one changed case for each seed.

    folder  where the files of a case are written
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arm = mindyn.load_robot("planar2")
        self.estimate = ESTIMATE.read_bytes()
        self.robots = {form: robot_texts(form) for form in ("urdf", "toml", "mjcf")}
        self.logs: dict[str, tuple[bytes, str]] = {"log.csv": (csv_text(ROWS).encode(), SIDECAR)}
        for name, write in WRITERS.items():
            values, sidecar = (columns(ROWS), SIDECAR) if name == "log.parquet" else (arrays(ROWS), ARRAYS)
            write(folder / name, values)
            self.logs[name] = ((folder / name).read_bytes(), sidecar)
        write_bag(folder / "bag.db3")
        self.logs["bag.db3"] = ((folder / "bag.db3").read_bytes(), SIDECAR)
        self.commands = self._commands()
        self.kinds: list[tuple[str, Callable[[int, np.random.Generator], None]]] = [
            *((name, self._log_case(name)) for name in self.logs),
            *((form, self._robot_case(form)) for form in ("urdf", "toml")),
            ("estimate", self._estimate_case),
        ]

    def run(self, seed: int) -> str:
        """Run a case; what it tried. Anything but an error of ours escapes."""
        rng = np.random.default_rng(seed)
        if seed % 50 == 49:  # dearer than the others
            kind, case = ("command", self._command_case) if seed % 100 == 99 else ("mjcf", self._robot_case("mjcf"))
        else:
            kind, case = self.kinds[seed % len(self.kinds)]
        try:
            case(seed, rng)
        except MindynError as error:
            if len(str(error)) > 8000:
                raise AssertionError(f"a message of {len(str(error))} characters: {str(error)[:200]}") from error
            return f"{kind} rejected"
        return f"{kind} taken"

    def _log_case(self, name: str) -> Callable[[int, np.random.Generator], None]:
        def case(_: int, rng: np.random.Generator) -> None:
            path, (data, sidecar) = self.folder / name, self.logs[name]
            both = rng.integers(0, 3)
            path.unlink(missing_ok=True)
            path.write_bytes(self._change_log(name, path, rng) if both else data)
            if both != 1:
                sidecar = changed_text(sidecar, random.Random(int(rng.integers(2**31))))
            path.with_name(name + ".toml").write_bytes(sidecar.encode("utf-8", "surrogatepass"))
            log = mindyn.read_log(path, self.arm)
            mindyn.condition(self.arm, log)

        return case

    def _change_log(self, name: str, path: Path, rng: np.random.Generator) -> bytes:
        data = self.logs[name][0]
        if rng.random() < 0.4:
            return change_bytes(data, rng)
        if name == "log.csv":
            text = changed_text(data.decode(), random.Random(int(rng.integers(2**31))))
            return text.encode("utf-8", "surrogatepass")
        if name not in WRITERS:
            return change_bytes(data, rng)
        try:
            WRITERS[name](path, change_arrays(columns(ROWS) if name == "log.parquet" else arrays(ROWS), rng))
        except (Exception, PanicException):  # what the format cannot hold
            return change_bytes(data, rng)
        return path.read_bytes()

    def _robot_case(self, form: str) -> Callable[[int, np.random.Generator], None]:
        def case(seed: int, _: np.random.Generator) -> None:
            end = try_robot(form, self.robots[form], seed, self.folder)
            if end.startswith("!"):
                raise AssertionError(end)
            if end != "robot":
                raise MindynError(end)

        return case

    def _estimate_case(self, _: int, rng: np.random.Generator) -> None:
        path = self.folder / "estimate.json"
        change = change_bytes if rng.random() < 0.2 else change_json
        path.write_bytes(change(self.estimate, rng))
        estimate = mindyn.load_estimate(path)
        repr(estimate)
        estimate.predict(*np.ones((3, 2, estimate.robot.joint_count)))

    def _commands(self) -> list[tuple[list[str], list[str]]]:
        """Words of commands that end soon, and the options of each."""
        (self.folder / "estimate-good.json").write_bytes(self.estimate)
        (self.folder / "good.csv").write_bytes(self.logs["log.csv"][0])
        (self.folder / "good.csv.toml").write_text(SIDECAR)
        log, estimate, out = (str(self.folder / name) for name in ("good.csv", "estimate-good.json", "out"))
        lines = [
            ["robots", "planar2"],
            ["base", "planar2"],
            ["count", "planar2"],
            ["log", log, "planar2"],
            ["identify", "planar2", log, "--out", out],
            ["check", estimate],
            ["export", estimate, "--to", "urdf", "--out", out],
            ["payload", estimate, log],
            ["contact", estimate, log],
            ["simulate", "planar2", "--motion", out, "--out", out + ".csv"],
        ]
        get_command(app)
        return [
            (line, [o for p in load_command(line[0]).params for o in p.opts if o.startswith("-")]) for line in lines
        ]

    def _command_case(self, seed: int, rng: np.random.Generator) -> None:
        words, options = self.commands[(seed // 100) % len(self.commands)]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as message:
            before, sys.argv = sys.argv, ["mindyn", *change_words(words, options, rng)]
            try:
                with chdir(self.folder):
                    run()
            except SystemExit as end:
                if "Traceback" in message.getvalue():
                    raise AssertionError(message.getvalue()[-2000:]) from None
                if end.code:
                    raise MindynError(str(end.code)) from None
            finally:
                sys.argv = before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--record", type=Path, default=ROOT / "build" / "fuzz-files.json")
    parser.add_argument("--start", type=int, default=0, help="the first seed of a new record")
    parser.add_argument("--only", type=int, help="run this seed alone and let what escapes be seen")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="mindyn-fuzz-", dir=memory if memory.is_dir() else None) as name:
        cases = Cases(Path(name))
        if given.only is not None:
            print(cases.run(given.only))
            return 0
        return run_cases(cases, given.record, given.start, given.seconds)


def run_cases(cases: Cases, path: Path, start: int, seconds: float) -> int:
    """Run cases for so long and keep the record; 1 where something escaped."""
    record: dict[str, Any] = {"next_seed": start, "cases": 0, "ends": {}, "escaped": []}
    if path.exists():
        record |= json.loads(path.read_text())
    path.parent.mkdir(exist_ok=True)
    ends, before, end = Counter(record["ends"]), record["cases"], time.monotonic() + seconds
    seen: set[str] = set()
    while time.monotonic() < end:
        seed = record["next_seed"]
        if seed % 100 == 0:
            path.write_text(json.dumps(record | {"ends": dict(ends)}, indent=1))
        record["next_seed"] += 1
        record["cases"] += 1
        try:
            ends[cases.run(seed)] += 1
        except BaseException as error:  # a panic of polars does not derive from Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            record["escaped"].append(seed)
            if (fault := f"{type(error).__name__} {where.filename}:{where.lineno}") not in seen:
                seen.add(fault)
                print(f"seed {seed}\n{traceback.format_exc(limit=-4)[-3000:]}", flush=True)
    path.write_text(json.dumps(record | {"ends": dict(ends)}, indent=1))
    print(f"{record['cases'] - before} cases, {record['cases']} in all; escaped: {record['escaped'] or 'none'}")
    return 1 if record["escaped"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
