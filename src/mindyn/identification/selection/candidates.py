"""Select the estimator: a physically consistent fit, unless plain least squares predicts significantly better.

Blocks of the training rows are held out in turn. A few large blocks hold out motion unlike the rest, many small blocks
motion like it: errors are compared by their geometric mean over several numbers of blocks. Consistency is knowledge, so
that it needs no evidence: least squares is selected only if the error of the consistent fit is significantly larger, by
a paired test over blocks, with any weight of its prior. Friction shapes are assumptions: the fit without them is taken
unless the same fit with them has a smaller error. Least squares decides first: in a
consistent fit, friction may make up for the limits on masses and inertias.

If the motion repeats, all rows of the same phase are held out together, because another period would reveal them. Each
fit repeats its own selection without the held-out block where this affects the error: least squares selects the dropped
parameters again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isinf, sqrt
from typing import Final, TypeVar

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import MindynError
from mindyn.estimators.essential import elimination
from mindyn.estimators.estimate import Estimator
from mindyn.estimators.least_squares import FrictionRule, LeastSquares, fit_weighted
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.feasibility.priors import build_prior
from mindyn.findings import Finding, Kind, info, warning
from mindyn.identification.diagnostics.thresholds import MAX_CONSISTENT_RATIO
from mindyn.identification.selection.column_sums import Folds, Kept, fit_sums
from mindyn.identification.selection.scores import UNSCORED, TrialScore, criterion_of, error_over, gain_of
from mindyn.identification.selection.trials import Trial, Trials, most_steps, rules_of
from mindyn.identification.selection.tune import least_supported, several_foldings
from mindyn.regression.information import add_information
from mindyn.regression.rows import Rows, build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

FOLDINGS: Final = (4, 5, 8)
HEAVIER_PRIORS: Final = (10.0, 100.0, 1000.0)
"""Factors of the prior's weight that are tried if the consistent fit is significantly worse than least squares."""
Item = TypeVar("Item")
INNER: Final = 5
"""Number of groups of the remaining blocks on which least squares selects the parameters to drop."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An estimator that may be selected, with its errors on held-out blocks.

    words      its name in messages
    settings   its equations
    estimator  fits all rows
    betas      returns its values from each of some rows, including all choices that depend on these rows
    scores     errors for each folding
    """

    words: str
    settings: EquationSettings
    estimator: Estimator
    betas: Callable[[Sequence[Rows]], list[Array]]
    scores: list[TrialScore]

    @property
    def error(self) -> float:
        """Error over all foldings."""
        return error_over(self.scores)

    def is_significantly_worse_than(self, other: Candidate) -> bool:
        """Return whether the error is significantly larger, by a paired test over blocks."""
        return isinf(self.error) or gain_of(self.scores, other.scores).is_significant


def best_estimator(
    robot: Robot, trials: Trials, trial: Trial, settings: EquationSettings, dropped: tuple[str, ...]
) -> tuple[Estimator, EquationSettings, tuple[Finding, ...]]:
    """Return the estimator, its settings, and findings that explain the selection."""
    rows = _rows(robot, trials, settings)
    plain = _least_squares(rows, trial, dropped)
    if isinf(plain.error):
        return plain.estimator, settings, ()  # nothing can be held out
    if settings.shape.shapes:
        simple = replace(settings, friction=settings.shape.without_shapes())
        simple_rows, plainer = _rows(robot, trials, simple), trial.with_settings(friction=simple.shape)
        if trial.dropped:
            plainer, _ = least_supported(several_foldings(trials), plainer)
        plain = _simpler(plain, _least_squares(simple_rows, plainer, trials.dropped(plainer) if dropped else ()))
        rows = rows if plain.settings.shape.shapes else simple_rows
    consistent = _consistent(robot, rows)
    if consistent is not None and rows.settings.shape.shapes:
        consistent = _simpler(consistent, _consistent(robot, simple_rows))
    if consistent is not None and consistent.is_significantly_worse_than(plain):
        consistent = _with_heavier_prior(robot, trials, consistent, plain)
    selected = plain if consistent is None or consistent.is_significantly_worse_than(plain) else consistent
    both = [candidate for candidate in (plain, consistent) if candidate is not None]
    sizes = "; ".join(f"{candidate.words} {100 * candidate.error:.3g} %" for candidate in both)
    message = f"{selected.words} was selected; error on held-out blocks: {sizes}{_format_cost(plain, consistent)}"
    findings = (info(Kind.SELECTED_ESTIMATOR, message), *_find_inconsistent_data(rows, consistent))
    return selected.estimator, selected.settings, findings


def _format_cost(plain: Candidate, consistent: Candidate | None) -> str:
    """Describe the cost of physical consistency in error."""
    if consistent is None:
        return "; no consistent fit converged"
    change = consistent.error / plain.error - 1
    if consistent.is_significantly_worse_than(plain):
        return f"; consistent values are significantly worse, by {100 * change:.2g} % of the error"
    return f"; physical consistency costs {100 * change:.2g} % of the error" if change > 0 else ""


def _with_heavier_prior(robot: Robot, trials: Trials, consistent: Candidate, plain: Candidate) -> Candidate:
    """Return the fit with the least larger weight of its prior that is not significantly worse; itself if none is."""
    estimator = consistent.estimator
    assert isinstance(estimator, PhysicallyConsistent)
    if estimator.prior is None or isinstance(estimator.prior_weight, str):
        return consistent
    rows = _rows(robot, trials, consistent.settings)
    for factor in HEAVIER_PRIORS:
        heavier = _consistent_candidate(replace(estimator, prior_weight=factor * estimator.prior_weight), rows)
        if heavier is not None and not heavier.is_significantly_worse_than(plain):
            return heavier
    return consistent


def _simpler(candidate: Candidate, simple: Candidate | None) -> Candidate:
    """Return the candidate without friction shapes unless the one with shapes has a smaller error."""
    return simple if simple is not None and simple.error <= candidate.error else candidate


def _rows(robot: Robot, trials: Trials, settings: EquationSettings) -> Rows:
    """Return the equations in the blocks that are held out: phases if the motion repeats."""
    rows, line = build_rows(robot, list(trials.logs), settings), trials.timeline
    return rows.select(rows.blocks_along(line.times, line.length_s) if line.repeated else rows.blocks)


def _least_squares(rows: Rows, trial: Trial, dropped: tuple[str, ...]) -> Candidate:
    estimator = LeastSquares(covariance="correlated", dropped=dropped, friction=limits_of(rows.settings))
    return Candidate("least squares", rows.settings, estimator, _free, _scores_of_path(rows, trial))


def limits_of(settings: EquationSettings) -> FrictionRule:
    """Return the rule of friction for least squares: shapes were selected within limits, and need them."""
    return "dissipative" if settings.shape.shapes else "regularised"


def _scores_of_path(rows: Rows, trial: Trial) -> list[TrialScore]:
    """Return the errors of least squares that drops as many of the least supported parameters as its rows select.

    The number that was selected on all rows, among dozens, fits its own blocks too well: it would make least squares
    look better than fits without such a choice.
    """
    blocks, foldings = _sums_of(rows), [_groups(range(len(rows.blocks)), count) for count in FOLDINGS]
    if any(len(groups) < 2 for groups in foldings):
        return [UNSCORED] * len(FOLDINGS)
    kept = rules_of(rows.regressor, trial.kept(rows.regressor.parameters))
    rests = [[k for k in range(len(rows.blocks)) if k not in held] for groups in foldings for held in groups]
    fits = fit_sums(blocks.combine(rests), kept)
    values = fits.betas
    if trial.dropped:
        steps = most_steps(kept)
        dropped = [_drop_parameters(blocks, rest, kept, w, steps) for rest, w in zip(rests, fits.weights, strict=True)]
        path = elimination(fits.matrices, fits.rights, steps - 1).betas
        values = np.zeros(fits.betas.shape)
        values[:, kept.numbers] = path[np.arange(len(rests)), np.minimum(dropped, path.shape[1] - 1)]
        for beta, matrix in zip(values, fits.matrices, strict=True):
            fitted = np.flatnonzero(beta[kept.numbers])
            numbers = np.array(kept.numbers)[fitted]
            beta[:] = kept.limits.apply(matrix[np.ix_(fitted, fitted)], beta, numbers)
    left, power = blocks.combine([held for groups in foldings for held in groups]).errors(values[:, None])
    ends = np.cumsum([0, *map(len, foldings)])
    return [TrialScore(left[0, a:b], power[a:b]) for a, b in pairwise(ends)]


def _sums_of(rows: Rows) -> Folds:
    """Return the Gram matrices of the blocks of the rows."""
    parts = [block.information for block in rows.blocks]
    joints = zip(*(part.factors for part in parts), strict=True)
    matrices = [np.array([factor.T @ factor for factor in factors]) for factors in joints]
    counts = np.array([part.counts for part in parts], dtype=np.float64)
    return Folds(rows.regressor.columns, matrices, matrices, counts, rows.regressor.count)


def _drop_parameters(blocks: Folds, rest: Sequence[int], kept: Kept, weights: Array, steps: int) -> int:
    """Return the best number of parameters to drop, by the error on groups of the blocks held out in turn."""
    groups = _groups(rest, INNER)
    inner = blocks.combine([[k for k in rest if k not in held] for held in groups])
    fits = fit_sums(inner, kept, np.repeat(weights[None], len(groups), axis=0))
    path = np.zeros((len(groups), steps, blocks.count))
    path[:, :, kept.numbers] = elimination(fits.matrices, fits.rights, steps - 1).betas
    left, power = blocks.combine(groups).errors(path)
    return int(np.argmin(criterion_of(left.sum(axis=1), power.sum(axis=0))))


def _groups(blocks: Sequence[Item], count: int) -> list[list[Item]]:
    """Split the blocks into contiguous groups of nearly equal size."""
    groups: dict[int, list[Item]] = {}
    for k, block in enumerate(blocks):
        groups.setdefault(k * count // len(blocks), []).append(block)
    return list(groups.values())


def _consistent(robot: Robot, rows: Rows) -> Candidate | None:
    """Return the physically consistent fit, with the file's inertial parameters as its prior; None if it fails."""
    return _consistent_candidate(
        PhysicallyConsistent(prior="robot" if build_prior(robot, "robot").is_known else None, covariance="correlated"),
        rows,
    )


def _consistent_candidate(estimator: PhysicallyConsistent, rows: Rows) -> Candidate | None:
    try:
        settled, values = estimator.settled_for(rows)
    except MindynError:
        return None

    def betas(parts: Sequence[Rows]) -> list[Array]:
        return values([part.information for part in parts])

    return Candidate("a physically consistent fit", rows.settings, settled, betas, _scores(rows, betas))


def _scores(rows: Rows, betas: Callable[[Sequence[Rows]], list[Array]]) -> list[TrialScore]:
    """Return the errors on held-out blocks for each folding; infinite if a fit fails."""
    foldings = [_groups(rows.blocks, count) for count in FOLDINGS]
    if any(len(groups) < 2 for groups in foldings):
        return [UNSCORED] * len(FOLDINGS)
    pairs = [(groups, held) for groups in foldings for held in groups]
    rests = [[block for group in groups if group is not held for block in group] for groups, held in pairs]
    try:
        values = iter(betas([rows.select(rest) for rest in rests]))
    except MindynError:
        return [UNSCORED] * len(FOLDINGS)
    scores = []
    for groups in foldings:
        held_out = [add_information([block.information for block in held]) for held in groups]
        left = np.array([information.residuals(next(values)) for information in held_out])
        scores.append(TrialScore(left, np.array([information.torques() for information in held_out])))
    return scores


def _free(parts: Sequence[Rows]) -> list[Array]:
    """Return the values of least squares with all parameters."""
    return [fit_weighted(LeastSquares(), part.information, part.constant_torques).beta for part in parts]


def _find_inconsistent_data(rows: Rows, consistent: Candidate | None) -> list[Finding]:
    """Find data that no physically consistent values explain well, which points to another error."""
    if consistent is None or consistent.settings is not rows.settings:
        return []
    information = rows.information
    fitted = sqrt(
        information.residuals(consistent.betas([rows])[0]).sum() / information.residuals(*_free([rows])).sum()
    )
    held_out = consistent.error / error_over(_scores(rows, _free))
    ratio = min(fitted, held_out)
    if ratio <= MAX_CONSISTENT_RATIO:
        return []
    message = f"physically consistent values leave {ratio:.2g} times the error of free ones"
    remedy = "Check units, drive gains, gravity and mounting, and that payload and springs are given"
    return [replace(warning(Kind.INCONSISTENT_DATA, message, remedy), value=ratio)]
