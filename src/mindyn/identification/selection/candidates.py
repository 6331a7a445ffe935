"""Select the estimator that predicts unseen motion best: plain least squares or a physically consistent fit.

Blocks of the training rows are held out in turn. A few large blocks hold out motion unlike the rest, many small blocks
motion like it: errors are compared by their geometric mean over several numbers of blocks. Among fits that the blocks
do not distinguish from the best one, prior knowledge decides, because they are equally good on the log but differ on
other motions: fits near the robot file's inertial parameters come first, then other consistent fits, then least
squares.

If the motion repeats, all rows of the same phase are held out together, because another period would reveal them. If
phases do not distinguish the fits, the error on contiguous blocks decides, because the same motion is likely to be
predicted again. Each fit repeats its own selection without the held-out block where this affects the error: least
squares selects the dropped parameters again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import MindynError
from mindyn.estimators.essential import elimination
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimator import Estimator
from mindyn.estimators.least_squares import LeastSquares
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.feasibility.priors import build_prior
from mindyn.findings import Finding, Kind, info, warning
from mindyn.identification.diagnostics.thresholds import MAX_CONSISTENT_RATIO
from mindyn.identification.selection.scores import UNSCORED, TrialScore, as_good_as_best, error_over
from mindyn.identification.selection.trials import Trial, Trials
from mindyn.identification.selection.tune import MOST_DROPPED
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import Information, add_information
from mindyn.regression.rows import Rows, build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

FOLDINGS: Final = (4, 5, 8)
INNER: Final = 5
"""Number of groups of the remaining blocks on which least squares selects the parameters to drop."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An estimator that may be selected.

    words      its name in messages
    estimator  fits all rows
    beta       returns its values from some rows, including all choices that depend on these rows
    """

    words: str
    estimator: Estimator
    beta: Callable[[Rows], Array]


def best_estimator(
    robot: Robot, trials: Trials, trial: Trial, settings: EquationSettings, dropped: tuple[str, ...]
) -> tuple[Estimator, tuple[Finding, ...]]:
    """Return the estimator with the least error on held-out blocks, and findings that explain the selection."""
    plain = LeastSquares(covariance="correlated", dropped=dropped)
    rows = build_rows(robot, list(trials.logs), settings)
    line = trials.timeline
    # If the motion repeats, blocks of phases hold out other motions, blocks of time the same motion.
    cuts = [rows.blocks_along(line.times, line.length_s), rows.blocks] if line.repeated else [rows.blocks]
    whole = rows.select(cuts[0])
    candidates = [Candidate("least squares", plain, _path(trial)), *_consistent(robot, whole)]
    scores = [_scores(whole, cuts[0], candidate.beta) for candidate in candidates]
    errors = [error_over(score) for score in scores]
    best = errors.index(min(errors))
    as_good = as_good_as_best(scores) if np.isfinite(errors).all() else [best]
    taken, why = max(as_good), "it uses the most prior knowledge"  # candidates are in this order
    if line.repeated:
        taken = min(as_good, key=lambda k: error_over(_scores(whole, cuts[1], candidates[k].beta)))
        why = "it is best on the motion itself"
    if np.isinf(errors[taken]):
        return plain, ()  # nothing can be held out
    sizes = "; ".join(
        f"{candidate.words} {100 * error:.3g} %" for candidate, error in zip(candidates, errors, strict=True)
    )
    reason = "" if taken == best else f"; the blocks do not distinguish it from the best, and {why}"
    message = f"{candidates[taken].words} was selected by its error on held-out blocks ({sizes}){reason}"
    findings = (info(Kind.SELECTED_ESTIMATOR, message), *_find_inconsistent_data(whole, candidates, errors))
    return candidates[taken].estimator, findings


def _path(trial: Trial) -> Callable[[Rows], Array]:
    """Return a fit by least squares that drops as many of the least supported parameters as its rows select.

    The number that was selected on all rows, among dozens, fits its own blocks too well: it would make least squares
    look better than fits without such a choice.
    """

    def beta(rows: Rows) -> Array:
        full = LeastSquares().fit(rows)
        kept = trial.kept(rows.regressor.parameters)
        assert full.joint_weights is not None
        groups = _groups(rows.blocks, INNER)
        dropped = trial.dropped if trial.dropped == 0 or len(groups) < 2 else _drop_parameters(groups, kept, full)
        values = np.zeros(len(full.beta))
        steps = _steps(rows.information, kept, full)
        values[kept] = steps[min(dropped, len(steps) - 1), kept]
        return values

    return beta


def _steps(information: Information, kept: list[int], full: Estimate) -> Array:
    """Return the values (steps, p) with 0, 1, 2, ... of the kept parameters dropped, the least supported first."""
    R, z = information.stacked(full.joint_weights)
    betas = elimination(R[:, kept].T @ R[:, kept], R[:, kept].T @ z).betas
    values = np.zeros((len(betas), len(full.beta)))
    values[:, kept] = betas
    return values[: max(1, round(MOST_DROPPED * len(kept)))]


def _drop_parameters(groups: Sequence[Sequence[Block]], kept: list[int], full: Estimate) -> int:
    """Return the best number of parameters to drop, by the error on groups of blocks held out in turn."""
    left, power = [], []
    for held in groups:
        rest = add_information([block.information for group in groups if group is not held for block in group])
        information = add_information([block.information for block in held])
        left.append(information.residuals(_steps(rest, kept, full)))
        power.append(information.torques())
    return int(np.argmin([TrialScore(residuals, np.array(power)).criterion for residuals in np.swapaxes(left, 0, 1)]))


def _groups(blocks: Sequence[Block], count: int) -> list[list[Block]]:
    """Split the blocks into contiguous groups of nearly equal size."""
    groups: dict[int, list[Block]] = {}
    for k, block in enumerate(blocks):
        groups.setdefault(k * count // len(blocks), []).append(block)
    return list(groups.values())


def _consistent(robot: Robot, all_samples: Rows) -> list[Candidate]:
    """Return physically consistent fits without a prior and, if the file has inertial parameters, near them; skip
    failures.
    """
    wanted = [(PhysicallyConsistent(prior=None), "a physically consistent fit")]
    if build_prior(robot, "robot").is_known:
        near = "a physically consistent fit near the file's inertial parameters"
        wanted.append((PhysicallyConsistent(prior="robot"), near))
    candidates = []
    for estimator, words in wanted:
        try:
            settled, values = estimator.settled_for(all_samples)
        except MindynError:
            continue
        candidates.append(Candidate(words, replace(settled, covariance="correlated"), _of_rows(values)))
    return candidates


def _of_rows(values: Callable[[Information], Array]) -> Callable[[Rows], Array]:
    return lambda rows: values(rows.information)


def _scores(all_samples: Rows, blocks: Sequence[Block], beta: Callable[[Rows], Array]) -> list[TrialScore]:
    """Return the errors on held-out blocks for each folding; infinite if a fit fails."""
    scores = []
    for count in FOLDINGS:
        groups = _groups(blocks, count)
        if len(groups) < 2:
            return [UNSCORED] * len(FOLDINGS)
        left, power = [], []
        for held in groups:
            rest = [block for group in groups if group is not held for block in group]
            try:
                values = beta(all_samples.select(rest))
            except MindynError:
                return [UNSCORED] * len(FOLDINGS)
            information = add_information([block.information for block in held])
            left.append(information.residuals(values))
            power.append(information.torques())
        scores.append(TrialScore(np.array(left), np.array(power)))
    return scores


def _find_inconsistent_data(
    all_samples: Rows, candidates: Sequence[Candidate], errors: Sequence[float]
) -> list[Finding]:
    """Find data that no physically consistent values explain well, which points to another error."""
    information = all_samples.information
    plain = information.residuals(LeastSquares().fit(all_samples).beta).sum()
    for candidate, error in zip(candidates[1:2], errors[1:2], strict=True):
        ratio = min(sqrt(information.residuals(candidate.beta(all_samples)).sum() / plain), error / errors[0])
        if ratio > MAX_CONSISTENT_RATIO:
            message = f"physically consistent values leave {ratio:.2g} times the error of free ones"
            remedy = "Check units, drive gains, gravity and mounting, and that payload and springs are given"
            return [replace(warning(Kind.INCONSISTENT_DATA, message, remedy), value=ratio)]
    return []
