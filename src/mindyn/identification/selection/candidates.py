"""Candidates for the selected fit, with their errors on held-out blocks and under held-out conditions.

A held-out block of time has a motion similar to that of the other blocks. To include extrapolation, rows with extreme
conditions are held out too: those with the highest speed, the largest load, a posture at the end of the range, or one
direction of motion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from typing import Final, NamedTuple

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import MindynError
from mindyn.identification.estimators.essential import elimination
from mindyn.identification.estimators.estimate import predict_unfiltered
from mindyn.identification.estimators.estimator import Estimator
from mindyn.identification.estimators.least_squares import REWEIGHTINGS, FrictionRule, LeastSquares, fit_weighted
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.selection.folds import Folds, Kept, equal_weights, fit_sums, squares_of_torque
from mindyn.identification.selection.scores import UNSCORED, Gain, TrialScore, criterion_of, error_over, gain_of
from mindyn.identification.selection.trials import Trial, Trials, most_steps, rules_of
from mindyn.regression.condition_groups import group_by_conditions
from mindyn.regression.gather_blocks import group_evenly
from mindyn.regression.information import Information, add_information
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings

FOLDINGS: Final = (4, 5, 8)
INNER: Final = 5
"""Number of groups into which the remaining blocks are divided, to select the parameters that least squares drops."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An estimator that may be selected, with its errors on held-out rows.

    words        name in messages
    settings     settings of its equations
    estimator    estimator that fits all rows
    beta         values from all rows
    scores       errors on held-out blocks, for each number of blocks
    conditions   errors under held-out conditions, for each condition
    has_offsets  whether it fits torque offsets
    """

    words: str
    settings: EquationSettings
    estimator: Estimator
    beta: Array
    scores: list[TrialScore]
    conditions: list[TrialScore] = field(default_factory=list)
    has_offsets: bool = True

    @property
    def complexity(self) -> tuple[bool, bool]:
        """Whether the candidate has friction shapes, and whether it has torque offsets."""
        return bool(self.settings.shape.shapes), self.has_offsets

    @property
    def error(self) -> float:
        """Error on held-out blocks."""
        return error_over(self.scores)

    @property
    def error_elsewhere(self) -> float:
        """Error under held-out conditions; if no condition differs between rows, the error on held-out blocks."""
        return error_over(self.conditions) if self.conditions else self.error

    @property
    def loss(self) -> float:
        """Geometric mean of the errors on held-out blocks and under held-out conditions."""
        return sqrt(self.error * self.error_elsewhere)

    def gain_over(self, other: Candidate) -> Gain:
        """Return by how much the error on held-out blocks is lower than the error of another candidate."""
        return gain_of(other.scores, self.scores)


class HoldOut(NamedTuple):
    """Equations in blocks, and the ways in which blocks are held out.

    rows      equations with their blocks
    foldings  each folding divides the block numbers into groups; its groups are held out in turn, and give one score
    """

    rows: Rows
    foldings: list[list[list[int]]]

    @property
    def tests(self) -> list[tuple[list[int], list[int]]]:
        """Numbers of the fitted and of the held-out blocks, for all ways, in order."""
        blocks = range(len(self.rows.blocks))
        return [([k for k in blocks if k not in held], held) for groups in self.foldings for held in groups]

    def split(self, left: Array, power: Array) -> list[TrialScore]:
        """Return the score of each way from squares (tests, n) in the order of `tests`."""
        ends = np.cumsum([0, *map(len, self.foldings)])
        return [TrialScore(left[a:b], power[a:b]) for a, b in pairwise(ends)]


class HoldOuts(NamedTuple):
    """Two kinds of held-out rows: blocks of time (phases, if the motion repeats), and groups of rows with the same
    conditions.
    """

    blocks: HoldOut
    conditions: tuple[HoldOut, ...]

    @property
    def rows(self) -> Rows:
        """Equations in blocks of time."""
        return self.blocks.rows

    @property
    def can_hold_out(self) -> bool:
        """Whether there remain rows to fit for every number of blocks."""
        return all(len(groups) > 1 for groups in self.blocks.foldings)


def hold_out(trials: Trials, settings: EquationSettings) -> HoldOuts:
    """Return the equations in blocks to hold out; this reads all rows."""
    rows, line = trials.experiment.equations(settings), trials.timeline
    blocks = rows.blocks_along(line.times, line.length_s) if line.repeated else rows.blocks
    numbers = range(len(blocks))
    foldings = [group_evenly(numbers, count) for count in FOLDINGS]
    conditions = []
    samples = rows.all_samples("a comparison of conditions")
    load = predict_unfiltered(rows.regressor, np.where(rows.regressor.rigid, fit_free(rows), 0.0), samples)
    for grouping in group_by_conditions(samples, load):
        groups = rows.blocks_by_label(grouping.labels, grouping.groups)
        if all(min(block.information.counts) > 0 for block in groups):
            conditions.append(HoldOut(rows.select(groups), [[[number] for number in grouping.held_out]]))
    return HoldOuts(HoldOut(rows.select(blocks), foldings), tuple(conditions))


def fit_least_squares(held: HoldOuts, trial: Trial, dropped: tuple[str, ...]) -> Candidate:
    """Return least squares without the dropped parameters.

    Its errors are those of fits that select the dropped parameters again.
    """
    rows = held.rows
    estimator = LeastSquares(covariance="correlated", dropped=dropped, friction_rule=limits_of(rows.settings))
    if not held.can_hold_out:
        return Candidate("least squares", rows.settings, estimator, fit_free(rows), [UNSCORED] * len(FOLDINGS))
    kept, is_dropping = rules_of(rows.regressor, trial.kept(rows.regressor.parameters)), trial.dropped > 0
    scores = scores_of_path(held.blocks, kept, is_dropping=is_dropping)
    conditions = [score for other in held.conditions for score in scores_of_path(other, kept, is_dropping=is_dropping)]
    has_offsets = any(rows.regressor.parameters[k].kind == "offset" for k in kept.numbers)
    return Candidate("least squares", rows.settings, estimator, fit_free(rows), scores, conditions, has_offsets)


def fit_consistent(held: HoldOuts, estimator: PhysicallyConsistent) -> Candidate | None:
    """Return a physically consistent fit; None if it fails."""
    try:
        settled, values = estimator.settled_for(held.rows)
        (beta,) = values([held.rows.information])
    except MindynError:
        return None
    scores = _compute_scores([held.blocks], values) if held.can_hold_out else [UNSCORED] * len(FOLDINGS)
    conditions = _compute_scores(list(held.conditions), values)
    words, has_offsets = "a physically consistent fit", "offset" not in estimator.dropped
    return Candidate(words, held.rows.settings, settled, beta, scores, conditions, has_offsets)


def limits_of(settings: EquationSettings) -> FrictionRule:
    """Return the friction rule for least squares: the limits within which friction shapes were selected."""
    return "dissipative" if settings.shape.shapes else "regularised"


def scores_of_path(held: HoldOut, kept: Kept, *, is_dropping: bool) -> list[TrialScore]:
    """Return the errors of least squares.

    Each fit may drop as many of the least supported parameters as its own rows select.

    The number that was selected on all rows, among dozens of numbers, fits these rows too well. If the fits used that
    number, least squares would appear better than fits that drop no parameters.
    """
    blocks, tests = _sums_of(held.rows), held.tests
    rests = [rest for rest, _ in tests]
    sums = blocks.combine(rests)
    start = sums.rows / np.maximum(squares_of_torque(sums.fitted), 1e-300) * equal_weights(sums.fitted)
    fits = fit_sums(sums, kept, start, REWEIGHTINGS)
    values = fits.betas
    if is_dropping:
        steps = most_steps(kept)
        dropped = [_drop_parameters(blocks, rest, kept, w, steps) for rest, w in zip(rests, fits.weights, strict=True)]
        path = elimination(fits.matrices, fits.rights, steps - 1).betas
        values = np.zeros(fits.betas.shape)
        values[:, kept.numbers] = path[np.arange(len(rests)), np.minimum(dropped, path.shape[1] - 1)]
        if kept.limits is not None:
            for beta, matrix in zip(values, fits.matrices, strict=True):
                fitted = np.flatnonzero(beta[kept.numbers])
                numbers = np.array(kept.numbers)[fitted]
                beta[:] = kept.limits.apply(matrix[np.ix_(fitted, fitted)], beta, numbers)
    held_out_blocks = blocks.combine([held_out for _, held_out in tests])
    squared_residuals, squared_torques = held_out_blocks.squared_residuals_and_torques(values[:, None])
    return held.split(squared_residuals[0], squared_torques)


def _sums_of(rows: Rows) -> Folds:
    """Return the Gram matrices of the blocks of the rows."""
    parts = [block.information for block in rows.blocks]
    joints = zip(*(part.factors for part in parts), strict=True)
    matrices = [np.array([factor.T @ factor for factor in factors]) for factors in joints]
    counts = np.array([part.counts for part in parts], dtype=np.float64)
    return Folds(rows.regressor.columns, matrices, matrices, counts, rows.regressor.count)


def _drop_parameters(blocks: Folds, rest: Sequence[int], kept: Kept, weights: Array, steps: int) -> int:
    """Return the best number of parameters to drop, by the error on groups of the blocks held out in turn."""
    groups = group_evenly(rest, INNER)
    if len(groups) < 2:
        return 0
    inner = blocks.combine([[k for k in rest if k not in held] for held in groups])
    fits = fit_sums(inner, kept, np.repeat(weights[None], len(groups), axis=0), 0)
    path = np.zeros((len(groups), steps, blocks.count))
    path[:, :, kept.numbers] = elimination(fits.matrices, fits.rights, steps - 1).betas
    squared_residuals, squared_torques = blocks.combine(groups).squared_residuals_and_torques(path)
    return int(np.argmin(criterion_of(squared_residuals.sum(axis=1), squared_torques.sum(axis=0))))


def _compute_scores(
    held: Sequence[HoldOut], values_of: Callable[[Sequence[Information]], list[Array]]
) -> list[TrialScore]:
    """Return the errors of a fit for all ways to hold out blocks; infinite if a fit fails."""
    tests = [(part, rest, held_out) for part in held for rest, held_out in part.tests]
    try:
        values = iter(
            values_of([part.rows.select([part.rows.blocks[k] for k in rest]).information for part, rest, _ in tests])
        )
    except MindynError:
        return [UNSCORED] * sum(len(part.foldings) for part in held)
    scores: list[TrialScore] = []
    for part in held:
        held_out = [add_information([part.rows.blocks[k].information for k in numbers]) for _, numbers in part.tests]
        squared_residuals = np.array([information.residuals(next(values)) for information in held_out])
        scores += part.split(squared_residuals, np.array([information.torques() for information in held_out]))
    return scores


def fit_free(rows: Rows) -> Array:
    """Return the values of least squares with all parameters."""
    return fit_weighted(LeastSquares(), rows.information, rows.constant_torques).beta
