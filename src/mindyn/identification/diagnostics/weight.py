"""Decide whether a torque contains the weight of the links, by the inertial parameters of the robot file.

Two hypotheses explain the torque of joint j:

    with weight      tau_j = s (Y_j(q, qd, qdd) phi) + F_j f + e
    without weight   tau_j = s (Y_j(q, qd, qdd) - Y_j(q, 0, 0)) phi + s Y_j(q, 0, 0) r + F_j f + e

Y is the regressor of the standard parameters phi, which are those of the file with an assumed error; s is an error of
the scale (a current, a unit, a reversed sign), r the weight that remains after an inexact compensation, F friction and
offset of any size, and e noise. The marginal likelihood of each hypothesis integrates over phi and f. If another
inertia could look like weight in a motion, the result therefore depends on how far phi must deviate from the file.
Gravity along the other axes of the base, and an exchange of two torque columns, are tried too: with a small scale, they
can imitate a torque without weight. The torque counts as weightless only if that hypothesis is much more likely than
the weight of the file, not less likely than these other causes, *and* explains the torque at the joints that carry
weight in this log. Joints whose weight hardly varies in the log are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from casadi import Function

from mindyn.equations.catalogue import build_equation
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.algebra.values import Array
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.robots.robot import Robot

ROWS: Final = 300
"""Largest number of evenly spread rows that are compared."""
MASS_ERROR: Final = 0.5
"""Standard deviation of the file's masses, relative; first moments and inertias scale with the mass."""
CENTRE_ERROR: Final = 0.15
"""Standard deviation of a centre of mass relative to the length of its link."""
INERTIA_ERROR: Final = 0.5
"""Standard deviation of each element of an inertia tensor, relative to its mean principal moment."""
ROTOR_RATIO: Final = 2.0
"""Standard deviation of an unknown rotor inertia, relative to the inertia of the links at its joint."""
REMAINDER: Final = 0.2
"""Standard deviation of the weight, relative to that of a link, that remains in the torque because the controller's
masses are not exact.
"""
MODEL_ERROR: Final = 0.05
"""Fraction of a torque that no rigid body explains, such as friction of another shape; it is added to the noise."""
SCALES: Final = np.exp(np.linspace(np.log(1e-4), np.log(1e4), 41))
SCALE_ERROR: Final = 0.7
"""Standard deviation of ln s."""
OTHER_PRICE: Final = np.log(100.0)
"""Nats that are subtracted from the log likelihood for a reversed torque, or for gravity along another axis of the
base.
"""
MIN_LINK_LENGTH_M: Final = 0.05
RANK_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class WeightEvidence:
    """Evidence of a log on whether its torque contains the weight of the links.

    nats       by how much the logarithm of the likelihood is larger without weight than with the weight of the file
    others     the same, compared with the best of other causes, less their price: gravity along another axis, or two
               torque columns exchanged
    fraction   torque beyond noise that the hypothesis without weight leaves, relative to the torque; rms over joints
    joints     names of the joints that carry weight in this log
    """

    nats: float
    others: float
    fraction: float
    joints: tuple[str, ...]

    @property
    def is_weightless(self) -> bool:
        """Whether the torque lacks the weight.

        This must be much more likely than the weight of the file, not less likely than the other causes, and a good
        explanation.
        """
        return self.nats > limit.MIN_WEIGHT_NATS and self.others > 0 and self.fraction < limit.MAX_WEIGHTLESS_REST


def weigh(robot: Robot, q: Array, qd: Array, qdd: Array, tau: Array) -> WeightEvidence | None:
    """Compare a torque (N, n) with and without the weight of the file's links.

    Return None if there are too few rows, or if no weight varies in the rows.

    Parameters
    ----------
    robot : Robot
        Robot without drives; every link has inertial parameters.
    q, qd, qdd, tau : ndarray, shape (N, n)
        Smooth motion and torque of the primary joints.
    """
    if len(q) < limit.MIN_ROWS_PER_PARAMETER * q.shape[1]:
        return None
    taken = np.linspace(0, len(q) - 1, min(ROWS, len(q))).astype(np.intp)
    q, qd, qdd, tau = q[taken], qd[taken], qdd[taken], tau[taken]
    axes = np.eye(3)
    moving, *weights = standard_columns(robot, q, qd, qdd)
    size = float(np.linalg.norm(robot.gravity))
    others = [sign * size * axis for axis in axes for sign in (1.0, -1.0)]
    gravities = [robot.gravity, *(g for g in others if not np.allclose(g, robot.gravity))]
    of_gravity = [np.tensordot(g, weights, 1) for g in gravities]
    phi, deviations, mass_scale = _file_prior(robot)
    weight = of_gravity[0] @ phi
    swing = weight.std(axis=0)
    is_heavy = (swing > limit.MIN_COMPARED_FRACTION * swing.max()) & (swing > 0) & (np.ptp(tau, axis=0) > 0)
    compared = {
        joint: _Joint(tau[:, joint], qd[:, joint], qdd[:, joint], (moving[:, joint], of_gravity[0][:, joint]), phi)
        for joint in np.flatnonzero(is_heavy).tolist()
    }
    compared = {
        joint: hypothesis
        for joint, hypothesis in compared.items()
        if swing[joint] > limit.MIN_WEIGHT_SWING * hypothesis.noise
    }
    if not compared:
        return None
    with_weight, without, left, prior = np.zeros(len(gravities)), 0.0, [], (phi, deviations, mass_scale)
    for joint, hypothesis in compared.items():
        left_over = REMAINDER * of_gravity[0][:, joint] * phi
        likelihood, rest = hypothesis.compare(moving[:, joint], *prior, left_over @ (mass_scale > 0))
        without += likelihood
        left.append(rest)
        with_weight += [hypothesis.compare(moving[:, joint] + Yw[:, joint], *prior)[0] for Yw in of_gravity]
    with_weight[1:] -= OTHER_PRICE
    names = tuple(robot.primary_names[joint] for joint in compared)
    gain_over_others = float(without - with_weight[1:].max())
    evidence = WeightEvidence(
        float(without - with_weight[0]), gain_over_others, float(np.sqrt(np.mean(np.square(left)))), names
    )
    if not evidence.is_weightless:
        return evidence

    def likelihood_of(joint: int, column: int) -> float:
        """Return the log likelihood of a torque column as the torque of a joint, with the weight of the file."""
        parts = (moving[:, joint], of_gravity[0][:, joint])
        hypothesis = _Joint(tau[:, column], qd[:, joint], qdd[:, joint], parts, phi)
        return hypothesis.compare(moving[:, joint] + of_gravity[0][:, joint], *prior)[0]

    gains = [
        sum(likelihood_of(*pair) for pair in ((j, k), (k, j))) - sum(likelihood_of(i, i) for i in (j, k))
        for j, k in combinations(np.flatnonzero(np.ptp(tau, axis=0) > 0).tolist(), 2)
        if j in compared or k in compared
    ]
    swapped = float(with_weight[0]) + max(gains, default=-np.inf) - OTHER_PRICE
    return replace(evidence, others=float(min(evidence.others, without - swapped)))


class _Joint:
    """Torque of one joint (N,), its nuisance columns, and the noise that no parameters explain.

    parts  columns (N, p) of the dynamics without weight and of the weight
    phi    (p,) parameters of the file
    """

    def __init__(self, tau: Array, qd: Array, qdd: Array, parts: Sequence[Array], phi: Array) -> None:
        self.tau = tau
        rms = max(float(np.sqrt((qd**2).mean())), 1e-300)
        nuisance = np.column_stack([np.ones_like(qd), qd / rms, np.tanh(qd / (0.02 * rms)), np.tanh(qd / (0.3 * rms))])
        self.nuisance = _orthonormal_basis(nuisance)
        inertia = float((parts[0] @ phi).std()) / max(float(qdd.std()), 1e-300)
        self.rotor = ROTOR_RATIO * inertia * qdd
        every = _orthonormal_basis(np.column_stack([nuisance, qdd, *parts]))
        rest = tau - every @ (every.T @ tau)
        self.noise = float(np.sqrt(rest @ rest / max(1, len(tau) - every.shape[1])))
        self.variance = self.noise**2 + (MODEL_ERROR * float(tau.std())) ** 2

    def compare(
        self, Y: Array, phi: Array, deviations: Array, mass_scale: Array, more: Array | None = None
    ) -> tuple[float, float]:
        """Return the largest log likelihood over the scales, and the rms residual beyond noise at that scale, relative
        to the torque.

            tau = s m + e',   e' ~ N(0, s^2 A A^T + sigma^2),   A = Y Sigma^1/2

        Friction and offset are projected out of both sides. `more` (N, k) are further columns of A that do not grow
        with the scale. (If they did, a large scale could turn a small remaining weight into the full weight.)
        """
        A = np.column_stack([Y * deviations, (Y * phi) @ mass_scale, self.rotor])
        mean, tau, A = (self._project(x) for x in (Y @ phi, self.tau, A))
        best, remainder = -np.inf, 1.0
        parts = _decompose(A if more is None else np.column_stack([A, self._project(more)]), mean, tau)
        for sign, price in ((1.0, 0.0), (-1.0, OTHER_PRICE)):
            for size in SCALES:
                scale = sign * size
                if more is not None and size > 1:
                    parts = _decompose(np.column_stack([A, self._project(more) / size]), mean, tau)
                d, m, t, rest_m, rest_t = parts
                spread = (scale * d) ** 2 + self.variance
                outside, errors = rest_t - scale * rest_m, t - scale * m
                free = len(tau) - self.nuisance.shape[1] - len(d)
                value = -0.5 * float((errors**2 / spread + np.log(spread)).sum())
                value -= 0.5 * (float(outside @ outside) / self.variance + free * float(np.log(self.variance)))
                value -= 0.5 * (np.log(size) / SCALE_ERROR) ** 2 + price
                if value > best:
                    kept = errors * self.variance / spread
                    squares = max(0.0, float(kept @ kept + outside @ outside) - len(tau) * self.noise**2)
                    best, remainder = value, float(np.sqrt(squares / max(float(tau @ tau), 1e-300)))
        return best, remainder

    def _project(self, x: Array) -> Array:
        """Return columns (N,) or (N, k) without friction and offset."""
        return np.asarray(x - self.nuisance @ (self.nuisance.T @ x))


def _decompose(A: Array, mean: Array, tau: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return the singular values of A, the components of mean and torque along its left vectors, and the rest of
    both.
    """
    U, d, _ = np.linalg.svd(A, full_matrices=False)
    m, t = U.T @ mean, U.T @ tau
    return d, m, t, mean - U @ m, tau - U @ t


def _orthonormal_basis(columns: Array) -> Array:
    """Return an orthonormal basis of columns (N, k)."""
    sizes = np.linalg.norm(columns, axis=0)
    vectors, values, _ = np.linalg.svd(columns[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    return np.asarray(vectors[:, values > RANK_TOLERANCE * values[0]])


def _file_prior(robot: Robot) -> tuple[Array, Array, Array]:
    """Return phi (p,) of the file, the standard deviations (p,) of its elements, and the deviations (p, links) due to
    the masses.

    The third result has one column for each link, because all parameters of a link scale with its mass.
    """
    phi, deviations = [], []
    for joint, link in zip(robot.joints, robot.links, strict=True):
        values = np.asarray(link.phi, dtype=np.float64)
        beyond = [other.origin.translation for other in robot.joints if other.parent == joint.child]
        centre = values[1:4] / values[0] if values[0] > 0 else np.zeros(3)
        length = max([MIN_LINK_LENGTH_M, *(float(np.linalg.norm(x)) for x in (centre, *beyond))])
        moment = max(float(np.trace(_link_tensor(values))) / 3, values[0] * MIN_LINK_LENGTH_M**2)
        phi.append(values)
        deviations.append(np.array([0.0, *[CENTRE_ERROR * values[0] * length] * 3, *[INERTIA_ERROR * moment] * 6]))
    count = len(phi)
    mass_scale = np.kron(np.eye(count), np.full((10, 1), MASS_ERROR))
    return np.concatenate(phi), np.concatenate(deviations), np.asarray(mass_scale, dtype=np.float64)


def _link_tensor(phi: Array) -> Array:
    xx, xy, yy, xz, yz, zz = phi[4:10]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def standard_columns(robot: Robot, q: Array, qd: Array, qdd: Array) -> list[Array]:
    """Return the regressor (N, n, p) of the standard parameters without gravity, and at rest with gravity along each
    axis.
    """
    dynamics, still = _regressors(replace(robot, gravity=np.zeros(3))), np.zeros_like(q)
    return [_columns(dynamics[0], q, qd, qdd), *(_columns(function, q, still, still) for function in dynamics[1:])]


@lru_cache(maxsize=4)
def _regressors(robot: Robot) -> tuple[Function, ...]:
    """Return the regressor of the standard parameters without gravity, and under unit gravity along each axis."""
    make = loop_equation if robot.mimics else build_equation
    return tuple(make(replace(robot, gravity=gravity), "standard_regressor") for gravity in (np.zeros(3), *np.eye(3)))


def _columns(function: Function, q: Array, qd: Array, qdd: Array) -> Array:
    """Return the regressor (N, n, p) at rows of motion."""
    flat = np.asarray(function(q.T, qd.T, qdd.T).full())
    n, count = flat.shape[0], len(q)
    return flat.reshape(n, count, -1).transpose(1, 0, 2)
