"""`comparison_page`: the scores of methods on recorded logs as one HTML file."""

from __future__ import annotations

from typing import Final

from mindyn.comparison.comparing import LogComparison
from mindyn.pages.document import document
from mindyn.pages.markup import Column, Section, markup, p, table, tag

RULES: Final = (
    "Every method sees the training rows alone and chooses all of its settings there; then it is given the motion of "
    "the held-out logs without their torque.",
    "Every scored row counts as it was logged: neither filtered nor thinned out, standstill included. The error is "
    "|measured - predicted| / |measured| over all joints and rows.",
    "A page that was looked at is spent: a rule that is changed after reading it must be judged on logs that are not "
    "in it.",
)


def comparison_page(found: LogComparison) -> str:
    """The whole file."""
    heading, *lines = found.rows()
    columns = [Column(title, number=k > 0) for k, title in enumerate(heading)]
    errors = table(columns, lines, "Relative error of the torque on rows that no fit saw, by method and set")
    notes = tag("ul", {}, [tag("li", {}, note) for note in found.notes()])
    sections = [
        Section("errors", "Held-out torque error", markup([errors, notes])),
        Section("rules", "Rules", markup([p(rule) for rule in RULES])),
    ]
    return document("Methods on recorded logs", f"{len(lines)} methods, {len(found.splits)} splits", sections)
