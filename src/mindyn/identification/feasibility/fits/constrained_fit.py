"""Weighted least-squares fit over physical parameters from R factors, as one conic program of constant size.

The fit minimises 1/(2 N) sum_j w_j |Y_j B x - tau_j|^2 + weight * prior(x) over physical x within bounds, where N is
the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.normal_equations import invert_normal_matrix
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.notation import STANDARD_GRAVITY
from mindyn.identification.feasibility.conditions.physical_space import PhysicalSpace
from mindyn.identification.feasibility.conditions.priors import MIN_PRIOR_WEIGHT, Prior
from mindyn.identification.feasibility.optimisation.conic_program import (
    SOLVER_TOLERANCES,
    ConeRows,
    ConicError,
    ConicProgram,
    InfeasibleProgramError,
)
from mindyn.identification.feasibility.optimisation.interior_point import minimise_all
from mindyn.parameters.parameter import Kind
from mindyn.regression.friction_limits import with_friction_priors
from mindyn.regression.information import Information, joint_weights, triangle_of

EXACT_TOLERANCE: Final = 1e-13
"""Duality gap relative to the cost of the values that are returned."""
CONIC_REWEIGHTINGS: Final = 6
CONIC_WEIGHT_TOLERANCE: Final = 1e-2
"""Relative change of the weights at which the iteration stops, because the fit depends only weakly on the weights."""
MAX_LIMITED_MISFIT_RATIO: Final = 1.1
"""Ratio between the mean squared residual with limits (plausible or compact links) and without. Above it, the limits
count as wrong, because the masses of the file or the known reach are wrong.
"""
MIN_PRIOR_FRACTION: Final = 0.01
"""Links keep at least this fraction of the pseudo-inertia of their prior. The inertia matrix is then at least this
fraction of that of the prior in every configuration, which bounds its condition number."""
MASS_TIE_BREAK_WEIGHT: Final = 1e-3
"""Weight of the mass of a link without a prior, relative to the mass that the torques suggest. It decides only between
equally good fits. The largest weight within one standard error removes masses that offsets can replace (KR300: 17.4
instead of 13.4 %).
"""


@dataclass(frozen=True, slots=True, eq=False)
class FitProblem:
    """Definition of a constrained fit without its data.

    space    physical parameters
    prior    prior for parameters that the data hardly determine
    rows     bounds on x
    zero     indices of x that are fixed at zero
    compact  whether links are no wider than the reach of the robot, or than the prior
    floor    fraction of the pseudo-inertia of the prior that every link has at least
    limits   plausible masses and centres as rows on x; a fit that satisfies them is computed without these rows
    """

    space: PhysicalSpace
    prior: Prior
    rows: tuple[ConeRows, ...] = ()
    zero: tuple[int, ...] = ()
    compact: bool = True
    floor: float = 0.0
    limits: tuple[ConeRows, ...] = ()

    def drop_kinds(self, kinds: tuple[Kind, ...]) -> FitProblem:
        """Return the problem with all parameters of these kinds fixed at zero."""
        more = [k for k, column in enumerate(self.space.columns) if column.kind in kinds]
        return replace(self, zero=tuple(sorted({*self.zero, *more})))

    def relax_limits(self, information: Information, weights: Array, prior_weight: float) -> FitProblem:
        """Return the problem without limits that increase the misfit by more than `MAX_LIMITED_MISFIT_RATIO`.

        Plausible masses and centres are dropped before compactness; limits that contradict each other are dropped too.
        """
        wide = replace(self, compact=False, limits=())
        least = self._cost(wide, information, weights, prior_weight)
        for problem in (self, replace(self, limits=())):
            try:
                cost = self._cost(problem, information, weights, prior_weight)
            except MindynError:
                continue
            if cost <= MAX_LIMITED_MISFIT_RATIO * least:
                return problem
        return wide

    def _cost(self, problem: FitProblem, information: Information, weights: Array, prior_weight: float) -> float:
        """Return the weighted squared residuals of a problem."""
        x = problem.approximate(information, weights, prior_weight)
        return float(weights @ information.residuals(self.space.matrix @ x))

    def with_guesses(self, information: Information, weights: Array) -> FitProblem:
        """Return the problem with guesses for links without a prior, computed from the smallest masses that fit."""
        if all(phi is not None for phi in self.prior.links):
            return self
        lightest = replace(self, limits=()).approximate(information, weights, 0.0)
        return replace(self, prior=self.prior.with_guesses(self.space, lightest))

    def is_within_limits(self, x: Array) -> bool:
        """Return whether x satisfies the limits of masses and centres."""
        return all((rows.matrix @ x + rows.offset >= 0).all() for rows in self.limits)

    def with_active_limits(self) -> FitProblem:
        """Return the problem with the limits as rows, so that its solution satisfies them."""
        return replace(self, rows=(*self.rows, *self.limits), limits=())

    def solve(self, information: Information, weights: Array, prior_weight: float) -> Array:
        """Return the minimiser x. If a prior makes all links solid bodies, x is exact to rounding.

        A link without a prior gets its smallest possible mass, with which it is not a solid body; then several x may be
        minimisers.
        """
        x = self._solve_freely(information, weights, prior_weight)
        if self.is_within_limits(x):
            return x
        return self.with_active_limits()._solve_freely(information, weights, prior_weight)

    def _solve_freely(self, information: Information, weights: Array, prior_weight: float) -> Array:
        """Return the minimiser x without the limits of masses and centres."""
        zero, T = self._zero_numbers(information, weights), self._factor_with_prior(information, weights)
        program = self._build_program(information, T, prior_weight, zero)
        is_smooth = all(phi is not None for phi in self.prior.links)
        for tolerance in (EXACT_TOLERANCE, SOLVER_TOLERANCES[0]) if is_smooth else ():
            (v,) = minimise_all([program], self.start(), tolerance)
            if v is not None:
                return self._scale_solution(v, zero)
        return self._solve_program(program, zero)

    def approximate(self, information: Information, weights: Array, prior_weight: float) -> Array:
        """Return a minimiser x of the same cost.

        If there are several minimisers, it may differ from the result of `solve`.
        """
        (x,) = solve_all([(self, information, prior_weight)], weights)
        return self.solve(information, weights, prior_weight) if x is None else x

    def _build_program(self, information: Information, T: Array, prior_weight: float, zero: list[int]) -> ConicProgram:
        """Return the program in v, x = units * v; T is the R factor of the data."""
        units = self.space.units
        program = ConicProgram(self.space.size)
        program.add_squares(T[:, :-1] @ self.space.matrix * units, T[:, -1])
        program.add_rows(*self._cone_rows(units))
        program.add_rows(*self._bound_rows(units))
        if zero:
            program.add_rows(ConeRows("zero", np.eye(self.space.size)[zero], np.zeros(len(zero))))
        mass_cost = MASS_TIE_BREAK_WEIGHT / self._typical_mass_kg(information)
        self.prior.add_to(program, self.space, units, max(prior_weight, MIN_PRIOR_WEIGHT), mass_cost)
        return program

    def _solve_program(self, program: ConicProgram, zero: list[int]) -> Array:
        """Return the minimiser x of a program by Clarabel."""
        try:
            return self._scale_solution(program.solve().x, zero)
        except InfeasibleProgramError as error:  # all other conditions admit a robot without mass
            raise InputError(
                "the bounds contradict each other: no links satisfy all of them",
                hint="compare the masses with the total mass, and the boxes of centres with planes of symmetry",
                code=Code.DISAGREEMENT,
                subject="bounds",
            ) from error

    def _scale_solution(self, v: Array, zero: list[int]) -> Array:
        """Return x = units * v, exactly zero where it is fixed."""
        x = self.space.units * v
        x[zero] = 0.0
        return np.asarray(x)

    def start(self) -> Array:
        """Return values v with x = units * v from which an iteration can start: the prior for links, and 1 for
        drives.
        """
        v, units = np.ones(self.space.size), self.space.units
        for i, phi in enumerate(self.prior.links):
            v[self.space.link(i)] = 0.0 if phi is None else phi / units[self.space.link(i)]
        return v

    def _factor_with_prior(self, information: Information, weights: Array) -> Array:
        """Return the R factor of [R | z] with the prior of friction shapes, divided by the root of the row count."""
        R, z = with_friction_priors(information, weights, self.space.parameters)
        return np.asarray(triangle_of(np.column_stack([R, z])) / np.sqrt(sum(information.counts)))

    def _zero_numbers(self, information: Information, weights: Array) -> list[int]:
        """Return indices of x that are fixed at zero, including the friction of joints that never have torque."""
        return sorted({*self.zero, *self._unseen_numbers(information, weights)})

    def _unseen_numbers(self, information: Information, weights: Array) -> list[int]:
        """Return indices of the friction of joints that never have torque."""
        counting = np.where(information.measured(), weights, 0.0)
        seen = information.stacked(counting)[0] @ self.space.matrix
        return [k for k, c in enumerate(self.space.columns) if c.kind != "link" and not seen[:, k].any()]

    def _cone_rows(self, units: Array) -> list[ConeRows]:
        """Return the conditions of physical x on v, x = units * v, with links above the floor."""
        rows = self.space.cone_rows(units)
        for i, phi in enumerate(self.prior.links):
            if phi is not None and self.floor:
                least = self.floor * phi / units[self.space.link(i)]
                rows[i] = replace(rows[i], offset=-rows[i].matrix[:, self.space.link(i)] @ least)
        return rows

    def _bound_rows(self, units: Array) -> list[ConeRows]:
        """Return the user's bounds and the largest link widths as rows on v, x = units * v."""
        rows = [*self.rows, *([self.space.compact_rows(self.prior.links)] if self.compact else [])]
        return [group.in_units(units) for group in rows]

    def prior_fractions(self, information: Information, weights: Array, prior_weight: float, x: Array) -> Array:
        """Return for each beta (p,) the fraction of its information at the minimum x that comes from the prior.

        With H = H_data + H_prior the second derivative of the cost, c a row of B and h = H^-1 c, the fraction is
        h.H_prior h / c.h.
        """
        units, kept = self.space.units, np.setdiff1d(np.arange(self.space.size), self.zero)
        R = information.stacked(weights)[0] @ self.space.matrix * units / np.sqrt(sum(information.counts))
        weight = max(prior_weight, MIN_PRIOR_WEIGHT)
        prior_curvature = self.prior.curvature(self.space, x, weight) * np.outer(units, units)
        data_curvature, prior_curvature = (H[np.ix_(kept, kept)] for H in (R.T @ R, prior_curvature))
        inverse = invert_normal_matrix(data_curvature + prior_curvature)
        rows = (self.space.matrix * units)[:, kept]
        h = inverse @ rows.T
        total = np.einsum("ki,ik->k", rows, h)
        from_prior = np.einsum("ik,ij,jk->k", h, prior_curvature, h)
        return np.asarray(np.where(total > 0, from_prior / np.where(total > 0, total, 1.0), 0.0))

    def _typical_mass_kg(self, information: Information) -> float:
        """Return the mass whose weight, at the typical length of the robot, causes the largest rms torque."""
        torque = float(np.sqrt(information.torques() / np.maximum(1, information.counts)).max())
        return max(torque / (abs(STANDARD_GRAVITY[2]) * self.space.length), 1e-6)

    def reweight(self, information: Information, weights: Array, prior_weight: float) -> Array:
        """Return the joint weights, 1 / mean squared residual, iterated from the given weights."""
        for _ in range(CONIC_REWEIGHTINGS):
            x = self.approximate(information, weights, prior_weight)
            before, weights = weights, joint_weights(information, self.space.matrix @ x)
            if (np.abs(weights - before) <= CONIC_WEIGHT_TOLERANCE * before).all():
                break
        return weights


Fit = tuple[FitProblem, Information, float]
"""Problem, data and weight of the prior."""


def solve_all(fits: Sequence[Fit], weights: Array) -> list[Array | None]:
    """Return the minimiser x of each fit, None if no solution is found. The problems may differ in their zeros.

    All fits are solved together; fits without a solution are then solved one by one. Solutions outside the limits of
    masses and centres are computed again with these limits as rows.
    """
    solutions = _solve_freely(fits, weights)
    pairs = enumerate(zip(fits, solutions, strict=True))
    outside = [k for k, (fit, x) in pairs if x is not None and not fit[0].is_within_limits(x)]
    if outside:
        limited = [(fits[k][0].with_active_limits(), *fits[k][1:]) for k in outside]
        for k, x in zip(outside, _solve_freely(limited, weights), strict=True):
            solutions[k] = x
    return solutions


def _solve_freely(fits: Sequence[Fit], weights: Array) -> list[Array | None]:
    """Return the minimiser x of each fit without the limits of masses and centres."""
    # Many fits to the same data differ in the weight of the prior and in their zeros.
    data_sets = {id(data): data for _, data, _ in fits}
    first = fits[0][0]
    factors = {key: first._factor_with_prior(data, weights) for key, data in data_sets.items()}
    unseen = {key: first._unseen_numbers(data, weights) for key, data in data_sets.items()}
    zeros = [sorted({*problem.zero, *unseen[id(data)]}) for problem, data, _ in fits]
    programs = [
        problem._build_program(data, factors[id(data)], weight, zero)
        for (problem, data, weight), zero in zip(fits, zeros, strict=True)
    ]
    solutions: list[Array | None] = []
    minima = minimise_all(programs, fits[0][0].start())
    for (problem, _, _), program, zero, v in zip(fits, programs, zeros, minima, strict=True):
        try:
            solutions.append(problem._solve_program(program, zero) if v is None else problem._scale_solution(v, zero))
        except ConicError:
            solutions.append(None)
    return solutions
