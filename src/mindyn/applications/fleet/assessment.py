"""`assess_fleet`: find robots that differ from the type or drift significantly, and the cause.

For every robot and cause the size is fitted to all of its logs, and again without each log in turn: the jackknife over
logs gives its variance, without a model of the noise within a log. Variances of few logs are moderated towards those of
the other robots [Smyth 2004]. The size of a robot is compared with the median of the fleet; differences between healthy
robots, by a robust estimate, count as variance. Friction and offset of every joint belong to the individual robot:
while another cause is tested they are fitted too, as random effects with the variance of healthy robots. As free
parameters, they would absorb most of a shifted zero, whose torque is nearly constant, and the study would report an
offset instead.

Several causes can explain one fault: of the significant ones, the cause with the smallest misfit (squared, with that of
the random effects) comes first, and others are tested in addition to it. The p-values of all robots and causes together
keep one family-wise error rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from mindyn.applications.fleet.fleet_causes import FleetCause, FleetCauses, LogEvidence
from mindyn.applications.fleet.size_distribution import (
    MIN_ROBOTS,
    FittedSize,
    SizeDistribution,
    biweight_variance,
    fit_distribution,
)
from mindyn.foundation.algebra.values import Array

FAMILY_WISE_ERROR: Final = 0.01
"""Probability that a study reports any false difference."""
MAX_WATCHED_CHANCE: Final = 0.2
"""Largest probability of a chance result up to which a difference that is not significant is mentioned."""
MIN_LOGS: Final = 3
MIN_SECOND_CAUSE_FRACTION: Final = 0.1
"""Smallest improvement by another cause, relative to the first: a large fault is not exactly along one direction."""
MIN_BETWEEN_FRACTION: Final = 0.01
"""Smallest variance between robots relative to that of the fit of one robot: less is not observable."""
UNDECIDED_MISFIT: Final = 10.0
"""Difference of misfit, in units of noise, above which the other causes are ruled out: odds of 150 to 1."""
MAX_CAUSES: Final = 3
MIN_DRIFT_DAYS: Final = 3
"""Smallest number of different days for a test of drift."""


DIFFERENCE_COLUMNS: Final = (
    *("robot", "what", "where", "drift", "size", "deviation", "unit", "p", "alternatives", "sentence"),
)


@dataclass(frozen=True, slots=True, eq=False)
class RobotDifference:
    """Robot that differs from its type.

    cause         what differs
    drift         whether it changes with time; sizes are then per year
    size          difference from the median of the fleet
    deviation     standard deviation of the size, including differences between healthy robots
    p             probability of such a size by chance, for this one test
    alternatives  other causes that the logs cannot distinguish from this one
    """

    robot: str
    cause: FleetCause
    drift: bool
    size: float
    deviation: float
    p: float
    alternatives: tuple[FleetCause, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the difference for JSON and tables."""
        unit = f"{self.cause.unit or 'of the type'}{'/year' if self.drift else ''}"
        others = "; ".join(f"{other.what} of {other.where}" for other in self.alternatives)
        place = (self.robot, self.cause.what, self.cause.where, self.drift)
        values = (*place, self.size, self.deviation, unit, self.p, others, self.sentence)
        return dict(zip(DIFFERENCE_COLUMNS, values, strict=True))

    @property
    def sentence(self) -> str:
        """Return a sentence about the difference."""
        others = " or ".join(
            f"{'' if cause.what == 'payload' else 'the '}{cause.what} of {cause.where}" for cause in self.alternatives
        )
        return f"{self._named} (or {others}: the logs cannot distinguish them)" if others else self._named

    @property
    def _named(self) -> str:
        where, sign = self.cause.where, "more" if self.size > 0 else "less"
        if self.cause.what == "friction":
            if self.drift:
                verb = "increases" if self.size > 0 else "decreases"
                return f"friction of {where} {verb} by {100 * abs(self.size):.3g} % of that of the type per year"
            return f"friction of {where} is {100 * abs(self.size):.3g} % {sign} than that of the type"
        amount = f"{abs(self.size):.3g} {self.cause.unit}"
        if self.cause.what == "payload":
            return f"{where} carries {amount} {sign} than the type: an unknown payload?"
        if self.drift:
            return f"{self.cause.what} of {where} drifts by {self.size:+.3g} {self.cause.unit} per year"
        if self.cause.what == "zero":
            return f"zero of {where} is off by {self.size:+.3g} {self.cause.unit} (true minus logged position)"
        return f"offset of {where} differs by {self.size:+.3g} {self.cause.unit}"


DAYS_PER_YEAR: Final = 365.25
Test = tuple[int, bool]
"""Number of a cause, and whether its drift is tested."""


class FleetAssessment(NamedTuple):
    """Result of the tests of all robots.

    named    significant differences, smallest probability first
    nearest  most significant difference of a robot that is not named; None if no other robot was tested
    chance   probability that a fleet of healthy robots shows a difference like `nearest`
    """

    named: tuple[RobotDifference, ...]
    nearest: RobotDifference | None
    chance: float

    @property
    def watch_note(self) -> str:
        """Return a sentence about `nearest` if it is nearly significant, else an empty string."""
        if self.nearest is None or self.chance > MAX_WATCHED_CHANCE:
            return ""
        return (
            f"not significant, but worth watching: {self.nearest.robot}, {self.nearest.sentence}; "
            f"{100 * self.chance:.2g} % of healthy fleets show this by chance, the limit is "
            f"{100 * FAMILY_WISE_ERROR:g} %; more logs would decide"
        )


def assess_fleet(causes: FleetCauses, evidence: Mapping[str, Sequence[LogEvidence]]) -> FleetAssessment:
    """Find robots that differ or drift significantly; `evidence` has every log of every robot."""
    effects = _fit_random_effects(causes, evidence)
    tests = [(k, False) for k in range(len(causes.listed))] if len(evidence) >= MIN_ROBOTS else []
    tests += [(k, True) for k, cause in enumerate(causes.listed) if cause.drifts]
    sizes = {test: {robot: _fit_size(effects, logs, [], test) for robot, logs in evidence.items()} for test in tests}
    fleets = {
        test: fit_distribution(known)
        for test, by_robot in sizes.items()
        if (known := [size for size in by_robot.values() if size is not None])
    }
    count = max(1, sum(size is not None for by_robot in sizes.values() for size in by_robot.values()))
    named: list[RobotDifference] = []
    others: list[RobotDifference] = []
    for robot, logs in evidence.items():
        alone = {test: by_robot[robot] for test, by_robot in sizes.items()}
        of_robot = list(_find_causes(robot, logs, effects, fleets, alone, FAMILY_WISE_ERROR / count))
        named += of_robot
        if not of_robot:
            tried = (_compare_with_fleet(robot, causes, test, alone[test], fleet) for test, fleet in fleets.items())
            others += [difference for difference in tried if difference is not None]
    nearest = min(others, key=lambda difference: difference.p, default=None)
    chance = 1.0 if nearest is None else min(1.0, count * nearest.p)
    order = sorted(named, key=lambda d: (d.p, -abs(d.size / d.deviation), d.robot))
    return FleetAssessment(tuple(order), nearest, chance)


def _compare_with_fleet(
    robot: str, causes: FleetCauses, test: Test, size: FittedSize | None, fleet: SizeDistribution
) -> RobotDifference | None:
    """Compare a robot's difference with the fleet; return None if its logs do not determine it."""
    from scipy import stats

    if size is None:
        return None
    deviation, freedom = fleet.deviation(size)
    value = size.value - fleet.centre
    p = float(2 * stats.t.sf(abs(value) / deviation, freedom))
    return RobotDifference(robot, causes.listed[test[0]], test[1], value, deviation, p)


def _find_causes(
    robot: str,
    logs: Sequence[LogEvidence],
    effects: _RandomEffects,
    fleets: Mapping[Test, SizeDistribution],
    alone: Mapping[Test, FittedSize | None],
    limit: float,
) -> Iterator[RobotDifference]:
    """Yield the causes that explain most, each tested in addition to those before it.

    `alone` are the sizes without another cause.
    """
    accepted: list[Test] = []
    first = 0.0
    while len(accepted) < MAX_CAUSES:
        significant: list[tuple[float, Test, RobotDifference]] = []
        for test, fleet in fleets.items():
            if any(test[0] == number for number, _ in accepted):
                continue
            size = _fit_size(effects, logs, accepted, test) if accepted else alone[test]
            difference = _compare_with_fleet(robot, effects.causes, test, size, fleet)
            if size is not None and difference is not None and difference.p <= limit:
                significant.append((size.misfit, test, difference))
        if not significant:
            return
        misfit, test, difference = min(significant, key=lambda candidate: candidate[:2])
        explained = _misfit(effects, logs, accepted) - misfit
        first = first or explained
        if explained < MIN_SECOND_CAUSE_FRACTION * first:
            return
        accepted.append(test)
        near = {number for other, (number, _), _ in significant if other - misfit < UNDECIDED_MISFIT * effects.unit}
        others = sorted(near - {test[0]})
        yield replace(difference, alternatives=tuple(effects.causes.listed[number] for number in others))


@dataclass(frozen=True, slots=True, eq=False)
class _RandomEffects:
    """Distribution of individual parameters among healthy robots: each adds the misfit weight (a - centre)^2.

    causes          all causes of the type
    centre, weight  (K,) of all directions; weight is zero if the variance is unknown, which leaves them free
    unit            misfit of one degree of freedom of noise
    """

    causes: FleetCauses
    centre: Array
    weight: Array
    unit: float


def _fit_random_effects(causes: FleetCauses, evidence: Mapping[str, Sequence[LogEvidence]]) -> _RandomEffects:
    """Fit the distribution robustly to the friction and offset of each robot.

    Misfits are in units of the weights of the residuals. If residuals are not white, the fits scatter more from log to
    log than these weights suggest. The variance between robots is then measured in units of this ratio.
    """
    K, columns = causes.directions.shape[1], [cause.columns[0] for cause in causes.individual]
    nothing = np.zeros(K)
    fits = []
    for logs in evidence.values():
        if len(logs) >= MIN_LOGS and columns:
            H = np.array([log.H[np.ix_(columns, columns)] for log in logs])
            fit = _jackknife(H, np.array([log.s[columns] for log in logs]))
            if fit is not None:
                fits.append((*fit, np.diag(np.linalg.inv(H.sum(axis=0)))))
    if len(fits) < MIN_ROBOTS:
        return _RandomEffects(causes, nothing, nothing, 1.0)
    values, variances, expected = (np.array(column) for column in zip(*fits, strict=True))
    centre, typical = np.median(values, axis=0), np.median(variances, axis=0)
    between = np.maximum(biweight_variance(values) - typical, MIN_BETWEEN_FRACTION * typical)
    unit = float(np.median(variances / expected))
    centres, weights = nothing.copy(), nothing.copy()
    centres[columns], weights[columns] = centre, unit / between
    return _RandomEffects(causes, centres, weights, unit)


def _fit_size(
    effects: _RandomEffects, logs: Sequence[LogEvidence], accepted: Sequence[Test], test: Test
) -> FittedSize | None:
    """Fit the size of a cause together with the accepted causes; return None if the logs do not determine it."""
    drifting = test[1] or any(drift for _, drift in accepted)
    days = np.array([log.day for log in logs])
    freedom = len(logs) - (2 if test[1] else 1)
    if freedom < MIN_LOGS - 1 or (drifting and (~np.isfinite(days)).any()):
        return None
    if test[1] and len(np.unique(np.floor(days))) < MIN_DRIFT_DAYS:
        return None
    problem = _CauseFit.of(effects, logs, [test, *accepted])
    fit = _jackknife(problem.H, problem.s, problem.weight)
    if fit is None:
        return None
    values, variances = fit
    return FittedSize(float(values[0]), float(variances[0]), freedom, problem.misfit(values))


def _misfit(effects: _RandomEffects, logs: Sequence[LogEvidence], accepted: Sequence[Test]) -> float:
    """Return the smallest misfit with accepted causes alone, relative to that of the values of the type."""
    problem = _CauseFit.of(effects, logs, accepted)
    values = _solve_normal(problem.H.sum(axis=0) + np.diag(problem.weight), problem.s.sum(axis=0)[None])
    return 0.0 if values is None else problem.misfit(values[0])


@dataclass(frozen=True, slots=True, eq=False)
class _CauseFit:
    """Causes and individual parameters fitted together: minimise a^T (H + weight) a - 2 s^T a + constant.

    H (logs, k, k), s (logs, k); each log has an equal part of the contribution of the weights to s
    """

    H: Array
    s: Array
    weight: Array
    constant: float

    @staticmethod
    def of(effects: _RandomEffects, logs: Sequence[LogEvidence], tests: Sequence[Test]) -> _CauseFit:
        """Build the fit with the columns of the causes first, in their order."""
        days = np.array([log.day for log in logs])
        drifting = any(drift for _, drift in tests)
        years = (days - days.mean()) / DAYS_PER_YEAR if drifting else np.zeros(len(logs))
        causes = effects.causes
        fixed: list[tuple[int, bool]] = []  # columns, and whether they grow with time: drifts first, then levels
        for number, drift in tests:
            own = causes.listed[number].columns
            fixed += [*([(own[0], True)] if drift else []), *((column, False) for column in own)]
        tested = {(causes.listed[number].what, causes.listed[number].where) for number, _ in tests}
        others = [(cause.columns[0], False) for cause in causes.individual if (cause.what, cause.where) not in tested]
        columns, grows = np.array([*fixed, *others], dtype=np.intp).reshape(-1, 2).T
        scale = np.where(grows, years[:, None], 1.0)
        H = np.array([log.H[np.ix_(columns, columns)] for log in logs]) * scale[:, :, None] * scale[:, None, :]
        s = np.array([log.s[columns] for log in logs]) * scale
        weight = effects.weight[columns]
        weight[: len(fixed)] = 0.0
        pulled = weight * effects.centre[columns]
        return _CauseFit(H, s + pulled / len(logs), weight, float(pulled @ effects.centre[columns]))

    def misfit(self, values: Array) -> float:
        """Return the misfit at the minimising values."""
        return self.constant - float(self.s.sum(axis=0) @ values)


def _jackknife(H: Array, s: Array, weight: Array | float = 0.0) -> tuple[Array, Array] | None:
    """Return the minimising values and their jackknife variances over logs; None if the logs do not determine them."""
    total, sums, count = H.sum(axis=0) + np.eye(H.shape[1]) * weight, s.sum(axis=0), len(H)
    values = _solve_normal(total, sums[None])
    left = None if values is None else _solve_normal(total - H, sums - s)
    if values is None or left is None:
        return None
    variances = (count - 1) / count * ((left - left.mean(axis=0)) ** 2).sum(axis=0)
    return values[0], np.maximum(variances, np.finfo(float).tiny)


def _solve_normal(H: Array, s: Array) -> Array | None:
    """Return (m, k) with H a = s, for one H or m of them; None if H is nearly singular."""
    first = H if H.ndim == 2 else H[0]
    if not s.shape[1]:
        return np.zeros_like(s)
    scale = np.sqrt(np.diag(first))
    if not (scale > 0).all():
        return None
    unit = scale[:, None] * scale
    try:
        if np.linalg.cond(first / unit) > 1e10:
            return None
        return np.asarray(np.linalg.solve(H / unit, (s / scale)[:, :, None])[:, :, 0] / scale)
    except np.linalg.LinAlgError:
        return None
