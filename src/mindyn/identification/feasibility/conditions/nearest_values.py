"""Nearest physically consistent parameters in a metric, and a certificate of inconsistency.

minimise |W (B x - beta)|^2 over physical x. Physical x form a cone, so the shift r = B x* - beta of the minimum is a
certificate (Moreau): y = W^T W r has y.B x >= 0 for every physical x, but y.beta = -|W r|^2 < 0. The dual program
(minimise y.beta over |W^-T y| <= 1 with y.B x >= 0) determines y more precisely, because parameters that beta does not
determine are variables of the first program only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.inertia import tensor_from_entries
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.conditions.physical_space import PhysicalSpace
from mindyn.identification.feasibility.optimisation.conic_program import ConeRows, ConicError, ConicProgram, triangle

MASS_COST: Final = 1e-9
"""Cost of 1 kg relative to squared relative changes. Parameters that beta does not determine then get the smallest
mass.
"""
LINK_MASS_COST: Final = 1e-5
"""The same cost if x itself is needed: the distance may grow by 0.1 % to save 100 kg."""
MIN_CORRELATION_EIGENVALUE: Final = 1e-9
"""Lower bound of the eigenvalues of a correlation matrix."""
MIN_RELATIVE_DISTANCE: Final = 1e-8
"""Lower bound of distances relative to the size of the values."""
DISTANCE_TOLERANCE: Final = 1e-3
"""Relative difference below which distances count as equal."""
SMALL_ROBOT_SIZE: Final = 1e-2
"""Largest parameter (kg, N m, ...) below which a small robot gets smaller units for its parameters."""
MIN_RELATIVE_SIZE: Final = 1e-2
"""Lower bound of the size of a value relative to the rms of its kind."""


@dataclass(frozen=True, slots=True, eq=False)
class NearestConsistent:
    """Nearest physically consistent parameters.

    x         physical parameters
    beta      B x
    distance  |W (B x - beta)|
    """

    x: Array
    beta: Array
    distance: float


def find_nearest_consistent(
    space: PhysicalSpace, beta: Array, W: Array, rows: tuple[ConeRows, ...] = (), mass_cost: float = MASS_COST
) -> NearestConsistent:
    """Return the physical parameters x that minimise |W (B x - beta)|. `rows` are further conditions on x.

    The tolerance of the first solution is relative to the values, that of the second solution relative to the distance
    of the first. For values with a relative accuracy of 1e-6, the tolerance and the cost of mass of the first solution
    would be as large as standard deviations.
    """
    size = float(np.sqrt(np.mean((W @ beta) ** 2))) or 1.0
    units = _choose_units(space, beta)
    first = _solve_from(np.zeros(space.size), space, beta, W, rows, MASS_COST, size, units)
    try:
        return _solve_from(
            first.x, space, beta, W, rows, mass_cost, max(first.distance, MIN_RELATIVE_DISTANCE * size), units
        )
    except ConicError:
        return first


def known_metric(estimate: Estimate, known: NDArray[np.bool_]) -> Array:
    """Return W (k, p) where W^T W is the inverse covariance of k known parameters; changes of the other parameters cost
    nothing.
    """
    W = np.zeros((int(known.sum()), len(known)))
    W[:, known] = root_of_inverse(estimate.uncertainty.correlations[np.ix_(known, known)], estimate.deviations[known])
    return W


def root_of_inverse(correlations: Array, deviations: Array) -> Array:
    """Return W (p, p) where W^T W is the inverse of the covariance with these correlations (p, p) and deviations
    (p,).
    """
    values, vectors = np.linalg.eigh(correlations)
    return np.asarray((vectors / np.sqrt(np.maximum(values, MIN_CORRELATION_EIGENVALUE))).T / deviations)


def find_nearest_compact(
    space: PhysicalSpace, beta: Array, W: Array, rows: tuple[ConeRows, ...] = ()
) -> NearestConsistent:
    """Return the nearest parameters.

    If links no wider than the reach of the robot are equally near, return such links.
    """
    compact = (*rows, space.compact_rows())
    candidates: list[NearestConsistent] = []
    for conditions in (compact, rows):
        try:
            candidates.append(find_nearest_consistent(space, beta, W, conditions, LINK_MASS_COST))
        except ConicError as error:
            failed = error
    if not candidates:
        raise failed
    limit = (1 + DISTANCE_TOLERANCE) * candidates[-1].distance + MIN_RELATIVE_DISTANCE * float(np.linalg.norm(W @ beta))
    return candidates[0] if candidates[0].distance <= limit else candidates[-1]


def _choose_units(space: PhysicalSpace, beta: Array) -> Array:
    """Return the units (size,) of x: those of the space, or smaller units if the robot is so small that values reach
    the solver's tolerance.

    Because physical x form a cone, links and drives can be measured in any unit.
    """
    units, links = space.units.copy(), PARAMETERS_PER_LINK * space.link_count
    sizes = np.abs(space.matrix[:, :links] * units[:links]).max(axis=1, initial=0.0)
    masses = np.abs(beta[sizes > 0]) / sizes[sizes > 0]
    others = np.abs(beta[sizes == 0])
    units[:links] *= _choose_unit(float(masses.max(initial=0.0)))
    units[links:] *= _choose_unit(float(np.sqrt(np.mean(others**2))) if others.any() else 1.0)
    return units


def _choose_unit(size: float) -> float:
    """Return the power of ten below a size, or 1 if the size is not small."""
    return 1.0 if size == 0.0 or size >= SMALL_ROBOT_SIZE else float(10.0 ** np.floor(np.log10(size)))


def _solve_from(
    start: Array,
    space: PhysicalSpace,
    beta: Array,
    W: Array,
    rows: tuple[ConeRows, ...],
    mass_cost: float,
    size: float,
    units: Array,
) -> NearestConsistent:
    """Return the nearest parameters as a step from `start`, with distances in units of `size`."""
    program = ConicProgram(space.size)
    program.add_squares(W @ space.matrix * units / size, W @ (beta - space.matrix @ start) / size)
    program.cost[space.masses] = mass_cost
    conditions = (*space.cone_rows(units), *(group.in_units(units) for group in rows))
    program.add_rows(*(group.from_start(start / units) for group in conditions))
    x = start + units * program.solve().x
    nearest_beta = space.matrix @ x
    return NearestConsistent(x, nearest_beta, float(np.linalg.norm(W @ (nearest_beta - beta))))


def relative_metric(space: PhysicalSpace, beta: Array) -> Array:
    """Return a diagonal W (p, p) with 1 / |value|.

    For small values, |value| is replaced by 1 % of the rms of their family.
    """
    families = [parameter.family for parameter in space.parameters]
    rms = {
        family: float(np.sqrt(np.mean([b * b for b, other in zip(beta, families, strict=True) if other == family])))
        for family in families
    }
    least = max(rms.values()) or 1.0
    floors = [MIN_RELATIVE_SIZE * (rms[family] or least) for family in families]
    return np.asarray(np.diag(1 / np.maximum(np.abs(beta), floors)))


def match_values(space: PhysicalSpace, x: Array, beta: Array) -> Array:
    """Return x after the smallest step that makes B x = beta, which removes the tolerance of a solver."""
    return np.asarray(x + space.units * (np.linalg.pinv(space.matrix * space.units) @ (beta - space.matrix @ x)))


def find_certificate(space: PhysicalSpace, beta: Array, W: Array) -> tuple[Array, Array]:
    """Return y (p,) that minimises y.beta with |W^-T y| <= 1 and y.B x >= 0 for all physical x.

    W must have an inverse.

    The second result are nonnegative multipliers of `braking_rows` (see `certificate_slack`).
    """
    p, size = len(beta), len(beta) + len(space.braking_rows)
    program = ConicProgram(size)
    program.cost[:p] = W @ beta
    program.add_rows(ConeRows("second order", np.eye(p + 1, size, -1), np.eye(p + 1)[0]))
    program.add_rows(ConeRows("nonnegative", np.eye(size)[p:], np.zeros(size - p)))
    links, signed, free = _split_coefficients(space, np.vstack([W @ space.matrix, -space.braking_rows]).T)
    program.add_rows(*(ConeRows("semidefinite", triangle(C), np.zeros(PARAMETERS_PER_LINK), 4) for C in links))
    program.add_rows(ConeRows("nonnegative", signed, np.zeros(len(signed))))
    program.add_rows(ConeRows("zero", free, np.zeros(len(free))))
    solution = program.solve().x
    return W.T @ solution[:p], np.maximum(solution[p:], 0.0)


def certificate_slack(space: PhysicalSpace, y: Array, braking: Array) -> float:
    """Return the smallest y.B x over physical x of unit size.

    y.B x = <C_i, pseudo-inertia of link i> + c.nonnegative + e.free: nonnegative for all physical x if every C_i is
    positive semidefinite, every c is nonnegative and every e is zero; the multipliers of `braking_rows` are subtracted
    first.
    """
    links, signed, free = _split_coefficients(space, (space.matrix.T @ y - space.braking_rows.T @ braking)[:, None])
    smallest = [np.linalg.eigvalsh(C[0])[0] for C in links]
    return float(min([*smallest, *signed[:, 0], -np.abs(free).max(initial=0.0)]))


def _split_coefficients(space: PhysicalSpace, columns: Array) -> tuple[list[Array], Array, Array]:
    """Return columns (size, k) of coefficients of x in the space's units: C (k, 4, 4) by link, nonnegative, free."""
    scaled, is_free = columns * space.units[:, None], np.ones(space.size, dtype=bool)
    links = [np.stack([_pseudo_inertia_adjoint(c) for c in scaled[space.link(i)].T]) for i in range(space.link_count)]
    signed = list(space.nonnegative)
    is_free[: PARAMETERS_PER_LINK * space.link_count] = False
    is_free[signed] = False
    return links, scaled[signed], scaled[is_free]


def _pseudo_inertia_adjoint(c: Array) -> Array:
    """Return C (4, 4) with <C, pseudo_inertia(phi)> = c.phi: from J = tr(Sigma) E - Sigma follows c_J.J = <tr(G) E - G,
    Sigma>.
    """
    G = tensor_from_entries(c[4:] * np.array([1.0, 0.5, 1.0, 0.5, 0.5, 1.0]))
    C = np.zeros((4, 4))
    C[:3, :3] = G.trace() * np.eye(3) - G
    C[:3, 3] = C[3, :3] = c[1:4] / 2
    C[3, 3] = c[0]
    return C
