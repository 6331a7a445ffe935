"""Model reduction: the components of the essential parameters that matter along a given motion.

[Sheu & Walker 1991, section 3.2] With H = U S V^T the matrix of energy differences along the motion, component i of
phi contributes sigma_i v_i^T phi to the energy. The largest are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.identifiability.essential_space import essential_space
from mindyn.identifiability.random_states import make_regressors
from mindyn.robots.robot import Robot

MAX_ENERGY_ERROR = 0.01
"""Share of the energy that a reduced model may miss, when nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduced model: components in the order of their energy, and what leaving the small ones out costs.

    components    (k, p) orthonormal rows v of the essential space, the most energetic along the motion first
    coordinates   (k,) v . phi
    energies      (k,) sigma (v . phi), J: the part of the energy differences that each contributes, in norm
    energy_error  (k + 1,) share of the energy missed when the first s are kept, s = 0..k, eq. (23)
    torque_error  (k + 1, joints) rms torque missed, N m (N)
    torque_size   (joints,) rms torque of the full model
    kept          s, the number of components kept
    """

    components: Array
    coordinates: Array
    energies: Array
    energy_error: Array
    torque_error: Array
    torque_size: Array
    kept: int

    @property
    def phi(self) -> Array:
        """(p,) the parameters of the reduced model: the sum of the kept components."""
        return np.asarray(self.coordinates[: self.kept] @ self.components[: self.kept])

    def __str__(self) -> str:
        worst = 100 * self.torque_error[self.kept] / np.maximum(self.torque_size, 1e-300)
        listed = ", ".join(f"{value:.2g}" for value in worst)
        return (
            f"{self.kept} of {len(self.energies)} components: {100 * self.energy_error[self.kept]:.2g} % of the energy "
            f"missed, torques missed by {listed} % rms"
        )


def reduce_model(
    robot: Robot,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    states: tuple[ArrayLike, ArrayLike] | None = None,
    keep: int | None = None,
    tolerance: float = MAX_ENERGY_ERROR,
    seed: int = 0,
    home: ArrayLike | None = None,
) -> Reduction:
    """The essential components of a robot's parameters ranked by their energy along a motion (N, joints).

    states     q, qd (M, joints) at which they are ranked in place of the motion, as random states of the whole working
               range in Sheu & Walker, section 5; torques are judged on the motion all the same
    keep       the number of components to keep; or else
    tolerance  the share of the energy that may be missed, eq. (24)
    home       a closed configuration in the assembly that is meant, where the robot has loops
    """
    q, qd, qdd = (np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in (q, qd, qdd))
    if not q.shape == qd.shape == qdd.shape or len(q) < 2:
        raise InputError(
            f"q, qd, qdd must be one motion of two samples or more; got {q.shape}, {qd.shape}, {qdd.shape}"
        )
    if not all(np.isfinite(part).all() for part in (q, qd, qdd)):
        raise InputError("q, qd, qdd must be finite")
    if not tolerance > 0:
        raise InputError(f"tolerance must be a positive share of the energy, got {tolerance!r}")
    rows = make_regressors(robot, home=home)
    V1 = essential_space(robot, seed=seed, home=home).basis
    H = np.diff(rows.energy_rows(*_ranking_states(states, q, qd)), axis=0) @ V1.T
    _, sigma, Zt = np.linalg.svd(H, full_matrices=len(H) < len(V1))
    sigma = np.concatenate([sigma, np.zeros(len(V1) - len(sigma))])
    components = Zt @ V1
    energies = sigma * (components @ robot.phi)
    order = np.argsort(-np.abs(energies), kind="stable")
    components, energies = components[order], energies[order]
    missed = _missed_fractions(energies)
    torque_error, torque_size = _torque_errors(rows.torque_rows(q, qd, qdd), components, robot.phi)
    s = _count_kept(missed, keep, tolerance)
    return Reduction(components, components @ robot.phi, energies, missed, torque_error, torque_size, s)


def _ranking_states(states: tuple[ArrayLike, ArrayLike] | None, q: Array, qd: Array) -> tuple[Array, Array]:
    """The states at which components are ranked: those given, or the motion's."""
    if states is None:
        return q, qd
    at, speeds = (np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in states)
    if at.shape != speeds.shape or len(at) < 2 or at.shape[1] != q.shape[1]:
        raise InputError(
            f"states are q, qd (M, {q.shape[1]}) of two samples or more, got {at.shape} and {speeds.shape}"
        )
    if not (np.isfinite(at).all() and np.isfinite(speeds).all()):
        raise InputError("the states must be finite")
    return at, speeds


def _missed_fractions(energies: Array) -> Array:
    """Share of the norm that is left after the first s, s = 0..k."""
    squares = np.concatenate([np.cumsum(energies[::-1] ** 2)[::-1], [0.0]])
    return np.asarray(np.sqrt(squares / squares[0]) if squares[0] > 0 else np.zeros_like(squares))


def _count_kept(missed: Array, keep: int | None, tolerance: float) -> int:
    count = len(missed) - 1
    if keep is None:
        return int(np.argmax(missed <= tolerance))
    if keep != int(keep) or not 0 <= keep <= count:
        raise InputError(
            f"keep must be a whole number between 0 and {count}, the number of essential components; got {keep}"
        )
    return int(keep)


def _torque_errors(Y: Array, components: Array, phi: Array) -> tuple[Array, Array]:
    """Rms torque missed with the first s components, and of the full model; Y (N, joints, p)."""
    parts = np.einsum("njp,kp,k->knj", Y, components, components @ phi, optimize=True)
    left = np.concatenate([np.cumsum(parts[::-1], axis=0)[::-1], np.zeros_like(parts[:1])])
    error = np.sqrt((left**2).mean(axis=1))
    return np.asarray(error), np.asarray(np.sqrt(((Y @ phi) ** 2).mean(axis=0)))
