"""`differences`: who differs from the type, or drifts, beyond what chance explains, and by which cause.

For every robot and cause the size is fitted to all of its logs, and again without each log in turn: the jackknife over
logs gives its variance, whatever the noise within a log is like. Variances of few logs are moderated towards those of
the other robots [Smyth 2004]. A robot's size is compared with the fleet's median; what healthy robots differ by among
themselves, by a robust estimate, counts as variance; friction and offset of every joint are each robot's own, and free
while another cause is judged. Several causes explain one fault: the one that explains most comes
first, others are judged beside it. The p-values of all robots and causes together keep to one family-wise error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special, stats

from mindyn.algebra.values import Array
from mindyn.fleet.causes import Cause, Causes, Evidence

FAMILY_ERROR: Final = 0.01
"""Probability that a run names anything that is not so."""
FEWEST_ROBOTS: Final = 5
"""Robots among which one can be called an exception."""
FEWEST_LOGS: Final = 3
SHARE: Final = 0.1
"""A second cause explains at least this part of what the first does: a large fault leaves more than directions tell."""
MOST_CAUSES: Final = 3
TO_SIGMA: Final = 1.4826
"""From the median of absolute deviations to a standard deviation, for normal values."""
LEAST_DAYS: Final = 3
"""Different days from which a drift can be told."""


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """A fitted size and its variance by the jackknife over logs.

    explained  how much of the squared, weighted residual its whole cause explains
    """

    value: float
    variance: float
    freedom: int
    explained: float


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One robot that is not as its type is.

    cause      by which
    drift      whether it changes with time; then sizes are per year
    size       less the fleet's median
    deviation  standard deviation of the size, healthy differences between robots included
    p          probability of as large a size by chance, for this one test
    days       when the robot's logs were made; None where nothing says so
    """

    robot: str
    cause: Cause
    drift: bool
    size: float
    deviation: float
    p: float
    days: tuple[float, float] | None

    @property
    def sentence(self) -> str:
        """What a person reads."""
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


DAYS_A_YEAR: Final = 365.25
Test = tuple[int, bool]
"""Number of a cause, and whether its drift is meant."""


def differences(causes: Causes, evidence: Mapping[str, Sequence[Evidence]]) -> list[Difference]:
    """What is beyond chance, the surest first.

    evidence  of every log of every robot
    """
    tests = _tests(causes, evidence)
    sizes = {test: {robot: _size(causes, logs, [], test) for robot, logs in evidence.items()} for test in tests}
    fleets = {test: _fleet([one for one in found.values() if one is not None]) for test, found in sizes.items()}
    count = sum(one is not None for found in sizes.values() for one in found.values())
    named: list[Difference] = []
    for robot, logs in evidence.items():
        named += _causes_of_robot(robot, logs, causes, fleets, FAMILY_ERROR / max(1, count))
    return sorted(named, key=lambda one: (one.p, -abs(one.size / one.deviation), one.robot))


def _tests(causes: Causes, evidence: Mapping[str, Sequence[Evidence]]) -> list[Test]:
    levels = len(evidence) >= FEWEST_ROBOTS
    made = [(k, False) for k in range(len(causes.listed)) if levels]
    return made + [(k, True) for k, cause in enumerate(causes.listed) if cause.drifts]


def _causes_of_robot(
    robot: str, logs: Sequence[Evidence], causes: Causes, fleets: Mapping[Test, _Fleet | None], limit: float
) -> Iterator[Difference]:
    """The causes that explain most, one after another, each judged beside those before it."""
    accepted: list[Test] = []
    first = 0.0
    days = [log.day for log in logs if np.isfinite(log.day)]
    while len(accepted) < MOST_CAUSES:
        sure: list[tuple[float, Test, Difference]] = []
        for test, fleet in fleets.items():
            if fleet is None or any(test[0] == number for number, _ in accepted):
                continue
            size = _size(causes, logs, accepted, test)
            if size is None:
                continue
            deviation, freedom = fleet.deviation(size)
            value = size.value - fleet.centre
            p = float(2 * stats.t.sf(abs(value) / deviation, freedom))
            if p <= limit:
                span = (min(days), max(days)) if days else None
                made = Difference(robot, causes.listed[test[0]], test[1], value, deviation, p, span)
                sure.append((size.explained, test, made))
        if not sure:
            return
        explained, test, made = max(sure, key=lambda one: (one[0], -one[1][0]))
        first = first or explained
        if explained < SHARE * first:
            return
        accepted.append(test)
        yield made


def _size(causes: Causes, logs: Sequence[Evidence], accepted: Sequence[Test], test: Test) -> Size | None:
    """The size of a cause beside accepted ones; None where the robot's logs cannot tell it."""
    drifting = test[1] or any(drift for _, drift in accepted)
    days = np.array([log.day for log in logs])
    freedom = len(logs) - (2 if test[1] else 1)
    if freedom < FEWEST_LOGS - 1 or (drifting and (~np.isfinite(days)).any()):
        return None
    if test[1] and len(np.unique(np.floor(days))) < LEAST_DAYS:
        return None
    years = (days - days.mean()) / DAYS_A_YEAR if drifting else np.zeros(len(logs))
    terms = [*_terms(causes, [test]), *_terms(causes, accepted), *_individual(causes, [test, *accepted])]
    columns = np.array([column for column, _ in terms])
    grows = np.array([power for _, power in terms])
    scale = np.where(grows, years[:, None], 1.0)
    H = np.array([log.H[np.ix_(columns, columns)] for log in logs]) * scale[:, :, None] * scale[:, None, :]
    s = np.array([log.s[columns] for log in logs]) * scale
    return _jackknifed(H, s, freedom, len(_terms(causes, [test])))


def _terms(causes: Causes, tests: Sequence[Test]) -> list[tuple[int, bool]]:
    """Columns, and whether they are multiplied by time: what grows comes first, then its level."""
    made: list[tuple[int, bool]] = []
    for number, drift in tests:
        columns = causes.listed[number].columns
        made += [(column, True) for column in columns[:1] if drift]
        made += [(column, False) for column in columns]
    return made


def _individual(causes: Causes, judged: Sequence[Test]) -> list[tuple[int, bool]]:
    """Columns of what is each robot's own, beside the causes that are judged."""
    taken = {(causes.listed[number].what, causes.listed[number].where) for number, _ in judged}
    return [(one.columns[0], False) for one in causes.individual if (one.what, one.where) not in taken]


def _jackknifed(H: Array, s: Array, freedom: int, own: int) -> Size | None:
    """The first of the sizes that minimise the sum over logs, by all logs and without each in turn."""
    total, sums = H.sum(axis=0), s.sum(axis=0)
    scale = np.sqrt(np.diag(total))
    if not (scale > 0).all():
        return None
    unit = scale[:, None] * scale
    try:
        if np.linalg.cond(total / unit) > 1e10:
            return None
        value = np.linalg.solve(total / unit, sums / scale) / scale
        left = np.linalg.solve((total - H) / unit, ((sums - s) / scale)[:, :, None])[:, :, 0] / scale
    except np.linalg.LinAlgError:
        return None
    count = len(H)
    variance = (count - 1) / count * float(((left[:, 0] - left[:, 0].mean()) ** 2).sum())
    others = np.arange(own, len(sums))
    before = float(sums[others] @ np.linalg.solve(total[np.ix_(others, others)], sums[others])) if len(others) else 0.0
    explained = float(sums @ value) - before
    return Size(float(value[0]), max(variance, np.finfo(float).tiny), freedom, explained)


@dataclass(frozen=True, slots=True, eq=False)
class _Fleet:
    """How a size is distributed among robots.

    centre          the median
    between         variance between healthy robots
    prior, freedom  variance that robots' own variances are moderated towards, and how many logs it is worth
    robots          number of robots behind `between`
    """

    centre: float
    between: float
    prior: float
    freedom: float
    robots: int

    def deviation(self, size: Size) -> tuple[float, float]:
        """Standard deviation of a robot's size about the centre, and its degrees of freedom."""
        if np.isinf(self.freedom):
            within, freedom = self.prior, 1e6
        else:
            freedom = self.freedom + size.freedom
            within = (self.freedom * self.prior + size.freedom * size.variance) / freedom
        # Welch and Satterthwaite: a sum of variances has the freedom of its parts, by their squares.
        both = within + self.between
        parts = within**2 / freedom + self.between**2 / max(1, self.robots - 1)
        return float(np.sqrt(both)), float(both**2 / parts) if parts > 0 else freedom


def _fleet(sizes: Sequence[Size]) -> _Fleet | None:
    """None where no robot's logs tell the size."""
    if not sizes:
        return None
    values, variances = np.array([one.value for one in sizes]), np.array([one.variance for one in sizes])
    if len(sizes) < FEWEST_ROBOTS:
        return _Fleet(0.0, 0.0, 0.0, 0.0, len(sizes))
    centre = float(np.median(values))
    spread = (TO_SIGMA * float(np.median(np.abs(values - centre)))) ** 2
    prior, freedom = _moderation(variances, np.array([one.freedom for one in sizes], dtype=np.float64))
    typical = float(np.median(variances)) if not np.isinf(freedom) else prior
    return _Fleet(centre, max(0.0, spread - typical), prior, freedom, len(sizes))


def _moderation(variances: Array, freedom: Array) -> tuple[float, float]:
    """Scale and freedom of the inverse chi-square that robots' variances come from [Smyth 2004, eq. 10], by medians."""
    half = freedom / 2
    e = np.log(variances) - special.digamma(half) + np.log(half)
    middle = float(np.median(e))
    excess = (TO_SIGMA * float(np.median(np.abs(e - middle)))) ** 2 - float(np.mean(special.polygamma(1, half)))
    if excess <= 0:
        return float(np.exp(middle)), float("inf")
    worth = 2 * _inverse_trigamma(excess)
    return float(np.exp(middle + special.digamma(worth / 2) - np.log(worth / 2))), worth


def _inverse_trigamma(y: float) -> float:
    """x with trigamma(x) = y, by Newton's steps on 1 / trigamma, which is nearly straight."""
    x = 0.5 + 1 / y
    for _ in range(50):
        tri = float(special.polygamma(1, x))
        step = tri * (1 - tri / y) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
