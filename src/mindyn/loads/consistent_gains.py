"""Drive gains together with physically consistent parameters: a known load fixes the unit of the torque.

gain_j s_j = Y_j B x (unloaded), gain_j s_j = Y_j B x + load torque (loaded): the gains are further unknowns besides x,
and only the torque of the load is known in N m [Gautier & Briot 2014]. Noise is in the signals, as in `drive_gains`.
From its gains on, the fit of x and the regression of every signal on its torque alternate. The rows of x exclude the
direction that a change of the gain would explain (variable projection [Kaufman 1975]); without this, the iteration
converges slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array, ShortRepr
from mindyn.feasibility.constrained_fit import FitProblem
from mindyn.feasibility.physical_space import space_of
from mindyn.feasibility.priors import build_prior
from mindyn.loads.from_runs import Gains, drive_gains, load_torque
from mindyn.logs.samples import Samples
from mindyn.regression.accumulators import triangle_of
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.robot import Robot

MAX_GAIN_ROUNDS: Final = 30
GAIN_TOLERANCE: Final = 1e-6
"""Largest number of rounds, and the relative change of the gains at which they end."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConsistentGains(ShortRepr):
    """Gains with the deviations of the unconstrained fit, and physical parameters.

    Attributes
    ----------
    gains : Gains
    labels : tuple of str
        Names of the standard and drive parameters x.
    values : ndarray
        Values of x.
    """

    gains: Gains
    labels: tuple[str, ...]
    values: Array


def consistent_drive_gains(
    robot: Robot,
    unloaded: Samples,
    loaded: Samples,
    phi: Array,
    *,
    link: str | None = None,
    prior: Robot | Literal["robot"] | None = None,
    prior_weight: float = 0.0,
) -> ConsistentGains:
    """Estimate drive gains from a known load, with physically consistent links and drives.

    Parameters
    ----------
    robot : Robot
        Robot of the logs.
    unloaded, loaded : Samples
        Runs without and with the load; `tau` contains the signals.
    phi : ndarray, shape (10,)
        Parameters of the load in the frame of its link.
    link : str, optional
        Link that carries the load; the last one by default.
    prior : Robot, "robot" or None
        Prior as in `PhysicallyConsistent`.
    prior_weight : float
        Weight of the prior relative to half the mean squared residual in (N m)^2.

    Returns
    -------
    ConsistentGains
        Gains with standard deviations, and the parameters of links and drives.

    Raises
    ------
    InputError
        If the runs do not determine the gains.
    """
    unconstrained = drive_gains(robot, unloaded, loaded, phi, link=link)  # raises if the gains are not identifiable
    regressor = Regressor(robot)
    space = space_of(regressor)
    carrier = find_load_carrier(robot, link)
    runs = [
        (unloaded, np.zeros_like(unloaded.tau)),
        (loaded, load_torque(robot, loaded, carrier, np.asarray(phi, dtype=np.float64))),
    ]
    problem, factors = FitProblem(space, build_prior(robot, prior)), _factors(regressor, runs)
    gains, beta = unconstrained.values, None
    for _ in range(MAX_GAIN_ROUNDS):
        # Equal weights: weights from residuals would favour small gains, which make residuals small.
        information = _information(regressor, factors, gains, beta, len(unloaded) + len(loaded))
        x = problem.solve(information, np.ones(regressor.joint_count), prior_weight)
        beta, before = space.matrix @ x, gains
        gains = np.array([_gain(R, beta[c]) for R, c in zip(factors, regressor.columns, strict=True)])
        if np.abs(gains / before - 1).max() < GAIN_TOLERANCE:
            break
    return ConsistentGains(Gains(robot.primary_names, gains, unconstrained.deviations), space.labels, x)


def _gain(R: Array, beta: Array) -> float:
    """Return 1 / h that minimises |s - h T|^2, T the torque of model and load."""
    torque = _torque(R, beta)
    return float(torque @ torque / (R[:, -1] @ torque))


def _torque(R: Array, beta: Array) -> Array:
    return np.asarray(R[:, :-2] @ beta + R[:, -2])


def _factors(regressor: Regressor, runs: list[tuple[Samples, Array]]) -> list[Array]:
    """Return R factors of [Y_j | load torque | s_j] of both runs."""
    rows: list[list[Array]] = [[] for _ in range(regressor.joint_count)]
    for samples, torque in runs:
        q = regressor.positions(samples)
        directions = regressor.directions(q, samples.qd, samples.segments, samples.rate_hz)
        parts = regressor.parts(q, samples.qd, samples.qdd, directions)
        for j, arrays in enumerate(parts):
            rows[j].append(np.column_stack([*arrays, torque[:, j], samples.tau[:, j]]))
    return [triangle_of(np.vstack(blocks)) for blocks in rows]


def _information(
    regressor: Regressor, factors: list[Array], gains: Array, beta: Array | None, rows: int
) -> Information:
    """Return Y_j beta = gain_j s_j - load torque, without the direction of the torque of the previous values."""
    blocks = [np.column_stack([R[:, :-2], g * R[:, -1] - R[:, -2]]) for R, g in zip(factors, gains, strict=True)]
    if beta is not None:
        torques = [_torque(R, beta[columns]) for R, columns in zip(factors, regressor.columns, strict=True)]
        blocks = [block - np.outer(T, T @ block) / (T @ T) for block, T in zip(blocks, torques, strict=True)]
    return Information(
        regressor.joint_names,
        regressor.names,
        regressor.columns,
        tuple(triangle_of(block) for block in blocks),
        (rows,) * len(factors),
    )
