"""`fleet_page`: a fleet on one page: who differs, how that came over time, every robot beside its type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from mindyn.fleet.fleet import FleetStudy, History
from mindyn.fleet.judging import FAMILY_ERROR, FEWEST_LOGS
from mindyn.pages.document import document
from mindyn.pages.markup import (
    Column,
    Content,
    Html,
    Section,
    card,
    classed,
    count,
    figure,
    number,
    p,
    plural,
    table,
    tag,
    typeset,
)
from mindyn.pages.plots import axis, intervals, pane, plot, series

SHOWN: Final = 24
"""Histories that are drawn."""
LISTED: Final = 200
"""Excluded logs that are listed; the table has all."""
PLOT_HEIGHT: Final = 170
ROW: Final = 22
"""Pixels of a robot's row."""
NAMED: Final = 30
"""Robots up to which each has a row with its name; more are drawn as one curve."""
KINDS: Final = {
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
    said = f"{plural(len(found.robots), 'robot')}, {plural(logs, 'log')}, {count(rows)} rows"
    sections = [_differing(found), _over_time(found), _beside(found), _type(found), _logs(found, record)]
    return document(f"Fleet of {name}", said, [one for one in sections if one is not None])


def nobody_differs(found: FleetStudy) -> str:
    """What it means that no difference was found."""
    if all(one.logs < FEWEST_LOGS for one in found.robots):
        return f"No robot could be judged: each needs {FEWEST_LOGS} logs or more."
    return "No robot differs from the type or drifts beyond what chance explains."


def _differing(found: FleetStudy) -> Section:
    lead = classed("div", f"lead {'grade-roughly' if found.differences else 'grade-well'}", p(_headline(found)))
    rule = (
        f"Sizes are fitted to each robot's logs; their deviations come from leaving out logs in turn, and hold what "
        f"robots of the type differ by among themselves. All tests of this page together name somebody falsely with a "
        f"probability of {100 * FAMILY_ERROR:g} %."
    )
    body = [lead, *_next(found), p(rule)]
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
    body += [classed("p", "note", str(finding)) for finding in found.findings]
    return Section("differing", "Who differs", Html("".join(body)))


def _headline(found: FleetStudy) -> list[Content]:
    apart = list(dict.fromkeys(one.robot for one in found.differences))
    if not apart:
        return [tag("strong", {}, nobody_differs(found))]
    verb = "differs" if len(apart) == 1 else "differ"
    said = f"{plural(len(apart), 'robot')} of {count(len(found.robots))} {verb} from the type."
    surest = found.differences[0]
    return [tag("strong", {}, said), typeset(f" Most certain is {surest.robot}: {surest.sentence}.")]


def _next(found: FleetStudy) -> list[Html]:
    """What to do about those that differ."""
    if not found.differences:
        return []
    one = found.differences[0].robot
    words = f"Look at what the table names, the most certain first; then identify {one} by itself:"
    command = classed("code", "command", f"mindyn identify ROBOT LOGS-OF-{one} --hold-out 0.3 --out {one}")
    return [classed("div", "cards", card("What next", [p(words), command]))]


def _over_time(found: FleetStudy) -> Section | None:
    drawn = [one for one in found.histories if np.isfinite(one.days).sum() > 1][:SHOWN]
    if not drawn:
        return None
    plots = {f"history-{k}": _history(one) for k, one in enumerate(drawn)}
    figures = [
        figure(
            f"history-{k}", f"{one.cause} of {one.robot}", [tag("b", {}, one.robot), f", {one.cause}"], shape="small"
        )
        for k, one in enumerate(drawn)
    ]
    lead = "The size of each difference in every log by itself, over the days since the first log of the fleet."
    return Section("time", "Over time", Html(p(lead) + classed("div", "grid", figures)), plots)


def _history(one: History) -> dict[str, Any]:
    known = np.isfinite(one.days) & np.isfinite(one.sizes)
    order = np.argsort(one.days[known], kind="stable")
    days, sizes = one.days[known][order], one.sizes[known][order]
    unit, scale = (one.unit, 1.0) if one.unit else ("%", 100.0)
    curve = series(one.robot, "measured", (days - days[0]).tolist(), (scale * sizes).tolist())
    return plot(axis("since the first log", "days"), [pane(axis("size", unit), [curve], height=PLOT_HEIGHT, zero=True)])


def _beside(found: FleetStudy) -> Section | None:
    """Small multiples: friction of every joint, robot beside robot."""
    whole = found.type.estimate
    known = [one for one in found.robots if one.estimate is not None]
    if whole is None or len(known) < 2:
        return None
    apart = {(one.robot, one.cause.where) for one in found.differences}
    plots, figures = {}, []
    for k, one in enumerate(whole.parameters):
        if one.kind not in KINDS:
            continue
        ends = [_interval(member.estimate.beta[k], member.deviations[k]) for member in known if member.estimate]
        key = f"beside-{k}"
        if len(known) <= NAMED:
            type_of = _interval(whole.beta[k], found.type.deviations[k])
            rows = {"the type": type_of, **{m.key[0]: end for m, end in zip(known, ends, strict=True)}}
            where = {robot for robot, joint in apart if joint == one.link_or_joint}
            plots[key] = _forest(rows, where, one.unit)
        else:
            plots[key] = _row_of_robots(ends, float(whole.beta[k]), one.name, one.unit)
        caption = f"{one.name}: {KINDS[one.kind]} of {one.link_or_joint}"
        figures.append(figure(key, f"{one.name} of every robot", caption, shape="small"))
    lead = "Friction and offset of every robot with two standard deviations to both sides, beside those of the type"
    if len(known) > NAMED:
        lead += f" (the straight line): robot 1 is {known[0].key[0]}, robot {len(known)} is {known[-1].key[0]}"
    return Section("robots", "Robots beside the type", Html(p(f"{lead}.") + classed("div", "grid", figures)), plots)


Interval = tuple[float, float, float]
"""A value, and two standard deviations below and above it; the value thrice where they are not known."""


def _interval(value: float, deviation: float) -> Interval:
    half = 2 * _finite(deviation)
    return float(value), float(value) - half, float(value) + half


def _forest(rows: Mapping[str, Interval], apart: set[str], unit: str) -> dict[str, Any]:
    """One row for each robot, the type above them; those in `apart` in a colour of their own."""
    names = list(rows)
    groups = {
        "type": ("predicted", names[:1]),
        "robots": ("measured", [name for name in names[1:] if name not in apart]),
        "differing": ("second", [name for name in names[1:] if name in apart]),
    }
    curves = [
        intervals(title, role, own, [(rows[n][0], names.index(n), *rows[n][1:]) for n in own], [rows[n] for n in own])
        for title, (role, own) in groups.items()
        if own
    ]
    low, high = min(one[1] for one in rows.values()), max(one[2] for one in rows.values())
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    x = axis("value", typeset(unit), extent=(low - room, high + room))
    return plot(x, [pane(axis("robot", names=names), curves, height=max(PLOT_HEIGHT // 2, ROW * len(names)))])


def _row_of_robots(ends: Sequence[Interval], of_type: float, name: str, unit: str) -> dict[str, Any]:
    """A band over the numbers of many robots."""
    places = [float(k + 1) for k in range(len(ends))]
    values, low, high = ([one[k] for one in ends] for k in range(3))
    curves = [
        series("± 2 deviations", "band", places, low, kind="band", y2=high),
        series("robots", "measured", places, values),
        series("type", "predicted", [places[0], places[-1]], [of_type] * 2),
    ]
    return plot(axis("robot, by name"), [pane(axis(name, unit), curves, height=PLOT_HEIGHT)], group="robots")


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0


def _type(found: FleetStudy) -> Section | None:
    whole = found.type.estimate
    if whole is None:
        return None
    columns = [Column("parameter"), Column("value", number=True), Column("deviation", number=True), Column("unit")]
    lines: list[Sequence[str]] = [
        (one.name, number(float(value)), number(float(deviation), 2), typeset(one.unit))
        for one, value, deviation in zip(whole.parameters, whole.beta, found.type.deviations, strict=True)
    ]
    lead = f"{typeset(whole.status)} Of {plural(found.type.logs, 'log')} of the robots that do not differ."
    return Section("type", "The type", Html(p(lead) + table(columns, lines, "Values of the type")))


def _logs(found: FleetStudy, record: Mapping[str, Any]) -> Section:
    earlier = sum(one.logs for one in found.robots) - found.gathered
    kept = f" {plural(earlier, 'log')} had been read before." if earlier > 0 else ""
    body = [p(f"{plural(found.gathered, 'log')} {'was' if found.gathered == 1 else 'were'} read in this run.{kept}")]
    if found.excluded:
        lines = [(one.name, one.reason) for one in found.excluded[:LISTED]]
        body.append(table([Column("log"), Column("reason")], lines, f"{len(found.excluded)} logs do not count"))
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    body.append(classed("p", "fine", f"Made {made} by mindyn {record.get('version', '')}."))
    return Section("logs", "Logs", Html("".join(body)))
