"""Load, compile, evaluate, read, identify, write, again and again: memory and descriptors stay flat.

`make study NAME=soak` runs it.

Between rounds a writer is killed in the middle of its work, and one runs out of space; the folder must be whole. The
first quarter of the time fills caches and pools; from there on, growth is reported and limited.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

GROWTH = 32e6
"""Bytes that the process may grow by after the first quarter."""
INTERRUPTED = Path(__file__).parents[1] / "io" / "interrupted_writing.py"


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def one_round(number: int, folder: Path) -> None:
    import mindyn
    from mindyn.logs.log import write_log

    rng = np.random.default_rng(number)
    arm = mindyn.load_robot("planar2")
    links = tuple(replace(link, phi=np.asarray(link.phi) * rng.uniform(0.5, 2.0)) for link in arm.links)
    robot = replace(arm, links=links)
    model = mindyn.compile_model(robot)
    t = np.arange(2000) / 200
    phase, speed = rng.uniform(0, 6, (4, 2)), rng.uniform(0.5, 6, (4, 2))
    angle = speed[:, None, :] * t[None, :, None] + phase[:, None, :]
    q, qd, qdd = (
        np.sin(angle).sum(0),
        (speed[:, None] * np.cos(angle)).sum(0),
        -(speed[:, None] ** 2 * np.sin(angle)).sum(0),
    )
    tau = model.inverse_dynamics(q, qd, qdd) + 0.01 * rng.standard_normal(q.shape)
    model.bind("gravity").run()
    write_log(robot, t, {"position": q, "torque": tau}, folder / "log.csv", {"position": "joint", "torque": "joint"})
    log = mindyn.read_log(folder / "log.csv", robot)
    if number % 10 == 0:
        estimate = mindyn.identify(replace(robot, drives=()), log)
        estimate.save(folder / "estimate.json")
        mindyn.load_estimate(folder / "estimate.json")
    if number % 25 == 0:
        for trouble in ("kill", "full"):
            command = [sys.executable, INTERRUPTED, folder / f"run-{trouble}", trouble, "beside"]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert "broken" not in printed, printed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    given = parser.parse_args()
    start, number, base, handles = time.monotonic(), 0, 0.0, 0
    with tempfile.TemporaryDirectory(prefix="mindyn-soak-") as name:
        os.environ["MINDYN_CACHE_DIR"] = str(Path(name) / "cache")
        while (spent := time.monotonic() - start) < given.seconds or number < 4:
            one_round(number, Path(name))
            number += 1
            if spent > given.seconds / 4 and not base:
                gc.collect()
                base, handles = resident(), descriptors()
            if number % 25 == 0:
                print(
                    f"{number} rounds, {spent:.0f} s, {resident() / 1e6:.0f} MB, {descriptors()} descriptors",
                    flush=True,
                )
        gc.collect()
        growth, more = resident() - base, descriptors() - handles
    print(f"{number} rounds: grew by {growth / 1e6:.1f} MB and {more} descriptors after the first quarter")
    return 0 if growth < GROWTH and more <= 2 else 1


if __name__ == "__main__":
    raise SystemExit(main())
