"""`compare_on_logs`: fit each method to the training rows of each split, and score it on held-out rows as logged.

Rules: a method sees the training logs completely, and nothing of the held-out logs before its fit is finished; then it
gets their motion without the torque. Every setting is selected on training rows. Each scored row counts, unfiltered; a
method that gives no finite torque for one of them has no score. total = |tau - predicted| / |tau| over all joints and
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.applications.comparison.isolation import IsolatedResult, run_method
from mindyn.applications.comparison.log_sets import HeldOut, Split
from mindyn.foundation.algebra.values import ShortRepr
from mindyn.foundation.errors import MindynError, pluralise
from mindyn.foundation.pages.document import Column, Section, p, render_document, table, tag
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.identify import identify
from mindyn.robots.table import format_table

RULES: Final = (
    "Every method sees only the training rows and selects all of its settings there; then it gets the motion of the "
    "held-out logs without their torque.",
    "Every scored row counts as logged, neither filtered nor decimated, with standstill. The error is "
    "|measured - predicted| / |measured| over all joints and rows.",
    "These logs cannot validate a rule that was changed after reading this page: use other logs for that.",
)

PART_COUNT: Final = 4


@dataclass(frozen=True, slots=True)
class MethodScore:
    """Score of one method on one split.

    total          relative torque error on the held-out rows; None if there is none, with the reason in `reason`
    joints         the same for each joint
    parts          total error in each of `PART_COUNT` consecutive parts of the scored rows: how much it varies
    coverage       fraction of scored torques inside the 95 % bands of the method; None if it states no bands
    is_consistent  whether the parameters are physically consistent; None if the method does not say
    seconds        processor time of the fit; 0 if the fit of another split was reused
    wall_s         time of the fit
    """

    total: float | None
    joints: tuple[float, ...] = ()
    parts: tuple[float, ...] = ()
    coverage: float | None = None
    is_consistent: bool | None = None
    seconds: float = 0.0
    wall_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of parameters of fits to separate recordings that agree within their 95 % intervals."""

    within: int
    compared: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogComparison(ShortRepr):
    """Scores by method and split, and the agreement of repeated recordings by split.

    Attributes
    ----------
    splits : tuple of str
    scores : Mapping of str to Mapping of str to MethodScore
    agreements : Mapping of str to Agreement
    """

    splits: tuple[str, ...]
    scores: Mapping[str, Mapping[str, MethodScore]]
    agreements: Mapping[str, Agreement]

    def rows(self) -> list[list[str]]:
        """Return a heading, and a line for each method with its error on every split."""
        lines = [["method", *self.splits, "processor time"]]
        for method, by_split in self.scores.items():
            cells = ["-" if (t := by_split[split].total) is None else f"{100 * t:.2f} %" for split in self.splits]
            lines.append([method, *cells, f"{sum(by_split[split].seconds for split in self.splits):.1f} s"])
        return lines

    def notes(self) -> list[str]:
        """Return why methods have no score, and how repeated recordings agree."""
        missing = [
            f"{method}, {split}: {score.reason}"
            for method, by_split in self.scores.items()
            for split, score in by_split.items()
            if score.total is None
        ]
        agreed = [
            f"{split}: fits to the separate training recordings agree within their 95 % intervals "
            f"in {agreement.within} of {agreement.compared} parameters"
            for split, agreement in self.agreements.items()
        ]
        return [*missing, *agreed]

    def table(self) -> str:
        """Return the comparison as a text table."""
        return "\n".join([format_table(self.rows()), *(f"  {note}" for note in self.notes())])

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison in types that JSON can store."""
        return {
            "splits": list(self.splits),
            "methods": {
                method: {split: asdict(score) for split, score in by_split.items()}
                for method, by_split in self.scores.items()
            },
            "agreement": {s: {"within": a.within, "compared": a.compared} for s, a in self.agreements.items()},
        }


def compare_on_logs(
    splits: Sequence[Split],
    methods: Sequence[str],
    data: Path,
    progress: Callable[[str], None] | None = None,
) -> LogComparison:
    """Score methods on splits of recorded logs, each fit in its own process (see `isolation`).

    Splits with the same training rows share one fit of each method. If a method fails on a split, the reason is
    recorded.

    Parameters
    ----------
    splits : sequence of Split
        Training and held-out rows.
    methods : sequence of str
        Names of `LOG_METHODS`, or paths of Python files with a method.
    data : Path
        Folder of the recordings, which methods must not read.
    progress : callable, optional
        Called with status lines.

    Returns
    -------
    LogComparison
        Scores of every method on every split, and the agreement of repeated recordings.
    """
    show = progress or (lambda line: None)  # noqa: ARG005
    groups = group_splits(splits)
    scores: dict[str, dict[str, MethodScore]] = {}
    for method in methods:
        for group in groups:
            show(f"{method}: {', '.join(split.name for split in group)}")
            motions = [part.log for split in group for part in split.held_out]
            result = run_method(method, group[0], motions, data)
            done = scores.setdefault(result.name, {})
            for split in group:
                start = sum(len(other.held_out) for other in group[: group.index(split)])
                score = score_method(result, split.held_out, start)
                done[split.name] = score if split is group[0] else replace(score, seconds=0.0, wall_s=0.0)
    agreements = {split.name: agreement for split in splits if (agreement := measure_agreement(split)) is not None}
    return LogComparison(tuple(split.name for split in splits), scores, agreements)


def group_splits(splits: Sequence[Split]) -> list[list[Split]]:
    """Group splits with the same training rows, which share a fit."""
    groups: dict[tuple[Any, ...], list[Split]] = {}
    for split in splits:
        parts = ((log.sources, int(log.rows[0]), int(log.rows[-1])) for log in split.training)
        groups.setdefault((split.robot.name, *parts), []).append(split)
    return list(groups.values())


def score_method(result: IsolatedResult, held_out: Sequence[HeldOut], start: int) -> MethodScore:
    """Score the torques of the motions from `start` on."""
    failed = partial(MethodScore, None, seconds=result.seconds, wall_s=result.wall_s)
    if result.reason:
        return failed(reason=result.reason)
    measured, errors, inside = [], [], []
    for part, k in zip(held_out, range(start, start + len(held_out)), strict=True):
        tau, predicted = part.log.tau, result.torques[k]
        if predicted.shape != tau.shape:
            return failed(reason=f"its torque has shape {predicted.shape} instead of {tau.shape}")
        scored = (part.log.rows >= part.rows[0]) & (part.log.rows < part.rows[1])
        measured.append(tau[scored])
        errors.append((tau - predicted)[scored])
        if result.bands:
            lower, upper = result.bands[k]
            inside.append(((lower <= tau) & (tau <= upper))[scored])
    torque, error = np.concatenate(measured), np.concatenate(errors)
    if not np.isfinite(error).all():
        return failed(reason="a scored row has no finite torque")
    by_joint = np.linalg.norm(error, axis=0) / np.linalg.norm(torque, axis=0)
    ends = np.array_split(np.arange(len(error)), PART_COUNT)
    return MethodScore(
        float(np.linalg.norm(error) / np.linalg.norm(torque)),
        tuple(by_joint.tolist()),
        tuple(float(np.linalg.norm(error[rows]) / np.linalg.norm(torque[rows])) for rows in ends),
        float(np.concatenate(inside).mean()) if inside else None,
        result.is_consistent,
        result.seconds,
        result.wall_s,
    )


def measure_agreement(split: Split) -> Agreement | None:
    """Compare fits to each training recording alone; return None if fewer than two can be fitted."""
    if len(split.training) < 2:
        return None
    estimates: list[Estimate] = []
    for log in split.training:
        with suppress(MindynError):
            estimates.append(identify(split.robot, [log], LeastSquares()))
    pairs = list(combinations(estimates, 2))
    counts = np.sum([_count_agreeing(a, b) for a, b in pairs], axis=0) if pairs else np.zeros(2)
    return Agreement(int(counts[0]), int(counts[1])) if counts[1] else None


def _count_agreeing(a: Estimate, b: Estimate) -> tuple[int, int]:
    """Return the number of common parameters within their joint interval, and the number of all common ones."""
    shared = [name for name in a.names if name in b.names]
    at, bt = [a.names.index(n) for n in shared], [b.names.index(n) for n in shared]
    widths = np.hypot(a.uncertainty.half_widths[at], b.uncertainty.half_widths[bt])
    known = np.isfinite(widths) & (widths > 0)
    difference = np.abs(a.beta[at] - b.beta[bt])
    return int((difference <= widths)[known].sum()), int(known.sum())


def comparison_page(comparison: LogComparison) -> str:
    """Return the scores of methods on recorded logs as one HTML file."""
    heading, *lines = comparison.rows()
    columns = [Column(title, number=k > 0) for k, title in enumerate(heading)]
    errors = table(columns, lines, "Relative error of the torque on held-out rows, by method and set")
    notes = tag("ul", {}, [tag("li", {}, note) for note in comparison.notes()])
    sections = [
        Section("errors", "Held-out torque error", [errors, notes]),
        Section("rules", "Rules", [p(rule) for rule in RULES]),
    ]
    return render_document(
        "Methods on recorded logs",
        f"{pluralise(len(lines), 'method')}, {pluralise(len(comparison.splits), 'split')}",
        sections,
    )
