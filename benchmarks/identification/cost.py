"""Time of `identify` compared with another version, on the same logs and in the same run.

    python -m benchmarks.identification.cost --before CHECKOUT [case ...] [--runs RUNS] [--record]
    python -m benchmarks.identification.cost --cores [case ...] [--runs RUNS] [--record]

rows       100 000 rows of a PUMA 560 at 1 kHz: every setting is selected
short      its first 10 000 rows
ur10e      the log without load of `ur10e_innopolis` (MINDYN_REAL_DATA)
panda      the training rows of `panda_gaz2019` (MINDYN_REAL_DATA)
joints14   10 000 rows of an arm with 14 joints
joints20   the same with 20 joints
given      1 000 000 rows in memory, filter and friction given, least squares

Each run is a new process on two cores, first with the sources of the other checkout, then with those of this one; with
--cores, first on one core and then on two. "Process" is the time from its start to the written values, "call" that of
`identify`, or of the fit of `given`, alone. A fit of the first rows compiles machine code and bytecode before. The
fastest run counts. Memory is the largest sum over all processes of one run, with shared pages counted once (PSS). Other
programs on the machine affect wall time much more than processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine

ROOT = Path(__file__).parents[2]
COMMON = """
import os, sys
is_first, folder = sys.argv[1] == "first", os.environ.get("MINDYN_REAL_DATA", "")
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
from time import perf_counter
import numpy as np
import mindyn
log_from_arrays = getattr(mindyn, "log_from_arrays", None) or mindyn.log_of_arrays
words = "metadata" if hasattr(mindyn, "log_from_arrays") else "stated"
EquationSettings = getattr(mindyn, "EquationSettings", None) or mindyn.Treatment
build_rows = getattr(mindyn, "build_rows", None) or mindyn.rows_of

def motion(n, rows, rate_hz, seed):
    rng = np.random.default_rng(seed)
    w, a, phase = 2 * np.pi * rng.uniform(0.05, 0.5, (4, n)), rng.uniform(0.1, 0.4, (4, n)), rng.uniform(0, 6, (4, n))
    t = np.arange(rows) / rate_hz
    angle = t[:, None, None] * w + phase
    return t, *(x.sum(axis=1) for x in (a * np.sin(angle), a * w * np.cos(angle), -a * w**2 * np.sin(angle)))

def simulated(robot, rows, seed=0):
    t, q, qd, qdd = motion(robot.joint_count, rows, 1000.0, seed)
    tau = mindyn.compile_model(robot, with_drives=bool(robot.drives)).inverse_dynamics(q, qd, qdd)
    size = np.sqrt((tau**2).mean(axis=0))
    tau += np.maximum(size, 0.02 * size.max()) * (
        0.1 * np.tanh(qd / 0.02) + 0.1 * qd + 0.02 * np.random.default_rng(seed + 1).normal(size=tau.shape)
    )
    return log_from_arrays(robot.joint_names, t, np.round(q * 1e5) / 1e5, tau)

def long_arm(n):
    sys.path.insert(0, TESTS)
    from robots import random_robot
    return random_robot(n, joints=n, tree=False, special=True, tips=False, gravity=(0.0, 0.0, -9.81))

def measured(place, robot, columns, side_metadata):
    units = {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "A" if side_metadata else "N m"}
    given = {"columns": columns, "units": units, "side": "joint", **side_metadata}
    return mindyn.read_log(f"{folder}/{place}", robot, **{words: given})
"""
PUMA = 'robot = mindyn.load_robot("puma560")\nlog = simulated(robot, {rows})\n'
ARM = "robot = long_arm({n})\nlog = simulated(robot, 10_000, {n})\n"
AUTOMATIC = """given = (log.take(slice(1500)), mindyn.LeastSquares()) if is_first else (log,)
begin = perf_counter()
found = mindyn.identify(robot, *given)
print(perf_counter() - begin, found.provenance.method, *found.beta)
"""
GIVEN = """settings = EquationSettings(mindyn.Conditioning(motion_hz=20.0, delay_s=0.0), 10.0, 10)
mindyn.LeastSquares().fit(build_rows(robot, log.take(slice(1500)), settings))
begin = perf_counter()
found = mindyn.LeastSquares().fit(build_rows(robot, log, settings))
print(perf_counter() - begin, *found.beta)
"""
UR10E = """robot = mindyn.load_robot(f"{folder}/ur10e_innopolis/model/ur10e.urdf")
names = {"time": "t_s", "position": "q{i}_rad", "velocity": "qd{i}_rad_s", "torque": "current{i}_A"}
gains = {"current_gains": [10.0, 10.70, 8.46, 9.00, 9.48, 10.12]}
log = measured("ur10e_innopolis/free.parquet", robot, names, gains)
"""
PANDA = """robot = mindyn.load_robot(f"{folder}/panda_gaz2019/model/panda.toml")
names = {"time": "t", "position": "q{i}", "velocity": "qd{i}", "torque": "tau{i}"}
log = measured("panda_gaz2019/exciting.parquet", robot, names, {}).between(0, 14380)
"""
CASES = {
    "rows": PUMA.format(rows=100_000) + AUTOMATIC,
    "short": PUMA.format(rows=10_000) + AUTOMATIC,
    "ur10e": UR10E + AUTOMATIC,
    "panda": PANDA + AUTOMATIC,
    "joints14": ARM.format(n=14) + AUTOMATIC,
    "joints20": ARM.format(n=20) + AUTOMATIC,
    "given": PUMA.format(rows=1_000_000) + GIVEN,
}
NEED_DATA = ("ur10e", "panda")
NOTES = [
    "This version has limits of friction, delays of single joints and friction curves, which 0.2.0 has not; 0.2.0 "
    "selects least squares on the UR10e, this version a consistent fit.",
    "Selection takes less work than in the previous table (ratios 0.79, 1.10, 0.95, 0.98 and 0.59): rows below a speed "
    "are subtracted from the sums of all rows; arrays are used again, since the pages of new ones took as long as the "
    "sums; the machine code writes blocks that stay in the cache; cut-offs whose error on a quarter of every segment "
    "of a long log is 1.3 times the least are not tried on all rows (errors relative to the least differ by 2 %); "
    "fits to the same rows share their R factors; worker processes take a part of the tasks. On training rows of a "
    "TX40, a UR10 and an LWR4+, settings, dropped parameters and errors on held-out blocks are the same as before.",
    "The goal was half of the time of 0.2.0, and a quarter for long arms. Fewer settings or rows would change what "
    "is selected: with only cut-offs near those of the first round, two measured logs had other settings. Joint "
    "weights that are not converged would change it too: if they start from the fit to all blocks and are repeated "
    "once (two solutions instead of five), errors change by 4e-4, and a TX40, a UR10 and an LWR4+ had other "
    "settings. The number of rows in a block does not depend on the robot: for 14 and 20 joints, blocks of 512 rows "
    "instead of 1024 sum products at most 10 % faster, and R factors from blocks of 256 rows take three times as "
    "long.",
]
COST = (
    "`identify` with every setting selected, compared with 0.2.0 in the same run, alternating: 100 000 and 10 000 rows "
    "of a PUMA 560 at 1 kHz, measured logs of a UR10e and a Panda, 10 000 rows of arms with 14 and 20 joints; and a "
    "fit of 1 000 000 rows with given settings. Processor time and process: from start to values, call: `identify` or "
    "the fit alone."
)
CORES = (
    "The same on one core (`MINDYN_CORES=1`) and on two, where worker processes take a part of the tasks. Values are "
    "equal to the last bit. Memory is the largest sum of both processes, with shared pages counted once. The call "
    "includes the start of the worker."
)


class Cost(NamedTuple):
    """Processor and wall time of a process, wall time of its call, in s; memory in MB if it was measured."""

    processor: float
    wall: float
    call: float
    memory: float = 0.0

    def least(self, other: Cost) -> Cost:
        """Return the smaller of both values for each time, and the larger memory."""
        processor, wall, call = (min(pair) for pair in zip(self[:3], other[:3], strict=True))
        return Cost(processor, wall, call, max(self.memory, other.memory))


def run_case(case: str, checkout: Path, cache: Path, *, first: bool = False, cores: int | None = None) -> Cost:
    """Run one process; with a number of cores, measure its memory."""
    changes = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MINDYN_CACHE_DIR": str(cache)}
    changes |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache / "bytecode")}
    changes |= {"PYTHONPATH": str(checkout / "src")} | ({} if cores is None else {"MINDYN_CORES": str(cores)})
    script = f"TESTS = {str(checkout / 'tests')!r}\n" + COMMON + CASES[case]
    command = [sys.executable, "-c", script, "first" if first else "again"]
    before, start, memory = os.times(), perf_counter(), 0.0
    with subprocess.Popen(command, env={**os.environ, **changes}, stdout=subprocess.PIPE, text=True) as run:
        while cores is not None and run.poll() is None:
            memory = max(memory, memory_mb(run.pid))
            sleep(0.1)
        assert run.stdout is not None
        printed = run.stdout.read()
    wall, after = perf_counter() - start, os.times()
    if run.returncode:
        raise SystemExit(f"{case} failed with {checkout}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    line = printed.splitlines()[-1]
    print(f"{case}: {used:.1f} s, {wall:.1f} s, {line[:60]}", file=sys.stderr, flush=True)
    return Cost(used, wall, float(line.split()[0]), memory)


def memory_mb(pid: int) -> float:
    """Return the memory of a process and its children; zero if it has ended."""
    total = 0.0
    for place in (Path(f"/proc/{pid}"), *(Path(f"/proc/{child}") for child in children_of(pid))):
        with suppress(OSError, StopIteration):
            lines = (place / "smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1000
    return total


def children_of(pid: int) -> list[str]:
    """Return the numbers of the processes that a process has started."""
    with suppress(OSError):
        return [n for thread in Path(f"/proc/{pid}/task").iterdir() for n in (thread / "children").read_text().split()]
    return []


def compare(case: str, variants: Sequence[dict[str, Any]], folder: Path, runs: int) -> tuple[Cost, ...]:
    """Return the least costs of two variants, which run in turn."""
    for k, variant in enumerate(variants):
        run_case(case, **variant, cache=folder / f"code{k}", first=True)
    every = [[run_case(case, **v, cache=folder / f"code{k}") for k, v in enumerate(variants)] for _ in range(runs)]
    return tuple(reduce(Cost.least, costs) for costs in zip(*every, strict=True))


def format_row(case: str, costs: tuple[Cost, ...]) -> tuple[str, ...]:
    """Return a row of the table: each time before and now, and their ratio."""
    pairs = list(zip(*costs, strict=True))
    times = [(f"{before:.2f} s", f"{now:.2f} s", f"{now / before:.2f}") for before, now in pairs[:-1]]
    before, now = pairs[-1]
    memory = [(f"{before:.0f} MB", f"{now:.0f} MB", f"{now / before:.2f}")] if before else []
    return case, *(cell for cells in (*times, *memory) for cell in cells)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)}; all if none is given")
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument("--before", type=Path, help="a checkout of another version")
    kinds.add_argument("--cores", action="store_true", help="compare one core with two, also in memory")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    cases = options.cases or [case for case in CASES if case not in NEED_DATA or "MINDYN_REAL_DATA" in os.environ]
    checkouts = (ROOT, ROOT) if options.cores else (options.before.resolve(), ROOT)
    variants = [{"checkout": path, "cores": k if options.cores else None} for k, path in enumerate(checkouts, start=1)]
    names = ("one core", "two cores") if options.cores else ("before", "now")
    columns = ("processor", "process", "call", *(("memory",) if options.cores else ()))
    rows = [("case", *(cell for name in columns for cell in (f"{name} {names[0]}", names[1], "ratio")))]
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            rows.append(format_row(case, compare(case, variants, Path(folder), options.runs)))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    machine, start = this_machine("clarabel"), "MINDYN_REAL_DATA=... python -m benchmarks.identification.cost"
    if options.cores:
        section = Section("identify_cores", "Two cores of identify", f"{start} --cores", machine, [CORES], rows, [])
    else:
        section = Section(
            "identify_cost", "Time of identify", f"{start} --before CHECKOUT", machine, [COST], rows, NOTES
        )
    publish(section, record=options.record)


if __name__ == "__main__":
    main()
