"""`compare_on_logs`: each method fitted to the training rows of each split, and scored on the held-out rows as logged.

The rules: a method sees the training logs whole and nothing of the held-out logs before its fit is done; then it gets
their motion without the torque. Every setting is chosen on training rows. Each scored row counts, unfiltered; a method
that gives no finite torque for one of them has no score. total = |tau - predicted| / |tau| over all joints and rows.
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
    "Every method sees the training rows alone and chooses all of its settings there; then it is given the motion of "
    "the held-out logs without their torque.",
    "Every scored row counts as it was logged: neither filtered nor thinned out, standstill included. The error is "
    "|measured - predicted| / |measured| over all joints and rows.",
    "A page that was looked at is spent: a rule that is changed after reading it must be judged on logs that are not "
    "in it.",
)


@dataclass(frozen=True, slots=True)
class MethodScore:
    """What one method did on one split.

    total    relative torque error on the held-out rows; None where it gave none, and `reason` says why
    seconds  processor time of the fit; 0 where the fit of another split served
    """

    total: float | None
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often fits to separate recordings of one robot agree within their 95 % intervals."""

    within: int
    compared: int


@dataclass(frozen=True, slots=True, eq=False)
class LogComparison:
    """Scores by method and split, and the agreement of repeated recordings by split."""

    splits: tuple[str, ...]
    scores: Mapping[str, Mapping[str, MethodScore]]
    agreements: Mapping[str, Agreement]

    def rows(self) -> list[list[str]]:
        """A heading, and a line for each method: its error on every split."""
        lines = [["method", *self.splits, "processor time"]]
        for method, found in self.scores.items():
            cells = ["-" if (t := found[split].total) is None else f"{100 * t:.2f} %" for split in self.splits]
            lines.append([method, *cells, f"{sum(found[split].seconds for split in self.splits):.1f} s"])
        return lines

    def notes(self) -> list[str]:
        """Why a method has no score; how repeated recordings agree."""
        missing = [
            f"{method}, {split}: {one.reason}"
            for method, found in self.scores.items()
            for split, one in found.items()
            if one.total is None
        ]
        agreed = [
            f"{split}: fits to the separate training recordings agree within their 95 % intervals "
            f"in {one.within} of {one.compared} parameters"
            for split, one in self.agreements.items()
        ]
        return [*missing, *agreed]

    def table(self) -> str:
        """For a terminal."""
        return "\n".join([format_table(self.rows()), *(f"  {note}" for note in self.notes())])

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "splits": list(self.splits),
            "methods": {
                method: {
                    split: {"total": one.total, "seconds": one.seconds, "reason": one.reason}
                    for split, one in found.items()
                }
                for method, found in self.scores.items()
            },
            "agreement": {s: {"within": one.within, "compared": one.compared} for s, one in self.agreements.items()},
        }


def compare_on_logs(
    splits: Sequence[Split], methods: Mapping[str, FitFunction], progress: Callable[[str], None] | None = None
) -> LogComparison:
    """The scores of all methods on all splits; a method that fails on one is noted there and goes on with the next.

    Splits with the same training rows share one fit of each method.
    """
    say = progress or (lambda line: None)  # noqa: ARG005
    scores: dict[str, dict[str, MethodScore]] = {}
    for name, fit in methods.items():
        fitted: dict[tuple[Any, ...], tuple[Callable[[Log], Array], float] | str] = {}
        scores[name] = {}
        for split in splits:
            say(f"{name}: {split.name}")
            key = _training_key(split)
            known = key in fitted
            if not known:
                fitted[key] = _fit_method(fit, split)
            found = _score_method(fitted[key], split.held_out)
            scores[name][split.name] = replace(found, seconds=0.0) if known else found
    agreements = {split.name: one for split in splits if (one := _measure_agreement(split)) is not None}
    return LogComparison(tuple(split.name for split in splits), scores, agreements)


def _training_key(split: Split) -> tuple[Any, ...]:
    parts = ((log.sources, int(log.rows[0]), int(log.rows[-1])) for log in split.training)
    return (split.robot.name, *parts)


def _fit_method(fit: FitFunction, split: Split) -> tuple[Callable[[Log], Array], float] | str:
    begin = time.process_time()
    try:
        return fit(split.robot, split.training), time.process_time() - begin
    except Exception as error:  # a method may be a stranger's: what it raises is its result
        return _format_reason(error)


def _score_method(fitted: tuple[Callable[[Log], Array], float] | str, held_out: Sequence[HeldOut]) -> MethodScore:
    if isinstance(fitted, str):
        return MethodScore(None, 0.0, fitted)
    predictor, seconds = fitted
    error = torque = 0.0
    for one in held_out:
        tau = one.log.tau
        hidden = replace(one.log, tau=np.zeros_like(tau))
        try:
            predicted = np.asarray(predictor(hidden), dtype=np.float64)
        except Exception as problem:
            return MethodScore(None, seconds, _format_reason(problem))
        if predicted.shape != tau.shape:
            return MethodScore(None, seconds, f"its torque is of shape {predicted.shape}, not {tau.shape}")
        scored = (one.log.rows >= one.rows[0]) & (one.log.rows < one.rows[1])
        error += float(((tau - predicted)[scored] ** 2).sum())
        torque += float((tau[scored] ** 2).sum())
    if not np.isfinite(error):
        return MethodScore(None, seconds, "a scored row has no finite torque")
    return MethodScore(float(np.sqrt(error / torque)), seconds)


def _format_reason(error: Exception) -> str:
    return error.message.splitlines()[0] if isinstance(error, MindynError) else describe_exception(error)


def _measure_agreement(split: Split) -> Agreement | None:
    """Of fits to each training recording alone; None where there is one recording, or fewer than two can be fitted."""
    if len(split.training) < 2:
        return None
    found: list[Estimate] = []
    for log in split.training:
        with suppress(MindynError):
            found.append(identify(split.robot, [log], LeastSquares()))
    pairs = list(combinations(found, 2))
    counts = np.sum([_count_agreeing(a, b) for a, b in pairs], axis=0) if pairs else np.zeros(2)
    return Agreement(int(counts[0]), int(counts[1])) if counts[1] else None


def _count_agreeing(a: Estimate, b: Estimate) -> tuple[int, int]:
    """Parameters that both tell, and how many of them differ by no more than their joint interval."""
    shared = [name for name in a.names if name in b.names]
    at, bt = [a.names.index(n) for n in shared], [b.names.index(n) for n in shared]
    widths = np.hypot(a.half_widths[at], b.half_widths[bt])
    told = np.isfinite(widths) & (widths > 0)
    apart = np.abs(a.beta[at] - b.beta[bt])
    return int((apart <= widths)[told].sum()), int(told.sum())


def comparison_page(found: LogComparison) -> str:
    """The scores of methods on recorded logs as one HTML file."""
    heading, *lines = found.rows()
    columns = [Column(title, number=k > 0) for k, title in enumerate(heading)]
    errors = table(columns, lines, "Relative error of the torque on rows that no fit saw, by method and set")
    notes = tag("ul", {}, [tag("li", {}, note) for note in found.notes()])
    sections = [
        Section("errors", "Held-out torque error", to_html([errors, notes])),
        Section("rules", "Rules", to_html([p(rule) for rule in RULES])),
    ]
    return render_document("Methods on recorded logs", f"{len(lines)} methods, {len(found.splits)} splits", sections)
