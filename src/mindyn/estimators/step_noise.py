"""The rows of one step-by-step test, and how much noise there is in them.

With e the errors of torque readings and d those of the momentum at the ends of intervals, the errors of whitened rows
are e + D d: covariance reading^2 + momentum^2 D D^T. Both parts are measured by what no parameters can explain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import block_diag

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.step_rows import RowMaker
from mindyn.excitation.step_plan import StepTest
from mindyn.logs.log import Log
from mindyn.regression.information import RANK_TOLERANCE

MIN_DEGREES_OF_FREEDOM: Final = 8
"""Degrees of freedom from which tests of one kind state their own variance: it is then known to a factor of two."""
LEAST_VARIANCE: Final = 1e-150
"""A variance that is zero, of noise-free rows, counts as this, so that rows can be weighed."""


@dataclass(frozen=True, slots=True, eq=False)
class TestRows:
    """The rows of one test.

    joint     whose torque is used
    A, z      in N m or N
    white_A, white_z, white_D  whitened, see `MotionRows`
    friction  static, where it is measured
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
        """Of the logs of all its motions."""
        row = maker.regressor.joint_names.index(test.row)
        made = [maker.rows(motion, logs[motion.name], row) for motion in test.motions]
        white = [one.whiten() for one in made]
        return TestRows(
            test.row,
            np.concatenate([one.A for one in made]),
            np.concatenate([one.z for one in made]),
            np.concatenate([A for A, _, _ in white]),
            np.concatenate([z for _, z, _ in white]),
            block_diag(*(D for _, _, D in white)),
            tuple(value for one in made for value in one.friction),
        )

    @property
    def moving(self) -> bool:
        """Whether momentum plays a part in it."""
        return bool(self.white_D.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Standard deviations of a torque reading (N m or N) and of the momentum at an end (times s); of rows, (m, m)."""

    reading: float
    momentum: float
    covariance: Array


@dataclass(frozen=True, slots=True)
class _ResidualSquares:
    """Sum of squares that no parameters explain; its mean is reading^2 freedom + momentum^2 ends."""

    squares: float
    search_space: float
    ends: float

    def __add__(self, other: _ResidualSquares) -> _ResidualSquares:
        return _ResidualSquares(
            self.squares + other.squares, self.search_space + other.search_space, self.ends + other.ends
        )


def noises_of(tests: Sequence[TestRows]) -> list[Noise]:
    """The noise of every test; tests of one joint's torque are pooled."""
    pools: dict[str, list[TestRows]] = {}
    for test in tests:
        pools.setdefault(test.joint, []).append(test)
    found = {joint: _joint_noise(pool) for joint, pool in pools.items()}
    noises = []
    for test in tests:
        reading, momentum = found[test.joint]
        gram = test.white_D @ test.white_D.T
        covariance = (reading + LEAST_VARIANCE) * np.eye(len(gram)) + momentum * gram
        noises.append(Noise(float(np.sqrt(reading)), float(np.sqrt(momentum)), covariance))
    return noises


def _joint_noise(tests: Sequence[TestRows]) -> tuple[float, float]:
    """Variances of a reading and of a momentum: the former from tests at rest or constant speed where they suffice."""
    nothing = _ResidualSquares(0.0, 0.0, 0.0)
    quiet = sum((_unexplained_squares(test) for test in tests if not test.moving), nothing)
    moving = sum((_unexplained_squares(test) for test in tests if test.moving), nothing)
    both = quiet + moving
    if not both.search_space:
        raise InputError(
            f"no test of the torque of joint {tests[0].joint!r} has more rows than unknowns: "
            "nothing says how uncertain its readings are",
            hint="plan the tests with more intervals, and log them again",
        )
    if quiet.search_space >= MIN_DEGREES_OF_FREEDOM and moving.ends > 0:
        reading = quiet.squares / quiet.search_space
        momentum = (moving.squares - reading * moving.search_space) / moving.ends
        if momentum > 0:
            return reading, momentum
    return both.squares / both.search_space, 0.0


def _unexplained_squares(test: TestRows) -> _ResidualSquares:
    lengths = np.linalg.norm(test.white_A, axis=0)
    U, s, _ = np.linalg.svd(test.white_A[:, lengths > 0] / lengths[lengths > 0], full_matrices=False)
    U = U[:, s > RANK_TOLERANCE * s.max(initial=0.0)]
    rest = test.white_z - U @ (U.T @ test.white_z)
    ends = test.white_D - U @ (U.T @ test.white_D)
    return _ResidualSquares(float(rest @ rest), float(len(rest) - U.shape[1]), float((ends**2).sum()))
