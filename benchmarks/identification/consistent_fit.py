"""Measure the time of a physically consistent fit of a 7-joint arm with friction, rotors and offsets, by log length.

python -m benchmarks.identification.consistent_fit [--record]
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

import mindyn
from benchmarks.sections import Section, arguments, publish, spaced
from benchmarks.timing import this_machine
from mindyn import PhysicallyConsistent, Samples, compile_model
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather
from mindyn.regression.rows import Rows

LENGTHS = (1_000, 10_000, 100_000)


def draw_samples(robot, count):
    """Return random states and the torque of the arm with friction and 0.5 N m of noise."""
    rng = np.random.default_rng(count)
    q, qd, qdd = rng.uniform(-2, 2, (3, count, robot.joint_count))
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd) + 0.5 * rng.standard_normal(q.shape)
    return Samples(robot.joint_names, q, qd, qdd, tau, 1000.0, np.zeros(count, dtype=np.int64))


def main():
    options = arguments(__doc__).parse_args()
    robot = with_estimated_drives(mindyn.load_robot("panda"))
    robot = robot.lock(dict.fromkeys(robot.joint_names[7:], 0.02))
    regressor = Regressor(robot)
    table = [("prior", *(f"{spaced(count)} samples" for count in LENGTHS))]
    for prior, label in ((None, "none: least mass"), ("robot", "the robot's values")):
        fit = PhysicallyConsistent(prior=prior, prior_weight=1e-2, kinds="all")
        gathered = [gather(regressor, draw_samples(robot, count)) for count in LENGTHS]
        times = [min(time_fit(fit, regressor, item) for _ in range(3)) for item in gathered]
        table.append((label, *(f"{seconds:.2f} s" for seconds in times)))
    publish(
        Section(
            "consistent_fit",
            "Physically consistent fits",
            "python -m benchmarks.identification.consistent_fit",
            this_machine("clarabel"),
            [
                f"{robot.joint_count} joints with friction, {regressor.count} parameters: time from R factors to the "
                "estimate. The cross-validation of the weight of the prior is not included."
            ],
            table,
        ),
        record=options.record,
    )


def time_fit(fit, regressor, information):
    start = perf_counter()
    fit.fit(Rows.of_information(regressor, information))
    return perf_counter() - start


if __name__ == "__main__":
    main()
