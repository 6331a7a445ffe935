"""Measure the processor time that the certificate adds to creating a kernel, with an empty and a full cache.

python -m benchmarks.identification.certificate [--record]
"""

from __future__ import annotations

import os
import tempfile
from time import process_time

import numpy as np

from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import measure_best_times, this_machine
from mindyn import compile_model, load_robot
from mindyn.equations.equation_verification import ReferenceDynamics, equation_deviation
from mindyn.kernels.model import load_or_compute_deviation
from mindyn.parameters.base_set_verification import tree_deviation

ROBOTS = ("puma560", "ur10", "stanford", "panda")
REPEATS = 3
EQUATIONS = ("inverse_dynamics", "forward_dynamics", "regressor")


def measure_row(name: str, equation: str) -> tuple[str, ...]:
    """Return a row of the table: time to create a kernel and time of the certificate, with an empty and a full
    cache."""
    robot = load_robot(name)
    model = compile_model(robot)
    function, regressor = model.casadi(equation), "regressor" in equation

    def make() -> None:
        getattr(compile_model(robot), equation)(*np.zeros((3, robot.joint_count)))

    def witness() -> ReferenceDynamics:
        return ReferenceDynamics(robot, False, "input" if regressor else "constant", model.base if regressor else None)

    def first() -> None:
        with tempfile.TemporaryDirectory() as empty:
            os.environ["MINDYN_CACHE_DIR"] = empty
            make()

    def compared() -> None:
        equation_deviation(function, witness())
        if regressor:
            tree_deviation(model.base)

    cold = measure_best_times({"first": first, "compared": compared}, REPEATS, process_time)
    with tempfile.TemporaryDirectory() as full:
        os.environ["MINDYN_CACHE_DIR"] = full
        warm = measure_best_times(
            {"again": make, "kept": lambda: load_or_compute_deviation(function, witness())}, REPEATS, process_time
        )
    return name, equation.replace("_", " "), *(f"{1e3 * each:.1f}" for each in (*cold.values(), *warm.values()))


def main() -> None:
    given = arguments(__doc__ or "").parse_args()
    head = ("robot", "equation", "first time, ms", "certificate, ms", "cached, ms", "certificate, ms")
    publish(
        Section(
            "certificate",
            "Cost of the certificate",
            "python -m benchmarks.identification.certificate",
            this_machine(),
            [
                "Every equation is compared once with plain Newton-Euler before it is compiled; the compiled code "
                "records that it passed. The table shows the processor time to compile one kernel and call it with an "
                "empty cache, and to create it again in a new model, which only computes the key of the cache."
            ],
            [head, *(measure_row(name, equation) for name in ROBOTS for equation in EQUATIONS)],
        ),
        record=given.record,
    )


if __name__ == "__main__":
    main()
