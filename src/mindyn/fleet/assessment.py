"""`judge`: who differs from the type, or drifts, beyond what chance explains, and by which cause.

For every robot and cause the size is fitted to all of its logs, and again without each log in turn: the jackknife over
logs gives its variance, whatever the noise within a log is like. Variances of few logs are moderated towards those of
the other robots [Smyth 2004]. A robot's size is compared with the fleet's median; what healthy robots differ by among
themselves, by a robust estimate, counts as variance. Friction and offset of every joint are each robot's own: while
another cause is judged they are fitted beside it, as random effects that healthy robots' spread holds together. Left
free, they would take the greater part of a shifted zero, whose torque is nearly constant: an offset would be named.

Several causes explain one fault: of those that are beyond chance, the one that leaves the least misfit (squared, and
that of the random effects with it) comes first, others are judged beside it. The p-values of all robots and causes
together keep to one family-wise error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

from mindyn.algebra.values import Array
from mindyn.fleet.causes import FleetCause, FleetCauses, LogEvidence
from mindyn.fleet.size_distribution import MIN_ROBOTS, FittedSize, SizeDistribution, biweight_variance, fit_distribution

FAMILY_WISE_ERROR: Final = 0.01
"""Probability that a run names anything that is not so."""
MAX_WATCHED_CHANCE: Final = 0.2
"""Probability by chance up to which what was not named is worth a line."""
MIN_LOGS: Final = 3
MIN_SECOND_CAUSE_FRACTION: Final = 0.1
"""A second cause explains at least this part of what the first does: a large fault leaves more than directions tell."""
MIN_BETWEEN_FRACTION: Final = 0.01
"""Least spread between robots, as part of the variance of one robot's fit: less cannot be told from none."""
UNDECIDED_MISFIT: Final = 10.0
"""Misfit, in units of noise, by which a cause must be the better one before the others are ruled out: 150 to 1."""
MAX_CAUSES: Final = 3
MIN_DRIFT_DAYS: Final = 3
"""Different days from which a drift can be told."""


@dataclass(frozen=True, slots=True, eq=False)
class RobotDifference:
    """One robot that is not as its type is.

    cause      by which
    drift      whether it changes with time; then sizes are per year
    size       less the fleet's median
    deviation  standard deviation of the size, healthy differences between robots included
    p          probability of as large a size by chance, for this one test
    days       when the robot's logs were made; None where nothing says so
    or_else    other causes that the logs cannot tell from this one
    """

    robot: str
    cause: FleetCause
    drift: bool
    size: float
    deviation: float
    p: float
    days: tuple[float, float] | None
    alternatives: tuple[FleetCause, ...] = ()

    @property
    def sentence(self) -> str:
        """What a person reads."""
        others = " or ".join(
            f"{'' if one.what == 'payload' else 'the '}{one.what} of {one.where}" for one in self.alternatives
        )
        return f"{self._named} (or {others}: the logs cannot tell)" if others else self._named

    @property
    def _named(self) -> str:
        where, sign = self.cause.where, "more" if self.size > 0 else "less"
        if self.cause.what == "friction":
            if self.drift:
                turns = "grows" if self.size > 0 else "falls"
                return f"friction of {where} {turns} by {100 * abs(self.size):.3g} % of the type's a year"
            return f"friction of {where} is {100 * abs(self.size):.3g} % {sign} than the type's"
        amount = f"{abs(self.size):.3g} {self.cause.unit}"
        if self.cause.what == "payload":
            return f"{amount} {sign} hang on {where} than on the type: a payload that is not stated?"
        if self.drift:
            return f"{self.cause.what} of {where} drifts by {self.size:+.3g} {self.cause.unit} a year"
        if self.cause.what == "zero":
            return f"zero of {where} is off by {self.size:+.3g} {self.cause.unit} (true less logged position)"
        return f"offset of {where} differs by {self.size:+.3g} {self.cause.unit}"


DAYS_PER_YEAR: Final = 365.25
Test = tuple[int, bool]
"""Number of a cause, and whether its drift is meant."""


class FleetAssessment(NamedTuple):
    """What a run says of its robots.

    named    what is beyond chance, the most certain first
    nearest  of a robot that is not named, what came nearest to it; None where nobody else was judged
    chance   probability that a fleet of healthy robots shows as much as the nearest somewhere
    """

    named: tuple[RobotDifference, ...]
    nearest: RobotDifference | None
    chance: float

    @property
    def watch_note(self) -> str:
        """A sentence on the nearest where it is worth watching, else empty."""
        if self.nearest is None or self.chance > MAX_WATCHED_CHANCE:
            return ""
        return (
            f"not named, but near it: {self.nearest.robot}, {self.nearest.sentence}; of healthy fleets like this one "
            f"{100 * self.chance:.2g} % show as much by chance, and what is named is below {100 * FAMILY_WISE_ERROR:g} %: "
            "more logs of it would tell"
        )


def assess_fleet(causes: FleetCauses, evidence: Mapping[str, Sequence[LogEvidence]]) -> FleetAssessment:
    """Who differs or drifts beyond chance.

    evidence  of every log of every robot
    """
    tests = _list_tests(causes, evidence)
    own = _fit_random_effects(causes, evidence)
    sizes = {
        test: {robot: _fit_size(causes, own, logs, [], test) for robot, logs in evidence.items()} for test in tests
    }
    fleets = {
        test: fit_distribution([one for one in found.values() if one is not None]) for test, found in sizes.items()
    }
    count = max(1, sum(one is not None for found in sizes.values() for one in found.values()))
    named: list[RobotDifference] = []
    others: list[RobotDifference] = []
    for robot, logs in evidence.items():
        alone = {test: found[robot] for test, found in sizes.items()}
        of_robot = list(_find_causes(robot, logs, causes, own, fleets, alone, FAMILY_WISE_ERROR / count))
        named += of_robot
        if not of_robot:
            tried = (_compare_with_fleet(robot, logs, causes, test, alone[test], fleets[test]) for test in tests)
            others += [one for one in tried if one is not None]
    nearest = min(others, key=lambda one: one.p, default=None)
    chance = 1.0 if nearest is None else min(1.0, count * nearest.p)
    order = sorted(named, key=lambda one: (one.p, -abs(one.size / one.deviation), one.robot))
    return FleetAssessment(tuple(order), nearest, chance)


def _compare_with_fleet(
    robot: str,
    logs: Sequence[LogEvidence],
    causes: FleetCauses,
    test: Test,
    size: FittedSize | None,
    fleet: SizeDistribution | None,
) -> RobotDifference | None:
    """What a size says beside the fleet; None where the logs cannot tell it."""
    if size is None or fleet is None:
        return None
    deviation, freedom = fleet.deviation(size)
    value = size.value - fleet.centre
    p = float(2 * stats.t.sf(abs(value) / deviation, freedom))
    days = [log.day for log in logs if np.isfinite(log.day)]
    span = (min(days), max(days)) if days else None
    return RobotDifference(robot, causes.listed[test[0]], test[1], value, deviation, p, span)


def _list_tests(causes: FleetCauses, evidence: Mapping[str, Sequence[LogEvidence]]) -> list[Test]:
    levels = len(evidence) >= MIN_ROBOTS
    made = [(k, False) for k in range(len(causes.listed)) if levels]
    return made + [(k, True) for k, cause in enumerate(causes.listed) if cause.drifts]


def _find_causes(
    robot: str,
    logs: Sequence[LogEvidence],
    causes: FleetCauses,
    own: _RandomEffects,
    fleets: Mapping[Test, SizeDistribution | None],
    alone: Mapping[Test, FittedSize | None],
    limit: float,
) -> Iterator[RobotDifference]:
    """The causes that explain most, one after another, each judged beside those before it.

    alone  the sizes without another cause
    """
    accepted: list[Test] = []
    first = 0.0
    while len(accepted) < MAX_CAUSES:
        sure: list[tuple[float, Test, RobotDifference]] = []
        for test, fleet in fleets.items():
            if fleet is None or any(test[0] == number for number, _ in accepted):
                continue
            size = _fit_size(causes, own, logs, accepted, test) if accepted else alone[test]
            made = _compare_with_fleet(robot, logs, causes, test, size, fleet)
            if size is not None and made is not None and made.p <= limit:
                sure.append((size.misfit, test, made))
        if not sure:
            return
        misfit, test, made = min(sure, key=lambda one: one[:2])
        explained = _misfit(causes, own, logs, accepted) - misfit
        first = first or explained
        if explained < MIN_SECOND_CAUSE_FRACTION * first:
            return
        accepted.append(test)
        near = {number for other, (number, _), _ in sure if other - misfit < UNDECIDED_MISFIT * own.unit} - {test[0]}
        yield replace(made, alternatives=tuple(causes.listed[number] for number in sorted(near)))


@dataclass(frozen=True, slots=True, eq=False)
class _RandomEffects:
    """How what is each robot's own is spread among healthy ones: misfit weight (a - centre)^2 is added for each.

    centre, weight  (K,) of all directions; the weight is zero where the spread is not known, which leaves them free
    unit            misfit that one degree of freedom of noise makes
    """

    centre: Array
    weight: Array
    unit: float


def _fit_random_effects(causes: FleetCauses, evidence: Mapping[str, Sequence[LogEvidence]]) -> _RandomEffects:
    """By the robots' own fits of friction and offset alone, robustly.

    Misfits count in units of the residuals' weights. How much more the fits scatter from log to log than these say
    (residuals that are not white) is the unit in which a spread between robots weighs against them.
    """
    K, columns = causes.directions.shape[1], [one.columns[0] for one in causes.individual]
    nothing = np.zeros(K)
    fits = []
    for logs in evidence.values():
        if len(logs) >= MIN_LOGS and columns:
            H = np.array([log.H[np.ix_(columns, columns)] for log in logs])
            found = _jackknife(H, np.array([log.s[columns] for log in logs]))
            if found is not None:
                fits.append((*found, np.diag(np.linalg.inv(H.sum(axis=0)))))
    if len(fits) < MIN_ROBOTS:
        return _RandomEffects(nothing, nothing, 1.0)
    values, variances, stated = (np.array(one) for one in zip(*fits, strict=True))
    centre, typical = np.median(values, axis=0), np.median(variances, axis=0)
    between = np.maximum(biweight_variance(values) - typical, MIN_BETWEEN_FRACTION * typical)
    unit = float(np.median(variances / stated))
    centres, weights = nothing.copy(), nothing.copy()
    centres[columns], weights[columns] = centre, unit / between
    return _RandomEffects(centres, weights, unit)


def _fit_size(
    causes: FleetCauses, own: _RandomEffects, logs: Sequence[LogEvidence], accepted: Sequence[Test], test: Test
) -> FittedSize | None:
    """The size of a cause beside accepted ones; None where the robot's logs cannot tell it."""
    drifting = test[1] or any(drift for _, drift in accepted)
    days = np.array([log.day for log in logs])
    freedom = len(logs) - (2 if test[1] else 1)
    if freedom < MIN_LOGS - 1 or (drifting and (~np.isfinite(days)).any()):
        return None
    if test[1] and len(np.unique(np.floor(days))) < MIN_DRIFT_DAYS:
        return None
    judged = _CauseFit.of(causes, own, logs, [test, *accepted])
    found = _jackknife(judged.H, judged.s, judged.weight)
    if found is None:
        return None
    values, variances = found
    return FittedSize(float(values[0]), float(variances[0]), freedom, judged.misfit(values))


def _misfit(causes: FleetCauses, own: _RandomEffects, logs: Sequence[LogEvidence], accepted: Sequence[Test]) -> float:
    """The least misfit with accepted causes alone, below that of the type's own values."""
    judged = _CauseFit.of(causes, own, logs, accepted)
    values = _solve_normal(judged.H.sum(axis=0) + np.diag(judged.weight), judged.s.sum(axis=0)[None])
    return 0.0 if values is None else judged.misfit(values[0])


@dataclass(frozen=True, slots=True, eq=False)
class _CauseFit:
    """Causes and what is a robot's own fitted together: minimise a^T (H + weight) a - 2 s^T a + constant.

    H (logs, k, k), s (logs, k); the weights' own share of s is in each log's, in equal parts
    """

    H: Array
    s: Array
    weight: Array
    constant: float

    @staticmethod
    def of(causes: FleetCauses, own: _RandomEffects, logs: Sequence[LogEvidence], tests: Sequence[Test]) -> _CauseFit:
        """The causes' columns first, in their order."""
        days = np.array([log.day for log in logs])
        drifting = any(drift for _, drift in tests)
        years = (days - days.mean()) / DAYS_PER_YEAR if drifting else np.zeros(len(logs))
        fixed, random = _fixed_columns(causes, tests), _random_columns(causes, tests)
        columns = np.array([column for column, _ in [*fixed, *random]], dtype=np.intp)
        grows = np.array([power for _, power in [*fixed, *random]], dtype=np.bool_)
        scale = np.where(grows, years[:, None], 1.0)
        H = np.array([log.H[np.ix_(columns, columns)] for log in logs]) * scale[:, :, None] * scale[:, None, :]
        s = np.array([log.s[columns] for log in logs]) * scale
        weight = own.weight[columns]
        weight[: len(fixed)] = 0.0
        pulled = weight * own.centre[columns]
        return _CauseFit(H, s + pulled / len(logs), weight, float(pulled @ own.centre[columns]))

    def misfit(self, values: Array) -> float:
        """At the values that minimise it."""
        return self.constant - float(self.s.sum(axis=0) @ values)


def _fixed_columns(causes: FleetCauses, tests: Sequence[Test]) -> list[tuple[int, bool]]:
    """Columns, and whether they are multiplied by time: what grows comes first, then its level."""
    made: list[tuple[int, bool]] = []
    for number, drift in tests:
        columns = causes.listed[number].columns
        made += [(column, True) for column in columns[:1] if drift]
        made += [(column, False) for column in columns]
    return made


def _random_columns(causes: FleetCauses, judged: Sequence[Test]) -> list[tuple[int, bool]]:
    """Columns of what is each robot's own, beside the causes that are judged."""
    taken = {(causes.listed[number].what, causes.listed[number].where) for number, _ in judged}
    return [(one.columns[0], False) for one in causes.individual if (one.what, one.where) not in taken]


def _jackknife(H: Array, s: Array, weight: Array | float = 0.0) -> tuple[Array, Array] | None:
    """Values that minimise the sum over logs, their variances by the jackknife; None where logs do not tell them."""
    total, sums, count = H.sum(axis=0) + np.eye(H.shape[1]) * weight, s.sum(axis=0), len(H)
    values = _solve_normal(total, sums[None])
    left = None if values is None else _solve_normal(total - H, sums - s)
    if values is None or left is None:
        return None
    variances = (count - 1) / count * ((left - left.mean(axis=0)) ** 2).sum(axis=0)
    return values[0], np.maximum(variances, np.finfo(float).tiny)


def _solve_normal(H: Array, s: Array) -> Array | None:
    """(m, k) with H a = s, of one H or m of them; None where it has no clear solution."""
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
