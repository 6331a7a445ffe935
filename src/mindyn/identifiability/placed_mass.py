"""Where to place an added mass so that the dynamics become the lightest, or change the least.

[Sheu & Walker 1991, section 6] "The effect of adding mass to any link could easily be determined by finding the
projection of its associated inertial parameters onto the essential parameter space. An optimum design would be one that
minimizes these components."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from mindyn.algebra.inertia import moved_phi, phi_about_origin
from mindyn.algebra.values import Array, frozen_array
from mindyn.errors import InputError, require_choice
from mindyn.identifiability.design_questions import DesignChange, Motion, added_point_mass
from mindyn.identifiability.essential_space import essential_space
from mindyn.identifiability.random_states import regressors_of
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters

Aim = Literal["lightest", "simplest"]
"""lightest: the least torque along the motion, each joint's in parts of what it takes without the mass; simplest: the
least essential part of the mass's ten parameters, in SI units."""


@dataclass(frozen=True, slots=True)
class PlacedMass:
    """The best place of an added point mass.

    position  (3,) in the link or frame, m
    mass      kg
    value     what is made small: mean over joints of squared torque relative to the robot's own ("lightest"), or the
              norm of the essential part of the added parameters ("simplest")
    without   the same without the mass
    change    what the mass changes
    """

    position: Array
    mass: float
    value: float
    without: float
    change: DesignChange


def place_point_mass(
    base: BaseParameters,
    place: str,
    mass: float | tuple[float, float],
    lower: ArrayLike,
    upper: ArrayLike,
    motion: Motion,
    *,
    aim: Aim = "lightest",
) -> PlacedMass:
    """The position of a point mass in a box of a link or frame, by search from its corners, edges and middle.

    mass          kg; or the least and the most that may be added, and the best is found
    lower, upper  (3,) the box, m, in the frame of `place`
    motion        q, qd, qdd (N, joints) by which torques are judged
    """
    require_choice(aim, get_args(Aim), "aim")
    low, high = frozen_array(lower, (3,), "lower"), frozen_array(upper, (3,), "upper")
    least, most = (mass, mass) if isinstance(mass, (int, float)) else mass
    if not 0 <= least <= most or (low > high).any() or not np.isfinite(most):
        raise InputError(
            f"a mass from {least:g} to {most:g} kg in a box from {low.tolist()} to {high.tolist()} has no place",
            hint="masses are not negative, and lower is below upper",
        )
    cost = _cost(base, place, motion, aim)
    bounds = [(least, most), *zip(low.tolist(), high.tolist(), strict=True)]
    starts = product(*(sorted({a, (a + b) / 2, b}) for a, b in bounds))
    found = [minimize(cost, x, bounds=bounds, method="L-BFGS-B") for x in starts]
    best = min(found, key=lambda one: float(one.fun)).x
    change = added_point_mass(base, place, float(best[0]), best[1:], motion)
    return PlacedMass(best[1:], float(best[0]), cost(best), cost(np.array([0.0, *best[1:]])), change)


def _cost(base: BaseParameters, place: str, motion: Motion, aim: Aim) -> Callable[[Array], float]:
    """What is made small, as a function of mass and position; a quadratic form of the added parameters."""
    robot = base.robot
    index, X = robot.locate(place)
    if index < 0:
        raise InputError(f"a mass on the root {robot.root.name!r} has no effect on the dynamics")
    block = slice(PARAMETERS_PER_LINK * index, PARAMETERS_PER_LINK * (index + 1))

    def added(x: Array) -> Array:
        return moved_phi(X, phi_about_origin(float(x[0]), x[1:], np.zeros((3, 3))))

    if aim == "simplest":
        V = essential_space(robot).basis[:, block]
        return lambda x: float(np.linalg.norm(V @ added(x)))
    q, qd, qdd = (np.atleast_2d(np.asarray(value, dtype=np.float64)) for value in motion)
    Y = regressors_of(robot).torque_rows(q, qd, qdd)
    own = Y @ robot.phi
    sizes = (own**2).mean(axis=0)
    weights = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0) / sizes.size
    Yb = Y[:, :, block]
    S = np.einsum("njp,j,njr->pr", Yb, weights, Yb, optimize=True) / len(Y)
    b = np.einsum("njp,j,nj->p", Yb, weights, own, optimize=True) / len(Y)
    c = float((weights * sizes).sum())
    return lambda x: float(added(x) @ S @ added(x) + 2 * b @ added(x) + c)
