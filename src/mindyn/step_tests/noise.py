"""Rows of a step-by-step test, and their noise.

With e the errors of torque readings and d those of the momentum at the ends of intervals, the errors of whitened rows
are e + D d: covariance reading^2 + momentum^2 D D^T. Both are estimated from the part that no parameters explain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import block_diag

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.logs.log import Log
from mindyn.regression.information import RANK_TOLERANCE
from mindyn.step_tests.plan import StepTest
from mindyn.step_tests.rows import RowMaker

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


@dataclass(frozen=True, slots=True)
class _ResidualSquares:
    """Sum of squares that no parameters explain; its mean is reading^2 degrees_of_freedom + momentum^2 ends."""

    squares: float
    degrees_of_freedom: float
    ends: float

    def __add__(self, other: _ResidualSquares) -> _ResidualSquares:
        return _ResidualSquares(
            self.squares + other.squares, self.degrees_of_freedom + other.degrees_of_freedom, self.ends + other.ends
        )


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
    nothing = _ResidualSquares(0.0, 0.0, 0.0)
    quiet = sum((_unexplained_squares(test) for test in tests if not test.moving), nothing)
    moving = sum((_unexplained_squares(test) for test in tests if test.moving), nothing)
    both = quiet + moving
    if not both.degrees_of_freedom:
        raise InputError(
            f"no test of the torque of joint {tests[0].joint!r} has more rows than unknowns: "
            "the uncertainty of its readings cannot be estimated",
            hint="plan the tests with more intervals, and record them again",
            code=Code.TOO_LITTLE_DATA,
            subject=tests[0].joint,
        )
    if quiet.degrees_of_freedom >= MIN_DEGREES_OF_FREEDOM and moving.ends > 0:
        reading = quiet.squares / quiet.degrees_of_freedom
        momentum = (moving.squares - reading * moving.degrees_of_freedom) / moving.ends
        if momentum > 0:
            return reading, momentum
    return both.squares / both.degrees_of_freedom, 0.0


def _unexplained_squares(test: TestRows) -> _ResidualSquares:
    lengths = np.linalg.norm(test.white_A, axis=0)
    U, s, _ = np.linalg.svd(test.white_A[:, lengths > 0] / lengths[lengths > 0], full_matrices=False)
    U = U[:, s > RANK_TOLERANCE * s.max(initial=0.0)]
    rest = test.white_z - U @ (U.T @ test.white_z)
    ends = test.white_D - U @ (U.T @ test.white_D)
    return _ResidualSquares(float(rest @ rest), float(len(rest) - U.shape[1]), float((ends**2).sum()))
