"""Effect of added mass on the base parameters and torques of a robot, and the best position for it.

The change of the standard parameters is projected onto the identifiable space. [Sheu & Walker 1991, section 6] "The
effect of adding mass to any link could easily be determined by finding the projection of its associated inertial
parameters onto the essential parameter space. An optimum design would be one that minimizes these components."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.identifiability.parameter_space import essential_space
from mindyn.equations.identifiability.regressor_rows import Regressors
from mindyn.foundation.algebra.inertia import check_consistency, phi_about_origin, transform_phi
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.values import Array, ShortRepr, frozen_array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.robots.robot import Robot

Motion = tuple[ArrayLike, ArrayLike, ArrayLike]
"""q, qd, qdd (N, joints), of the primary joints if the robot has loops."""
UNCHANGED_TOLERANCE = 1e-12
"""A change of base parameters that is smaller, relative to the change of standard parameters, counts as zero."""
Aim = Literal["lightest", "simplest"]
""""lightest": the smallest torques along the motion, relative to the torque of each joint without the mass. "simplest":
the smallest part of the mass's ten parameters (SI units) that lies in the essential parameter space.
"""


@dataclass(frozen=True, slots=True, repr=False)
class DesignChange(ShortRepr):
    """Effect of an added body.

    Attributes
    ----------
    names : tuple of str
        Names of the base parameters.
    phi : ndarray, shape (10,)
        The body's standard parameters in the frame of the link that carries it.
    beta : ndarray, shape (count,)
        Change of the base parameters.
    torque : ndarray, shape (N, joints)
        Change of the torques along the motion, N m (N).
    """

    names: tuple[str, ...]
    phi: Array
    beta: Array
    torque: Array

    @property
    def is_seen(self) -> bool:
        """Whether the body has an effect in any motion."""
        return bool(np.abs(self.beta).max(initial=0.0) > UNCHANGED_TOLERANCE * np.abs(self.phi).max(initial=0.0))

    @property
    def rms_torque(self) -> Array:
        """Root mean square (joints,) of the change along the motion, N m (N)."""
        return np.asarray(np.sqrt((self.torque**2).mean(axis=0)))

    @property
    def changed(self) -> dict[str, float]:
        """The base parameters that change, by name."""
        threshold = UNCHANGED_TOLERANCE * float(np.abs(self.phi).max(initial=0.0))
        return {name: float(d) for name, d in zip(self.names, self.beta, strict=True) if abs(d) > threshold}


def evaluate_point_mass(
    base: BaseParameters, link: str, mass: float, position: ArrayLike, motion: Motion
) -> DesignChange:
    """Compute the effect of an added point mass.

    Parameters
    ----------
    base : BaseParameters
        A base set of the robot.
    link : str
        Link or frame.
    mass : float
        Mass, kg.
    position : array_like, shape (3,)
        Position in the frame of `link`, m.
    motion : (q, qd, qdd), each of shape (N, joints)
        Motion along which torques are computed.

    Returns
    -------
    DesignChange
        Parameters of the added body, and changes of the base parameters and of the torque.
    """
    return evaluate_added_body(base, link, mass, position, np.zeros((3, 3)), motion)


def evaluate_added_body(
    base: BaseParameters, link: str, mass: float, com: ArrayLike, inertia: ArrayLike, motion: Motion
) -> DesignChange:
    """Compute the effect of an added rigid body.

    Parameters
    ----------
    base : BaseParameters
        A base set of the robot.
    link : str
        Link or frame.
    mass : float
        Mass, kg.
    com : array_like, shape (3,)
        Centre of mass in the frame of `link`, m.
    inertia : array_like, shape (3, 3)
        Inertia tensor about the centre of mass, kg m^2.
    motion : (q, qd, qdd), each of shape (N, joints)
        Motion along which torques are computed.

    Returns
    -------
    DesignChange
        Parameters of the added body, and changes of the base parameters and of the torque.

    Raises
    ------
    InputError
        If the parameters are not physically consistent, or `link` is on the root.
    """
    body = phi_about_origin(
        float(frozen_array(mass, (), "mass")), frozen_array(com, (3,), "com"), frozen_array(inertia, (3, 3), "inertia")
    )
    verdict = check_consistency(body)
    if not verdict.is_feasible:
        raise InputError(f"no body can have these parameters: {verdict.reason}", code=Code.NOT_FEASIBLE, subject="mass")
    X, block = _locate(base.robot, link)
    phi = transform_phi(X, body)
    q, qd, qdd = (np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in motion)
    Y = Regressors(base.robot).torque_rows(q, qd, qdd)[:, :, block]
    return DesignChange(base.names, phi, np.asarray(base.matrix[:, block] @ phi), np.asarray(Y @ phi))


def _locate(robot: Robot, link: str) -> tuple[Pose, slice]:
    """Return the pose of a link or frame in the moving link that carries it, and the columns of that link's
    parameters.
    """
    index, X = robot.locate(link)
    if index < 0:
        raise InputError(
            f"a body on the root {robot.root.name!r} has no effect on the dynamics",
            code=Code.NOT_IDENTIFIABLE,
            subject=link,
        )
    return X, slice(PARAMETERS_PER_LINK * index, PARAMETERS_PER_LINK * (index + 1))


@dataclass(frozen=True, slots=True, repr=False)
class MassPlacement(ShortRepr):
    """The best position of an added point mass.

    Attributes
    ----------
    position : ndarray, shape (3,)
        Position in the link or frame, m.
    mass : float
        Mass, kg.
    value : float
        Minimum of the objective: mean over joints of squared torque relative to the robot's own ("lightest"), or the
        norm of the essential part of the added parameters ("simplest").
    without : float
        Objective without the mass.
    change : DesignChange
        Effect of the mass.
    """

    position: Array
    mass: float
    value: float
    without: float
    change: DesignChange


def place_point_mass(
    base: BaseParameters,
    link: str,
    mass: float | tuple[float, float],
    lower: ArrayLike,
    upper: ArrayLike,
    motion: Motion,
    *,
    aim: Aim = "lightest",
) -> MassPlacement:
    """Find the best position of a point mass in a box on a link or frame, by search from its corners, edges and middle.

    Parameters
    ----------
    base : BaseParameters
        A base set of the robot.
    link : str
        Link or frame.
    mass : float or (float, float)
        Mass, kg; or the smallest and largest mass, of which the best is found.
    lower, upper : array_like, shape (3,)
        The box in the frame of `link`, m.
    motion : (q, qd, qdd), each of shape (N, joints)
        Motion along which torques are evaluated.
    aim : {"lightest", "simplest"}
        "lightest" minimizes torques along the motion, "simplest" the essential part of the added parameters.

    Returns
    -------
    MassPlacement
        The best position and its objective.

    Raises
    ------
    InputError
        If a mass is negative, `lower` exceeds `upper`, or `link` is on the root.
    """
    from scipy.optimize import minimize

    require_choice(aim, get_args(Aim), "aim")
    low, high = frozen_array(lower, (3,), "lower"), frozen_array(upper, (3,), "upper")
    least, most = (mass, mass) if isinstance(mass, (int, float)) else mass
    if not 0 <= least <= most or (low > high).any() or not np.isfinite(most):
        raise InputError(
            f"no position for a mass from {least:g} to {most:g} kg in a box from {low.tolist()} to {high.tolist()}",
            hint="masses must not be negative, and lower must be below upper",
            code=Code.OUT_OF_RANGE,
            subject="mass",
        )
    cost = _cost(base, link, motion, aim)
    bounds = [(least, most), *zip(low.tolist(), high.tolist(), strict=True)]
    starts = product(*(sorted({a, (a + b) / 2, b}) for a, b in bounds))
    minima = [minimize(cost, x, bounds=bounds, method="L-BFGS-B") for x in starts]
    best = min(minima, key=lambda minimum: float(minimum.fun)).x
    change = evaluate_point_mass(base, link, float(best[0]), best[1:], motion)
    return MassPlacement(best[1:], float(best[0]), cost(best), cost(np.array([0.0, *best[1:]])), change)


def _cost(base: BaseParameters, link: str, motion: Motion, aim: Aim) -> Callable[[Array], float]:
    """Return the objective as a function of mass and position, a quadratic form of the added parameters."""
    robot = base.robot
    X, block = _locate(robot, link)

    def added(x: Array) -> Array:
        return transform_phi(X, phi_about_origin(float(x[0]), x[1:], np.zeros((3, 3))))

    if aim == "simplest":
        V = essential_space(robot).basis[:, block]
        return lambda x: float(np.linalg.norm(V @ added(x)))
    q, qd, qdd = (np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in motion)
    Y = Regressors(robot).torque_rows(q, qd, qdd)
    tau = Y @ robot.phi
    sizes = (tau**2).mean(axis=0)
    weights = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0) / sizes.size
    Yb = Y[:, :, block]
    S = np.einsum("njp,j,njr->pr", Yb, weights, Yb, optimize=True) / len(Y)
    b = np.einsum("njp,j,nj->p", Yb, weights, tau, optimize=True) / len(Y)
    c = float((weights * sizes).sum())
    return lambda x: float(added(x) @ S @ added(x) + 2 * b @ added(x) + c)
