"""The first sections: is the model good, and the torques that show it."""

from __future__ import annotations

from typing import Final

from mindyn.feasibility.answer import can_exist
from mindyn.pages.markup import (
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
    typeset,
)
from mindyn.pages.plots import axis, pane, plot, series
from mindyn.report.data import JointTrace, ReportData, TorqueTrace, VerdictData
from mindyn.validation.errors import EDGE_S
from mindyn.validation.validate import BOUNDS, Grade

HEADLINES: Final[dict[Grade, str]] = {
    "well": "The model is good.",
    "floor": "The model is as good as its sensors can show.",
    "roughly": "The model is usable, with care.",
    "hardly": "The model is poor.",
    "not": "The model does not explain the torque.",
}
USEFUL: Final = ("well", "floor", "roughly")
UNEVEN: Final = "The model is good for some joints, not for all."
UNJUDGED: Final = "Fits its own training data; not yet judged on other motion."
JUDGED_BEFORE: Final = "Fits its own training data; judged on other motion when it was made."
IMPOSSIBLE: Final = "It predicts the torque, but no arm can have these values."
IMPOSSIBLE_UNEVEN: Final = "It predicts the torque of some joints only, and no arm can have these values."
IMPOSSIBLE_FIT: Final = "Fits its own training data, but no arm can have these values."
UNDECIDED: Final = "It predicts the torque; whether an arm can have these values could not be decided."
FLATTERED: Final = "No held-out log was given. The errors below are those of the fit itself, and flatter."
SHOWN_BEFORE: Final = (
    "When the model was made it missed {} of the torque of held-out logs, which this report was not given: "
    "mindyn report RUN --validate LOG shows them. The errors below are those of the fit itself, and flatter."
)
UNCHECKED: Final = "Whether an arm can have these values was not checked."
MEASURE: Final = (
    "Torque missed: root mean square of measured less predicted torque, as part of that of the measured torque; over "
    "all joints together, strong joints weigh most."
)
WORTH_TELLING: Final = 0.95
"""Another model is said to predict better when its error is less than this part."""
SHADED: Final = (
    f" Shaded: not scored, {EDGE_S:g} s at the ends of every stretch, where a filter has one side alone; the residual "
    "is cut there to its range elsewhere."
)
WORDS: Final[dict[Grade, str]] = {
    "well": "good",
    "floor": "at the noise floor",
    "roughly": "rough",
    "hardly": "poor",
    "not": "none",
}


def headline(data: ReportData) -> tuple[str, Grade]:
    """The headline of a report and the grade that colours it."""
    return headline_of(data.verdict, _exists(data))


def headline_of(found: VerdictData, exists: bool | None) -> tuple[str, Grade]:
    """The headline of a verdict, and whether an arm can have the values, and the grade that colours it.

    The rule: the grade of the total torque error; but no better than "roughly", with a sentence that says why, where
    (1) no arm can have the values, or that could not be decided, (2) no held-out log was given, (3) some joint is
    hardly explained or not at all.
    """
    if found.grade not in USEFUL:
        return HEADLINES[found.grade], found.grade
    even = all(joint.grade in USEFUL for joint in found.joints)
    if not found.held_out:
        unjudged = UNJUDGED if found.before is None else JUDGED_BEFORE
        return IMPOSSIBLE_FIT if exists is False else unjudged, "roughly"
    if not even:
        return IMPOSSIBLE_UNEVEN if exists is False else UNEVEN, "roughly"
    if exists:
        return HEADLINES[found.grade], found.grade
    return UNDECIDED if exists is None else IMPOSSIBLE, "roughly"


def _exists(data: ReportData) -> bool | None:
    return can_exist({one["question"]: one["holds"] for one in data.feasibility})


def verdict_section(data: ReportData) -> Section:
    """A headline, and a sentence for each joint."""
    found = data.verdict
    said, colour = headline(data)
    lead = p(tag("strong", {}, said), f" {_missed(data)}")
    warnings = [] if found.held_out else [classed("p", "note", _flattered(found))]
    warnings += _physics(data) + _bettered(data)
    rows = [
        tag(
            "li",
            {"class": f"grade-{joint.grade}"},
            classed("span", "badge", WORDS[joint.grade]),
            classed("span", "words", typeset(joint.sentence)),
            tag("span", {"class": "meter", "aria-hidden": "true"}, _meter(joint.relative)),
        )
        for joint in found.joints
    ]
    body = [classed("div", f"lead grade-{colour}", lead), *warnings]
    listed = tag("ul", {"class": "verdicts", "aria-label": "Verdict for each joint"}, rows)
    return Section("verdict", "Is the model good?", markup([*body, listed, classed("p", "fine", _scale(data))]))


def _flattered(found: VerdictData) -> str:
    return FLATTERED if found.before is None else SHOWN_BEFORE.format(percent(found.before))


def _missed(data: ReportData) -> str:
    """The errors over all joints, in the mean and at the weakest."""
    found, parts = data.verdict, [joint.relative for joint in data.verdict.joints]
    seen = "motion that it was not fitted to" if found.held_out else "the motion that it was fitted to"
    worst = max(range(len(parts)), key=parts.__getitem__)
    several = f" over all joints together, {percent(sum(parts) / len(parts))} in the mean over joints, and "
    weakest = f"{several}{percent(parts[worst])} at {data.joints[worst].name}, the weakest" if len(parts) > 1 else ""
    return f"On {seen} it misses {percent(found.total)} of the torque{weakest}."


def _scale(data: ReportData) -> str:
    bounds = ", ".join(f"{WORDS[grade]} up to {percent(bound)}" for bound, grade in BOUNDS)
    scored = f"Scored: {plural(data.verdict.rows, 'sample')}."
    return f"{MEASURE} It is {bounds}, {WORDS['not']} beyond, where predicting zero would do better. {scored}"


def _physics(data: ReportData) -> list[Html]:
    """What the questions of feasibility add, or that they were not asked."""
    if not data.feasibility:
        return [classed("p", "fine", UNCHECKED)]
    exists = _exists(data)
    if exists:
        return []
    link = tag("a", {"href": "#feasibility"}, "Can such a robot exist?")
    if exists is None:
        return [classed("p", "note", "Whether an arm can have these values could not be decided: see ", link)]
    return [classed("p", "note", "Do not simulate with it, or control by it, before it is mended: see ", link)]


def _bettered(data: ReportData) -> list[Html]:
    """Says so when another model in the comparison predicts better."""
    if not data.comparison:
        return []
    best = min(data.comparison, key=lambda column: column.total)
    if best.total >= WORTH_TELLING * data.comparison[0].total:
        return []
    link = tag("a", {"href": "#comparison"}, "another model")
    return [classed("p", "note", "On the same samples ", link, f", {best.name}, misses less: {percent(best.total)}.")]


def _meter(relative: float) -> Html:
    """A bar as long as the part of the torque that is explained."""
    return tag("span", {"style": f"width:{max(0.0, min(1.0, 1 - relative)):.1%}"})


def torque_section(data: ReportData) -> Section | None:
    """Measured and predicted torque of every joint over time, and what is left."""
    if not data.traces:
        return None
    plots = {
        f"torque-{k}-{joint}": _torque_plot(k, trace, one, data.joints[joint].torque_unit)
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
        tag(
            "option",
            {"value": str(k)},
            f"{trace.name}, {trace.role}: {count(trace.rows)} samples, {trace.seconds:.4g} s",
        )
        for k, trace in enumerate(data.traces)
    ]
    if len(options) > 1:
        return classed("label", "choice", "Log", tag("select", {"id": "log"}, options))
    only = data.traces[0]
    return p(f"{only.name} ({only.role}): {count(only.rows)} samples over {only.seconds:.4g} s.")


def _torque_plot(k: int, trace: TorqueTrace, one: JointTrace, unit: str) -> object:
    time = f"time-{k}"
    both = [series("measured", "measured", time, one.measured), series("predicted", "predicted", time, one.predicted)]
    left = [series("measured − predicted", "residual", time, one.residual)]
    panes = [pane(axis("torque", unit), both, height=250), pane(axis("residual", unit), left, height=110, zero=True)]
    return plot(axis("time", "s"), panes, group=time, shaded=trace.unscored)


def _torque_figure(data: ReportData, k: int, joint: int) -> Html:
    trace, unit, name = data.traces[k], data.joints[joint].torque_unit, data.joints[joint].name
    one = trace.joints[joint]
    thinned = f" Shown: least and greatest of every {plural(trace.bucket, 'sample')}." if trace.bucket > 1 else ""
    shaded = SHADED if trace.unscored else ""
    caption = (
        f"{name} in {trace.name} ({trace.role}): the torque runs from {number(one.low, 3)} to "
        f"{quantity(one.high, unit)}; the prediction misses {quantity(one.rms_miss, unit)} rms, at most "
        f"{quantity(one.greatest_miss, unit)} (at {quantity(one.greatest_at, 's', 4)}).{shaded}{thinned}"
    )
    return figure(f"torque-{k}-{joint}", f"Torque of {name} over time, log {trace.name}", caption, log=k)
