"""Logs, sidecars and saved estimates, mutated: each is read or refused by an error of ours; `make fuzz-files`.

`--seconds` says for how long; seeds go on after the last of earlier runs (build/fuzz-files.json), which also counts
cases and keeps what escaped. A library that ends the process is found by the last hundred that was noted.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))

from hostile_logs import ARRAYS, SIDECAR, arrays, columns, csv_text

import mindyn
from mindyn.errors import MindynError

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "build" / "fuzz-files.json"
ESTIMATE = ROOT / "tests" / "estimators" / "estimate_of_format_1.json"
WORDS = [
    b"0",
    b"-1",
    b"1e308",
    b"nan",
    b"inf",
    b"[",
    b"{",
    b'"',
    b"\n",
    b",",
    b"\0",
    b"\xff\xff\xff\xff",
    b"99999999999",
    b"{i}",
]


def originals(folder: Path) -> dict[str, tuple[bytes, bytes]]:
    """Content and sidecar of a good file of each format."""
    import polars as pl
    from scipy.io import savemat

    plain, boxed = SIDECAR.encode(), ARRAYS.encode()
    (folder / "log.csv").write_text(csv_text(100))
    pl.DataFrame(columns(100)).write_parquet(folder / "log.parquet")
    np.savez(folder / "log.npz", **arrays(100))
    np.savez_compressed(folder / "packed.npz", **arrays(100))
    savemat(folder / "log.mat", arrays(100), do_compression=True)
    with sqlite3.connect(folder / "bag.db3") as base:
        base.execute("create table topics (id integer, name text, type text, serialization_format text)")
        base.execute("create table messages (id integer, topic_id integer, timestamp integer, data blob)")
        base.execute("insert into topics values (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')")
        base.executemany("insert into messages values (?, 1, ?, ?)", [(k, k, bytes(60)) for k in range(20)])
    base.close()
    made = {name: ((folder / name).read_bytes(), plain) for name in ("log.csv", "log.parquet", "bag.db3")}
    made |= {name: ((folder / name).read_bytes(), boxed) for name in ("log.npz", "packed.npz", "log.mat")}
    try:
        import h5py
    except ImportError:
        return made
    with h5py.File(folder / "log.h5", "w") as file:
        for name, values in arrays(100).items():
            file.create_dataset(name, data=values, compression="gzip")
    return made | {"log.h5": ((folder / "log.h5").read_bytes(), boxed)}


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(0, len(changed) + 1))
        match rng.integers(0, 5):
            case 0:
                changed[at : at + 1] = bytes([rng.integers(0, 256)])
            case 1:
                changed[at:at] = WORDS[rng.integers(len(WORDS))]
            case 2:
                del changed[at : at + int(rng.integers(1, 64))]
            case 3:
                changed[at:at] = changed[at : at + int(rng.integers(1, 64))]
            case 4:
                changed[at : at + 8] = rng.bytes(8)
    return bytes(changed[: rng.integers(1, len(changed) + 1)] if rng.random() < 0.1 else changed)


def one_case(seed: int, made: dict[str, tuple[bytes, bytes]], estimate: bytes, folder: Path, arm: mindyn.Robot) -> None:
    rng = np.random.default_rng(seed)
    names = [*made, "estimate.json"]
    name = names[seed % len(names)]
    path = folder / name
    if name == "estimate.json":
        path.write_bytes(mutated(estimate, rng))
        mindyn.load_estimate(path)
        return
    data, sidecar = made[name]
    both = rng.integers(0, 3)
    path.write_bytes(mutated(data, rng) if both else data)
    path.with_name(name + ".toml").write_bytes(sidecar if both == 1 else mutated(sidecar, rng))
    mindyn.read_log(path, arm)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"cases": 0, "escaped": []}
    RECORD.parent.mkdir(exist_ok=True)
    arm, estimate, before = mindyn.load_robot("planar2"), ESTIMATE.read_bytes(), record["cases"]
    end = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory(prefix="mindyn-fuzz-") as name:
        folder = Path(name)
        made = originals(folder)
        while time.monotonic() < end:
            seed = record["cases"]
            if seed % 100 == 0:
                RECORD.write_text(json.dumps(record, indent=1))
            record["cases"] += 1
            try:
                one_case(seed, made, estimate, folder, arm)
            except MindynError:
                pass
            except Exception:
                print(f"seed {seed}\n{traceback.format_exc(limit=-3)}", flush=True)
                record["escaped"].append(seed)
    RECORD.write_text(json.dumps(record, indent=1))
    print(f"{record['cases'] - before} cases, {record['cases']} in all; escaped: {record['escaped'] or 'none'}")
    return 1 if record["escaped"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
