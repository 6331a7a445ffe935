"""Measure excitation trajectories: independent check, predicted deviations, and a search with finite differences.

    python -m benchmarks.excitation.designs [designs] [deviations] [peer] [--record]

designs     20 s, 5 harmonics, for puma560, ur10, panda and stanford: time including compilation;
            every limit, torque and capsule at 1 kHz by tests/excitation/independent_check.py (NumPy, Pinocchio, coal);
            condition number compared with 200 random Fourier motions, each scaled until it reaches a limit; "condition"
            and "D" designs, each by both criteria
deviations  predicted standard deviations compared with 400 identifications of a simulated, controlled PUMA 560
peer        the same search with Pinocchio's regressor, sample by sample, and finite-difference gradients
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"  # read when NumPy is loaded, so before the imports below

# ruff: noqa: E402
import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter, process_time

TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "excitation")]

import numpy as np
import pinocchio as pin
from independent_check import motion_at, neighbours, smallest_gaps, with_masses, worst_parts
from oracles.pinocchio_oracle import body_parameter_map, pinocchio_model

import mindyn
from benchmarks.sections import Section, arguments, publish, ratio
from benchmarks.timing import this_machine
from mindyn.motions.excitation.criteria import evaluate_criterion
from mindyn.motions.excitation.design import BEGINNINGS, REFINEMENTS
from mindyn.motions.excitation.motion_columns import Columns
from mindyn.motions.excitation.motion_safety import SafetySettings, safety_of
from mindyn.motions.excitation.motions import Instants, sample_times
from mindyn.motions.excitation.problem import Problem
from mindyn.motions.excitation.solving import Search, exact_value, good_starts, places_to_stand, random_motion
from mindyn.motions.excitation.volumes import volumes_of
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather

ROBOTS = ("puma560", "ur10", "panda", "stanford")
STATED = {"stanford": {"velocity": [2.0, 2.0, 0.5, 3.0, 3.0, 3.0], "effort": [60.0, 60.0, 100.0, 10.0, 10.0, 10.0]}}
"""Limits that the robot file does not have, chosen for this benchmark."""
CLEARANCE_M = 0.01
WHOLE = {"motion": mindyn.MotionSettings(speed=1.0, acceleration=1.0), "safety": SafetySettings(floor=None)}
"""Settings of the earlier records: full limits, no floor."""
RANDOM = 200


def read_limits(robot):
    return mindyn.MotionLimits.of(robot, **STATED.get(robot.name, {}))


def build_problem(robot, limits, family, seconds, noise, **around):
    """Build the optimization problem of a design, to evaluate other motions."""
    columns = Columns(robot, with_drives=True, speeds=limits.velocity)
    safety = safety_of(columns, limits, columns.base.values, SafetySettings(floor=None, **around), 0)
    none = np.zeros((columns.count, columns.count))
    return Problem(columns, limits, family, seconds, "condition", noise, 100.0, none, None, safety.constraints)


def random_condition_numbers(design, count):
    rng = np.random.default_rng(123)
    problem = build_problem(design.robot, design.limits, design.motion.family, design.seconds, design.noise)
    places = places_to_stand(problem, design.limits, rng)
    return [np.exp(exact_value(problem, random_motion(problem, design.limits, places, rng))) for _ in range(count)]


def check_design(design):
    """Return the used fraction of each limit, the smallest gap (m), and the number of pairs that are not checked."""
    parts = worst_parts(design.robot, design.limits, design.to_dict())
    capsules = volumes_of(design.robot).capsules
    adjacent = neighbours(design.robot, capsules)
    names = {label.removeprefix("gap of ") for label in design.used if label.startswith("gap of ")}
    distant = [(i, j) for j in range(len(capsules)) for i in range(j) if (i, j) not in adjacent]
    pairs = [(i, j) for i, j in distant if f"{capsules[i].link} - {capsules[j].link}" in names]
    q = motion_at(design.to_dict(), sample_times(design.seconds, 1000.0))[0]
    gaps = smallest_gaps(design.robot, capsules, q, pairs)
    return parts, min(gaps.values()), len(distant) - len(pairs)


def designs():
    table = [
        ("robot", "time", "parameters", "condition number", "random motions", "ratio", "D criterion of both designs")
    ]
    largest, smallest, dropped = 0.0, np.inf, {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["MINDYN_CACHE_DIR"] = cache
        for name in ROBOTS:
            robot = mindyn.load_robot(name)
            start = perf_counter()
            conditioned, informative = (mindyn.SearchSettings(criterion=kind) for kind in ("condition", "D"))
            design = mindyn.design_motion(robot, limits=read_limits(robot), search=conditioned, **WHOLE)
            wall = perf_counter() - start
            random = np.median(random_condition_numbers(design, RANDOM))
            other = mindyn.design_motion(robot, limits=read_limits(robot), search=informative, **WHOLE)
            for item in (design, other):
                parts, gap, unchecked = check_design(item)
                assert max(parts.values()) <= 1 + 1e-9, f"{name} exceeds a limit: {parts}"
                assert gap >= CLEARANCE_M - 1e-6, f"{name} has links only {gap} m apart"
                largest, smallest = max(largest, *parts.values()), min(smallest, gap)
                dropped[name] = unchecked
            reached, both = design.condition_number, f"{design.criteria['D']:.2f}, {other.criteria['D']:.2f}"
            numbers = (f"{wall:.1f} s", str(len(design.prediction.names)), f"{reached:.2f}", f"{random:.0f}")
            table.append((name, *numbers, f"{random / reached:.0f}", both))
    return Section(
        "excitation_designs",
        "Excitation trajectories",
        "python -m benchmarks.excitation.designs designs",
        this_machine(),
        [
            "20 s, 5 harmonics, friction and rotor columns, one thread, compilation of the kernels included. The "
            f"condition number is that of the column-scaled regressor, compared with the median of {RANDOM} random "
            "Fourier motions, each scaled until it reaches a limit. The last column has the D criterion (smaller is "
            "better) of this design and of a D-optimal one."
        ],
        table,
        [
            f"An independent check of all {2 * len(ROBOTS)} designs at 1 kHz (NumPy, Pinocchio, coal) finds at most "
            f"{largest:.6f} of any limit of position, speed, acceleration, jerk or torque, and links no closer than "
            f"{smallest:.4f} m, {CLEARANCE_M} being required. Pairs of links that always touch are excluded: "
            f"{', '.join(f'{count} of the {name}' for name, count in dropped.items())}."
        ],
    )


def deviations(repetitions=400):
    robot = mindyn.load_robot("puma560")
    design = mindyn.design_motion(robot, seconds=20.0, search=mindyn.SearchSettings(starts=1), **WHOLE)
    controller = mindyn.ComputedTorque(robot, design.reference, 400.0, 40.0, with_drives=True)
    run = mindyn.simulate(robot, controller, seconds=20.0, q0=design.motion.start, rate_hz=100.0,
                          control_rate_hz=1000.0, with_drives=True)  # fmt: skip
    tracking = np.abs(run.q - design.motion.derivative(run.t, 0)).max()
    moving = ~run.stuck.any(axis=1)
    regressor, weights, rng, errors = Regressor(design.robot), 1 / design.noise**2, np.random.default_rng(0), []
    segments = np.zeros(moving.sum(), dtype=np.int64)
    for _ in range(repetitions):
        tau = run.tau + design.noise * rng.normal(size=run.tau.shape)
        rows = (array[moving] for array in (run.q, run.qd, run.qdd, tau))
        information = gather(regressor, mindyn.Samples(robot.joint_names, *rows, 100.0, segments))
        errors.append(solve(*information.stacked(weights)).beta - design.prediction.values)
    ratios = np.std(errors, axis=0) / design.prediction.deviations
    pooled = np.sqrt(np.mean(ratios**2))
    return Section(
        "excitation_deviations",
        "Predicted and observed deviations",
        "python -m benchmarks.excitation.designs deviations",
        this_machine(),
        [
            f"Standard deviations that a design predicts, compared with those of {repetitions} identifications of a "
            f"simulated, controlled PUMA 560: pooled over {len(ratios)} parameters their ratio is {pooled:.3f}, for a "
            f"single one {ratios.min():.2f} to {ratios.max():.2f}. {moving.sum()} of {len(moving)} rows move in all "
            f"joints; the arm is at most {tracking:.4f} rad away from the designed motion."
        ],
    )


@dataclass(frozen=True, eq=False)
class PeerProblem(Problem):
    """The same problem with Pinocchio's regressor and torques, sample by sample, and gradients by forward
    differences."""

    def objective(self, x, power=np.inf):
        return self.differentiate(lambda y: self.criterion_of(y, power), x)

    def excess(self, x, sharpness):
        return self.differentiate(lambda y: self.excess_of(y, sharpness), x)

    def differentiate(self, function, x, h=1e-7):
        value = function(x)
        return value, lambda: np.array([(function(x + h * unit) - value) / h for unit in np.eye(len(x))]).T

    def criterion_of(self, x, power):
        q, qd, qdd, _ = self.samples.state(self.table(x))
        Y = PEER.regressor(q, qd, qdd)[:, self.columns.rows, self.columns.columns]
        S = self.columns.information(Y, self.weights)
        return evaluate_criterion(self.criterion, S, self.columns.owners, power)[0]

    def excess_of(self, x, sharpness):
        q, qd, qdd, jerk = self.knots.state(self.table(x))
        result = []
        for constraint in self.constraints:
            if constraint.labels[0].startswith("torque"):
                v = PEER.torques(q, qd, qdd)[:, constraint.columns] / constraint.half
            else:
                v = constraint.values((q, qd, qdd, jerk))
            v = np.concatenate([v, -v])
            w = np.exp(sharpness * (v - v.max(axis=0)))
            result.append((w * v).sum(axis=0) / w.sum(axis=0))
        return np.concatenate(result) - 1


class Peer:
    """Pinocchio's regressor with drive columns, in the base parameters of a robot with unit drives."""

    def __init__(self, columns):
        robot, n = columns.robot, len(columns.robot.joints)
        self.model = pinocchio_model(with_masses(robot))
        self.data = self.model.createData()
        # Pinocchio's parameters are those of the bodies in its joint frames.
        frames = np.zeros((10 * n, 10 * n))
        for i, joint in enumerate(robot.joints):
            frames[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = body_parameter_map(joint.tip)
        self.embedding = columns.base.embedding.copy()
        self.embedding[: 10 * n] = frames @ self.embedding[: 10 * n]
        self.widths = np.array([item.width for item in columns._coulomb])

    def regressor(self, q, qd, qdd):
        N, n = q.shape
        Y = np.zeros((N, n, 14 * n))
        for k in range(N):
            Y[k, :, : 10 * n] = pin.computeJointTorqueRegressor(self.model, self.data, q[k], qd[k], qdd[k])
        j = np.arange(n)
        Y[:, j, 10 * n + 4 * j], Y[:, j, 10 * n + 4 * j + 1] = qdd, qd
        Y[:, j, 10 * n + 4 * j + 2], Y[:, j, 10 * n + 4 * j + 3] = np.tanh(qd / self.widths), 1.0
        return Y @ self.embedding

    def torques(self, q, qd, qdd):
        return np.array([pin.rnea(self.model, self.data, *rows) for rows in zip(q, qd, qdd, strict=True)])


def peer(starts=2):
    """Run the same search for a UR10 (20 s, 5 harmonics, without capsules) from the same starts with both gradients.

    Searches end in different local minima. The exact one is also run with the refinement of `design_motion`.
    """
    global PEER
    robot = with_estimated_drives(mindyn.load_robot("ur10"))
    limits, family, seconds = read_limits(robot), mindyn.Fourier(), 20.0
    ours = build_problem(robot, limits, family, seconds, 0.01 * limits.effort, self_collision=False)
    theirs = PeerProblem(**{field.name: getattr(ours, field.name) for field in fields(ours) if field.init})
    PEER = Peer(ours.columns)
    dense = Instants.at(sample_times(seconds, 1000.0), family, seconds)
    rng = np.random.default_rng(1)
    drawn = good_starts(Search(ours, dense), limits, places_to_stand(ours, limits, rng), rng, BEGINNINGS * starts)
    begun = [ours.unknowns(motion) for motion in drawn]
    x = begun[0]
    for name in ("objective", "excess"):
        given = (x,) if name == "objective" else (x, 50.0)
        item, other = getattr(ours, name)(*given)[0], getattr(theirs, name)(*given)[0]
        assert np.abs(item - other).max() < 1e-8, f"the two {name}s differ"
    seconds_of, table = {}, [("gradients", "processor time", "evaluations", "condition number")]
    for title, problem, count in (
        ("exact", ours, 0),
        ("exact, with refinement", ours, REFINEMENTS),
        ("finite differences", theirs, 0),
    ):
        search, before = Search(problem, dense), process_time()
        values = [np.exp(value) for value in search.improve(search.first_stage(begun, starts))]
        values.append(np.exp(search.refine(np.random.default_rng(2), count)))
        seconds_of[title] = process_time() - before
        table.append((title, f"{seconds_of[title]:.1f} s", str(search.evaluations), f"{min(values):.3f}"))
    slow = seconds_of["finite differences"]
    lines = [(*row, ratio(slow / seconds)) for row, seconds in zip(table[1:], seconds_of.values(), strict=True)]
    return Section(
        "excitation_peer",
        "Exact gradients compared with finite differences",
        "python -m benchmarks.excitation.designs peer",
        this_machine("pin"),
        [
            f"The same problem (UR10, {len(x)} unknowns, without capsules) from the same starts: with "
            "exact gradients, and with finite differences of Pinocchio's regressor. Searches end in different local "
            "minima; `design_motion` also refines the best one."
        ],
        [(*table[0], "faster by"), *lines],
    )


PARTS = {"designs": designs, "deviations": deviations, "peer": peer}


def main():
    parser = arguments(__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"one of {', '.join(PARTS)}; all if left out")
    options = parser.parse_args()
    for part in options.parts or PARTS:
        publish(PARTS[part](), record=options.record)


if __name__ == "__main__":
    main()
