"""`comparison_page`: the scores of methods on recorded logs as one HTML file."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from mindyn.comparison.comparing import LogComparison
from mindyn.pages.document import POLICY
from mindyn.pages.markup import Column, Html, classed, p, table, tag

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
    notes = found.notes()
    body = [
        tag("header", {}, classed("div", "title", tag("h1", {}, "Methods on recorded logs"))),
        tag(
            "main",
            {},
            tag("h2", {}, "Held-out torque error"),
            table(columns, lines, "Relative error of the torque on rows that no fit saw, by method and set"),
            [tag("ul", {}, [tag("li", {}, note) for note in notes])] if notes else [],
            tag("h2", {}, "Rules"),
            [p(rule) for rule in RULES],
        ),
    ]
    style = files("mindyn.report").joinpath("assets", "report.css").read_text(encoding="utf-8")
    head = [
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("title", {}, "Methods on recorded logs"),
        tag("style", {}, Html(style)),
    ]
    return f"<!doctype html>\n{tag('html', {'lang': 'en'}, tag('head', {}, head), tag('body', {}, body))}\n"
