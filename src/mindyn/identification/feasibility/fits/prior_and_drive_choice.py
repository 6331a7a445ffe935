"""Select the weight of the prior, and the kinds of drive parameters that are needed, within the training data.

Blocks are held out in turn. The error of a candidate is the mean over blocks of the weighted mean squared residual. Two
errors are compared on the same blocks. Among models with different kinds of drive parameters, the simplest model is
selected whose error does not differ significantly from the smallest error [Breiman et al. 1984]. Values of a prior are
a guess. The prior therefore gets the smallest weight whose error is not significantly larger than the smallest error,
so that it acts mainly in directions that the data do not determine. Links keep a fraction of the pseudo-inertia of the
prior, so that the inertia matrix has a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.significance import MIN_IMPROVEMENT_DEVIATIONS, exceeds_zero
from mindyn.foundation.algebra.values import Array
from mindyn.identification.feasibility.fits.constrained_fit import FitProblem, solve_all
from mindyn.identification.feasibility.optimisation.conic_program import ConicError
from mindyn.parameters.parameter import Kind
from mindyn.regression.information import Information, add_information

PRIOR_STEPS: Final = tuple(float(10.0**k) for k in range(5))
"""Weights of the prior that are tried, as multiples of that of one row [Kass & Wasserman 1995]: a prior that counts as
one row moves well determined values by less than their deviation. On 8 simulated arms whose files have masses 15 % off
or wrong by up to a factor of 3, 0.4 and 4 times this weight change the error on another motion by -0.1 and +0.2 %, or
-0.4 and -1.3 %, compared with a weight near zero; the largest total mass is 1.3 instead of 2 times the true one."""
TINY_ERROR: Final = 1e-300
ROUNDING_RATIO: Final = 1e-9
"""Relative rounding error of a candidate's error."""
COMPARISON_PRIOR_WEIGHT: Final = 1e-3
"""Weight of the prior during the comparison of kinds of parameters."""
DROPPABLE_KINDS: Final[tuple[tuple[Kind, ...], ...]] = (("rotor", "friction"), ("friction",), ("rotor",), ())
"""Kinds of parameters that can be dropped, simplest model first: rotor inertias and friction shapes."""


Candidate = tuple[tuple[Kind, ...], float]
"""Kinds that are dropped, and the weight of the prior."""


@dataclass(frozen=True, slots=True, eq=False)
class PriorChoice:
    """Weight of the prior, dropped kinds of parameters, and the errors (mean, standard error) of all candidates."""

    weight: float
    dropped_kinds: tuple[Kind, ...]
    tried: tuple[dict[str, Any], ...]


def choose_prior(
    problem: FitProblem, folds: Sequence[Information], weights: Array, weight: float | None, *, kinds: bool
) -> PriorChoice:
    """Select the weight of the prior, unless it is given, and, if `kinds` is true, the kinds of parameters to drop."""
    models: list[tuple[Kind, ...]] = _distinct_models(problem) if kinds else [()]
    tried: list[dict[str, Any]] = []
    dropped = models[0]
    if len(models) > 1:
        at = COMPARISON_PRIOR_WEIGHT if weight is None else weight
        dropped = models[
            _select_drive_model(_compute_errors(problem, folds, weights, [(model, at) for model in models], tried))
        ]
    if weight is not None:
        return PriorChoice(weight, dropped, tuple(tried))
    rows = sum(sum(fold.counts) for fold in folds)
    candidates = [step / rows for step in PRIOR_STEPS]
    errors = _compute_errors(problem, folds, weights, [(dropped, candidate) for candidate in candidates], tried)
    return PriorChoice(candidates[_select_least_weight(errors)], dropped, tuple(tried))


def _select_least_weight(errors: Array) -> int:
    """Return the number of the smallest weight whose errors (weights, folds) are not significantly larger than the best
    errors.
    """
    best = errors[int(errors.mean(axis=1).argmin())]
    for k, row in enumerate(errors):
        if np.isfinite(row).all():
            more = np.log(np.maximum(row, TINY_ERROR) / np.maximum(best, TINY_ERROR))
            if not exceeds_zero(float(more.mean()), float(more.std(ddof=1) / np.sqrt(len(more))), len(more)):
                return k
    return int(errors.mean(axis=1).argmin())


def _distinct_models(problem: FitProblem) -> list[tuple[Kind, ...]]:
    """Return the sets of kinds that lead to different models."""
    models: dict[tuple[int, ...], tuple[Kind, ...]] = {}
    for kind in reversed(DROPPABLE_KINDS):
        models.setdefault(problem.drop_kinds(kind).zero, kind)
    return list(reversed(models.values()))


def _select_drive_model(errors: Array) -> int:
    """Return the number of the first candidate whose errors (candidates, folds) are not significantly above the
    smallest ones.
    """
    best = errors[int(errors.mean(axis=1).argmin())]
    solved: NDArray[np.bool_] = np.asarray(np.isfinite(errors).all(axis=1))
    more = np.where(solved[:, None], errors, best) - best
    bound = (
        MIN_IMPROVEMENT_DEVIATIONS * more.std(axis=1, ddof=1) / np.sqrt(errors.shape[1]) + ROUNDING_RATIO * best.mean()
    )
    return int(np.argmax(solved & (more.mean(axis=1) <= bound)))


def _compute_errors(
    problem: FitProblem,
    folds: Sequence[Information],
    weights: Array,
    candidates: Sequence[Candidate],
    tried: list[dict[str, Any]],
) -> Array:
    """Return the errors (candidates, folds) on each fold of fits to the other folds, and add them to `tried`."""
    errors = _fold_errors(problem, folds, weights, candidates)
    tried += [
        {"without": list(without), "weight": weight, "error": float(row.mean()), "spread": _standard_error(row)}
        for (without, weight), row in zip(candidates, errors, strict=True)
    ]
    if not np.isfinite(errors).all(axis=1).any():
        raise ConicError(
            "no conic program was solved for any weight of the prior", hint="pass prior_weight", subject="prior_weight"
        )
    return errors


def _standard_error(errors: Array) -> float:
    """Return the standard error of the mean, or zero if an error is infinite."""
    return float(errors.std(ddof=1) / np.sqrt(len(errors))) if np.isfinite(errors).all() else 0.0


def _fold_errors(
    problem: FitProblem, folds: Sequence[Information], weights: Array, candidates: Sequence[Candidate]
) -> Array:
    """Return the weighted mean squared residual (candidates, folds); infinite if a fit of the candidate fails."""
    rests = [add_information([*folds[:held], *folds[held + 1 :]]) for held in range(len(folds))]
    fits = [(problem.drop_kinds(without), rest, weight) for without, weight in candidates for rest in rests]
    errors = np.full(len(fits), np.inf)
    for k, x in enumerate(solve_all(fits, weights)):
        fold = folds[k % len(folds)]
        if x is not None:
            errors[k] = float(weights @ fold.residuals(problem.space.matrix @ x)) / sum(fold.counts)
    table = errors.reshape(len(candidates), len(folds))
    return np.where(np.isfinite(table).all(axis=1, keepdims=True), table, np.inf)  # other weights may succeed
