"""`page`: a report's data as one HTML text with its style and scripts inside."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from importlib.resources import files
from typing import Any, Final

from mindyn.report.data import ReportData
from mindyn.report.excitation_and_friction import (
    comparison_section,
    excitation_section,
    friction_section,
)
from mindyn.report.existence import feasibility_section
from mindyn.report.judgement import torque_section, verdict_section
from mindyn.report.markup import Html, Section, classed, plural, tag
from mindyn.report.parameter_table import parameter_section
from mindyn.report.residuals import making_section, motion_section, residual_section, robot_section

SECTIONS: Final = (
    *(verdict_section, torque_section, parameter_section, excitation_section, friction_section, residual_section),
    *(feasibility_section, motion_section, comparison_section, robot_section, making_section),
)
"""In the order of the questions that a reader asks."""
SCRIPTS: Final = ("axes.js", "plot.js", "robot.js", "page.js")
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""The browser itself keeps the page from loading anything."""


def page(data: ReportData) -> str:
    """The whole file."""
    sections = [made for make in SECTIONS if (made := make(data)) is not None]
    head = [
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("meta", {"name": "color-scheme", "content": "light dark"}),
        tag("title", {}, f"{data.robot}: identified dynamics"),
        tag("style", {}, Html(_asset("report.css"))),
    ]
    scripts = [tag("script", {}, Html(_asset(name))) for name in SCRIPTS]
    space = tag("svg", {"id": "space", "hidden": True})
    body = [_top(data), _navigation(sections), _main(sections), plot_numbers(sections), space, *scripts]
    return f"<!doctype html>\n{tag('html', {'lang': 'en'}, tag('head', {}, head), tag('body', {}, body))}\n"


def _asset(name: str) -> str:
    return files("mindyn.report").joinpath("assets", name).read_text(encoding="utf-8")


def _top(data: ReportData) -> Html:
    skip = tag("a", {"class": "skip", "href": "#verdict"}, "Skip to the verdict")
    name = tag("h1", {}, data.robot)
    made = ", ".join(filter(None, ("Identified dynamics", plural(len(data.joints), "joint"), data.estimator)))
    theme = tag("button", {"id": "theme", "type": "button", "aria-label": "Dark theme", "aria-pressed": "false"}, "◐")
    return tag("header", {}, skip, classed("div", "title", name, classed("p", "fine", made)), theme)


def _navigation(sections: list[Section]) -> Html:
    links = [tag("li", {}, tag("a", {"href": f"#{one.key}"}, one.title)) for one in sections]
    return tag("nav", {"aria-label": "Sections"}, tag("ol", {}, links))


def _main(sections: list[Section]) -> Html:
    no_script = tag("noscript", {}, classed("p", "note", "Plots need scripts, which this browser does not run."))
    return tag("main", {}, no_script, [_section(one) for one in sections])


def _section(one: Section) -> Html:
    title = f"{one.key}-title"
    return tag("section", {"id": one.key, "aria-labelledby": title}, tag("h2", {"id": title}, one.title), one.body)


def plot_numbers(sections: list[Section]) -> Html:
    """Numbers of all plots as JSON in which nothing can end the script."""
    plots: dict[str, Any] = {"shared": {}}
    for one in sections:
        plots["shared"] |= one.plots.get("shared", {})
        plots |= {key: value for key, value in one.plots.items() if key != "shared"}
    text = json.dumps(plots, default=_plain, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", {"type": "application/json", "id": "plots"}, Html(safe))


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} has no place in a report")
