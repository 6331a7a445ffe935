"""Kernels beside Pinocchio, in one run on the same inputs: `make bench`, or python benchmarks/kernels.py [--record]."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pinocchio as pin
from sections import Section, arguments, publish, ratio, spaced
from timing import best_of, this_machine

import mindyn

BATCH, BLOCK, LOOP = 100_000, 1024, 5_000
TARGETS = {  # ratio that each line must reach with AVX-512
    "inverse dynamics": 40,
    "inertia matrix": 20,
    "forward dynamics": 20,
    "standard regressor": 40,
    "base regressor": 40,
    "inverse dynamics, 2 threads": 1.8,
    "inverse dynamics, float32": 1.6,
    "bound single call": 2,
    "exported C, single call": 3,
}
PLAIN_CALL_NS = 6000


def batches(robot, rng):
    """q, qd, qdd (BATCH, n) row-major for us, and the same as columns for Pinocchio."""
    rows = rng.uniform(-2, 2, (3, BATCH, robot.joint_count))
    return rows, [np.asfortranarray(part.T.copy()) for part in rows]


def loop(function, rows):
    """One Python loop over single samples, as a user of the peer would write it."""
    return lambda: [function(*sample) for sample in zip(*rows, strict=True)]


def batched_rows(robot, model, rows, columns) -> dict[str, tuple[float, float]]:
    """Seconds per sample, ours and theirs, of the batched functions."""
    peer = mindyn.to_pinocchio(robot)
    pool, data = pin.ModelPool(peer), peer.createData()
    q, qd, qdd = rows
    Q, V, A = columns
    tau = model.inverse_dynamics(q, qd, qdd)
    result, square = np.empty_like(tau), np.empty((BATCH, robot.joint_count, robot.joint_count))
    T, R = np.asfortranarray(tau.T.copy()), np.asfortranarray(np.empty_like(Q))
    few = [part[:LOOP] for part in rows]
    cases = {
        "inverse dynamics": (
            lambda: model.inverse_dynamics(q, qd, qdd, out=result),
            lambda: pin.rneaInParallel(1, pool, Q, V, A, R),
            BATCH,
        ),
        "inertia matrix": (
            lambda: model.inertia_matrix(q, out=square),
            loop(lambda x: pin.crba(peer, data, x), few[:1]),
            LOOP,
        ),
        "forward dynamics": (
            lambda: model.forward_dynamics(q, qd, tau, out=result),
            lambda: pin.abaInParallel(1, pool, Q, V, T, R),
            BATCH,
        ),
    }
    for name in ("standard_regressor", "regressor"):
        label = "standard regressor" if name == "standard_regressor" else "base regressor"
        cases[label] = (
            in_blocks(model.kernel(name, compact=True), rows),
            loop(lambda *x: pin.computeJointTorqueRegressor(peer, data, *x), few),
            LOOP,
        )
    found = {}
    for label, (ours, theirs, count) in cases.items():
        seconds = best_of({"ours": ours, "theirs": theirs})
        found[label] = (seconds["ours"] / BATCH, seconds["theirs"] / count)
    assert np.allclose(tau.T, _reference(pool, Q, V, A), rtol=1e-9, atol=1e-9)
    return found


def _reference(pool, Q, V, A):
    R = np.asfortranarray(np.empty_like(Q))
    pin.rneaInParallel(1, pool, Q, V, A, R)
    return R


def in_blocks(kernel, rows):
    """Nonzeros into one reused block that stays in cache, as a regression reads them."""
    block = np.empty((BLOCK, *kernel.output_shapes[0]))
    starts = range(0, BATCH - BLOCK, BLOCK)

    def run():
        for start in starts:
            kernel(*(part[start : start + BLOCK] for part in rows), out=block)

    return run


def own_ratios(robot, model, rows) -> dict[str, tuple[float, float]]:
    """Two threads and float32 against one thread in float64."""
    small = mindyn.compile_model(robot, dtype="float32")
    rows32 = rows.astype(np.float32)
    out, out32 = np.empty_like(rows[0]), np.empty_like(rows32[0])
    seconds = best_of(
        {
            "one": lambda: model.inverse_dynamics(*rows, out=out),
            "two": lambda: model.inverse_dynamics(*rows, out=out, threads=2),
            "float32": lambda: small.inverse_dynamics(*rows32, out=out32),
        },
        25,
    )
    return {
        "inverse dynamics, 2 threads": (seconds["two"] / BATCH, seconds["one"] / BATCH),
        "inverse dynamics, float32": (seconds["float32"] / BATCH, seconds["one"] / BATCH),
    }


def single_calls(robot, model, rows) -> dict[str, tuple[float, float]]:
    """One sample at a time from Python, and the exported C from C."""
    peer = mindyn.to_pinocchio(robot)
    data, sample = peer.createData(), [np.ascontiguousarray(part[0]) for part in rows]
    bound = model.bind("inverse_dynamics")
    repeat = range(2000)
    seconds = best_of(
        {
            "bound": lambda: [bound.run() for _ in repeat],
            "plain": lambda: [model.inverse_dynamics(*sample) for _ in repeat],
            "pin": lambda: [pin.rnea(peer, data, *sample) for _ in repeat],
        }
    )
    return {
        "bound single call": (seconds["bound"] / 2000, seconds["pin"] / 2000),
        "plain single call": (seconds["plain"] / 2000, seconds["pin"] / 2000),
    }


DRIVER = """
#include "arm.h"
void many(const double *q, const double *qd, const double *qdd, double *tau, long count, long n)
{ for (long k = 0; k < count; ++k) inverse_dynamics(q + k*n, qd + k*n, qdd + k*n, tau + k*n); }
"""


def exported_c(robot, model, rows, columns) -> dict[str, tuple[float, float]]:
    """The C export, one call for each sample, against `rneaInParallel` with one thread."""
    with tempfile.TemporaryDirectory() as folder:
        model.write_c(Path(folder) / "arm.c")
        (Path(folder) / "driver.c").write_text(DRIVER)
        flags = ["-O3", "-march=native", "-shared", "-fPIC", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
        done = subprocess.run(
            ["cc", *flags, "arm.c", "driver.c", "-lm", "-o", "arm.so"], cwd=folder, capture_output=True, text=True
        )
        if done.returncode:
            print(f"no C compiler to time the export with: {done.stderr[:200]}", file=sys.stderr)
            return {}
        many = ctypes.CDLL(str(Path(folder) / "arm.so")).many
    tau = np.empty_like(rows[0])
    addresses = [ctypes.c_void_p(part.ctypes.data) for part in (*rows, tau)]
    many.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_long] * 2
    pool = pin.ModelPool(mindyn.to_pinocchio(robot))
    R = np.asfortranarray(np.empty_like(columns[0]))
    seconds = best_of(
        {
            "c": lambda: many(*addresses, BATCH, robot.joint_count),
            "pin": lambda: pin.rneaInParallel(1, pool, *columns, R),
        }
    )
    assert np.allclose(tau.T, R, rtol=1e-9, atol=1e-9)
    return {"exported C, single call": (seconds["c"] / BATCH, seconds["pin"] / BATCH)}


COMPILE = """
import time, sys, mindyn
robot = mindyn.load_robot({robot!r})
names = {names!r}
model = mindyn.compile_model(robot)
start = time.perf_counter()
for name in names:
    model.kernel(name).compile()
print(time.perf_counter() - start)
"""


def compile_times(robot: str, names: tuple[str, ...]) -> tuple[float, float]:
    """Seconds from equation to machine code in a fresh process, with an empty cache and then from it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MINDYN_CACHE_DIR": folder}
        run = lambda: subprocess.run(  # noqa: E731
            [sys.executable, "-c", COMPILE.format(robot=robot, names=names)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(run().stdout), min(float(run().stdout) for _ in range(3))


CORE = (
    *("inverse_dynamics", "inertia_matrix", "bias", "gravity", "coriolis", "forward_dynamics"),
    *("standard_regressor", "regressor", "energy", "energy_regressor"),
)


def main() -> None:
    options = arguments(__doc__).parse_args()
    rng = np.random.default_rng(0)
    table = [("robot", "function", "mindyn", "beside", "ratio", "asked")]
    for name in ("puma560", "panda"):
        robot = mindyn.load_robot(name)
        model = mindyn.compile_model(robot)
        rows, columns = batches(robot, rng)
        found = batched_rows(robot, model, rows, columns)
        found |= own_ratios(robot, model, rows) | single_calls(robot, model, rows)
        found |= exported_c(robot, model, rows, columns)
        for label, (ours, theirs) in found.items():
            least = TARGETS.get(label)
            asked = f"<= {PLAIN_CALL_NS} ns" if least is None else f">= {least}x"
            times = (f"{ours * 1e9:.1f} ns", f"{theirs * 1e9:.1f} ns")
            table.append((name, label, *times, ratio(theirs / ours, least), asked))
    one_cold, one_warm = compile_times("puma560", ("inverse_dynamics",))
    all_cold, all_warm = compile_times("panda", CORE)
    publish(
        Section(
            "kernels",
            "Kernels beside Pinocchio",
            "make bench",
            this_machine("pin"),
            [
                f"Time of one sample in batches of {spaced(BATCH)} row-major samples, one thread on both sides. Two "
                "threads and float32 stand beside one thread in float64. Pinocchio's `rneaInParallel` and "
                "`abaInParallel` run with one thread; `crba` and `computeJointTorqueRegressor` are called in a Python "
                f"loop, as a user would. Regressors are written as structural nonzeros into one reused "
                f"block of {spaced(BLOCK)} samples."
            ],
            table,
            [
                f"Compiling inverse dynamics of the PUMA takes {one_cold:.2f} s, {one_warm * 1e3:.0f} ms with a filled "
                f"cache; {len(CORE)} core kernels of the Panda take {all_cold:.2f} s, {all_warm * 1e3:.0f} ms."
            ],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
