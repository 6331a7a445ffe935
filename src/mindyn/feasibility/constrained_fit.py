"""The weighted least-squares fit over physical parameters, from R factors alone: one conic program, whatever the log.

minimise 1/(2 N) sum_j w_j |Y_j B x - tau_j|^2 + weight * prior(x) over physical x within bounds, N the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.feasibility.conic import ConeKind, ConeRows, ConicProgram, InfeasibleProgramError
from mindyn.feasibility.physical_space import PhysicalSpace
from mindyn.feasibility.polishing import SmoothFit
from mindyn.feasibility.priors import Prior
from mindyn.notation import STANDARD_GRAVITY
from mindyn.parameters.parameter import Kind
from mindyn.regression.information import Information
from mindyn.regression.triangles import triangle_of

CONIC_REWEIGHTINGS: Final = 6
CONIC_WEIGHT_TOLERANCE: Final = 1e-2
"""Weights that change by less, relative, are final: the fit hardly depends on them."""
IDLE_JOINT_WEIGHT: Final = 1e-4
"""Weight of a joint without torque relative to that of the largest torque; it bounds what other joints leave open."""
MIN_RELATIVE_RESIDUAL: Final = 1e-4
"""Residuals below this part of a joint's torque count as this much: exact data have no spread to weigh with."""
FLAT_CURVATURE: Final = 1e-13
"""Curvature below this part of the largest counts as none."""
MAX_COMPACT_MISFIT_RATIO: Final = 1.1
"""Mean squared residual of compact links, over that of any, from which on the reach is taken to be wrong."""
MIN_PRIOR_WEIGHT: Final = 1e-6
"""The least weight of a prior: it decides what the data leave open and nothing else."""
MASS_TIE_BREAK_WEIGHT: Final = 1e-3
"""Weight of a link's mass, over the mass that the torques suggest, where there is no prior: a tie-break, not a belief.
The heaviest weight within a standard error takes away masses that offsets can stand in for (KR300: 17.4 for 13.4 %)."""


@dataclass(frozen=True, slots=True, eq=False)
class FitProblem:
    """What is fitted but for the data.

    space    the physical parameters
    prior    where the data say little
    rows     bounds on x
    zero     numbers of x that are held at zero
    compact  links are no wider than the robot is known to reach, or the prior has them
    """

    space: PhysicalSpace
    prior: Prior
    rows: tuple[ConeRows, ...] = ()
    zero: tuple[int, ...] = ()
    compact: bool = True

    def drop_kinds(self, kinds: tuple[Kind, ...]) -> FitProblem:
        """The same with all parameters of these kinds held at zero."""
        more = [k for k, one in enumerate(self.space.columns) if one.kind in kinds]
        return replace(self, zero=tuple(sorted({*self.zero, *more})))

    def relax_compactness(self, information: Information, weights: Array, prior_weight: float) -> FitProblem:
        """The same, with links as wide as the data ask for where compact ones fit worse by `MAX_COMPACT_MISFIT_RATIO`."""
        wide = replace(self, compact=False)
        cost, least = (
            float(weights @ information.residuals(one.space.matrix @ one.solve(information, weights, prior_weight)))
            for one in (self, wide)
        )
        return wide if cost > MAX_COMPACT_MISFIT_RATIO * least else self

    def solve(self, information: Information, weights: Array, prior_weight: float) -> Array:
        """x of the minimum."""
        R, z = information.stacked(weights)
        T = triangle_of(np.column_stack([R, z])) / np.sqrt(sum(information.counts))
        units = self.space.units
        program = ConicProgram(self.space.size)
        A = T[:, :-1] @ self.space.matrix * units
        program.add_squares(A, T[:, -1])
        program.add_rows(*self.space.cone_rows(units))
        program.add_rows(*self._bound_rows(units))
        if zero := self._zero_numbers(information, weights):
            program.add_rows(ConeRows("zero", np.eye(self.space.size)[zero], np.zeros(len(zero))))
        heaviness = MASS_TIE_BREAK_WEIGHT / self._typical_mass_kg(information)
        self.prior.add_to(program, self.space, units, max(prior_weight, MIN_PRIOR_WEIGHT), heaviness)
        try:
            x = units * program.solve().x[: self.space.size]
        except InfeasibleProgramError as error:  # all else has room for an arm without mass
            raise InputError(
                "the bounds contradict each other: no links keep to all of them",
                hint="compare the masses with the total mass, and the boxes of centres with planes of symmetry",
            ) from error
        x[zero] = 0.0
        return np.asarray(x)

    def _zero_numbers(self, information: Information, weights: Array) -> list[int]:
        """Return numbers of parameters at zero: also friction of joints without torque, which no row determines."""
        counting = np.where(information.torques() > 0, weights, 0.0)
        seen = information.stacked(counting)[0] @ self.space.matrix
        unseen = [k for k, one in enumerate(self.space.columns) if one.kind != "link" and not seen[:, k].any()]
        return sorted({*self.zero, *unseen})

    def polish(self, information: Information, weights: Array, prior_weight: float, x: Array) -> Array:
        """x of the minimum to rounding, from what `solve` gives; x itself where links lie at the edge of solid bodies.

        A link of which nothing is believed takes its least mass, and is no solid body there.
        """
        rows = [*self.space.cone_rows(self.space.units), *self._bound_rows(self.space.units)]
        if any(phi is None for phi in self.prior.links) or any(one.kind == "second order" for one in rows):
            return x
        R, z = information.stacked(weights)
        T = triangle_of(np.column_stack([R, z])) / np.sqrt(sum(information.counts))
        units, weight = self.space.units, max(prior_weight, MIN_PRIOR_WEIGHT)

        def prior(v: Array) -> tuple[float, Array, Array]:
            value = self.prior.value(self.space, units * v)
            if not np.isfinite(value):
                return value, np.full(len(v), np.inf), np.full((len(v), len(v)), np.inf)
            H = self.prior.curvature(self.space, units * v) * np.outer(units, units)
            return weight * value, weight * self.prior.gradient(self.space, units * v) * units, weight * H

        zero = self._zero_numbers(information, weights)
        rows += [ConeRows("zero", np.eye(self.space.size)[zero], np.zeros(len(zero)))]
        equal, least = (_stack_rows(rows, kind, self.space.size) for kind in ("zero", "nonnegative"))
        smooth = SmoothFit(T[:, :-1] @ self.space.matrix * units, T[:, -1], prior, equal, least)
        found = units * smooth.polish(x / units)
        found[zero] = 0.0
        return found if self.space.smallest_margin(found) >= min(0.0, self.space.smallest_margin(x)) else x

    def _bound_rows(self, units: Array) -> list[ConeRows]:
        """Bounds and compactness of v, x = units * v."""
        rows = [*self.rows, *([self.space.compact_rows(self.prior.links)] if self.compact else [])]
        return [ConeRows(one.kind, one.matrix * units, one.offset, one.order) for one in rows]

    def prior_fractions(self, information: Information, weights: Array, prior_weight: float, x: Array) -> Array:
        """(p,) part of the certainty of each beta at the minimum x that the prior brings, the rest being the data's.

        With H = H_data + H_prior the curvature of what is minimised and c the row of B, h = H^-1 c: h.H_prior h / c.h.
        """
        units, kept = self.space.units, np.setdiff1d(np.arange(self.space.size), self.zero)
        R = information.stacked(weights)[0] @ self.space.matrix * units / np.sqrt(sum(information.counts))
        of_prior = max(prior_weight, MIN_PRIOR_WEIGHT) * self.prior.curvature(self.space, x) * np.outer(units, units)
        of_data, of_prior = (H[np.ix_(kept, kept)] for H in (R.T @ R, of_prior))
        whole = of_data + of_prior
        scales = np.sqrt(np.maximum(np.diag(whole), 1e-300))
        inverse = np.linalg.pinv(whole / np.outer(scales, scales), rcond=FLAT_CURVATURE, hermitian=True) / np.outer(
            scales, scales
        )
        rows = (self.space.matrix * units)[:, kept]
        h = inverse @ rows.T
        certain = np.einsum("ki,ik->k", rows, h)
        brought = np.einsum("ik,ij,jk->k", h, of_prior, h)
        return np.asarray(np.where(certain > 0, brought / np.where(certain > 0, certain, 1.0), 0.0))

    def _typical_mass_kg(self, information: Information) -> float:
        """kg that at the robot's typical length weigh as much as the largest rms torque."""
        torque = float(np.sqrt(information.torques() / np.maximum(1, information.counts)).max())
        return max(torque / (abs(STANDARD_GRAVITY[2]) * self.space.length), 1e-6)

    def solve_reweighted(self, information: Information, weights: Array, prior_weight: float) -> tuple[Array, Array]:
        """x and the joints' weights, 1 / mean squared residual, iterated from the given ones."""
        x = self.solve(information, weights, prior_weight)
        for _ in range(CONIC_REWEIGHTINGS):
            before, weights = weights, joint_weights(information, self.space.matrix @ x)
            x = self.solve(information, weights, prior_weight)
            if (np.abs(weights - before) <= CONIC_WEIGHT_TOLERANCE * before).all():
                break
        return x, weights


def _stack_rows(rows: Sequence[ConeRows], kind: ConeKind, size: int) -> tuple[Array, Array]:
    own = [one for one in rows if one.kind == kind]
    return np.vstack([np.zeros((0, size)), *(one.matrix for one in own)]), np.concatenate(
        [np.zeros(0), *(one.offset for one in own)]
    )


def joint_weights(information: Information, beta: Array) -> Array:
    """(n,) 1 / mean squared residual of each joint.

    A joint whose torque is zero in every row has `IDLE_JOINT_WEIGHT` times the weight that the largest torque has by
    its size.
    """
    counts, torques = np.array(information.counts), information.torques()
    variances = np.maximum(information.residuals(beta), MIN_RELATIVE_RESIDUAL**2 * torques) / counts
    idle = IDLE_JOINT_WEIGHT / max(float((torques / counts).max()), 1e-300)
    return np.where(torques > 0, 1 / np.where(torques > 0, variances, 1.0), idle)
