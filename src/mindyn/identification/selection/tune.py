"""`tune_settings`: select groups of settings one after the other by their cross-validated error on the training
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf, log
from typing import Final

import numpy as np

from mindyn.identification.delays import Delay
from mindyn.identification.selection.scores import Gain, criterion_of, error_over, gain_of, joint_gain
from mindyn.identification.selection.trials import (
    HIGHEST,
    MAX_DELAY_S,
    SAME_VALUES,
    Trial,
    Trials,
    rate_of,
    score_all,
    scores,
)
from mindyn.logs.filters import LOWEST_HZ
from mindyn.parameters.parameter import Kind
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings
from mindyn.robots.friction_laws import FITTED_SHAPES, LOAD_SHAPES

Progress = Callable[[str], None]

COARSE: Final = 2.0
FINER: Final = (2.0**0.5, 2.0**0.25)
"""Factors between the cut-offs that are tried, first over the whole range, then around the best cut-off."""
MAX_PROMISING_RATIO: Final = 1.3
"""If the error of a cut-off on a part of long logs, relative to the smallest error, is above this, it is not tried on
all rows.
"""
MOTION_TO_FILTER: Final = 2.5
"""Ratio of the motion's cut-off to the cut-off of the parallel filter, while the parallel filter is selected."""
TANH_WIDTHS: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
STOP_WIDTHS: Final = (1e-6, 1e-5, 1e-4, 1e-3)
GRID_REFINEMENTS: Final = 10.0**0.5
"""Factor between the stop widths in the final refinement."""
SLOW_SPEEDS: Final = (None, 0.01, 0.02, 0.05)
"""rad/s below which rows of a joint are excluded from the fit: stiction there is not a function of the speed."""
MIN_GAIN: Final = 0.995
"""A model with more parameters is selected if its error, relative to the simpler one, is less than this."""
SHAPE_GAIN: Final = -log(MIN_GAIN)
"""The same condition as a gain over several numbers of blocks, which must also be significant."""
LOAD_GAIN: Final = -log(0.98)
"""The same for load-dependent friction, with one or two parameters per joint: in real gears its effect is large or
absent."""
SELF_LOCKING: Final = 1.0
"""Fraction of the load that friction absorbs in a self-locking gear: backdrivable arms have less."""
MOST_SHAPES: Final = 2
FOLDINGS: Final = (3, 4, 5, 8)
DELAY_GAIN: Final = -log(0.9)
"""A delay that is not clear must reduce the error by more than this."""
DELAYS_TRIED: Final = 7
SMALLEST_STEP: Final = 0.01
"""Accuracy of the delay with the smallest error, in samples."""
DROPPED_TOGETHER: Final[tuple[tuple[Kind, ...], ...]] = (("rotor",), ("offset",), ("rotor", "offset"))
"""Kinds of parameters that an arm may not need: rotors, whose inertia the links can absorb, and friction offsets."""


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Settings that may be selected: the entries of the given settings that are "auto". All other settings stay as
    given.

    asked              settings; a conditioning of None leaves the motion's cut-off, its velocity and the delay open
    is_speed_logged    whether every log has a velocity
    is_estimator_given if true, parameters to drop are selected only together with filter or friction
    highest_filter_hz  highest cut-off of the parallel filter; None: any, or no filter
    lowest_hz          lowest cut-off of the parallel filter and of the motion; None: any
    """

    asked: EquationSettings
    is_speed_logged: bool = True
    is_estimator_given: bool = False
    highest_filter_hz: float | None = None
    lowest_hz: float | None = None

    @property
    def delay(self) -> bool:
        """Whether the delay between motion and torque may be selected."""
        return self.asked.conditioning is None

    @property
    def cutoff(self) -> bool:
        """Whether the cut-off of the motion may be selected."""
        return self.asked.conditioning is None or self.asked.conditioning.motion_hz == "auto"

    @property
    def velocity(self) -> bool:
        """Whether the velocity may be the logged or the differentiated one."""
        return self.asked.conditioning is None and self.is_speed_logged

    @property
    def filter(self) -> bool:
        """Whether the parallel filter may be selected."""
        return self.asked.equations_hz == "auto"

    @property
    def friction(self) -> bool:
        """Whether the shape of the friction may be selected."""
        return self.asked.friction == "auto"

    @property
    def parameters(self) -> bool:
        """Whether parameters may be dropped."""
        return not self.is_estimator_given or self.filter or self.friction

    @property
    def anything(self) -> bool:
        """Whether anything may be selected."""
        return self.cutoff or self.delay or self.parameters


def tune_settings(trials: Trials, start: Trial, search_space: SearchSpace, progress: Progress) -> Trial:
    """Return the trial with the selected settings.

    Two rounds select filter, delay and friction direction; then friction shapes and parameters are selected.
    """
    best, timed = start, trials.along_time()
    delay = trials.estimate_delay(start) if search_space.delay else Delay(0.0, 0.0)
    for _ in range(2):
        best = _select_filters(timed, best, search_space)
        progress(_line("filter", timed, best))
        if search_space.delay:
            best = _select_delay(timed, best, delay, search_space)
            progress(_line("delay", timed, best))
        if search_space.friction:
            best = _better_trial(timed, best, _directions(best), 1.0)
            best = _better_trial(timed, best, [best.with_conditioning(slow_speed=v) for v in SLOW_SPEEDS], MIN_GAIN)
            progress(_line("friction", timed, best))
    if search_space.friction:
        best = _select_shapes(trials, add_load_friction(trials, best))
        progress(_line("friction shape", trials, best))
    if search_space.parameters:
        best = _better_trial(trials, best, [replace(best, without=kinds) for kinds in DROPPED_TOGETHER], 1.0)
        best = _select_essential(trials, best, search_space)
        progress(_line(f"{best.dropped} parameters dropped", trials, best))
    return best


def _select_essential(trials: Trials, best: Trial, search_space: SearchSpace) -> Trial:
    """Drop as many of the least supported parameters as gives the best prediction of motion that was not fitted.

    If there are few large blocks, the held-out motion differs from the rest; if there are many small blocks, it is
    similar. Models with different numbers of parameters are therefore compared by the geometric mean of their errors
    over several numbers of blocks. Delay, slow rows and the friction around zero velocity are checked again, because
    with a single number of blocks they may fit the noise of these blocks.
    """
    foldings = several_foldings(trials)
    _score_paths(foldings, [best, *_other_slow_speeds(best, search_space), *_presliding_candidates(best, search_space)])
    best, error = least_supported(foldings, best)
    if search_space.delay and best.conditioning.delay_s:
        without = best.with_conditioning(delay_s=0.0)
        pair = replace(without, dropped=0), replace(best, dropped=0)
        if not _gain(foldings, *pair).mean > SHAPE_GAIN:
            best, error = least_supported(foldings, without)
    for look in (_other_slow_speeds, _presliding_candidates):
        candidates = look(best, search_space)
        _score_paths(foldings, candidates)
        for other in candidates:
            candidate, found_error = least_supported(foldings, other)
            if found_error < (MIN_GAIN if look is _presliding_candidates else 1.0) * error:
                best, error = candidate, found_error
    if trials.timeline.repeated:
        # Blocks of phases hold out other motions, blocks of time the same motion; both kinds will be predicted.
        both = [*foldings, *(folding.along_time() for folding in foldings)]
        best, _ = least_supported(both, best)
    return best


def several_foldings(trials: Trials) -> list[Trials]:
    """Return the trials with their rows divided into each number of blocks of `FOLDINGS`."""
    return [trials.with_folds(folds) for folds in FOLDINGS]


def _score_paths(foldings: Sequence[Trials], listed: Sequence[Trial]) -> None:
    """Score trials with all numbers of dropped parameters, together."""
    score_all(foldings, [replace(trial, dropped=1) for trial in listed])


def least_supported(foldings: Sequence[Trials], trial: Trial) -> tuple[Trial, float]:
    """Return the trial with the best number of dropped parameters, and its error over all numbers of blocks."""
    criteria = []
    _score_paths(foldings, [trial])
    for trials in foldings:
        squared_residuals, squared_torques = trials.squared_residuals_and_torques(trial)
        criteria.append(criterion_of(squared_residuals.sum(axis=1), squared_torques.sum(axis=0)))
    is_open = np.isinf(criteria)  # next to an error of zero, the product would not be a number
    errors = np.prod(np.where(is_open, 1.0, criteria), axis=0) ** (1 / len(criteria))
    errors = np.where(is_open.any(axis=0), inf, errors)
    dropped = int(errors.argmin())
    return replace(trial, dropped=dropped), float(errors[dropped])


def _other_slow_speeds(best: Trial, search_space: SearchSpace) -> list[Trial]:
    known = best.conditioning.slow_speed
    return [best.with_conditioning(slow_speed=v) for v in SLOW_SPEEDS if v != known] if search_space.friction else []


def _presliding_candidates(best: Trial, search_space: SearchSpace) -> list[Trial]:
    """Return presliding friction with widths between those tried before.

    If the best friction is a stop, return neighbouring widths.
    """
    if not search_space.friction:
        return []
    friction = best.friction
    widths = (*STOP_WIDTHS, *(width * GRID_REFINEMENTS for width in STOP_WIDTHS[:-1]))
    if friction.direction == "stop":
        widths = (friction.width / GRID_REFINEMENTS, friction.width * GRID_REFINEMENTS)
    return [best.with_friction(direction="stop", width=width) for width in sorted(widths)]


def _line(what: str, trials: Trials, trial: Trial) -> str:
    score = trials.score(trial)
    return f"{what}: cross-validated error {100 * score.total:.2f} % total, {100 * score.mean:.2f} % mean over joints"


def _better_trial(trials: Trials, best: Trial, others: Iterable[Trial], factor: float) -> Trial:
    """Return the best of the other trials if its error is below `factor` times the error of `best`; otherwise return
    `best`.
    """
    listed = [best, *others]
    errors = [score.criterion for (score,) in score_all([trials], listed)]
    k = min(range(1, len(listed)), key=errors.__getitem__, default=0)
    return listed[k] if errors[k] < factor * errors[0] else best


def _promising_trials(trials: Trials, listed: Sequence[Trial]) -> list[Trial]:
    """Return the trials that are not far from the best on a part of long logs; for short logs, return all trials."""
    if trials.sketch is None:
        return list(listed)
    errors = [score.criterion for (score,) in score_all([trials.sketch], listed)]
    return [
        trial
        for trial, error in zip(listed, errors, strict=True)
        if not MAX_PROMISING_RATIO * min(errors) < error < inf
    ]


def _select_filters(trials: Trials, best: Trial, search_space: SearchSpace) -> Trial:
    highest = search_space.highest_filter_hz
    grid = _cutoff_grid(rate_of(best.conditioning), search_space.lowest_hz or LOWEST_HZ)
    if search_space.filter:
        if highest is not None and best.equations_hz is None:
            best = _with_filters(best, [highest], search_space)[0]
        best = _better_trial(trials, best, _promising_trials(trials, _with_filters(best, grid, search_space)), 1.0)
        for step in FINER:
            if best.equations_hz is not None:
                near = [best.equations_hz / step, best.equations_hz * step]
                best = _better_trial(trials, best, _with_filters(best, near, search_space), 1.0)
    if search_space.cutoff:
        # The motion alone may need a filter: its derivatives are noisy, while the torque jumps with the friction.
        filters = {best.equations_hz, None} if search_space.filter and highest is None else {best.equations_hz}
        kinds = [best.with_settings(equations_hz=f) for f in filters]
        others = [trial.with_conditioning(motion_hz=f) for f in grid for trial in kinds]
        best = _better_trial(trials, best, _promising_trials(trials, others), 1.0)
    if search_space.velocity:
        others = [best.with_conditioning(velocity=origin) for origin in ("differentiated", "measured")]
        best = _better_trial(trials, best, others, 1.0)
    return best


def _cutoff_grid(rate: float, lowest_hz: float) -> list[float | None]:
    """Return None (no filter), then cut-offs over the whole range."""
    values: list[float | None] = [None]
    f = lowest_hz
    while f < HIGHEST * rate:
        values.append(f)
        f *= COARSE
    return values


def _with_filters(best: Trial, filters: Sequence[float | None], search_space: SearchSpace) -> list[Trial]:
    """Return candidates for the parallel filter.

    If the motion's cut-off may be selected, it changes together with the filter.
    """
    candidates = []
    highest, bound = HIGHEST * rate_of(best.conditioning), search_space.highest_filter_hz
    lowest = search_space.lowest_hz or 0.0
    for f in filters:
        if (f is not None and not lowest <= f <= highest) or (bound is not None and (f is None or f > bound)):
            continue
        candidate = best.with_settings(equations_hz=f)
        if search_space.cutoff:
            motion = None if f is None or MOTION_TO_FILTER * f > highest else MOTION_TO_FILTER * f
            candidate = candidate.with_conditioning(motion_hz=motion)
        candidates.append(candidate)
    return candidates


def _directions(best: Trial) -> list[Trial]:
    kinds = [Friction("sign"), *(Friction("tanh", w) for w in TANH_WIDTHS), *(Friction("stop", w) for w in STOP_WIDTHS)]
    return [best.with_friction(direction=k.direction, width=k.width) for k in kinds]


def _select_delay(trials: Trials, best: Trial, estimate: Delay, search_space: SearchSpace) -> Trial:
    """Apply the estimated delay if it is clear and reduces the error on held-out blocks.

    The delay with the smallest error is not the true one: at reversals, friction that switches too early or too late
    compensates for a part of it. For the same reason, each of the two trials that are compared has its own best
    direction of friction. Other possible delays must reduce the error by a tenth: in logs without noise, they are more
    accurate than the estimate. If the estimate is not clear, as in short logs, any delay must.
    """
    best_without = without = best.with_conditioning(delay_s=0.0)
    delayed = best.with_conditioning(delay_s=estimate.seconds)
    other = _best_delay(trials, delayed, estimate.possible)
    if _gain([trials], delayed, other).mean > DELAY_GAIN:
        delayed = other
    if search_space.friction:
        best_without, delayed = (_better_trial(trials, k, _directions(k), 1.0) for k in (without, delayed))
    least = SHAPE_GAIN if estimate.is_clear else DELAY_GAIN
    return delayed if _gain([trials], best_without, delayed).mean > least else without


def _best_delay(trials: Trials, start: Trial, possible: tuple[float, float]) -> Trial:
    """Return the trial whose delay has the smallest error: that of `start`, or one between two ends or near them."""
    from scipy.optimize import minimize_scalar

    low, high = (min(max(end, -MAX_DELAY_S), MAX_DELAY_S) for end in possible)
    delays = np.linspace(low, high, DELAYS_TRIED)
    coarse = _better_trial(trials, start, [start.with_conditioning(delay_s=float(delay)) for delay in delays], 1.0)
    centre, step = coarse.conditioning.motion_delay_s, float(delays[1] - delays[0])

    def squared_error(delay: float) -> float:
        return trials.score(start.with_conditioning(delay_s=float(delay))).criterion ** 2

    options = {"xatol": SMALLEST_STEP / rate_of(start.conditioning)}
    found = minimize_scalar(squared_error, bounds=(centre - step, centre + step), method="bounded", options=options)
    return _better_trial(trials, coarse, [start.with_conditioning(delay_s=float(found.x))], 1.0)


def add_load_friction(trials: Trials, best: Trial) -> Trial:
    """Add load-dependent friction if it reduces the error, with equal or with different values for driving and braking
    loads.

    The reference of the load is the fit to all training rows, first without and then with such friction. Columns of
    held-out blocks therefore use only the rigid-body values of this fit. Load-dependent friction is excluded at joints
    where it would drive the joint, f_load < |f_driving|, or lock the gear, because it then represents another effect,
    such as a gain or a spring. It is also excluded at joints where it makes the prediction significantly worse. Errors
    are compared over several numbers of blocks.
    """
    if trials.regressor.load_obstacle() or isinf(trials.score(best).criterion):
        return best
    foldings = several_foldings(trials)
    taken, reference = best.friction.shapes, trials.reference(best)
    chosen = best
    for count in range(1, len(LOAD_SHAPES) + 1):
        shapes = (*taken, *LOAD_SHAPES[:count])
        without = chosen.friction.without
        wanted = best.with_friction(shapes=shapes, reference=reference, without=without)
        candidate = _select_braking_friction(trials, wanted)
        if candidate is None:
            continue
        score_all(foldings, [chosen, candidate])
        if _gain(foldings, chosen, candidate).is_significantly_above(LOAD_GAIN):
            chosen = _where_it_does_no_harm(foldings, chosen, candidate)
    if chosen is best:
        return best
    return chosen.with_friction(reference=trials.reference(chosen))


def _gain(foldings: Sequence[Trials], best: Trial, other: Trial) -> Gain:
    """Return how much lower the error of the other trial is."""
    return gain_of(*(scores(foldings, trial) for trial in (best, other)))


def _select_braking_friction(trials: Trials, trial: Trial) -> Trial | None:
    """Exclude load-dependent friction that would drive or lock a joint. Return None if no such friction remains.

    The difference between driving and braking loads is excluded first, because it acts like a gain; the common part is
    excluded next. Excluding some parameters may change the sign of others, so that this is repeated until no further
    parameter is excluded.
    """
    excluded: set[tuple[str, str]] = set()
    while True:
        values = {
            (parameter.load_shape, parameter.link_or_joint): v
            for parameter, v in trials.values(trial, excluded).items()
            if parameter.load_shape
        }
        if not values:
            return None
        more = set()
        for joint in {joint for _, joint in values}:
            mean, half = values.get(("load", joint), 0.0), values.get(("driving", joint), 0.0)
            impossible = {
                "load": not SAME_VALUES < mean < SELF_LOCKING,  # rounding may make a value at its limit positive
                "driving": not abs(half) <= mean < SELF_LOCKING - abs(half),
            }
            more |= {
                (joint, shape)
                for shape in LOAD_SHAPES
                if (shape, joint) in values and (impossible[shape] or impossible["load"])
            }
        if not more:
            return trial.with_settings(friction=trial.friction.exclude(excluded, _driven_joints(trials)))
        excluded |= more


def _driven_joints(trials: Trials) -> list[str]:
    return [drive.joint for drive in trials.regressor.robot.drives]


def _select_shapes(trials: Trials, best: Trial) -> Trial:
    """Add friction shapes one by one as long as they reduce the error over all joints and several numbers of blocks.

    A shape is excluded at joints where it makes the prediction significantly worse. A shape is not added for a single
    joint alone, because among many joints and shapes, some pair always gains by chance.
    """
    foldings = several_foldings(trials)
    loaded = len([name for name in best.friction.shapes if name in LOAD_SHAPES])
    for _ in range(MOST_SHAPES - loaded):
        taken = best.friction.shapes
        others = [best.with_friction(shapes=(*taken, name)) for name in FITTED_SHAPES if name not in taken]
        score_all(foldings, [best, *others])
        other = min(others, key=lambda candidate: error_over(scores(foldings, candidate)))
        if not _gain(foldings, best, other).is_significantly_above(SHAPE_GAIN):
            break
        best = _where_it_does_no_harm(foldings, best, other)
    return best


def _where_it_does_no_harm(foldings: Sequence[Trials], best: Trial, other: Trial) -> Trial:
    """Return the other trial, with its new shapes excluded at joints whose error they increase significantly."""
    new = [shape for shape in other.friction.shapes if shape not in best.friction.shapes]
    pair = scores(foldings, other), scores(foldings, best)
    names = foldings[0].regressor.joint_names
    worse = [name for joint, name in enumerate(names) if joint_gain(*pair, joint).is_significant]
    joints = _driven_joints(foldings[0])
    friction = other.friction.exclude([(joint, shape) for joint in worse for shape in new], joints)
    return other.with_settings(friction=friction)
