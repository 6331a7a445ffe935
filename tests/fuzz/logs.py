"""Logs of every format, changed by operators that know formats, until `--cases` are counted.

`make study NAME=fuzz-logs` runs it.

Each log is read in a worker process that reports processor time and peak memory; a worker that ends by itself, takes
more than 20 s or 2 GB, or raises anything but an error of mindyn is a failure. Seeds go on after the last of earlier
runs (build/fuzz-logs.json, or `--record`), which also counts cases by format, operator and outcome.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import resource
import select
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))

from hostile_logs import ARRAYS, SIDECAR, arrays, columns, csv_text
from hostile_sizes import CHANNEL, SCHEMA, mcap, record, text
from log_changes import OPERATORS, TEXT_OPERATORS, choose

ROOT = Path(__file__).parents[2]
SECONDS, LARGEST = 20.0, 2 * 2**30
ROWS = 60
BATCH = 250
BAG = 'side = "joint"\n'
Rng = np.random.Generator


def joint_state(k: int) -> bytes:
    """Return the CDR bytes of a JointState message of two joints."""
    data = bytearray(struct.pack("<iI", k // 100, k % 100 * 10**7) + struct.pack("<I", 1) + b"\0")

    def align(size: int) -> None:
        data.extend(bytes(-len(data) % size))

    align(4)
    data.extend(struct.pack("<I", 2))
    for name in (b"joint1\0", b"joint2\0"):
        align(4)
        data.extend(struct.pack("<I", len(name)) + name)
    for field in range(3):
        align(4)
        data.extend(struct.pack("<I", 0 if field == 1 else 2))  # velocities are not published
        if field == 1:
            continue
        align(8)
        data.extend(struct.pack("<2d", np.sin(0.1 * k + field), np.cos(0.1 * k - field)))
    return b"\0\1\0\0" + bytes(data)


def message(k: int) -> bytes:
    return record(5, struct.pack("<HIQQ", 1, k, k * 10**7, k * 10**7) + joint_state(k))


def write_chunked_mcap(folder: Path, compression: str) -> bytes:
    inner = SCHEMA + CHANNEL + b"".join(map(message, range(ROWS)))
    if compression == "zstd":
        import zstandard

        packed = zstandard.compress(inner)
    else:
        import lz4.frame

        packed = lz4.frame.compress(inner)
    head = struct.pack("<QQQI", 0, ROWS * 10**7, len(inner), 0) + text(compression) + struct.pack("<Q", len(packed))
    return mcap(folder, record(6, head + packed)).read_bytes()


def write_bag(path: Path) -> None:
    with sqlite3.connect(path) as base:
        base.execute("create table topics (id integer, name text, type text, serialization_format text)")
        base.execute("create table messages (id integer, topic_id integer, timestamp integer, data blob)")
        base.execute("insert into topics values (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')")
        base.executemany("insert into messages values (?, 1, ?, ?)", [(k, k, joint_state(k)) for k in range(ROWS)])
    base.close()


def good_logs(folder: Path) -> dict[str, tuple[bytes, str]]:
    """Return content and sidecar of a log of each format, by file name."""
    import h5py
    import polars as pl
    from scipy.io import savemat

    table, both = columns(ROWS), arrays(ROWS)
    frame = pl.DataFrame(table)
    nested = [
        {"header": {"stamp": t}, "q": list(q), "tau": list(tau)} for t, q, tau in zip(*both.values(), strict=True)
    ]
    lists = ARRAYS.replace('"t"', '"header.stamp"')
    logs = {
        "log.csv": (csv_text(ROWS).encode(), SIDECAR),
        "semicolons.csv": (csv_text(ROWS).replace(",", ";").replace(".", ",").encode(), SIDECAR),
        "log.tsv": (csv_text(ROWS).replace(",", "\t").encode(), SIDECAR),
        "log.jsonl": (frame.write_ndjson().encode(), SIDECAR),
        "nested.jsonl": ("".join(json.dumps(row, default=float) + "\n" for row in nested).encode(), lists),
    }
    for codec in ("zstd", "snappy", "uncompressed", "gzip"):
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression=codec)
        logs[f"{codec}.parquet"] = (buffer.getvalue(), SIDECAR)
    buffer = io.BytesIO()
    pl.DataFrame({name: value.tolist() for name, value in both.items()}).write_parquet(buffer)
    logs["lists.parquet"] = (buffer.getvalue(), ARRAYS)
    for name, save in (("plain.npz", np.savez), ("packed.npz", np.savez_compressed)):
        buffer = io.BytesIO()
        save(buffer, **both)
        logs[name] = (buffer.getvalue(), ARRAYS)
    for name, given in (("v5.mat", {}), ("packed.mat", {"do_compression": True}), ("v4.mat", {"format": "4"})):
        buffer = io.BytesIO()
        savemat(buffer, both, **given)
        logs[name] = (buffer.getvalue(), ARRAYS)
    buffer = io.BytesIO()
    savemat(buffer, {"s": {"inner": both}}, do_compression=True)
    logs["struct.mat"] = (buffer.getvalue(), re.sub(r'= "(t|q|tau)"', r'= "s.inner.\1"', ARRAYS))
    filters: dict[str, dict[str, Any]] = {
        "plain.h5": {},
        "gzip.h5": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        "lzf.h5": {"compression": "lzf"},
    }
    for name, given in filters.items():
        with h5py.File(folder / name, "w") as file:
            for key, array in both.items():
                file.create_dataset(key, data=array, chunks=(16, *array.shape[1:]) if given else None, **given)
        logs[name] = ((folder / name).read_bytes(), ARRAYS)
    write_bag(folder / "bag.db3")
    logs["bag.db3"] = ((folder / "bag.db3").read_bytes(), BAG)
    logs["bag.mcap"] = (mcap(folder, SCHEMA + CHANNEL + b"".join(map(message, range(ROWS)))).read_bytes(), BAG)
    for compression in ("zstd", "lz4"):
        logs[f"{compression}.mcap"] = (write_chunked_mcap(folder, compression), BAG)
    return logs


class Cases:
    """One changed log for each seed, written into a folder."""

    def __init__(self, folder: Path) -> None:
        import mindyn

        self.mindyn, self.folder, self.arm = mindyn, folder, mindyn.load_robot("planar2")
        self.logs = good_logs(folder)
        self.others = [data for data, _ in self.logs.values()]

    def changed(self, seed: int) -> tuple[str, str, bytes]:
        """Return the name of a log, the operators and the changed content."""
        rng = np.random.default_rng((30, seed))
        name = list(self.logs)[seed % len(self.logs)]
        data, names = self.logs[name][0], []
        is_text = name.endswith((".csv", ".tsv", ".jsonl"))
        for _ in range(int(choose((1, 1, 2, 3), rng))):
            operator = choose(TEXT_OPERATORS if is_text and rng.random() < 0.6 else OPERATORS, rng)
            names.append(operator.__name__)
            data = operator(data, rng, self.others)[: 4 * 2**20] or b"\0"
        return name, "+".join(names), data

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        path.with_name(name + ".toml").write_text(self.logs[name][1])
        return path

    def require_good(self) -> None:
        """Raise if an unchanged log is not read."""
        for name, (data, _) in self.logs.items():
            self.mindyn.read_log(self.write(name, data), self.arm)

    def run(self, seed: int) -> tuple[str, str, str]:
        """Read the changed log; return its name, the operators and the outcome."""
        from mindyn.foundation.errors import MindynError

        name, operators, data = self.changed(seed)
        try:
            log = self.mindyn.read_log(self.write(name, data), self.arm)
            self.mindyn.condition(self.arm, log)
        except MindynError as error:
            if len(str(error)) > 8000:
                return name, operators, f"FAILED: a message of {len(str(error))} characters"
            return name, operators, "rejected"
        except BaseException as error:  # a panic of polars does not derive from Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            return name, operators, "FAILED: " + "".join(traceback.format_exception(error)[-6:])[-1500:]
        return name, operators, "read"


def work(start: int, stop: int) -> None:
    """Run cases and print one JSON line for each."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (3 * LARGEST, 3 * LARGEST))
    with tempfile.TemporaryDirectory(prefix="mindyn-fuzz-") as folder:
        cases = Cases(Path(folder))
        cases.require_good()
        print(json.dumps(None), flush=True)
        for seed in range(start, stop):
            before = time.process_time()
            name, operators, outcome = cases.run(seed)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            print(json.dumps([seed, name, operators, outcome, time.process_time() - before, peak]), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="count up to so many, earlier runs included")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long; 0: when all are counted")
    parser.add_argument("--record", type=Path, default=ROOT / "build" / "fuzz-logs.json")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--only", type=int, help="run this seed alone; what escapes is printed")
    given = parser.parse_args()
    if given.work:
        work(*given.work)
        return 0
    if given.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(*Cases(Path(folder)).run(given.only))
        return 0
    record_of_runs: dict[str, Any] = {"next_seed": 0, "cases": 0, "outcomes": {}, "failed": []}
    if given.record.exists():
        record_of_runs |= json.loads(given.record.read_text())
    given.record.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + given.seconds if given.seconds else float("inf")
    while record_of_runs["cases"] < given.cases and time.monotonic() < end:
        run_batch(record_of_runs, min(BATCH, given.cases - record_of_runs["cases"]))
        given.record.write_text(json.dumps(record_of_runs, indent=1))
    print(f"{record_of_runs['cases']} cases; failed: {record_of_runs['failed'] or 'none'}")
    return 1 if record_of_runs["failed"] else 0


def tail_of(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("utf-8", "replace")[-1500:])


def run_batch(kept: dict[str, Any], count: int) -> None:
    """Run so many cases in a worker; go on behind a case that ends it."""
    start = kept["next_seed"]
    command = [sys.executable, __file__, "--work", str(start), str(start + count)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    temporary_file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when nothing refers to it
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=temporary_file, env=environment)
    assert worker.stdout is not None
    if worker.stdout.readline() != b"null\n":
        raise SystemExit(f"the unchanged logs are not read: {tail_of(temporary_file)}")
    outcomes, ended = Counter(kept["outcomes"]), ""
    while kept["next_seed"] < start + count:
        if not select.select([worker.stdout], [], [], 10 * SECONDS)[0]:  # of the clock: other processes may be busy
            worker.kill()
            ended = "HANGS"
            break
        line = worker.stdout.readline()
        if not line:
            ended = f"ENDS THE PROCESS ({worker.wait()})"
            break
        seed, name, operators, outcome, seconds, peak = json.loads(line)
        if seconds > SECONDS:
            outcome = f"FAILED: {seconds:.0f} s"
        if peak > LARGEST:
            outcome = f"FAILED: {peak / 2**20:.0f} MB"
        if outcome.startswith("FAILED"):
            kept["failed"].append(seed)
            print(f"seed {seed} {name} {operators}\n{outcome}", flush=True)
        outcomes[f"{name} {outcome.partition(':')[0]}"] += 1
        for word in operators.split("+"):
            outcomes[f"operator {word}"] += 1
        kept["next_seed"], kept["cases"] = seed + 1, kept["cases"] + 1
        if peak > LARGEST:  # the peak of a process does not fall again
            worker.kill()
            break
    worker.wait()
    if ended:
        print(f"seed {kept['next_seed']} {ended}\n{tail_of(temporary_file)}", flush=True)
        kept["failed"].append(kept["next_seed"])
        kept["next_seed"], kept["cases"] = kept["next_seed"] + 1, kept["cases"] + 1
    kept["outcomes"] = dict(outcomes)


if __name__ == "__main__":
    raise SystemExit(main())
