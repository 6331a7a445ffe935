"""Kernels compared with Pinocchio in one run on the same inputs: `make bench`.

python -m benchmarks.kernels.speed [--record]

Two sections: batches compared with Pinocchio compiled in C++ for this CPU, and single calls compared with its
generated C. Another column has the times of Pinocchio's Python module.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

import numpy as np
import pinocchio as pin

import mindyn
from benchmarks.kernels.native_peer import CPU, base_columns, native_peer, write_traced
from benchmarks.sections import Section, arguments, publish, ratio, spaced
from benchmarks.timing import measure_best_times, this_machine

ROBOTS = ("puma560", "panda")
BATCH, LOOP = 1024, 500
"""Samples of a batch, whose inputs and outputs stay in cache, and of a Python loop."""
BATCH_REPETITIONS = range(20)
"""Number of our batches in one timed run, which then takes as long as one of the peer."""
TARGETS = {  # ratio that each line must reach with AVX-512
    "inverse dynamics": 45,
    "forward dynamics": 40,
    "inertia matrix": 25,
    "base regressor": 30,
    "base regressor, dense": 25,
    "standard regressor": 30,
    "standard regressor, dense": 22,
    "derivatives of inverse dynamics": 25,
    "derivatives of forward dynamics": 25,
    "inverse dynamics, 2 threads": 1.8,
    "inverse dynamics, float32": 1.6,
    "bound call": 2,
    "exported C": 1.5,
}
PEERS = {
    "inverse dynamics": ("rnea",),
    "forward dynamics": ("aba", "aba_world"),
    "inertia matrix": ("crba", "crba_world"),
    "base regressor": ("base_regressor",),
    "base regressor, dense": ("base_regressor",),
    "standard regressor": ("regressor",),
    "standard regressor, dense": ("regressor",),
    "derivatives of inverse dynamics": ("rnea_derivatives",),
    "derivatives of forward dynamics": ("aba_derivatives",),
}
"""Pinocchio's algorithms for each of our kernels; the fastest counts, and the first is also called from Python."""


def build_kernels(model):
    """Return our kernels: regressors as structural nonzeros and dense, derivatives with respect to all motion
    inputs."""
    return {
        **{label: model.kernel(label.replace(" ", "_")) for label in list(PEERS)[:3]},
        "base regressor": model.kernel("regressor", compact=True),
        "base regressor, dense": model.kernel("regressor"),
        "standard regressor": model.kernel("standard_regressor", compact=True),
        "standard regressor, dense": model.kernel("standard_regressor"),
        "derivatives of inverse dynamics": model.derivatives("inverse_dynamics"),
        "derivatives of forward dynamics": model.derivatives("forward_dynamics"),
    }


def time_functions(functions, repetitions=25):
    """Return the processor time of the fastest run of each function, since the machine may be busy."""
    return measure_best_times(functions, repetitions, clock=process_time)


def measure_batches(robot, model, rng) -> list[tuple[str, ...]]:
    """Return the rows of the table of one robot."""
    n = robot.joint_count
    motion = rng.uniform(-2, 2, (3, BATCH, n))
    motion[2] = model.inverse_dynamics(*motion)  # accelerations for rnea, torques for aba: the values do not matter
    native, python = native_peer(robot), python_loops(robot, motion, base_columns(model.base))
    if native is not None:
        native.choose_base(model.base)
    tau, theirs = motion[2].copy(), np.empty(max(BATCH * n, 10 * n * n))
    rows = []
    for label, kernel in build_kernels(model).items():
        outputs = tuple(np.empty((BATCH, *shape)) for shape in kernel.output_shapes)
        out = outputs if len(outputs) > 1 else outputs[0]
        given = motion[: len(kernel.input_shapes)]
        sides = {
            "ours": lambda kernel=kernel, given=given, out=out: [kernel(*given, out=out) for _ in BATCH_REPETITIONS]
        }
        sides["python"] = python[PEERS[label][0]]
        for item in PEERS[label] if native is not None else ():
            sides[item] = lambda item=item: native.run(item, motion, theirs)
        seconds = time_functions(sides)
        if native is not None:
            require_equal(label, outputs, theirs, n)
        ours, loop = seconds["ours"] / (len(BATCH_REPETITIONS) * BATCH), seconds["python"] / LOOP
        other = min((seconds[side] for side in sides if side not in ("ours", "python")), default=None)
        rows.append((robot.name, label, *format_comparison(ours, other and other / BATCH, label), format_ns(loop)))
    assert np.array_equal(tau, motion[2])
    return rows + measure_own_rows(robot, model, motion)


def require_equal(label: str, outputs, theirs, n: int) -> None:
    """Compare with the last output of the peer: all torques or accelerations, or the matrices of the last sample."""
    if label in ("inverse dynamics", "forward dynamics"):
        assert np.allclose(outputs[0].ravel(), theirs[: outputs[0].size], rtol=1e-8, atol=1e-8)
    elif label == "base regressor, dense":
        assert np.allclose(outputs[0][-1].ravel(), theirs[: outputs[0][-1].size], rtol=1e-8, atol=1e-8)
    elif label.startswith("derivatives"):
        for k, (output, matrix) in enumerate(zip(outputs, theirs[: 3 * n * n].reshape(3, n, n), strict=True)):
            ours, other = (output[-1], matrix.T) if k < 2 else (np.triu(output[-1]), np.triu(matrix.T))
            assert np.allclose(ours, other, rtol=1e-8, atol=1e-8)


def format_ns(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e9:.1f} ns"


def format_comparison(ours: float, theirs: float | None, label: str) -> tuple[str, ...]:
    least = TARGETS.get(label)
    reached = "-" if theirs is None else ratio(theirs / ours, least)
    return format_ns(ours), format_ns(theirs), reached, "" if least is None else f">= {least}x"


def python_loops(robot, motion, columns):
    """Return Python loops over single samples with the peer's Python module; `columns` are those of the base set."""
    peer = mindyn.to_pinocchio(robot)
    data, few = peer.createData(), list(zip(*motion[:, :LOOP], strict=True))
    return {
        "rnea": lambda: [pin.rnea(peer, data, *item) for item in few],
        "aba": lambda: [pin.aba(peer, data, *item) for item in few],
        "crba": lambda: [pin.crba(peer, data, q) for q, _, _ in few],
        "regressor": lambda: [pin.computeJointTorqueRegressor(peer, data, *item) for item in few],
        "base_regressor": lambda: [pin.computeJointTorqueRegressor(peer, data, *item)[:, columns] for item in few],
        "rnea_derivatives": lambda: [pin.computeRNEADerivatives(peer, data, *item) for item in few],
        "aba_derivatives": lambda: [pin.computeABADerivatives(peer, data, *item) for item in few],
    }


def measure_own_rows(robot, model, motion) -> list[tuple[str, ...]]:
    """Return rows that compare two threads (wall time) and float32 with one thread in float64, in batches of 100
    000."""
    rows = np.repeat(motion, 98, axis=1)[:, :100_000].copy()
    small, rows32 = mindyn.compile_model(robot, dtype="float32"), rows.astype(np.float32)
    out, out32 = np.empty_like(rows[0]), np.empty_like(rows32[0])
    item = lambda: model.inverse_dynamics(*rows, out=out)  # noqa: E731
    two = lambda: model.inverse_dynamics(*rows, out=out, threads=2)  # noqa: E731
    half = lambda: small.inverse_dynamics(*rows32, out=out32)  # noqa: E731
    busy = time_functions({"one": item, "half": half})
    cases = {"float32": (busy["half"], busy["one"])}
    if two_cores_are_free():
        wall = measure_best_times({"one": item, "two": two}, 25)
        cases["2 threads"] = (wall["two"], wall["one"])
    labels = {f"inverse dynamics, {name}": times for name, times in cases.items()}
    return [(robot.name, label, *format_comparison(a / 1e5, b / 1e5, label), "-") for label, (a, b) in labels.items()]


def two_cores_are_free() -> bool:
    """Return whether the machine is idle enough to time two threads; print a message if not."""
    load = os.getloadavg()[0]
    free = load < (os.cpu_count() or 1) - 0.5
    if not free:
        print(f"two threads are not timed: the machine is busy (load {load:.1f})", file=sys.stderr)
    return free


def measure_calls(robot, model, rng) -> list[tuple[str, ...]]:
    """Return the rows of single calls from Python and from C."""
    sample = [np.ascontiguousarray(item) for item in rng.uniform(-2, 2, (3, robot.joint_count))]
    peer = mindyn.to_pinocchio(robot)
    data, bound, repeat = peer.createData(), model.bind("inverse_dynamics"), range(2000)
    seconds = time_functions(
        {
            "bound": lambda: [bound.run() for _ in repeat],
            "plain": lambda: [model.inverse_dynamics(*sample) for _ in repeat],
            "pin": lambda: [pin.rnea(peer, data, *sample) for _ in repeat],
        }
    )
    bound_ns, plain_ns, pin_ns = (seconds[name] / 2000 for name in ("bound", "plain", "pin"))
    rows = [
        (robot.name, "bound call", "pinocchio.rnea", *format_comparison(bound_ns, pin_ns, "bound call")),
        (robot.name, "plain call", "pinocchio.rnea", *format_comparison(plain_ns, pin_ns, "plain call")),
    ]
    exported = measure_exported_c(robot, model, rng)
    if exported is not None:
        peer_name = "Pinocchio's generated C" if exported[1] is not None else "no compiler for C++"
        rows.append((robot.name, "exported C", peer_name, *format_comparison(*exported, "exported C")))
    return rows


DRIVER = """
#include "arm.h"
void many(const double *q, const double *qd, const double *qdd, double *tau, long count, long n)
{ for (long k = 0; k < count; ++k) arm_inverse_dynamics(q + k*n, qd + k*n, qdd + k*n, tau + k*n); }
"""
TRACED_DRIVER = """
int traced(const double **arg, double **res, long long *iw, double *w, int mem);
void many(const double *q, const double *qd, const double *qdd, double *tau, long count, long n)
{ for (long k = 0; k < count; ++k)
  { const double *arg[] = {q + k*n, qd + k*n, qdd + k*n}; double *res[] = {tau + k*n};
    traced(arg, res, 0, 0, 0); } }
"""


def measure_exported_c(robot, model, rng) -> tuple[float, float | None] | None:
    """Return the seconds per call of our exported C and of Pinocchio's generated code; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        print("no C compiler to time the export with", file=sys.stderr)
        return None
    motion = rng.uniform(-2, 2, (3, BATCH, robot.joint_count))
    results, sides = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.write_c(folder / "arm.c")
        built = {"ours": compile_library(compiler, folder, "arm", DRIVER)}
        if write_traced(robot, folder):
            built["traced"] = compile_library(compiler, folder, "traced", TRACED_DRIVER)
    for side, many in built.items():
        results[side] = out = np.empty_like(motion[0])
        addresses = [ctypes.c_void_p(part.ctypes.data) for part in (*motion, out)]
        many.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_long] * 2
        sides[side] = lambda many=many, given=addresses: many(*given, BATCH, robot.joint_count)
    seconds = time_functions(sides)
    for out in results.values():
        assert np.allclose(out, model.inverse_dynamics(*motion), rtol=1e-9, atol=1e-9)
    return seconds["ours"] / BATCH, seconds["traced"] / BATCH if "traced" in seconds else None


def compile_library(compiler, folder: Path, stem: str, driver: str):
    (folder / f"{stem}_driver.c").write_text(driver)
    sources = [f"{stem}.c", f"{stem}_driver.c"]
    command = [compiler, *CPU, "-shared", "-fPIC", *sources, "-lm", "-o", f"{stem}.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / f"{stem}.so")).many


COMPILE = """
import time, sys, mindyn
robot = mindyn.load_robot({robot!r})
names = {names!r}
model = mindyn.compile_model(robot)
start = time.process_time()
for name in names:
    model.kernel(name).compile()
print(time.process_time() - start)
"""


def measure_compile_times(robot: str, names: tuple[str, ...]) -> tuple[float, float]:
    """Return the seconds from equation to machine code in a new process, with an empty and a filled cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MINDYN_CACHE_DIR": folder}
        command = [sys.executable, "-c", COMPILE.format(robot=robot, names=names)]
        run = lambda: subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: E731
        return float(run().stdout), min(float(run().stdout) for _ in range(3))


CORE = (
    *("inverse_dynamics", "inertia_matrix", "bias", "gravity", "coriolis", "forward_dynamics"),
    *("standard_regressor", "regressor", "energy", "energy_regressor"),
)


def main() -> None:
    options = arguments(__doc__).parse_args()
    rng = np.random.default_rng(0)
    table = [("robot", "function", "mindyn", "Pinocchio in C++", "ratio", "required", "Pinocchio from Python")]
    single = [("robot", "inverse dynamics", "compared with", "mindyn", "other", "ratio", "required")]
    for name in ROBOTS:
        robot = mindyn.load_robot(name)
        model = mindyn.compile_model(robot)
        table += measure_batches(robot, model, rng)
        single += measure_calls(robot, model, rng)
    one_cold, one_warm = measure_compile_times("puma560", ("inverse_dynamics",))
    all_cold, all_warm = measure_compile_times("panda", CORE)
    machine = this_machine("pin")
    publish(
        Section(
            "kernels",
            "Kernels compared with Pinocchio",
            "make bench",
            machine,
            [
                f"Processor time of one sample, one thread on both sides, row-major batches of {spaced(BATCH)} "
                "samples that stay in cache; the fastest of 25 runs that alternate. Pinocchio is compiled here from "
                f"its headers ({' '.join(CPU)}) with only the joint types of arms (7 to 19 % faster than with all "
                "types): `rnea`, `aba` and `crba` (in local or world frames, whichever is faster), "
                "`computeJointTorqueRegressor` (for the base regressor, only the columns of the base set), "
                "`computeRNEADerivatives` and `computeABADerivatives` in a loop in C++, without copies of the "
                "matrices. The last column calls its Python module in a Python loop. Regressors are written "
                "as structural nonzeros, or dense. Two threads (wall time, if two cores are free) "
                "and float32 are compared with one thread in float64, in batches of 100 000."
            ],
            table,
            [
                f"Compiling inverse dynamics of the PUMA takes {one_cold:.2f} s, {one_warm * 1e3:.0f} ms with a filled "
                f"cache; {len(CORE)} core kernels of the Panda take {all_cold:.2f} s, {all_warm * 1e3:.0f} ms."
            ],
        ),
        record=options.record,
    )
    publish(
        Section(
            "calls",
            "Single calls",
            "make bench",
            machine,
            [
                "Processor time of one sample at a time. From Python, compared with `pinocchio.rnea`: through bound "
                "buffers, and as a plain call with arrays. From C: the exported file, compared with Pinocchio's "
                "`rnea` traced through "
                f"CasADi and written as C, both compiled with {' '.join(CPU)}."
            ],
            single,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
