"""`tuned`: settings chosen inside the training rows, one group after another, by cross-validated error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindyn.estimators.trials import Setting, Trials, changed, rate_of
from mindyn.regression.friction import SHAPES, Friction

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
WORTHWHILE: Final = 0.995
"""A setting that adds freedom is taken when it lowers the error to less than this part."""
MOST_SHAPES: Final = 2
DELAY_STEPS: Final = 12


@dataclass(frozen=True, slots=True)
class Freedom:
    """What may be chosen; the rest of the setting stays as given."""

    cutoff: bool = True
    velocity: bool = True
    delay: bool = True
    filter: bool = True
    friction: bool = True
    rotors: bool = True


def tuned(trials: Trials, start: Setting, freedom: Freedom, progress: Progress) -> Setting:
    """The setting after two rounds through filter, friction direction, motion, delay; then shapes and rotor inertia."""
    best = start
    for _ in range(2):
        best = _filters(trials, best, freedom)
        progress(_line("filter", trials, best))
        if freedom.friction:
            best = _better(trials, best, _directions(best), 1.0)
            progress(_line("friction", trials, best))
        if freedom.delay:
            best = _delay(trials, best)
            progress(_line("delay", trials, best))
    if freedom.friction:
        best = _shapes(trials, best)
    if freedom.rotors:
        best = _better(trials, best, [replace(best, without=("Im",))], 1.0)
    progress(_line("friction shape", trials, best))
    if freedom.rotors:
        best = _essential(trials, best)
        progress(_line(f"{best.dropped} parameters left out", trials, best))
    return best


def _essential(trials: Trials, best: Setting) -> Setting:
    """Leaves out as many of the least supported parameters as can go without raising the error."""
    count = len(trials.regressor.with_friction(best.friction).names)
    others = [replace(best, dropped=k) for k in range(1, count // 2)]
    errors = [trials.score(one).criterion for one in others]
    allowed = min(trials.score(best).criterion, min(errors) / WORTHWHILE)
    fitting = [one for one, error in zip(others, errors, strict=True) if error <= allowed]
    return fitting[-1] if fitting else best


def _line(what: str, trials: Trials, setting: Setting) -> str:
    score = trials.score(setting)
    return f"{what}: cross-validated error {100 * score.total:.2f} % total, {100 * score.mean:.2f} % mean over joints"


def _better(trials: Trials, best: Setting, others: Iterable[Setting], factor: float) -> Setting:
    """The best of the others if it beats `factor` times the error of `best`, else `best`."""
    listed = [best, *others]
    errors = [trials.score(one).criterion for one in listed]
    k = min(range(1, len(listed)), key=errors.__getitem__, default=0)
    return listed[k] if errors[k] < factor * errors[0] else best


def _filters(trials: Trials, best: Setting, freedom: Freedom) -> Setting:
    rate = rate_of(best.conditioning)
    if freedom.filter:
        best = _better(trials, best, _with_filters(best, _grid(rate, COARSE), freedom), 1.0)
        for step in FINER:
            if best.filter_hz is not None:
                near = [best.filter_hz / step, best.filter_hz * step]
                best = _better(trials, best, _with_filters(best, near, freedom), 1.0)
    if freedom.cutoff:
        cutoffs: list[float | None] = [f for f in _grid(rate, COARSE) if f is None or f >= (best.filter_hz or 0.0)]
        best = _better(trials, best, [changed(best, position_cutoff_hz=f) for f in cutoffs], 1.0)
    if freedom.velocity:
        others = [changed(best, velocity=origin) for origin in ("differentiated", "measured")]
        best = _better(trials, best, others, 1.0)
    return best


def _grid(rate: float, step: float) -> list[float | None]:
    values: list[float | None] = [None]
    f = LOWEST_HZ
    while f < HIGHEST * rate:
        values.append(f)
        f *= step
    return values


def _with_filters(best: Setting, filters: Sequence[float | None], freedom: Freedom) -> list[Setting]:
    """Candidates of the parallel filter; while the motion's cut-off is free it goes along."""
    made = []
    highest = HIGHEST * rate_of(best.conditioning)
    for f in filters:
        if f is not None and f > highest:
            continue
        one = replace(best, filter_hz=f)
        if freedom.cutoff:
            motion = None if f is None or MOTION_TO_FILTER * f > highest else MOTION_TO_FILTER * f
            one = changed(one, position_cutoff_hz=motion)
        made.append(one)
    return made


def _directions(best: Setting) -> list[Setting]:
    kinds = [Friction("sign"), *(Friction("tanh", w) for w in TANH_WIDTHS), *(Friction("stop", w) for w in STOP_WIDTHS)]
    return [replace(best, friction=replace(best.friction, direction=k.direction, width=k.width)) for k in kinds]


def _delay(trials: Trials, best: Setting) -> Setting:
    """Pattern search: a step either way while it helps, then half the step."""
    rate = rate_of(best.conditioning)
    step = 1 / (20 * min(best.filter_hz or 0.2 * rate, 0.2 * rate))
    smallest = step / 5
    for _ in range(DELAY_STEPS):
        now = best.conditioning.delay_s
        assert not isinstance(now, str)
        moved = _better(trials, best, [changed(best, delay_s=now + step), changed(best, delay_s=now - step)], 1.0)
        if moved is best:
            step /= 2
            if step < smallest:
                break
        best = moved
    now = best.conditioning.delay_s
    without = changed(best, delay_s=0.0)
    return best if trials.score(best).criterion < WORTHWHILE * trials.score(without).criterion else without


def _shapes(trials: Trials, best: Setting) -> Setting:
    for _ in range(MOST_SHAPES):
        taken = best.friction.shapes
        others = [
            replace(best, friction=replace(best.friction, shapes=(*taken, name)))
            for name in SHAPES
            if name not in taken
        ]
        moved = _better(trials, best, others, WORTHWHILE)
        if moved is best:
            break
        best = moved
    return best
