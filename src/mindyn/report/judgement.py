"""The first sections: is the model good, and the torques that show it."""

from __future__ import annotations

from typing import Final

from mindyn.report.data import JointTrace, ReportData
from mindyn.report.markup import (
    Html,
    Section,
    classed,
    count,
    figure,
    markup,
    number,
    p,
    percent,
    plural,
    quantity,
    tabs,
    tag,
)
from mindyn.report.plots import axis, pane, plot, series
from mindyn.validation.validate import BOUNDS, Grade

HEADLINES: Final[dict[Grade, str]] = {
    "well": "The model is good.",
    "roughly": "The model is usable, with care.",
    "hardly": "The model is poor.",
    "not": "The model does not explain the torque.",
}
FLATTERED: Final = "No held-out log was given. The errors below are those of the fit itself, and flatter."
USEFUL: Final = ("well", "roughly")
UNEVEN: Final = "The model is good for some joints, not for all."
WORDS: Final[dict[Grade, str]] = {"well": "good", "roughly": "rough", "hardly": "poor", "not": "none"}


def verdict_section(data: ReportData) -> Section:
    """A headline, and a sentence for each joint."""
    found = data.verdict
    uneven = found.grade in USEFUL and any(joint.grade not in USEFUL for joint in found.joints)
    headline, colour = (UNEVEN, "roughly") if uneven else (HEADLINES[found.grade], found.grade)
    seen = "motion that it was not fitted to" if found.held_out else "the motion that it was fitted to"
    lead = p(
        tag("strong", {}, headline),
        f" On {seen} it misses {percent(found.total)} of the torque ({count(found.rows)} rows). {_weakest(data)}",
    )
    warnings = [] if found.held_out else [classed("p", "note", FLATTERED)]
    warnings += _bettered(data)
    rows = [
        tag(
            "li",
            {"class": f"grade-{joint.grade}"},
            classed("span", "badge", WORDS[joint.grade]),
            classed("span", "words", joint.sentence),
            tag("span", {"class": "meter", "aria-hidden": "true"}, _meter(joint.relative)),
        )
        for joint in found.joints
    ]
    body = [classed("div", f"lead grade-{colour}", lead), *warnings]
    listed = tag("ul", {"class": "verdicts", "aria-label": "Verdict for each joint"}, rows)
    return Section("verdict", "Is the model good?", markup([*body, listed, classed("p", "fine", _scale())]))


def _scale() -> str:
    bounds = ", ".join(f"{WORDS[grade]} up to {percent(bound)}" for bound, grade in BOUNDS)
    return f"Torque missed: {bounds}, {WORDS['not']} beyond, where predicting zero would do better."


def _bettered(data: ReportData) -> list[Html]:
    """Says so when another model in the comparison predicts better."""
    if not data.comparison:
        return []
    best = min(data.comparison, key=lambda column: column.total)
    if best is data.comparison[0]:
        return []
    link = tag("a", {"href": "#comparison"}, "another model")
    return [classed("p", "note", "On the same rows ", link, f", {best.name}, misses less: {percent(best.total)}.")]


def _weakest(data: ReportData) -> str:
    joints = data.verdict.joints
    worst = max(range(len(joints)), key=lambda k: joints[k].relative)
    return f"The weakest joint is {data.joints[worst].name}, with {percent(joints[worst].relative)}."


def _meter(relative: float) -> Html:
    """A bar as long as the part of the torque that is explained."""
    return tag("span", {"style": f"width:{max(0.0, min(1.0, 1 - relative)):.1%}"})


def torque_section(data: ReportData) -> Section | None:
    """Measured and predicted torque of every joint over time, and what is left."""
    if not data.traces:
        return None
    plots = {
        f"torque-{k}-{joint}": _torque_plot(k, one, data.joints[joint].torque_unit)
        for k, trace in enumerate(data.traces)
        for joint, one in enumerate(trace.joints)
    }
    panels = [
        (joint.name, [_torque_figure(data, k, i) for k in range(len(data.traces))])
        for i, joint in enumerate(data.joints)
    ]
    keys = classed("p", "fine", "Drag across a plot to zoom, double-click to see all. Keys: + − ← → 0.")
    body = markup([_log_choice(data), tabs("torque", "Joint", panels), keys])
    shared = {f"time-{k}": trace.time for k, trace in enumerate(data.traces)}
    return Section("torque", "Measured and predicted torque", body, {**plots, "shared": shared})


def _log_choice(data: ReportData) -> Html:
    options = [
        tag("option", {"value": str(k)}, f"{trace.name}, {trace.role}: {count(trace.rows)} rows, {trace.seconds:.4g} s")
        for k, trace in enumerate(data.traces)
    ]
    if len(options) > 1:
        return classed("label", "choice", "Log", tag("select", {"id": "log"}, options))
    only = data.traces[0]
    return p(f"{only.name} ({only.role}): {count(only.rows)} rows over {only.seconds:.4g} s.")


def _torque_plot(k: int, one: JointTrace, unit: str) -> object:
    time = f"time-{k}"
    both = [series("measured", "measured", time, one.measured), series("predicted", "predicted", time, one.predicted)]
    left = [series("measured − predicted", "residual", time, one.residual)]
    panes = [pane(axis("torque", unit), both, height=250), pane(axis("residual", unit), left, height=110, zero=True)]
    return plot(axis("time", "s"), panes, group=time)


def _torque_figure(data: ReportData, k: int, joint: int) -> Html:
    trace, unit, name = data.traces[k], data.joints[joint].torque_unit, data.joints[joint].name
    one = trace.joints[joint]
    thinned = f" Shown: least and greatest of every {plural(trace.bucket, 'row')}." if trace.bucket > 1 else ""
    caption = (
        f"{name} in {trace.name} ({trace.role}): the torque runs from {number(one.low, 3)} to "
        f"{quantity(one.high, unit)}; the prediction misses {quantity(one.rms_miss, unit)} rms, at most "
        f"{quantity(one.greatest_miss, unit)} (at {quantity(one.greatest_at, 's', 4)}).{thinned}"
    )
    return figure(f"torque-{k}-{joint}", f"Torque of {name} over time, log {trace.name}", caption, log=k)
