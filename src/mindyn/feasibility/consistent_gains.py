"""Drive gains and physically consistent parameters in one program, where a known load gives the torque its unit.

gain_j s_j = Y_j B x (unloaded), gain_j s_j = Y_j B x + load torque (loaded): gains are further unknowns beside x, and
the load's torque is the only one known in N m [Gautier & Briot 2014]. Signals are columns here, so noise in them pulls
gains towards zero, as it does in `drive_gains`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.loads import Gains, drive_gains, known_torque
from mindyn.feasibility.constrained_fit import FitProblem
from mindyn.feasibility.physical_space import PhysicalSpace, space_of
from mindyn.feasibility.priors import prior_of
from mindyn.logs.samples import Samples
from mindyn.parameters.parameter import Parameter
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.regression.triangles import triangle_of
from mindyn.robots.robot import Robot


@dataclass(frozen=True, slots=True, eq=False)
class ConsistentGains:
    """Gains with the deviations of the unconstrained fit, and the physical parameters found with them.

    labels, values  the standard and drive parameters x
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
    """Gains of the signals in `tau` of both runs from a load of known parameters phi (10,), links and drives physical.

    link   that carries the load; the last one if left out
    prior  as in `PhysicallyConsistent`, its weight beside half the mean squared residual in (N m)^2
    """
    plain = drive_gains(robot, unloaded, loaded, phi, link=link)  # refuses what cannot be told
    regressor = Regressor(robot)
    space = _with_gains(space_of(regressor))
    carrier = robot.link_names[-1] if link is None else link
    runs = [
        (unloaded, np.zeros_like(unloaded.tau)),
        (loaded, known_torque(robot, loaded, carrier, np.asarray(phi, dtype=np.float64))),
    ]
    problem = FitProblem(space, prior_of(robot, prior))
    # All joints alike: weights from residuals would favour small gains, which make residuals small.
    x = problem.solve(_information(regressor, runs), np.ones(robot.joint_count), prior_weight)
    first = space.size - robot.joint_count
    return ConsistentGains(Gains(robot.joint_names, x[first:], plain.deviations), space.labels[:first], x[:first])


def _with_gains(space: PhysicalSpace) -> PhysicalSpace:
    """The space with the gain of every joint behind it."""
    n = space.link_count
    gains = tuple(Parameter(f"gain{i}", "extra", name, "", "gain") for i, name in enumerate(space.robot.joint_names, 1))
    matrix = np.block(
        [
            [space.matrix, np.zeros((len(space.names), n))],
            [np.zeros((n, space.size)), np.eye(n)],
        ]
    )
    brakes = np.hstack([space.brakes, np.zeros((len(space.brakes), n))])
    parameters, behind = (*space.parameters, *gains), (*space.behind, *gains)
    return replace(space, parameters=parameters, behind=behind, matrix=matrix, brakes=brakes)


def _information(regressor: Regressor, runs: list[tuple[Samples, Array]]) -> Information:
    """R factors of [Y_j | -s_j | -load torque] of both runs."""
    n, p = regressor.robot.joint_count, regressor.count
    rows: list[list[Array]] = [[] for _ in range(n)]
    for samples, torque in runs:
        directions = regressor.directions(samples.qd, samples.segments, samples.rate_hz)
        parts = regressor.parts(samples.q, samples.qd, samples.qdd, directions)
        for j, arrays in enumerate(parts):
            rows[j].append(np.column_stack([*arrays, -samples.tau[:, j], -torque[:, j]]))
    return Information(
        regressor.robot.joint_names,
        (*regressor.names, *(f"gain{j + 1}" for j in range(n))),
        tuple(np.append(columns, p + j) for j, columns in enumerate(regressor.columns)),
        tuple(triangle_of(np.vstack(one)) for one in rows),
        (sum(len(samples) for samples, _ in runs),) * n,
    )
