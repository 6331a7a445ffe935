"""Weighted least-squares fit over physical parameters from R factors, as one conic program of constant size.

minimise 1/(2 N) sum_j w_j |Y_j B x - tau_j|^2 + weight * prior(x) over physical x within bounds, N the rows.

Newton steps from the result of a conic solver (duality gap 1e-9 of the cost) to a minimum at rounding error.

If links are solid bodies (the divergence from a prior keeps them so), the cost is smooth in x, and active conditions
are rows G v + h = 0 of x = units * v. A Newton step is a least-squares problem,

    minimise |A (v + s) - b|^2 / 2 + w (g.s + s.H s / 2)   over s with G s = -(G v + h)

with g, H the derivatives of the prior. A row becomes active if a step would cross it, and inactive by the sign of its
multiplier. A result that costs more than that of the solver is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.feasibility.conic import ConeKind, ConeRows, ConicError, ConicProgram, InfeasibleProgramError
from mindyn.feasibility.interior_point import minimise_all
from mindyn.feasibility.physical_space import PhysicalSpace
from mindyn.feasibility.priors import Prior
from mindyn.notation import STANDARD_GRAVITY
from mindyn.parameters.parameter import Kind
from mindyn.regression.accumulators import triangle_of
from mindyn.regression.friction_limits import with_friction_priors
from mindyn.regression.information import Information, joint_weights

Binding = NDArray[np.bool_]

BINDING_SLACK: Final = 1e-6
"""Slack, in units of v, below which a row is active until its multiplier releases it."""
MAX_POLISHING_STEPS: Final = 40
STEP_TOLERANCE: Final = 1e-13
"""Step relative to v at which the iteration stops."""
RELEASE_RATIO: Final = 1e-9
"""A multiplier below this negative fraction of the largest releases its row."""
MIN_CURVATURE_RATIO: Final = 1e-14
"""Curvature of the prior relative to its largest below which it counts as zero."""


@dataclass(frozen=True, slots=True, eq=False)
class SmoothFit:
    """Cost that is minimised over v, and its constraints.

    A, b        data term, 1/2 |A v - b|^2
    prior       v -> value, gradient (size,) and second derivative (size, size) of the other term; infinite outside
    equal       (e, size), (e,): rows and offsets that must be zero
    least       (i, size), (i,): rows and offsets that must be nonnegative
    """

    A: Array
    b: Array
    prior: Callable[[Array], tuple[float, Array, Array]]
    equal: tuple[Array, Array]
    least: tuple[Array, Array]

    def cost(self, v: Array) -> float:
        """Return the cost of data and prior."""
        left = self.A @ v - self.b
        return float(left @ left / 2) + self.prior(v)[0]

    def polish(self, v: Array) -> Array:
        """Return the minimum near v, or v itself if no better point is found."""
        G, h = self.least
        binding: Binding = G @ v + h < BINDING_SLACK
        point, multipliers = v.copy(), np.zeros(0)
        for _ in range(MAX_POLISHING_STEPS):
            step, multipliers = self._newton_step(point, binding)
            if step is None:
                return v
            fraction = self._step_fraction(point, step, binding)
            is_blocked = fraction < 1.0
            point = point + fraction * step
            if is_blocked:
                binding = binding | (G @ point + h < STEP_TOLERANCE * (1 + np.abs(h)))
            elif np.abs(step).max() <= STEP_TOLERANCE * np.abs(point).max():
                released = self._release_row(binding, multipliers)
                if released is None:
                    break
                binding = released
        slack = (G @ point + h).min(initial=0.0)
        is_valid = np.isfinite(point).all() and slack > -STEP_TOLERANCE * (1 + np.abs(point).max())
        # The solver ends slightly outside, where the cost may be lower by at most multipliers times violations.
        E, e = self.equal
        violations = np.abs(np.concatenate([E @ v + e, (G @ v + h)[binding]]))
        allowance = float(np.abs(multipliers) @ violations) if len(multipliers) == len(violations) else 0.0
        before = self.cost(v)
        return point if is_valid and self.cost(point) <= before + allowance + STEP_TOLERANCE * abs(before) else v

    def _newton_step(self, v: Array, binding: Binding) -> tuple[Array | None, Array]:
        (E, e), (G, h) = self.equal, self.least
        C, c = np.vstack([E, G[binding]]), np.concatenate([e, h[binding]])
        _, gradient, H = self.prior(v)
        if not (np.isfinite(gradient).all() and np.isfinite(H).all()):
            return None, np.zeros(0)
        values, vectors = np.linalg.eigh(H)
        kept = values > MIN_CURVATURE_RATIO * max(float(values[-1]), 1e-300)
        root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        pull = -(vectors[:, kept].T @ gradient) / np.sqrt(values[kept])
        within = -np.linalg.pinv(C) @ (C @ v + c)
        Z = null_space(C) if len(C) else np.eye(len(v))
        rows, right = np.vstack([self.A, root]), np.concatenate([self.b - self.A @ v, pull])
        scale = np.maximum(np.linalg.norm(rows @ Z, axis=0), 1e-300)
        y = np.linalg.lstsq(rows @ Z / scale, right - rows @ within, rcond=1e-15)[0] / scale
        step = within + Z @ y
        slope = self.A.T @ (self.A @ (v + step) - self.b) + gradient + H @ step
        return step, np.linalg.lstsq(C.T, slope, rcond=None)[0]

    def _step_fraction(self, v: Array, step: Array, binding: Binding) -> float:
        """Return the fraction of a step up to the first row that it would cross, and with a finite prior."""
        G, h = self.least
        slack, change = G @ v + h, G @ step
        closing = ~binding & (slack + change < 0)
        fraction = float((-slack[closing] / change[closing]).min()) if closing.any() else 1.0
        fraction = max(fraction, 0.0)
        while fraction > 1e-6 and not np.isfinite(self.prior(v + fraction * step)[0]):
            fraction *= 0.5
        return fraction

    def _release_row(self, binding: Binding, multipliers: Array) -> Binding | None:
        """Return the active rows without the one of the most negative multiplier; None if there is none."""
        of_rows = multipliers[len(self.equal[0]) :]
        if not len(of_rows) or of_rows.min() >= -RELEASE_RATIO * max(np.abs(of_rows).max(), 1e-300):
            return None
        released = binding.copy()
        released[np.flatnonzero(binding)[int(np.argmin(of_rows))]] = False
        return released


CONIC_REWEIGHTINGS: Final = 6
CONIC_WEIGHT_TOLERANCE: Final = 1e-2
"""Relative change of the weights at which the iteration stops: the fit hardly depends on them."""
FLAT_CURVATURE: Final = 1e-13
"""Curvature relative to the largest below which it counts as zero."""
MAX_COMPACT_MISFIT_RATIO: Final = 1.1
"""Ratio of mean squared residuals, compact links to any links, above which the reach is considered wrong."""
MIN_PRIOR_WEIGHT: Final = 1e-6
"""Smallest weight of a prior: it decides only parameters that the data do not determine."""
MIN_PRIOR_FRACTION: Final = 0.01
"""Links keep at least this fraction of the pseudo-inertia of their prior. The inertia matrix is then at least this
fraction of that of the prior in every configuration, which bounds its condition number."""
MASS_TIE_BREAK_WEIGHT: Final = 1e-3
"""Weight of the mass of a link, relative to the mass that the torques suggest, without a prior: only a tie-break.
The largest weight within one standard error removes masses that offsets can replace (KR300: 17.4 instead of 13.4 %)."""


@dataclass(frozen=True, slots=True, eq=False)
class FitProblem:
    """Definition of a fit without its data.

    space    physical parameters
    prior    prior for parameters that the data hardly determine
    rows     bounds on x
    zero     indices of x that are fixed at zero
    compact  whether links are no wider than the reach of the robot, or than the prior
    floor    fraction of the pseudo-inertia of the prior that every link has at least
    """

    space: PhysicalSpace
    prior: Prior
    rows: tuple[ConeRows, ...] = ()
    zero: tuple[int, ...] = ()
    compact: bool = True
    floor: float = 0.0

    def drop_kinds(self, kinds: tuple[Kind, ...]) -> FitProblem:
        """Return the problem with all parameters of these kinds fixed at zero."""
        more = [k for k, column in enumerate(self.space.columns) if column.kind in kinds]
        return replace(self, zero=tuple(sorted({*self.zero, *more})))

    def relax_compactness(self, information: Information, weights: Array, prior_weight: float) -> FitProblem:
        """Return the problem without compactness if compact links fit worse by `MAX_COMPACT_MISFIT_RATIO`."""
        wide = replace(self, compact=False)
        cost, least = (
            float(
                weights
                @ information.residuals(self.space.matrix @ problem.approximate(information, weights, prior_weight))
            )
            for problem in (self, wide)
        )
        return wide if cost > MAX_COMPACT_MISFIT_RATIO * least else self

    def solve(self, information: Information, weights: Array, prior_weight: float) -> Array:
        """Return the minimiser x."""
        zero = self._zero_numbers(information, weights)
        return self._solve_program(self._build_program(information, weights, prior_weight, zero), zero)

    def approximate(self, information: Information, weights: Array, prior_weight: float) -> Array:
        """Return a minimiser x of the same cost; another one than `solve` if several are equal."""
        (x,) = solve_all([(self, information, prior_weight)], weights)
        return self.solve(information, weights, prior_weight) if x is None else x

    def _build_program(
        self, information: Information, weights: Array, prior_weight: float, zero: list[int]
    ) -> ConicProgram:
        """Return the program in v, x = units * v."""
        T = self._triangle(information, weights)
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
            x = self.space.units * program.solve().x
        except InfeasibleProgramError as error:  # all other conditions admit a robot without mass
            raise InputError(
                "the bounds contradict each other: no links satisfy all of them",
                hint="compare the masses with the total mass, and the boxes of centres with planes of symmetry",
                code=Code.DISAGREEMENT,
                subject="bounds",
            ) from error
        x[zero] = 0.0
        return np.asarray(x)

    def start(self) -> Array:
        """Return values v, x = units * v, from which an iteration can start: the prior, and 1 for drives."""
        v, units = np.ones(self.space.size), self.space.units
        for i, phi in enumerate(self.prior.links):
            v[self.space.link(i)] = 0.0 if phi is None else phi / units[self.space.link(i)]
        return v

    def _triangle(self, information: Information, weights: Array) -> Array:
        """Return the R factor of [R | z] per row of data, with the prior of friction shapes."""
        R, z = with_friction_priors(information, weights, self.space.parameters)
        return np.asarray(triangle_of(np.column_stack([R, z])) / np.sqrt(sum(information.counts)))

    def _zero_numbers(self, information: Information, weights: Array) -> list[int]:
        """Return indices of x fixed at zero, with the friction of joints that never have torque."""
        counting = np.where(information.measured(), weights, 0.0)
        seen = information.stacked(counting)[0] @ self.space.matrix
        unseen = [k for k, c in enumerate(self.space.columns) if c.kind != "link" and not seen[:, k].any()]
        return sorted({*self.zero, *unseen})

    def polish(self, information: Information, weights: Array, prior_weight: float, x: Array) -> Array:
        """Return the minimiser to rounding error, from the result of `solve`; x itself if links are not solid bodies.

        A link without a prior takes its smallest mass, where it is not a solid body.
        """
        rows = [*self.space.cone_rows(self.space.units), *self._bound_rows(self.space.units)]
        if any(phi is None for phi in self.prior.links) or any(group.kind == "second order" for group in rows):
            return x
        T = self._triangle(information, weights)
        units, weight = self.space.units, max(prior_weight, MIN_PRIOR_WEIGHT)

        def prior(v: Array) -> tuple[float, Array, Array]:
            value, gradient, H = self.prior.expand(self.space, units * v)
            return weight * value, weight * gradient * units, weight * (H * np.outer(units, units))

        zero = self._zero_numbers(information, weights)
        rows += [ConeRows("zero", np.eye(self.space.size)[zero], np.zeros(len(zero)))]
        equal, least = (_stack_rows(rows, kind, self.space.size) for kind in ("zero", "nonnegative"))
        smooth = SmoothFit(T[:, :-1] @ self.space.matrix * units, T[:, -1], prior, equal, least)
        polished = units * smooth.polish(x / units)
        polished[zero] = 0.0
        return polished if self._smallest_margin(polished) >= min(0.0, self._smallest_margin(x)) else x

    def _cone_rows(self, units: Array) -> list[ConeRows]:
        """Return the conditions of physical x on v, x = units * v, with links above the floor."""
        rows = self.space.cone_rows(units)
        for i, phi in enumerate(self.prior.links):
            if phi is not None and self.floor:
                least = self.floor * phi / units[self.space.link(i)]
                rows[i] = replace(rows[i], offset=-rows[i].matrix[:, self.space.link(i)] @ least)
        return rows

    def _smallest_margin(self, x: Array) -> float:
        """Return the smallest quantity that must not be negative, with links above the floor."""
        above = x.copy()
        for i, phi in enumerate(self.prior.links):
            if phi is not None:
                above[self.space.link(i)] -= self.floor * phi
        return self.space.smallest_margin(above)

    def _bound_rows(self, units: Array) -> list[ConeRows]:
        """Return bounds and compactness as rows on v, x = units * v."""
        rows = [*self.rows, *([self.space.compact_rows(self.prior.links)] if self.compact else [])]
        return [group.in_units(units) for group in rows]

    def prior_fractions(self, information: Information, weights: Array, prior_weight: float, x: Array) -> Array:
        """Return the fraction (p,) of the certainty of each beta at the minimum x that comes from the prior.

        With H = H_data + H_prior the curvature of the cost and c a row of B, h = H^-1 c: the fraction is h.H_prior h /
        c.h.
        """
        units, kept = self.space.units, np.setdiff1d(np.arange(self.space.size), self.zero)
        R = information.stacked(weights)[0] @ self.space.matrix * units / np.sqrt(sum(information.counts))
        prior_curvature = (
            max(prior_weight, MIN_PRIOR_WEIGHT) * self.prior.expand(self.space, x)[2] * np.outer(units, units)
        )
        data_curvature, prior_curvature = (H[np.ix_(kept, kept)] for H in (R.T @ R, prior_curvature))
        curvature = data_curvature + prior_curvature
        scales = np.sqrt(np.maximum(np.diag(curvature), 1e-300))
        inverse = np.linalg.pinv(curvature / np.outer(scales, scales), rcond=FLAT_CURVATURE, hermitian=True) / np.outer(
            scales, scales
        )
        rows = (self.space.matrix * units)[:, kept]
        h = inverse @ rows.T
        total = np.einsum("ki,ik->k", rows, h)
        from_prior = np.einsum("ik,ij,jk->k", h, prior_curvature, h)
        return np.asarray(np.where(total > 0, from_prior / np.where(total > 0, total, 1.0), 0.0))

    def _typical_mass_kg(self, information: Information) -> float:
        """Return the mass whose weight at the typical length of the robot equals the largest rms torque."""
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
    """Return the minimiser x of each fit, None if none is found; the problems may differ in their zeros.

    They are solved together, and those that were not solved one by one.
    """
    zeros = [problem._zero_numbers(data, weights) for problem, data, _ in fits]
    programs = [
        problem._build_program(data, weights, weight, zero)
        for (problem, data, weight), zero in zip(fits, zeros, strict=True)
    ]
    solutions: list[Array | None] = []
    minima = minimise_all(programs, fits[0][0].start())
    for (problem, _, _), program, zero, v in zip(fits, programs, zeros, minima, strict=True):
        try:
            x = problem._solve_program(program, zero) if v is None else problem.space.units * v
        except ConicError:
            solutions.append(None)
        else:
            x[zero] = 0.0
            solutions.append(x)
    return solutions


def _stack_rows(rows: Sequence[ConeRows], kind: ConeKind, size: int) -> tuple[Array, Array]:
    selected = [group for group in rows if group.kind == kind]
    return np.vstack([np.zeros((0, size)), *(group.matrix for group in selected)]), np.concatenate(
        [np.zeros(0), *(group.offset for group in selected)]
    )
