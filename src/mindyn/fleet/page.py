"""`fleet_page`: a fleet on one page: who differs, how that came over time, every robot beside its type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from mindyn.fleet.assessment import FAMILY_WISE_ERROR, MIN_LOGS
from mindyn.fleet.fleet import FleetStudy, History
from mindyn.pages.document import render_document
from mindyn.pages.markup import (
    Column,
    Content,
    Html,
    Section,
    card,
    class_tag,
    figure,
    format_count,
    format_number,
    format_plural,
    p,
    table,
    tag,
    typeset,
)
from mindyn.pages.plots import axis, interval_series, pane, plot, series

MAX_HISTORIES: Final = 24
"""Histories that are drawn."""
MAX_LISTED_LOGS: Final = 200
"""Excluded logs that are listed; the table has all."""
PLOT_HEIGHT_PX: Final = 170
ROW_HEIGHT_PX: Final = 22
"""Pixels of a robot's row."""
MAX_NAMED_ROBOTS: Final = 30
"""Robots up to which each has a row with its name; more are drawn as one curve."""
DRAWN_KINDS: Final = {
    "viscous": "viscous friction",
    "coulomb": "Coulomb friction",
    "joint_side": "friction behind the coupling",
    "offset": "torque offset",
}
"""Parameters that are drawn robot by robot, in words."""


def fleet_page(found: FleetStudy, record: Mapping[str, Any]) -> str:
    """The whole file."""
    logs, rows = sum(one.logs for one in found.robots), sum(one.rows for one in found.robots)
    name = "fleet" if found.type.estimate is None else found.type.estimate.robot.name
    said = f"{format_plural(len(found.robots), 'robot')}, {format_plural(logs, 'log')}, {format_count(rows)} rows"
    sections = [
        _draw_differences(found),
        _draw_histories(found),
        _draw_comparison(found),
        _draw_type(found),
        _list_logs(found, record),
    ]
    return render_document(f"Fleet of {name}", said, [one for one in sections if one is not None])


def explain_no_difference(found: FleetStudy) -> str:
    """What it means that no difference was found."""
    if all(one.logs < MIN_LOGS for one in found.robots):
        return f"No robot could be judged: each needs {MIN_LOGS} logs or more."
    return "No robot differs from the type or drifts beyond what chance explains."


def _draw_differences(found: FleetStudy) -> Section:
    lead = class_tag(
        "div", f"lead {'grade-roughly' if found.differences else 'grade-well'}", p(_format_headline(found))
    )
    rule = (
        f"Sizes are fitted to each robot's logs; their deviations come from leaving out logs in turn, and hold what "
        f"robots of the type differ by among themselves. All tests of this page together name somebody falsely with a "
        f"probability of {100 * FAMILY_WISE_ERROR:g} %."
    )
    body = [lead, *_next_steps(found), p(rule)]
    if found.differences:
        columns = [
            Column("robot"),
            Column("what"),
            Column("deviations", number=True),
            Column("p", number=True),
        ]
        lines = [
            (one.robot, typeset(one.sentence), f"{abs(one.size) / one.deviation:.1f}", typeset(f"{one.p:.0e}"))
            for one in found.differences
        ]
        body.append(table(columns, lines, "Who differs from the type, the most certain first"))
    body += [class_tag("p", "note", str(finding)) for finding in found.findings]
    return Section("differing", "Who differs", Html("".join(body)))


def _format_headline(found: FleetStudy) -> list[Content]:
    apart = list(dict.fromkeys(one.robot for one in found.differences))
    if not apart:
        return [tag("strong", {}, explain_no_difference(found))]
    verb = "differs" if len(apart) == 1 else "differ"
    said = f"{format_plural(len(apart), 'robot')} of {format_count(len(found.robots))} {verb} from the type."
    surest = found.differences[0]
    return [tag("strong", {}, said), typeset(f" Most certain is {surest.robot}: {surest.sentence}.")]


def _next_steps(found: FleetStudy) -> list[Html]:
    """What to do about those that differ."""
    if not found.differences:
        return []
    one = found.differences[0].robot
    words = f"Look at what the table names, the most certain first; then identify {one} by itself:"
    command = class_tag("code", "command", f"mindyn identify ROBOT LOGS-OF-{one} --hold-out 0.3 --out {one}")
    return [class_tag("div", "cards", card("What next", [p(words), command]))]


def _draw_histories(found: FleetStudy) -> Section | None:
    drawn = [one for one in found.histories if np.isfinite(one.days).sum() > 1][:MAX_HISTORIES]
    if not drawn:
        return None
    plots = {f"history-{k}": _draw_history(one) for k, one in enumerate(drawn)}
    figures = [
        figure(
            f"history-{k}", f"{one.cause} of {one.robot}", [tag("b", {}, one.robot), f", {one.cause}"], shape="small"
        )
        for k, one in enumerate(drawn)
    ]
    lead = "The size of each difference in every log by itself, over the days since the first log of the fleet."
    return Section("time", "Over time", Html(p(lead) + class_tag("div", "grid", figures)), plots)


def _draw_history(one: History) -> dict[str, Any]:
    known = np.isfinite(one.days) & np.isfinite(one.sizes)
    order = np.argsort(one.days[known], kind="stable")
    days, sizes = one.days[known][order], one.sizes[known][order]
    unit, scale = (one.unit, 1.0) if one.unit else ("%", 100.0)
    curve = series(one.robot, "measured", (days - days[0]).tolist(), (scale * sizes).tolist())
    return plot(
        axis("since the first log", "days"), [pane(axis("size", unit), [curve], height=PLOT_HEIGHT_PX, zero=True)]
    )


def _draw_comparison(found: FleetStudy) -> Section | None:
    """Small multiples: friction of every joint, robot beside robot."""
    whole = found.type.estimate
    known = [one for one in found.robots if one.estimate is not None]
    if whole is None or len(known) < 2:
        return None
    apart = {(one.robot, one.cause.where) for one in found.differences}
    plots, figures = {}, []
    for k, one in enumerate(whole.parameters):
        if one.kind not in DRAWN_KINDS:
            continue
        ends = [_interval(member.estimate.beta[k], member.deviations[k]) for member in known if member.estimate]
        key = f"beside-{k}"
        if len(known) <= MAX_NAMED_ROBOTS:
            type_of = _interval(whole.beta[k], found.type.deviations[k])
            rows = {"the type": type_of, **{m.key[0]: end for m, end in zip(known, ends, strict=True)}}
            where = {robot for robot, joint in apart if joint == one.link_or_joint}
            plots[key] = _draw_forest(rows, where, one.unit)
        else:
            plots[key] = _draw_band(ends, float(whole.beta[k]), one.name, one.unit)
        caption = f"{one.name}: {DRAWN_KINDS[one.kind]} of {one.link_or_joint}"
        figures.append(figure(key, f"{one.name} of every robot", caption, shape="small"))
    lead = "Friction and offset of every robot with two standard deviations to both sides, beside those of the type"
    if len(known) > MAX_NAMED_ROBOTS:
        lead += f" (the straight line): robot 1 is {known[0].key[0]}, robot {len(known)} is {known[-1].key[0]}"
    return Section("robots", "Robots beside the type", Html(p(f"{lead}.") + class_tag("div", "grid", figures)), plots)


Interval = tuple[float, float, float]
"""A value, and two standard deviations below and above it; the value thrice where they are not known."""


def _interval(value: float, deviation: float) -> Interval:
    half = 2 * _finite(deviation)
    return float(value), float(value) - half, float(value) + half


def _draw_forest(rows: Mapping[str, Interval], apart: set[str], unit: str) -> dict[str, Any]:
    """One row for each robot, the type above them; those in `apart` in a colour of their own."""
    names = list(rows)
    groups = {
        "type": ("predicted", names[:1]),
        "robots": ("measured", [name for name in names[1:] if name not in apart]),
        "differing": ("second", [name for name in names[1:] if name in apart]),
    }
    curves = [
        interval_series(
            title, role, own, [(rows[n][0], names.index(n), *rows[n][1:]) for n in own], [rows[n] for n in own]
        )
        for title, (role, own) in groups.items()
        if own
    ]
    low, high = min(one[1] for one in rows.values()), max(one[2] for one in rows.values())
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    x = axis("value", typeset(unit), extent=(low - room, high + room))
    return plot(
        x, [pane(axis("robot", names=names), curves, height=max(PLOT_HEIGHT_PX // 2, ROW_HEIGHT_PX * len(names)))]
    )


def _draw_band(ends: Sequence[Interval], of_type: float, name: str, unit: str) -> dict[str, Any]:
    """A band over the numbers of many robots."""
    places = [float(k + 1) for k in range(len(ends))]
    values, low, high = ([one[k] for one in ends] for k in range(3))
    curves = [
        series("± 2 deviations", "band", places, low, kind="band", y2=high),
        series("robots", "measured", places, values),
        series("type", "predicted", [places[0], places[-1]], [of_type] * 2),
    ]
    return plot(axis("robot, by name"), [pane(axis(name, unit), curves, height=PLOT_HEIGHT_PX)], group="robots")


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0


def _draw_type(found: FleetStudy) -> Section | None:
    whole = found.type.estimate
    if whole is None:
        return None
    columns = [Column("parameter"), Column("value", number=True), Column("deviation", number=True), Column("unit")]
    lines: list[Sequence[str]] = [
        (one.name, format_number(float(value)), format_number(float(deviation), 2), typeset(one.unit))
        for one, value, deviation in zip(whole.parameters, whole.beta, found.type.deviations, strict=True)
    ]
    lead = f"{typeset(whole.status)} Of {format_plural(found.type.logs, 'log')} of the robots that do not differ."
    return Section("type", "The type", Html(p(lead) + table(columns, lines, "Values of the type")))


def _list_logs(found: FleetStudy, record: Mapping[str, Any]) -> Section:
    earlier = sum(one.logs for one in found.robots) - found.gathered
    kept = f" {format_plural(earlier, 'log')} had been read before." if earlier > 0 else ""
    body = [
        p(f"{format_plural(found.gathered, 'log')} {'was' if found.gathered == 1 else 'were'} read in this run.{kept}")
    ]
    if found.excluded:
        lines = [(one.name, one.reason) for one in found.excluded[:MAX_LISTED_LOGS]]
        body.append(table([Column("log"), Column("reason")], lines, f"{len(found.excluded)} logs do not count"))
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    body.append(class_tag("p", "fine", f"Made {made} by mindyn {record.get('version', '')}."))
    return Section("logs", "Logs", Html("".join(body)))
