"""How much the prior counts, and which drive parameters are needed at all: chosen inside the training data.

Blocks are held out in turn; a candidate's error is the mean over blocks of the weighted mean squared residual. The data
often cannot tell candidates apart, so the plainest candidate within one standard error of the best is taken
[Breiman et al. 1984]: first the fewest kinds of drive parameters, then the heaviest prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.feasibility.conic import ConicError
from mindyn.feasibility.constrained_fit import FitProblem
from mindyn.parameters.parameter import Kind
from mindyn.regression.information import Information, combined

WEIGHTS: Final = tuple(float(10.0**k) for k in np.arange(-5.0, 1.1, 0.5))
MIDDLE: Final = 1e-3
"""Weight of the prior while kinds of parameters are compared."""
KINDS: Final[tuple[tuple[Kind, ...], ...]] = (("rotor", "friction"), ("friction",), ("rotor",), ())
"""Kinds of parameters that may go, the plainest model first: rotor inertias and friction shapes."""


@dataclass(frozen=True, slots=True, eq=False)
class PriorChoice:
    """The weight, the kinds of parameters left out, and the errors (mean, standard error) that decided it."""

    weight: float
    without: tuple[Kind, ...]
    tried: tuple[dict[str, Any], ...]


def choose_prior(
    problem: FitProblem, folds: Sequence[Information], weights: Array, weight: float | None, *, kinds: bool
) -> PriorChoice:
    """The choice of the weight, unless it is given, and with `kinds` of what may be left out."""
    models: list[tuple[Kind, ...]] = _distinct(problem) if kinds else [()]
    tried: list[dict[str, Any]] = []
    without = models[0]
    if len(models) > 1:
        at = MIDDLE if weight is None else weight
        without = models[_plainest(problem, folds, weights, [(one, at) for one in models], tried)]
    if weight is not None:
        return PriorChoice(weight, without, tuple(tried))
    heaviest_first = WEIGHTS[::-1]
    taken = _plainest(problem, folds, weights, [(without, one) for one in heaviest_first], tried)
    return PriorChoice(heaviest_first[taken], without, tuple(tried))


def _distinct(problem: FitProblem) -> list[tuple[Kind, ...]]:
    """Kinds that leave different models."""
    made: dict[tuple[int, ...], tuple[Kind, ...]] = {}
    for kind in reversed(KINDS):
        made.setdefault(problem.without(kind).zero, kind)
    return list(reversed(made.values()))


def _plainest(
    problem: FitProblem,
    folds: Sequence[Information],
    weights: Array,
    candidates: Sequence[tuple[tuple[Kind, ...], float]],
    tried: list[dict[str, Any]],
) -> int:
    """The first candidate whose error lies within one standard error of the least; all are written down."""
    errors = [_error(problem.without(without), folds, weights, weight) for without, weight in candidates]
    tried += [
        {"without": list(without), "weight": weight, "error": mean, "spread": spread}
        for (without, weight), (mean, spread) in zip(candidates, errors, strict=True)
    ]
    if np.isinf(min(errors)[0]):
        raise ConicError("none of the conic programs of the prior's weights was solved", hint="state prior_weight")
    bound = sum(min(errors))
    return next(k for k, (mean, _) in enumerate(errors) if mean <= bound)


def _error(
    problem: FitProblem, folds: Sequence[Information], weights: Array, prior_weight: float
) -> tuple[float, float]:
    found = []
    for held in range(len(folds)):
        rest = combined([fold for k, fold in enumerate(folds) if k != held])
        try:
            beta = problem.space.matrix @ problem.solve(rest, weights, prior_weight)
        except ConicError:
            return float("inf"), 0.0  # another weight will do
        found.append(float(weights @ folds[held].residuals(beta)) / sum(folds[held].counts))
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))
