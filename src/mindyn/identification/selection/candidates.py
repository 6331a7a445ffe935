"""Which kind of fit predicts motion that it has not seen: plain least squares, or values that an arm can have.

Blocks of the training rows are held out in turn. Few large blocks hold out motion unlike the rest, many small ones
motion like it: errors are compared by their geometric mean over several numbers of blocks. Fits that the blocks do not
tell from the best one are as good on the log, and knowledge decides for motions that the log does not make: values near
the file's inertials before any that an arm can have, those before free ones. Of a motion that repeats, all rows of one
phase are held out together, since another period would tell what they hold; where phases do not tell fits apart, the
error on contiguous blocks does: that motion will be asked for again. What each fit chose on the way is chosen again
without the block, as far as it decides the error: the parameters that least squares leaves out.
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
from mindyn.identification.selection.trials import Setting, Trials
from mindyn.identification.selection.tune import MOST_DROPPED
from mindyn.regression.gather_blocks import Block
from mindyn.regression.information import Information, add_information
from mindyn.regression.rows import Rows, build_rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

FOLDINGS: Final = (4, 5, 8)
INNER: Final = 5
"""Groups of the blocks that are left, by which least squares chooses what to drop."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A way to fit.

    words      what it is called
    estimator  fits all rows
    beta       its values from some rows, with everything chosen that those rows must choose
    """

    words: str
    estimator: Estimator
    beta: Callable[[Rows], Array]


def best_estimator(
    robot: Robot, trials: Trials, setting: Setting, settings: EquationSettings, dropped: tuple[str, ...]
) -> tuple[Estimator, tuple[Finding, ...]]:
    """The fit with the least error on blocks that it was not given, and why."""
    plain = LeastSquares(covariance="correlated", dropped=dropped)
    rows = build_rows(robot, list(trials.logs), settings)
    line = trials.timeline
    # Of a motion that repeats: its phases are other motions, its times the same motion once more.
    cuts = [rows.blocks_along(line.times, line.length_s), rows.blocks] if line.repeated else [rows.blocks]
    whole = rows.select(cuts[0])
    candidates = [Candidate("least squares", plain, _path(setting)), *_consistent(robot, whole)]
    scores = [_scores(whole, cuts[0], one.beta) for one in candidates]
    errors = [error_over(one) for one in scores]
    best = errors.index(min(errors))
    as_good = as_good_as_best(scores) if np.isfinite(errors).all() else [best]
    taken, why = max(as_good), "which is nearest to what is known of an arm"  # they come in the order of what they know
    if line.repeated:
        taken = min(as_good, key=lambda k: error_over(_scores(whole, cuts[1], candidates[k].beta)))
        why = "which is best on the motion itself"
    if np.isinf(errors[taken]):
        return plain, ()  # nothing can be held out
    told = "; ".join(f"{one.words} {100 * error:.3g} %" for one, error in zip(candidates, errors, strict=True))
    reason = "" if taken == best else f", among those that the blocks do not tell from the best, {why}"
    message = f"{candidates[taken].words} was selected by its error on held-out blocks ({told}){reason}"
    findings = (info(Kind.SELECTED_ESTIMATOR, message), *_find_inconsistent_data(whole, candidates, errors))
    return candidates[taken].estimator, findings


def _path(setting: Setting) -> Callable[[Rows], Array]:
    """Least squares without the parameters that the rows at hand support the least, as many as they choose themselves.

    How many was chosen on all rows, among dozens: a number that fits the blocks it was chosen on better than any other
    makes least squares look better than it is beside fits that have no such choice.
    """

    def beta(rows: Rows) -> Array:
        full = LeastSquares().fit(rows)
        kept = setting.with_settings_of(rows.regressor.parameters)
        assert full.joint_weights is not None
        groups = _groups(rows.blocks, INNER)
        dropped = setting.dropped if setting.dropped == 0 or len(groups) < 2 else _drop_parameters(groups, kept, full)
        found = np.zeros(len(full.beta))
        steps = _steps(rows.information, kept, full)
        found[kept] = steps[min(dropped, len(steps) - 1), kept]
        return found

    return beta


def _steps(information: Information, with_settings_of: list[int], full: Estimate) -> Array:
    """(steps, p) values with 0, 1, 2, ... of the kept parameters dropped, the least supported first."""
    R, z = information.stacked(full.joint_weights)
    betas = elimination(R[:, with_settings_of].T @ R[:, with_settings_of], R[:, with_settings_of].T @ z).betas
    found = np.zeros((len(betas), len(full.beta)))
    found[:, with_settings_of] = betas
    return found[: max(1, round(MOST_DROPPED * len(with_settings_of)))]


def _drop_parameters(groups: Sequence[Sequence[Block]], with_settings_of: list[int], full: Estimate) -> int:
    """How many parameters are best dropped, by error on groups of blocks held out in turn."""
    left, power = [], []
    for held in groups:
        rest = add_information([block.information for group in groups if group is not held for block in group])
        information = add_information([block.information for block in held])
        left.append(information.residuals(_steps(rest, with_settings_of, full)))
        power.append(information.torques())
    return int(np.argmin([TrialScore(one, np.array(power)).criterion for one in np.swapaxes(left, 0, 1)]))


def _groups(blocks: Sequence[Block], count: int) -> list[list[Block]]:
    """Blocks in contiguous groups of as equal numbers as there can be."""
    groups: dict[int, list[Block]] = {}
    for k, block in enumerate(blocks):
        groups.setdefault(k * count // len(blocks), []).append(block)
    return list(groups.values())


def _consistent(robot: Robot, all_samples: Rows) -> list[Candidate]:
    """Physical fits, without a prior and near the file's own inertials where it states any; none that fails."""
    wanted = [(PhysicallyConsistent(prior=None), "a physically consistent fit")]
    if build_prior(robot, "robot").is_known:
        near = "a physically consistent fit near the file's inertials"
        wanted.append((PhysicallyConsistent(prior="robot"), near))
    made = []
    for estimator, words in wanted:
        try:
            settled, values = estimator.settled_for(all_samples)
        except MindynError:
            continue
        made.append(Candidate(words, replace(settled, covariance="correlated"), _of_rows(values)))
    return made


def _of_rows(values: Callable[[Information], Array]) -> Callable[[Rows], Array]:
    return lambda rows: values(rows.information)


def _scores(all_samples: Rows, blocks: Sequence[Block], beta: Callable[[Rows], Array]) -> list[TrialScore]:
    """Errors on blocks held out, for each of the foldings; infinite where a fit fails."""
    made = []
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
        made.append(TrialScore(np.array(left), np.array(power)))
    return made


def _find_inconsistent_data(
    all_samples: Rows, candidates: Sequence[Candidate], errors: Sequence[float]
) -> list[Finding]:
    """Find data that no physically consistent values explain, even nearly: something else is wrong."""
    information = all_samples.information
    plain = information.residuals(LeastSquares().fit(all_samples).beta).sum()
    for one, error in zip(candidates[1:2], errors[1:2], strict=True):
        ratio = min(sqrt(information.residuals(one.beta(all_samples)).sum() / plain), error / errors[0])
        if ratio > MAX_CONSISTENT_RATIO:
            message = f"physically consistent values leave {ratio:.2g} times the error of free ones"
            remedy = "Check units, drive gains, gravity and mounting, and that payload and springs are given"
            return [replace(warning(Kind.INCONSISTENT_DATA, message, remedy), value=ratio)]
    return []
