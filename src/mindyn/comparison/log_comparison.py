"""`compare_on_logs`: fit each method to the training rows of each split, and score it on held-out rows as logged.

Rules: a method sees the training logs completely, and nothing of the held-out logs before its fit is finished; then it
gets their motion without the torque. Every setting is selected on training rows. Each scored row counts, unfiltered; a
method that gives no finite torque for one of them has no score. total = |tau - predicted| / |tau| over all joints and
rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.comparison.log_sets import HeldOut, Split
from mindyn.comparison.methods import FitFunction
from mindyn.errors import MindynError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.least_squares import LeastSquares
from mindyn.identification.identify import identify
from mindyn.logs.log import Log
from mindyn.pages.document import render_document
from mindyn.pages.markup import Column, Section, p, table, tag, to_html
from mindyn.reading import describe_exception
from mindyn.robots.table import format_table

RULES: Final = (
    "Every method sees only the training rows and selects all of its settings there; then it gets the motion of the "
    "held-out logs without their torque.",
    "Every scored row counts as logged, neither filtered nor decimated, with standstill. The error is "
    "|measured - predicted| / |measured| over all joints and rows.",
    "These logs cannot validate a rule that was changed after reading this page: use other logs for that.",
)


@dataclass(frozen=True, slots=True)
class MethodScore:
    """Score of one method on one split.

    total    relative torque error on the held-out rows; None if there is none, with the reason in `reason`
    seconds  processor time of the fit; 0 if the fit of another split was reused
    """

    total: float | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Number of parameters of fits to separate recordings that agree within their 95 % intervals."""

    within: int
    compared: int


@dataclass(frozen=True, slots=True, eq=False)
class LogComparison:
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
                method: {
                    split: {"total": score.total, "seconds": score.seconds, "reason": score.reason}
                    for split, score in by_split.items()
                }
                for method, by_split in self.scores.items()
            },
            "agreement": {s: {"within": a.within, "compared": a.compared} for s, a in self.agreements.items()},
        }


def compare_on_logs(
    splits: Sequence[Split], methods: Mapping[str, FitFunction], progress: Callable[[str], None] | None = None
) -> LogComparison:
    """Score methods on splits of recorded logs.

    Splits with the same training rows share one fit of each method. If a method fails on a split, the reason is
    recorded.

    Parameters
    ----------
    splits : sequence of Split
        Training and held-out rows.
    methods : Mapping of str to FitFunction
        Fit functions by name.
    progress : callable, optional
        Called with status lines.

    Returns
    -------
    LogComparison
    """
    show = progress or (lambda line: None)  # noqa: ARG005
    scores: dict[str, dict[str, MethodScore]] = {}
    for name, fit in methods.items():
        fitted: dict[tuple[Any, ...], tuple[Callable[[Log], Array], float] | str] = {}
        scores[name] = {}
        for split in splits:
            show(f"{name}: {split.name}")
            key = _training_key(split)
            known = key in fitted
            if not known:
                fitted[key] = _fit_method(fit, split)
            score = _score_method(fitted[key], split.held_out)
            scores[name][split.name] = replace(score, seconds=0.0) if known else score
    agreements = {split.name: agreement for split in splits if (agreement := _measure_agreement(split)) is not None}
    return LogComparison(tuple(split.name for split in splits), scores, agreements)


def _training_key(split: Split) -> tuple[Any, ...]:
    parts = ((log.sources, int(log.rows[0]), int(log.rows[-1])) for log in split.training)
    return (split.robot.name, *parts)


def _fit_method(fit: FitFunction, split: Split) -> tuple[Callable[[Log], Array], float] | str:
    begin = time.process_time()
    try:
        return fit(split.robot, split.training), time.process_time() - begin
    except Exception as error:  # third-party methods may raise anything
        return _format_reason(error)


def _score_method(fitted: tuple[Callable[[Log], Array], float] | str, held_out: Sequence[HeldOut]) -> MethodScore:
    if isinstance(fitted, str):
        return MethodScore(None, 0.0, fitted)
    predictor, seconds = fitted
    error = torque = 0.0
    for part in held_out:
        tau = part.log.tau
        hidden = replace(part.log, tau=np.zeros_like(tau))
        try:
            predicted = np.asarray(predictor(hidden), dtype=np.float64)
        except Exception as problem:
            return MethodScore(None, seconds, _format_reason(problem))
        if predicted.shape != tau.shape:
            return MethodScore(None, seconds, f"its torque has shape {predicted.shape} instead of {tau.shape}")
        scored = (part.log.rows >= part.rows[0]) & (part.log.rows < part.rows[1])
        error += float(((tau - predicted)[scored] ** 2).sum())
        torque += float((tau[scored] ** 2).sum())
    if not np.isfinite(error):
        return MethodScore(None, seconds, "a scored row has no finite torque")
    return MethodScore(float(np.sqrt(error / torque)), seconds)


def _format_reason(error: Exception) -> str:
    return error.message.splitlines()[0] if isinstance(error, MindynError) else describe_exception(error)


def _measure_agreement(split: Split) -> Agreement | None:
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
    widths = np.hypot(a.half_widths[at], b.half_widths[bt])
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
        Section("errors", "Held-out torque error", to_html([errors, notes])),
        Section("rules", "Rules", to_html([p(rule) for rule in RULES])),
    ]
    return render_document(
        "Methods on recorded logs", f"{len(lines)} methods, {len(comparison.splits)} splits", sections
    )
