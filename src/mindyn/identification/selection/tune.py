"""`tuned`: settings chosen inside the training rows, one group after another, by cross-validated error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isinf, log
from typing import Final

from mindyn.identification.selection.scores import Gain, error_over, gain_of
from mindyn.identification.selection.trials import Setting, Trials, rate_of, score_all, scores, with_changes
from mindyn.logs.conditioning import require_resolved
from mindyn.parameters.parameter import Kind
from mindyn.regression.friction import SHAPES, Friction
from mindyn.robots.friction_laws import LOAD_SHAPES

Progress = Callable[[str], None]

LOWEST_HZ: Final = 0.5
HIGHEST: Final = 0.4
"""Cut-offs are tried from `LOWEST_HZ` to this part of the rate; above it, no filter."""
COARSE: Final = 2.0
FINER: Final = (2.0**0.5, 2.0**0.25)
"""Factors between the cut-offs tried, first over the whole range, then about the best."""
MOTION_TO_FILTER: Final = 2.5
"""The motion's own cut-off in multiples of the parallel filter's while that one is chosen."""
TANH_WIDTHS: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
STOP_WIDTHS: Final = (1e-6, 1e-5, 1e-4, 1e-3)
GRID_REFINEMENTS: Final = 10.0**0.5
"""Factor between the widths of a stop in the end."""
SLOW_SPEEDS: Final = (None, 0.01, 0.02, 0.05)
"""Rows of a joint that is not faster, rad/s, are left out of the fit: stiction there is no function of the speed."""
MIN_GAIN: Final = 0.995
"""A setting that adds freedom is taken when it lowers the error to less than this part."""
SHAPE_GAIN: Final = -log(MIN_GAIN)
"""The same as a gain over several numbers of blocks, which must be sure as well."""
LOAD_GAIN: Final = -log(0.98)
"""The same of friction that grows with the load, one or two parameters at every joint, which gears either have by much
or not at all."""
SELF_LOCKING: Final = 1.0
"""Part of the load that friction takes in a gear that no load can turn: an arm whose links move its motors has less."""
MOST_SHAPES: Final = 2
FOLDINGS: Final = (3, 4, 5, 8)
MOST_DROPPED: Final = 0.6
"""Part of the parameters that may be left out."""
DROPPED_TOGETHER: Final[tuple[tuple[Kind, ...], ...]] = (("rotor",), ("offset",), ("rotor", "offset"))
"""Kinds of parameters that an arm may do without: rotors that its links' inertia stands in for, offsets of friction."""
DELAY_STEPS: Final = 12
MIN_DELAY_GAIN_FRACTION: Final = 0.9
"""Part to which a delay lowers the error that is taken before friction is looked at."""


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """What may be chosen; the rest of the setting stays as given.

    highest_filter_hz  the highest cut-off of the parallel filter that may be chosen; None: any, or no filter
    """

    cutoff: bool = True
    velocity: bool = True
    delay: bool = True
    filter: bool = True
    friction: bool = True
    rotors: bool = True
    highest_filter_hz: float | None = None

    @property
    def anything(self) -> bool:
        """Whether there is something to choose."""
        return self.cutoff or self.velocity or self.delay or self.filter or self.friction or self.rotors


def tune_settings(trials: Trials, start: Setting, search_space: SearchSpace, progress: Progress) -> Setting:
    """The setting after two rounds through filter, delay and friction's direction; then shapes and rotor inertia."""
    best, timed = start, trials.along_time()
    for _ in range(2):
        best = _filters(timed, best, search_space)
        progress(_line("filter", timed, best))
        if search_space.delay:
            # A delay that matters comes first: friction that turns over early or late would stand in for it.
            moved = _delay(timed, best)
            best = (
                moved if timed.score(moved).criterion < MIN_DELAY_GAIN_FRACTION * timed.score(best).criterion else best
            )
        if search_space.friction:
            best = _better(timed, best, _directions(best), 1.0)
            best = _better(timed, best, [with_changes(best, slow_speed=v) for v in SLOW_SPEEDS], MIN_GAIN)
            progress(_line("friction", timed, best))
        if search_space.delay:
            best = _delay(timed, best)
            progress(_line("delay", timed, best))
    if search_space.friction:
        best = _shapes(trials, add_load_friction(trials, best))
        progress(_line("friction shape", trials, best))
    if search_space.rotors:
        best = _better(trials, best, [replace(best, without=kinds) for kinds in DROPPED_TOGETHER], 1.0)
    if search_space.rotors:
        best = _essential(trials, best, search_space)
        progress(_line(f"{best.dropped} parameters left out", trials, best))
    return best


def _essential(trials: Trials, best: Setting, search_space: SearchSpace) -> Setting:
    """Leaves out as many of the least supported parameters as predict unseen motion best.

    Few large blocks hold out motion unlike the rest, many small ones motion like it: settings that differ in freedom
    are compared over several numbers of blocks, by the geometric mean of their errors. Delay, slow rows and the way
    friction turns over, which one number of blocks may choose to fit its own noise, are looked at again.
    """
    foldings = _foldings(trials)
    best, error = _least_supported(foldings, best)
    for look in (_no_delay, _other_slow_speeds, _stops):
        for other in look(best, search_space):
            found, found_error = _least_supported(foldings, other)
            if found_error < (MIN_GAIN if look is _stops else 1.0) * error:
                best, error = found, found_error
    if trials.timeline.repeated:
        # Phases are other motions, times the same one again, which will be asked for as well.
        both = [*foldings, *(one.along_time() for one in foldings)]
        best, _ = _least_supported(both, best)
    return best


def _foldings(trials: Trials) -> list[Trials]:
    """Several numbers of blocks."""
    return [trials.with_folds(folds) for folds in FOLDINGS]


def _least_supported(foldings: Sequence[Trials], setting: Setting) -> tuple[Setting, float]:
    """The setting with the best number of parameters dropped, and its error over all foldings."""
    parameters = foldings[0].regressor.with_friction(setting.friction).parameters
    count = len(setting.with_settings_of(parameters))
    others = [replace(setting, dropped=k) for k in range(max(1, round(MOST_DROPPED * count)))]
    errors = [_error(foldings, other) for other in reversed(others)][::-1]  # the first of them tells all
    return others[errors.index(min(errors))], min(errors)


def _no_delay(best: Setting, search_space: SearchSpace) -> list[Setting]:
    return [with_changes(best, delay_s=0.0)] if search_space.delay and best.conditioning.delay_s else []


def _other_slow_speeds(best: Setting, search_space: SearchSpace) -> list[Setting]:
    known = best.conditioning.slow_speed
    return [with_changes(best, slow_speed=v) for v in SLOW_SPEEDS if v != known] if search_space.friction else []


def _stops(best: Setting, search_space: SearchSpace) -> list[Setting]:
    """Presliding friction, between the widths tried before; of a stop, the widths next to its own."""
    if not search_space.friction:
        return []
    friction = best.friction
    widths = (*STOP_WIDTHS, *(width * GRID_REFINEMENTS for width in STOP_WIDTHS[:-1]))
    if friction.direction == "stop":
        widths = (friction.width / GRID_REFINEMENTS, friction.width * GRID_REFINEMENTS)
    return [replace(best, friction=replace(friction, direction="stop", width=width)) for width in sorted(widths)]


def _line(what: str, trials: Trials, setting: Setting) -> str:
    score = trials.score(setting)
    return f"{what}: cross-validated error {100 * score.total:.2f} % total, {100 * score.mean:.2f} % mean over joints"


def _better(trials: Trials, best: Setting, others: Iterable[Setting], factor: float) -> Setting:
    """The best of the others if it beats `factor` times the error of `best`, else `best`."""
    listed = [best, *others]
    errors = [score.criterion for (score,) in score_all([trials], listed)]
    k = min(range(1, len(listed)), key=errors.__getitem__, default=0)
    return listed[k] if errors[k] < factor * errors[0] else best


def _filters(trials: Trials, best: Setting, search_space: SearchSpace) -> Setting:
    rate, highest = rate_of(best.conditioning), search_space.highest_filter_hz
    if search_space.filter:
        if highest is not None and best.filter_hz is None:
            best = _with_filters(best, [highest], search_space)[0]
        best = _better(trials, best, _with_filters(best, _grid(rate, COARSE), search_space), 1.0)
        for step in FINER:
            if best.filter_hz is not None:
                near = [best.filter_hz / step, best.filter_hz * step]
                best = _better(trials, best, _with_filters(best, near, search_space), 1.0)
    if search_space.cutoff:
        # The motion alone may want a filter: noise of its derivatives, while torque jumps with the friction.
        filters = {best.filter_hz, None} if search_space.filter and highest is None else {best.filter_hz}
        kinds = [replace(best, filter_hz=f) for f in filters]
        others = [with_changes(one, position_cutoff_hz=f) for one in kinds for f in _grid(rate, COARSE)]
        best = _better(trials, best, others, 1.0)
    if search_space.velocity:
        others = [with_changes(best, velocity=origin) for origin in ("differentiated", "measured")]
        best = _better(trials, best, others, 1.0)
    return best


def _grid(rate: float, step: float) -> list[float | None]:
    """No filter, then cut-offs over the whole range."""
    values: list[float | None] = [None]
    f = LOWEST_HZ
    while f < HIGHEST * rate:
        values.append(f)
        f *= step
    return values


def _with_filters(best: Setting, filters: Sequence[float | None], search_space: SearchSpace) -> list[Setting]:
    """Candidates of the parallel filter; while the motion's cut-off is free it goes along."""
    made = []
    highest, bound = HIGHEST * rate_of(best.conditioning), search_space.highest_filter_hz
    for f in filters:
        if (f is not None and f > highest) or (bound is not None and (f is None or f > bound)):
            continue
        one = replace(best, filter_hz=f)
        if search_space.cutoff:
            motion = None if f is None or MOTION_TO_FILTER * f > highest else MOTION_TO_FILTER * f
            one = with_changes(one, position_cutoff_hz=motion)
        made.append(one)
    return made


def _directions(best: Setting) -> list[Setting]:
    kinds = [Friction("sign"), *(Friction("tanh", w) for w in TANH_WIDTHS), *(Friction("stop", w) for w in STOP_WIDTHS)]
    return [replace(best, friction=replace(best.friction, direction=k.direction, width=k.width)) for k in kinds]


def _delay(trials: Trials, best: Setting) -> Setting:
    """The delay that the smooth torque asks for, over the whole range; then steps either way while they help.

    A search from no delay ends in the nearest valley, where friction that turns over early stands in for a part of the
    delay. The scan leaves out rows in which it turns over (`DelayScan`); what it finds must predict held-out blocks
    better, like any other step.
    """
    scanned = require_resolved(best.conditioning.delay_s, "delay_s") + trials.delays(best).best().seconds
    best = _better(trials, best, [with_changes(best, delay_s=scanned)], 1.0)
    rate = rate_of(best.conditioning)
    step = 1 / (20 * min(best.filter_hz or 0.2 * rate, 0.2 * rate))
    smallest = step / 5
    for _ in range(DELAY_STEPS):
        now = best.conditioning.delay_s
        assert not isinstance(now, str)
        moved = _better(
            trials, best, [with_changes(best, delay_s=now + step), with_changes(best, delay_s=now - step)], 1.0
        )
        if moved is best:
            step /= 2
            if step < smallest:
                break
        best = moved
    now = best.conditioning.delay_s
    without = with_changes(best, delay_s=0.0)
    return best if trials.score(best).criterion < MIN_GAIN * trials.score(without).criterion else without


def add_load_friction(trials: Trials, best: Setting) -> Setting:
    """Friction that grows with the load, alike or not while the load is driven and braked, where it predicts better.

    The reference of the load is what all training rows ask for without such friction, and then with it: the columns
    of blocks that are held out have seen no other torque of theirs than that of the rigid links. At joints where it
    would drive, f_load < |f_driving|, or lock the gear, it is something else, a gain or a spring, and is left out. It
    is freedom at every joint, so that it is compared over several numbers of blocks, as parameters to be left out are.
    """
    if trials.regressor.load_obstacle() or isinf(trials.score(best).criterion):
        return best
    foldings = _foldings(trials)
    taken, reference = best.friction.shapes, trials.reference(best)
    found = best
    for count in range(1, len(LOAD_SHAPES) + 1):
        shapes = (*taken, *LOAD_SHAPES[:count])
        wanted = replace(best, friction=replace(best.friction, shapes=shapes, reference=reference))
        one = _braking(trials, wanted)
        if one is not None and _gain(foldings, found, one).is_significantly_above(LOAD_GAIN):
            found = one
    if found is best:
        return best
    return replace(found, friction=replace(found.friction, reference=trials.reference(found)))


def _error(foldings: Sequence[Trials], setting: Setting) -> float:
    """Geometric mean of the errors over several numbers of blocks."""
    return error_over(scores(foldings, setting))


def _gain(foldings: Sequence[Trials], best: Setting, other: Setting) -> Gain:
    """By how much the other setting predicts better."""
    return gain_of(*(scores(foldings, setting) for setting in (best, other)))


def _braking(trials: Trials, setting: Setting) -> Setting | None:
    """The setting without load-dependent friction where it would drive or lock a joint; None where that is all of it.

    First the difference of driven and braked loads goes, which is told like a gain, then the rest. What is left
    may change sign when some go: as often as there are such parameters, at most.
    """
    regressor = trials.regressor.with_friction(setting.friction)
    joints = {one.link_or_joint for one in regressor.parameters if one.load_shape}
    for _ in range(len(LOAD_SHAPES) * len(joints)):
        values = {(one.load_shape, one.link_or_joint): (one.name, v) for one, v in trials.values(setting).items()}
        gone = []
        for joint in joints:
            own = {shape: values[shape, joint] for shape in LOAD_SHAPES if (shape, joint) in values}
            (_, mean), (_, half) = own["load"], own.get("driving", ("", 0.0))
            impossible = {
                "load": not 0 < mean < SELF_LOCKING,
                "driving": not abs(half) <= mean < SELF_LOCKING - abs(half),
            }
            gone += [name for shape, (name, _) in own.items() if impossible[shape] or impossible["load"]]
        if set(gone) <= set(setting.driving):
            break
        setting = replace(setting, driving=tuple(sorted({*setting.driving, *gone})))
    names = {one.name for one in regressor.parameters if one.load_shape}
    return None if names <= set(setting.driving) else setting


def _shapes(trials: Trials, best: Setting) -> Setting:
    """Further friction laws, one after another, while they predict better over several numbers of blocks.

    A law of the speed is freedom at every joint, and one that fits the speeds of its own log may be far off at others.
    """
    foldings = _foldings(trials)
    loaded = len([name for name in best.friction.shapes if name in LOAD_SHAPES])
    for _ in range(MOST_SHAPES - loaded):
        taken = best.friction.shapes
        others = [
            replace(best, friction=replace(best.friction, shapes=(*taken, name)))
            for name in SHAPES
            if name not in taken
        ]
        score_all(foldings, [best, *others])
        other = min(others, key=lambda one: _error(foldings, one))
        if not _gain(foldings, best, other).is_significantly_above(SHAPE_GAIN):
            break
        best = other
    return best
