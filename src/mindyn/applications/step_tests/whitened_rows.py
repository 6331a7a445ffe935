"""Rows of a step-by-step test, and their noise.

With e the errors of torque readings and d those of the momentum at the ends of intervals, the errors of whitened rows
are e + D d: covariance reading^2 + momentum^2 D D^T. Both are estimated from the part that no parameters explain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.applications.step_tests.step_rows import RowMaker
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.log import Log
from mindyn.motions.step_plans.plan import StepTest
from mindyn.regression.information import RANK_TOLERANCE

MIN_DEGREES_OF_FREEDOM: Final = 8
"""Degrees of freedom from which tests of one kind determine their own variance, then known to a factor of two."""
LEAST_VARIANCE: Final = 1e-150
"""Lower bound of the variance of noise-free rows, so that rows can be weighted."""


@dataclass(frozen=True, slots=True, eq=False)
class TestRows:
    """Rows of a test.

    joint     whose torque is used
    A, z      in N m or N
    white_A, white_z, white_D  whitened, see `MotionRows`
    friction  static, if it is measured
    """

    joint: str
    A: Array
    z: Array
    white_A: Array
    white_z: Array
    white_D: Array
    friction: tuple[float, ...]
    __test__ = False

    @staticmethod
    def of(maker: RowMaker, test: StepTest, logs: Mapping[str, Log]) -> TestRows:
        """Build the rows from the logs of all motions of the test."""
        from scipy.linalg import block_diag

        row = maker.regressor.joint_names.index(test.row)
        groups = [maker.rows(motion, logs[motion.name], row) for motion in test.motions]
        white = [group.whiten() for group in groups]
        return TestRows(
            test.row,
            np.concatenate([group.A for group in groups]),
            np.concatenate([group.z for group in groups]),
            np.concatenate([A for A, _, _ in white]),
            np.concatenate([z for _, z, _ in white]),
            block_diag(*(D for _, _, D in white)),
            tuple(value for group in groups for value in group.friction),
        )

    @property
    def moving(self) -> bool:
        """Whether momentum affects the test."""
        return bool(self.white_D.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Standard deviations of a torque reading (N m or N) and of the momentum at an end (times s); covariance of rows
    (m, m).
    """

    reading: float
    momentum: float
    covariance: Array


def noises_of(tests: Sequence[TestRows]) -> list[Noise]:
    """Return the noise of each test; tests of the same joint's torque are pooled."""
    pools: dict[str, list[TestRows]] = {}
    for test in tests:
        pools.setdefault(test.joint, []).append(test)
    by_joint = {joint: _joint_noise(pool) for joint, pool in pools.items()}
    noises = []
    for test in tests:
        reading, momentum = by_joint[test.joint]
        gram = test.white_D @ test.white_D.T
        covariance = (reading + LEAST_VARIANCE) * np.eye(len(gram)) + momentum * gram
        noises.append(Noise(float(np.sqrt(reading)), float(np.sqrt(momentum)), covariance))
    return noises


def _joint_noise(tests: Sequence[TestRows]) -> tuple[float, float]:
    """Return the variances of a reading, from tests at rest or constant speed if they suffice, and of a momentum."""
    quiet, moving = (
        sum((_unexplained_squares(test) for test in tests if test.moving == is_moving), np.zeros(3))
        for is_moving in (False, True)
    )
    squares, freedom, _ = quiet + moving
    if not freedom:
        raise InputError(
            f"no test of the torque of joint {tests[0].joint!r} has more rows than unknowns: "
            "the uncertainty of its readings cannot be estimated",
            hint="plan the tests with more intervals, and record them again",
            code=Code.TOO_LITTLE_DATA,
            subject=tests[0].joint,
        )
    if quiet[1] >= MIN_DEGREES_OF_FREEDOM and moving[2] > 0:
        reading = quiet[0] / quiet[1]
        momentum = (moving[0] - reading * moving[1]) / moving[2]
        if momentum > 0:
            return float(reading), float(momentum)
    return float(squares / freedom), 0.0


def _unexplained_squares(test: TestRows) -> Array:
    """Return the sum of squares that no parameters explain, its degrees of freedom, and the number of its momenta.

    The mean of the sum is reading^2 times the first number and momentum^2 times the second one.
    """
    lengths = np.linalg.norm(test.white_A, axis=0)
    U, s, _ = np.linalg.svd(test.white_A[:, lengths > 0] / lengths[lengths > 0], full_matrices=False)
    U = U[:, s > RANK_TOLERANCE * s.max(initial=0.0)]
    rest = test.white_z - U @ (U.T @ test.white_z)
    ends = test.white_D - U @ (U.T @ test.white_D)
    return np.array([rest @ rest, len(rest) - U.shape[1], (ends**2).sum()])
