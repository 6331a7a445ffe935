"""The nearest physically consistent parameters in a metric, and the contradiction that the way there proves.

minimise |W (B x - beta)|^2 over physical x. Physical x form a cone, so the shift r = B x* - beta of the minimum is a
certificate by itself (Moreau): y = W^T W r has y.B x >= 0 for every physical x, but y.beta = -|W r|^2 < 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.inertia import tensor_from_entries
from mindyn.algebra.values import Array
from mindyn.feasibility.conic import ConeRows, ConicError, ConicProgram
from mindyn.feasibility.physical_space import PhysicalSpace
from mindyn.notation import PARAMETERS_PER_LINK

MASS_COST: Final = 1e-9
"""Cost of a kilogram beside squared parts of the values: what beta leaves open takes the least mass."""
CERTIFICATE_MASS_COST: Final = 1e-7
"""The same beside squared parts of the distance, where a certificate is asked for: the solver holds on to it better."""
LINK_MASS_COST: Final = 1e-5
"""The same where x is asked for: the distance may grow by a thousandth to spare a hundred kilograms."""
MIN_CORRELATION_EIGENVALUE: Final = 1e-9
"""Eigenvalues of the correlations below this count as this much."""
MIN_RELATIVE_DISTANCE: Final = 1e-8
"""Distances below this part of the values' size count as this much."""
DISTANCE_TOLERANCE: Final = 1e-3
"""Distances that differ by less, relative, count as the same."""
SMALL_ROBOT_SIZE: Final = 1e-2
"""kg, N m, ...: a robot whose links or frictions are smaller is measured in units of its own."""
MIN_RELATIVE_SIZE: Final = 1e-2
"""Values smaller than this part of their kind's rms are compared with that much."""


@dataclass(frozen=True, slots=True, eq=False)
class NearestConsistent:
    """What lies nearest.

    x            physical
    beta         B x
    distance     |W r|, r = B x - beta
    certificate  y = W^T W r
    braking      multipliers, not negative, of the rows `is_friction`
    """

    x: Array
    beta: Array
    distance: float
    certificate: Array
    braking: Array


def find_nearest_consistent(
    space: PhysicalSpace, beta: Array, W: Array, rows: tuple[ConeRows, ...] = (), mass_cost: float = MASS_COST
) -> NearestConsistent:
    """The physical parameters whose beta is nearest, |W (B x - beta)| least; `rows` are further conditions on x.

    Solved in parts of the values, then about what was found in parts of the distance: of values that are known to a
    millionth, tolerance and cost of mass would else be whole standard deviations.
    """
    size = float(np.sqrt(np.mean((W @ beta) ** 2))) or 1.0
    units = _choose_units(space, beta)
    found = _solve_from(np.zeros(space.size), space, beta, W, rows, MASS_COST, size, units)
    try:
        return _solve_from(
            found.x, space, beta, W, rows, mass_cost, max(found.distance, MIN_RELATIVE_DISTANCE * size), units
        )
    except ConicError:
        return found


def root_of_inverse(correlations: Array, deviations: Array) -> Array:
    """W (p, p) with W^T W the inverse of the covariance that has these correlations (p, p) and deviations (p,)."""
    values, vectors = np.linalg.eigh(correlations)
    return np.asarray((vectors / np.sqrt(np.maximum(values, MIN_CORRELATION_EIGENVALUE))).T / deviations)


def find_nearest_compact(
    space: PhysicalSpace, beta: Array, W: Array, rows: tuple[ConeRows, ...] = ()
) -> NearestConsistent:
    """The nearest, of links no wider than the robot's known reach where such are as near."""
    compact = (*rows, space.compact_rows())
    found: list[NearestConsistent] = []
    for conditions in (compact, rows):
        try:
            found.append(find_nearest_consistent(space, beta, W, conditions, LINK_MASS_COST))
        except ConicError as error:
            failed = error
    if not found:
        raise failed
    as_near = (1 + DISTANCE_TOLERANCE) * found[-1].distance + MIN_RELATIVE_DISTANCE * float(np.linalg.norm(W @ beta))
    return found[0] if found[0].distance <= as_near else found[-1]


def _choose_units(space: PhysicalSpace, beta: Array) -> Array:
    """(size,) units of x: those of the space; of a robot so small that a solver's tolerance would show, of its own.

    Physical x form a cone, so that links and drives may be measured in any unit.
    """
    units, links = space.units.copy(), PARAMETERS_PER_LINK * space.link_count
    of_links = np.abs(space.matrix[:, :links] * units[:links]).max(axis=1, initial=0.0)
    masses = np.abs(beta[of_links > 0]) / of_links[of_links > 0]
    others = np.abs(beta[of_links == 0])
    units[:links] *= _choose_unit(float(masses.max(initial=0.0)))
    units[links:] *= _choose_unit(float(np.sqrt(np.mean(others**2))) if others.any() else 1.0)
    return units


def _choose_unit(size: float) -> float:
    """The power of ten below a size, 1 where it is not small."""
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
    """The nearest as a step from `start`, distances in units of `size`."""
    program = ConicProgram(space.size)
    program.add_squares(W @ space.matrix * units / size, W @ (beta - space.matrix @ start) / size)
    program.cost[space.masses] = mass_cost
    cones = space.cone_rows(units)
    program.add_rows(*(_shift_rows(one, start / units) for one in (*cones, *(_scale_rows(one, units) for one in rows))))
    solved = program.solve()
    x = start + units * solved.x
    braking = (
        solved.duals[len(cones) - 1][-len(space.braking_rows) :] * size**2 if len(space.braking_rows) else np.zeros(0)
    )
    moved = space.matrix @ x
    shift = W @ (moved - beta)
    return NearestConsistent(x, moved, float(np.linalg.norm(shift)), W.T @ shift, braking)


def relative_metric(space: PhysicalSpace, beta: Array) -> Array:
    """W (p, p) diagonal: 1 over each value, or over a hundredth of its family's rms where that is more."""
    families = [one.family for one in space.parameters]
    rms = {
        family: float(np.sqrt(np.mean([b * b for b, own in zip(beta, families, strict=True) if own == family])))
        for family in families
    }
    least = max(rms.values()) or 1.0
    floors = [MIN_RELATIVE_SIZE * (rms[family] or least) for family in families]
    return np.asarray(np.diag(1 / np.maximum(np.abs(beta), floors)))


def _scale_rows(rows: ConeRows, units: Array) -> ConeRows:
    return ConeRows(rows.kind, rows.matrix * units, rows.offset, rows.order)


def _shift_rows(rows: ConeRows, start: Array) -> ConeRows:
    """The rows as conditions on the step from `start`."""
    return ConeRows(rows.kind, rows.matrix, rows.offset + rows.matrix @ start, rows.order)


def match_values(space: PhysicalSpace, x: Array, beta: Array) -> Array:
    """x moved the least so that B x = beta to rounding: takes out what a solver's tolerance leaves."""
    return np.asarray(x + space.units * (np.linalg.pinv(space.matrix * space.units) @ (beta - space.matrix @ x)))


def certificate_slack(space: PhysicalSpace, y: Array, braking: Array) -> float:
    """The least y.B x over physical x of unit size: the smallest eigenvalue of what y asks of any link or sign.

    y.B x = <C_i, pseudo-inertia of link i> + c.signed + e.free: not negative for all physical x when every C_i is
    positive semidefinite, every c is not negative and every e is zero; what multiplies `is_friction` is taken off
    first.
    """
    asked = (space.matrix.T @ y - space.braking_rows.T @ braking) * space.units
    free = np.ones(space.size, dtype=bool)
    worst = []
    for i in range(space.link_count):
        free[space.link(i)] = False
        worst.append(np.linalg.eigvalsh(_adjoint(asked[space.link(i)]))[0])
    signed = list(space.nonnegative)
    free[signed] = False
    return float(min([*worst, *asked[signed], -np.abs(asked[free]).max(initial=0.0)]))


def _adjoint(c: Array) -> Array:
    """C (4, 4) with <C, pseudo_inertia(phi)> = c.phi: J = tr(Sigma) E - Sigma, so c_J.J = <tr(G) E - G, Sigma>."""
    G = tensor_from_entries(c[4:] * np.array([1.0, 0.5, 1.0, 0.5, 0.5, 1.0]))
    C = np.zeros((4, 4))
    C[:3, :3] = G.trace() * np.eye(3) - G
    C[:3, 3] = C[3, :3] = c[1:4] / 2
    C[3, 3] = c[0]
    return C
