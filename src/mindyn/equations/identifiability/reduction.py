"""Model reduction: keep the components of the essential parameters with the largest effect along a given motion.

[Sheu & Walker 1991, section 3.2] With H = U S V^T the matrix of energy differences along the motion, component i of phi
contributes sigma_i v_i^T phi to the energy. The components with the largest contributions are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.identifiability.parameter_space import essential_space
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array, RandomSource, ShortRepr, seed_from
from mindyn.foundation.errors import Code, InputError
from mindyn.robots.robot import Robot

MAX_ENERGY_ERROR = 0.01
"""Default fraction of the energy that a reduced model may miss."""


@dataclass(frozen=True, slots=True, repr=False)
class Reduction(ShortRepr):
    """A reduced model: components in the order of their energy, and the errors of dropping the small ones.

    Attributes
    ----------
    components : ndarray, shape (k, p)
        Orthonormal rows v of the essential space, the most energetic along the motion first.
    coordinates : ndarray, shape (k,)
        v . phi.
    energies : ndarray, shape (k,)
        sigma (v . phi), J: the norm of each contribution to the energy differences.
    energy_error : ndarray, shape (k + 1,)
        Fraction of the energy missed with the first s components, s = 0..k, eq. (23).
    torque_error : ndarray, shape (k + 1, joints)
        Root mean square torque missed, N m (N).
    torque_size : ndarray, shape (joints,)
        Root mean square torque of the full model.
    kept : int
        s, the number of components kept.
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
        """Parameters (p,) of the reduced model: the sum of the kept components."""
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
    rng: RandomSource = 0,
) -> Reduction:
    """Rank the essential components of a robot's parameters by their energy along a motion, and keep the largest.

    Parameters
    ----------
    robot : Robot
        The robot.
    q, qd, qdd : array_like, shape (N, joints)
        The motion.
    states : (q, qd), each of shape (M, joints), optional
        States at which components are ranked instead of the motion, as the random states of the whole working range in
        Sheu & Walker, section 5; torque errors still refer to the motion.
    keep : int, optional
        Number of components to keep.
    tolerance : float
        Fraction of the energy that may be missed, eq. (24), if `keep` is not given.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the random states of the essential space; None draws others in every call.

    Returns
    -------
    Reduction
        Components, their energies, and the torque error for every number of components.

    Raises
    ------
    InputError
        If the arrays do not have the same shape, are not finite, or an option is out of range.
    """
    seed = seed_from(rng)
    q, qd, qdd = _read_rows("q, qd, qdd", "joints", "q", q, qd, qdd)
    require_positive(tolerance, "tolerance", "a fraction of the energy")
    rows = Regressors(robot)
    V1 = essential_space(robot, rng=seed).basis
    ranked = (q, qd) if states is None else _read_rows("q, qd of states", q.shape[1], "states", *states)
    H = np.diff(rows.energy_rows(*ranked), axis=0) @ V1.T
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


def _read_rows(names: str, width: int | str, subject: str, *given: ArrayLike) -> list[Array]:
    """Return arrays (N, joints) of at least two rows, equal in shape and finite."""
    arrays = [np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in given]
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) > 1 or shapes[0][0] < 2 or width not in ("joints", shapes[0][1]):
        message = f"{names} must have the same shape (N, {width}) with N >= 2; got {', '.join(map(str, shapes))}"
        raise InputError(message, code=Code.WRONG_SHAPE, subject=subject)
    if not all(np.isfinite(array).all() for array in arrays):
        raise InputError(f"{names} must be finite", code=Code.NOT_FINITE, subject=subject)
    return arrays


def _missed_fractions(energies: Array) -> Array:
    """Return the fraction of the norm that the first s components miss, for s = 0..k."""
    squares = np.concatenate([np.cumsum(energies[::-1] ** 2)[::-1], [0.0]])
    return np.asarray(np.sqrt(squares / squares[0]) if squares[0] > 0 else np.zeros_like(squares))


def _count_kept(missed: Array, keep: int | None, tolerance: float) -> int:
    count = len(missed) - 1
    if keep is None:
        return int(np.argmax(missed <= tolerance))
    if keep != int(keep) or not 0 <= keep <= count:
        raise InputError(
            f"keep must be a whole number between 0 and {count}, the number of essential components; got {keep}",
            code=Code.OUT_OF_RANGE,
            subject="keep",
        )
    return int(keep)


def _torque_errors(Y: Array, components: Array, phi: Array) -> tuple[Array, Array]:
    """Return the rms torque that the first s components miss, and the rms torque of the full model.

    Y is (N, joints, p).
    """
    parts = np.einsum("njp,kp,k->knj", Y, components, components @ phi, optimize=True)
    left = np.concatenate([np.cumsum(parts[::-1], axis=0)[::-1], np.zeros_like(parts[:1])])
    error = np.sqrt((left**2).mean(axis=1))
    return np.asarray(error), np.asarray(np.sqrt(((Y @ phi) ** 2).mean(axis=0)))
