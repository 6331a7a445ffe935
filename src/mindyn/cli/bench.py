"""`mindyn bench`: time the main kernels on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import typer

from mindyn.algebra.values import Array
from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, with_robot_options
from mindyn.cli.printing import print_json, print_output, print_status, print_table
from mindyn.export.pinocchio_model import to_pinocchio
from mindyn.identifiability.base_sets import base_parameters
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import compile_model
from mindyn.kernels.timing import measure_best_times
from mindyn.numerics.native import host
from mindyn.numerics.threads import usable_cores
from mindyn.robots.loading import RobotOptions
from mindyn.robots.robot import Robot

KERNELS = ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "regressor")
BATCH_ROWS, SINGLE_ROWS = 16_384, 500
"""Samples of a batch, and of a loop over single samples."""

TimedCall = Callable[[], object]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Nanoseconds per sample of one kernel; `pinocchio` is None if not installed or without such a model."""

    kernel: str
    one_thread: float
    all_threads: float
    pinocchio: float | None


@with_robot_options
def bench(
    robot: Annotated[str, ROBOT_ARGUMENT] = "puma560",
    as_json: Annotated[bool, JSON_OPTION] = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Repetitions of each measurement; the fastest counts.")] = 9,
    *,
    options: RobotOptions,
) -> None:
    """Time the main kernels of a robot on this machine."""
    arm = options.load(robot)
    speeds = measure_kernels(arm, repetitions)
    if as_json:
        print_json(_times_data(arm, speeds), indent=2)
    else:
        _print_times(arm, speeds)
    if any(speed.pinocchio is not None for speed in speeds):
        print_status("note: Pinocchio runs on one thread: rnea and aba in batches, crba and regressor sample by sample")


def measure_kernels(robot: Robot, repetitions: int = 9) -> list[KernelTime]:
    """Time the kernels and Pinocchio's functions on the same samples."""
    model = compile_model(robot, base=base_parameters(robot) if robot.has_dependents else None)
    motion = np.random.default_rng(0).uniform(-2, 2, (3, BATCH_ROWS, robot.joint_count))
    theirs = _pinocchio_calls(robot, motion) if find_spec("pinocchio") and not robot.has_dependents else {}
    speeds = []
    for name in KERNELS:
        kernel = model.kernel(name, compact=name == "regressor")
        rows = {"single": BATCH_ROWS, "all": BATCH_ROWS}
        timed = {"single": _kernel_call(kernel, motion, 1), "all": _kernel_call(kernel, motion, usable_cores())}
        if name in theirs:
            rows["pinocchio"], timed["pinocchio"] = theirs[name]
        nanoseconds = {
            side: 1e9 * seconds / rows[side] for side, seconds in measure_best_times(timed, repetitions).items()
        }
        speeds.append(KernelTime(name, nanoseconds["single"], nanoseconds["all"], nanoseconds.get("pinocchio")))
    return speeds


def _kernel_call(kernel: Kernel, motion: Array, threads: int) -> TimedCall:
    out = np.empty((BATCH_ROWS, *kernel.output_shapes[0]))
    given = motion[: len(kernel.input_shapes)]
    return lambda: kernel(*given, out=out, threads=threads)


def _pinocchio_calls(robot: Robot, motion: Array) -> Mapping[str, tuple[int, TimedCall]]:
    """Return the number of samples and the timed call for each kernel."""
    import pinocchio as pin

    model = to_pinocchio(robot)
    data, pool = model.createData(), pin.ModelPool(model)
    columns = [np.asfortranarray(part.T) for part in motion]
    out = np.empty_like(columns[0])
    few = list(zip(*motion[:, :SINGLE_ROWS], strict=True))
    return {
        "inverse_dynamics": (BATCH_ROWS, lambda: pin.rneaInParallel(1, pool, *columns, out)),
        "forward_dynamics": (BATCH_ROWS, lambda: pin.abaInParallel(1, pool, *columns, out)),
        "inertia_matrix": (SINGLE_ROWS, lambda: [pin.crba(model, data, q) for q, _, _ in few]),
        "regressor": (SINGLE_ROWS, lambda: [pin.computeJointTorqueRegressor(model, data, *sample) for sample in few]),
    }


def _print_times(robot: Robot, speeds: list[KernelTime]) -> None:
    rows = [("kernel", "one thread [ns]", f"{usable_cores()} threads [ns]", "Pinocchio [ns]", "ratio")]
    for speed in speeds:
        theirs, ours = speed.pinocchio, speed.one_thread
        comparison = ("-", "-") if theirs is None else (f"{theirs:.1f}", f"{theirs / ours:.1f}x")
        rows.append((speed.kernel, f"{speed.one_thread:.1f}", f"{speed.all_threads:.1f}", *comparison))
    title = (
        f"{robot.name} on {host().cpu}, {host().lanes(64)} float64 lanes: time per sample in a batch of {BATCH_ROWS}"
    )
    print_output(title)
    print_output()
    print_table(rows, numbers=range(1, 5))


def _times_data(robot: Robot, speeds: list[KernelTime]) -> dict[str, Any]:
    return {
        "robot": robot.name,
        "cpu": host().cpu,
        "float64_lanes": host().lanes(64),
        "threads": usable_cores(),
        "batch": BATCH_ROWS,
        "ns_per_sample": {
            speed.kernel: {name: value for name, value in asdict(speed).items() if name != "kernel"} for speed in speeds
        },
    }
