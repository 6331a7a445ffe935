"""Exciting motions: designs for four robots checked from outside, promised deviations, and a peer's way to compute.

    OPENBLAS_NUM_THREADS=1 python benchmarks/excitation.py [designs] [deviations] [peer]

designs     20 s, 5 harmonics, for puma560, ur10, panda and stanford: wall and processor time, compiling included;
            every limit, torque and capsule at 1 kHz by tests/excitation/independent_check.py (NumPy, Pinocchio, coal);
            the condition number against 200 random Fourier motions, each scaled until a limit binds; "condition" and
            "D" designs by each other's measure
deviations  predicted standard deviations against 400 identifications of a simulated, controlled PUMA 560
peer        the same search with Pinocchio's regressor, sample by sample, and finite-difference gradients
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"  # read when NumPy is loaded, so before the imports below

# ruff: noqa: E402
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "excitation")]

import numpy as np
import pinocchio as pin
from independent_check import motion_at, neighbours, smallest_gaps, with_masses, worst_parts
from oracles.pinocchio_oracle import body_parameter_map, pinocchio_model

import mindyn
from mindyn.excitation.columns import Columns
from mindyn.excitation.design import BEGINNINGS, REFINEMENTS, problem_of
from mindyn.excitation.design_inputs import Question
from mindyn.excitation.instants import Instants
from mindyn.excitation.motion_design import sample_times
from mindyn.excitation.problem import Problem
from mindyn.excitation.safety import Surroundings, safety_of
from mindyn.excitation.solving import Search, exact_value
from mindyn.excitation.starts import good_starts, places_to_stand, random_motion
from mindyn.regression.gathering import gather
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor

ROBOTS = ("puma560", "ur10", "panda", "stanford")
STATED = {"stanford": {"velocity": [2.0, 2.0, 0.5, 3.0, 3.0, 3.0], "effort": [60.0, 60.0, 100.0, 10.0, 10.0, 10.0]}}
"""Limits that the robot's own file does not state, chosen for this benchmark."""
CLEARANCE_M = 0.01


def limits_of(robot):
    return mindyn.MotionLimits.of(robot, **STATED.get(robot.name, {}))


def question_of(design):
    """The problem of a design again, for other motions of its kind."""
    columns = Columns(design.robot, drives=True, speeds=design.limits.velocity)
    none = np.zeros((0, columns.count))
    return Question(columns, design.limits, design.motion.family, design.seconds, design.criterion, design.noise,
                    design.rate_hz, columns.base.values, none, None)  # fmt: skip


def random_condition_numbers(design, count):
    question, rng = question_of(design), np.random.default_rng(123)
    safety = safety_of(question.columns, design.limits, question.beta, Surroundings(), 0)
    problem = problem_of(question, safety.constraints, rng)
    places = places_to_stand(problem, design.limits, rng)
    return [np.exp(exact_value(problem, random_motion(problem, design.limits, places, rng))) for _ in range(count)]


def checked(design):
    """Largest part of any limit, and smallest gap (m), by the check of the tests; pairs not checked by capsules."""
    parts = worst_parts(design.robot, design.limits, design.to_dict())
    capsules = mindyn.capsules_of(design.robot).capsules
    beside = neighbours(design.robot, capsules)
    names = {label.removeprefix("gap of ") for label in design.used if label.startswith("gap of ")}
    apart = [(i, j) for j in range(len(capsules)) for i in range(j) if (i, j) not in beside]
    pairs = [(i, j) for i, j in apart if f"{capsules[i].link} - {capsules[j].link}" in names]
    q = motion_at(design.to_dict(), sample_times(design.seconds, 1000.0))[0]
    gaps = smallest_gaps(design.robot, capsules, q, pairs)
    return parts, min(gaps.values()), len(apart) - len(pairs)


def designs():
    with tempfile.TemporaryDirectory() as cache:
        os.environ["MINDYN_CACHE_DIR"] = cache
        for name in ROBOTS:
            robot = mindyn.load_robot(name)
            wall, processor = perf_counter(), process_time()
            design = mindyn.design_motion(robot, limits=limits_of(robot))
            wall, processor = perf_counter() - wall, process_time() - processor
            random = np.median(random_condition_numbers(design, 200))
            other = mindyn.design_motion(robot, limits=limits_of(robot), criterion="D")
            print(f"{name}: {wall:.1f} s wall, {processor:.1f} s processor; {len(design.prediction.names)} parameters")
            print(f"  condition number {design.condition_number:.2f}, median of 200 random motions {random:.0f}: "
                  f"{random / design.condition_number:.0f} times lower")  # fmt: skip
            print(f"  D design: D {other.criteria['D']:.3f} (condition design {design.criteria['D']:.3f}), "
                  f"condition number {other.condition_number:.2f}")  # fmt: skip
            for kind, one in (("condition", design), ("D", other)):
                parts, gap, dropped = checked(one)
                worst = ", ".join(f"{key} {value:.6f}" for key, value in parts.items() if value > 0.05)
                print(f"  {kind}, 1 kHz check: {worst}; smallest gap {gap:.4f} m (allowed {CLEARANCE_M}); "
                      f"{dropped} pairs that always touch left out")  # fmt: skip
                assert max(parts.values()) <= 1 + 1e-9
                assert gap >= CLEARANCE_M - 1e-6
            sys.stdout.flush()


def deviations(repetitions=400):
    robot = mindyn.load_robot("puma560")
    design = mindyn.design_motion(robot, seconds=20.0, starts=1)
    controller = mindyn.ComputedTorque(robot, design.reference, 400.0, 40.0, drives=True)
    run = mindyn.simulate(robot, controller, seconds=20.0, q0=design.motion.start, rate_hz=100.0,
                          control_rate_hz=1000.0, drives=True)  # fmt: skip
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
    print(f"deviations of {len(ratios)} parameters over {repetitions} logs, by prediction: pooled {pooled:.4f}, "
          f"{ratios.min():.3f} to {ratios.max():.3f}; {moving.sum()} of {len(moving)} rows moving, "
          f"largest tracking error {tracking:.4f} rad")  # fmt: skip


@dataclass(frozen=True, eq=False)
class PeerProblem(Problem):
    """The same problem, its regressor and torques by Pinocchio sample by sample, gradients by forward differences."""

    def objective(self, x):
        return self.differentiated(self.criterion_of, x)

    def excess(self, x, sharpness):
        return self.differentiated(lambda y: self.excess_of(y, sharpness), x)

    def differentiated(self, function, x, h=1e-7):
        value = function(x)
        return value, lambda: np.array([(function(x + h * unit) - value) / h for unit in np.eye(len(x))]).T

    def criterion_of(self, x):
        q, qd, qdd, _ = self.samples.state(self.table(x))
        return self.criterion.value(self.columns.information(PEER.regressor(q, qd, qdd), self.weights))

    def excess_of(self, x, sharpness):
        q, qd, qdd, jerk = self.knots.state(self.table(x))
        found = []
        for one in self.constraints:
            if one.labels[0].startswith("torque"):
                v = PEER.torques(q, qd, qdd)[:, one.joints] / one.allowed
            else:
                v = one.values((q, qd, qdd, jerk))
            v = np.concatenate([v, -v])
            w = np.exp(sharpness * (v - v.max(axis=0)))
            found.append((w * v).sum(axis=0) / w.sum(axis=0))
        return np.concatenate(found) - 1


class Peer:
    """Pinocchio's regressor with drive columns, in the base parameters of a robot with unit drives."""

    def __init__(self, columns):
        robot, n = columns.robot, columns.robot.joint_count
        self.model = pinocchio_model(with_masses(robot))
        self.data = self.model.createData()
        # Pinocchio's parameters are those of the bodies in its joint frames.
        frames = np.zeros((10 * n, 10 * n))
        for i, joint in enumerate(robot.joints):
            frames[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = body_parameter_map(joint.tip)
        self.embedding = columns.base.embedding.copy()
        self.embedding[: 10 * n] = frames @ self.embedding[: 10 * n]
        self.widths = np.array([one.width for one in columns._coulomb])

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
    """UR10, 20 s, 5 harmonics, without capsules: the same optimisation from the same beginnings to its end.

    Searches end in local minima, better or worse by chance; the exact one is also run with what `design_motion` adds.
    """
    global PEER
    robot = mindyn.with_estimated_drives(mindyn.load_robot("ur10"))
    limits, family, seconds = limits_of(robot), mindyn.Fourier(), 20.0
    columns = Columns(robot, drives=True, speeds=limits.velocity)
    question = Question(columns, limits, family, seconds, "condition", 0.01 * limits.effort, 100.0,
                        columns.base.values, np.zeros((0, columns.count)), None)  # fmt: skip
    safety = safety_of(columns, limits, question.beta, Surroundings(self_collision=False), 0)
    ours = problem_of(question, safety.constraints, np.random.default_rng(0))
    theirs = PeerProblem(**{name: getattr(ours, name) for name in ours.__dataclass_fields__})
    PEER = Peer(columns)
    dense = Instants.at(sample_times(seconds, 1000.0), family, seconds)
    rng = np.random.default_rng(1)
    drawn = good_starts(Search(ours, dense), limits, places_to_stand(ours, limits, rng), rng, BEGINNINGS * starts)
    begun = [ours.unknowns(motion) for motion in drawn]
    x = begun[0]
    for name in ("objective", "excess"):
        arguments = (x,) if name == "objective" else (x, 50.0)
        one, other = getattr(ours, name)(*arguments)[0], getattr(theirs, name)(*arguments)[0]
        assert np.abs(one - other).max() < 1e-8, f"the two {name}s differ"
    seconds_of = {}
    for title, problem, count in (
        ("exact gradients", ours, 0),
        ("exact gradients and refinement", ours, REFINEMENTS),
        ("differences", theirs, 0),
    ):
        search, before = Search(problem, dense), process_time()
        values = [np.exp(search.improve(x)) for x in search.first_stage(begun, starts)]
        values.append(np.exp(search.refine(np.random.default_rng(2), count)))
        seconds_of[title] = process_time() - before
        reached = ", ".join(f"{value:.3f}" for value in values)
        print(f"{title}: {seconds_of[title]:.2f} s processor, {search.evaluations} evaluations of {len(x)} unknowns; "
              f"condition number {min(values):.3f}; in turn {reached}", flush=True)  # fmt: skip
    plain, refined, slow = seconds_of.values()
    print(f"{slow / plain:.1f} times faster; {slow / refined:.1f} times with refinement")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ["designs", "deviations", "peer"]:
        {"designs": designs, "deviations": deviations, "peer": peer}[wanted]()
