"""Files of a study: tables for programs, the estimate of the type, and a page for people.

The page names robots that differ, draws their history, and compares all robots with the type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.applications.fleet.assessment import DIFFERENCE_COLUMNS, FAMILY_WISE_ERROR, MIN_LOGS
from mindyn.applications.fleet.path_template import SECONDS_PER_DAY
from mindyn.applications.fleet.size_distribution import MIN_ROBOTS
from mindyn.applications.fleet.study_fleet import FleetStudy
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.atomic_files import replace_folder_files, write_file_atomically
from mindyn.foundation.hints import Command
from mindyn.foundation.pages.document import (
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
    render_document,
    table,
    tag,
    typeset,
)
from mindyn.foundation.pages.plots import axis, interval_series, pane, plot, series
from mindyn.foundation.processes.executors import require_polars_threads

STUDY_FILES: Final = (
    "fleet.json",
    "estimate.json",
    "parameters.parquet",
    "differences.parquet",
    "excluded.parquet",
    "report.html",
)
"""Files of a study in its folder besides the factors; they replace those of an earlier study together."""
MAX_HISTORIES: Final = 24
"""Largest number of histories that are drawn."""
MIN_PROBABILITY: Final = 1e-99
MAX_LISTED_LOGS: Final = 200
"""Largest number of excluded logs on the page; the Parquet file has all."""
PLOT_HEIGHT_PX: Final = 170
ROW_HEIGHT_PX: Final = 22
"""Height of the row of a robot."""
MAX_NAMED_ROBOTS: Final = 30
"""Largest number of robots with a named row each; more are drawn as one curve."""
DRAWN_KINDS: Final = {
    "viscous": "viscous friction",
    "coulomb": "Coulomb friction",
    "joint_side": "joint-side friction",
    "offset": "torque offset",
}
"""Names of the kinds of parameters that are drawn for each robot."""


def write_study(study: FleetStudy, out: Path, record: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write all files of a study, or none if an error occurs; return their paths."""
    pointer = json.loads((out / "fleet.json").read_text(encoding="utf-8"))
    summary = summarise_study(study)
    with replace_folder_files(out, STUDY_FILES) as folder:
        if study.type.estimate is not None:
            study.type.estimate.save(folder / "estimate.json")
        _write_parquet(folder / "parameters.parquet", tabulate_parameters(study), ())
        _write_parquet(folder / "differences.parquet", summary["differences"], DIFFERENCE_COLUMNS)
        _write_parquet(folder / "excluded.parquet", summary["excluded"], ("log", "reason"))
        content = {**pointer, **summary, "run": dict(record)}
        write_file_atomically(folder / "fleet.json", json.dumps(content, indent=1) + "\n")
        write_file_atomically(folder / "report.html", fleet_page(study, record))
    return tuple(out / name for name in STUDY_FILES if (out / name).is_file())


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write a table; without rows, it has these columns."""
    import polars as pl

    require_polars_threads()
    file = BytesIO()
    schema = None if rows else dict.fromkeys(columns, pl.String)
    pl.DataFrame(rows, schema, infer_schema_length=None).write_parquet(file)
    write_file_atomically(path, file.getvalue())


def tabulate_parameters(study: FleetStudy) -> list[dict[str, Any]]:
    """Return a row for every parameter of the type, of every robot and of every group."""
    levels = {"type": (study.type,), "robot": study.robots, "group": study.groups}
    rows = []
    for level, member in ((level, member) for level, members in levels.items() for member in members):
        if member.estimate is None:
            continue
        key = [*member.key, *[None] * len(study.group_by)]
        first, last = (None, None) if member.days is None else map(day_text, member.days)
        numbers = zip(member.estimate.parameters, member.estimate.beta, member.deviations, strict=True)
        rows += [
            {
                "level": level,
                **dict(zip(study.group_by, key, strict=False)),
                "parameter": parameter.name,
                "value": float(value),
                "deviation": float(deviation) if isfinite(deviation) else None,
                "unit": parameter.unit,
                "logs": member.logs,
                "rows": member.rows,
                "from": first,
                "to": last,
            }
            for parameter, value, deviation in numbers
        ]
    return rows


def day_text(day: float) -> str:
    """Format a day as a date."""
    return f"{datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC):%Y-%m-%d}"


def summarise_study(study: FleetStudy) -> dict[str, Any]:
    """Return a summary of the study for JSON, with the robots that differ or drift, most significant first."""
    return {
        "group_by": list(study.group_by),
        "robots": len(study.robots),
        "groups": len(study.groups),
        "logs": study.logs,
        "rows": study.rows,
        "gathered": study.gathered,
        "differences": [difference.to_dict() for difference in study.differences],
        "excluded": [{"log": log.name, "reason": log.reason} for log in study.excluded],
        "findings": [finding.to_dict() for finding in study.findings],
    }


def fleet_page(study: FleetStudy, record: Mapping[str, Any]) -> str:
    """Return the page of a study as HTML text without external files."""
    name = "fleet" if study.type.estimate is None else study.type.estimate.robot.name
    counts = format_plural(len(study.robots), "robot"), format_plural(study.logs, "log"), format_count(study.rows)
    summary = f"{', '.join(counts)} rows"
    sections = [
        _differences_section(study, record),
        _histories_section(study),
        _comparison_section(study),
        _type_section(study),
        _logs_section(study, record),
    ]
    return render_document(f"Fleet of {name}", summary, [section for section in sections if section is not None])


def explain_no_difference(study: FleetStudy) -> str:
    """Explain why no difference was found."""
    tested = sum(member.logs >= MIN_LOGS for member in study.robots)
    if not tested:
        return f"No robot could be tested: each needs at least {MIN_LOGS} logs."
    if tested < MIN_ROBOTS:
        return f"Differences were not tested: this needs at least {MIN_ROBOTS} robots. No robot drifts significantly."
    return "No robot differs significantly from the type or drifts."


def _differences_section(study: FleetStudy, record: Mapping[str, Any]) -> Section:
    is_good = not study.differences and len(study.robots) >= MIN_ROBOTS
    lead = class_tag("div", f"lead {'grade-good' if is_good else 'grade-fair'}", p(_format_headline(study)))
    rule = (
        f"Sizes are fitted to the logs of each robot. Their deviations come from a jackknife over logs and include the "
        f"differences between robots of the type. The probability of any false report on this page is "
        f"{100 * FAMILY_WISE_ERROR:g} %."
    )
    body = [lead, *_next_steps(study, record), p(rule)]
    if study.differences:
        columns = [
            Column("robot"),
            Column("what"),
            Column("deviations", number=True),
            Column("p", number=True),
        ]
        lines = [
            (d.robot, typeset(d.sentence), f"{abs(d.size) / d.deviation:.1f}", typeset(format_probability(d.p)))
            for d in study.differences
        ]
        body.append(table(columns, lines, "Robots that differ from the type, most significant first"))
    body += [class_tag("p", "note", str(finding)) for finding in study.findings]
    return Section("differing", "Robots that differ", body)


def format_probability(p: float) -> str:
    """Format a probability; that of very large differences is zero in floating point."""
    return f"{p:.0e}" if p >= MIN_PROBABILITY else f"< {MIN_PROBABILITY:.0e}"


def _format_headline(study: FleetStudy) -> list[Content]:
    apart = list(dict.fromkeys(difference.robot for difference in study.differences))
    if not apart:
        return [tag("strong", {}, explain_no_difference(study))]
    verb = "differs" if len(apart) == 1 else "differ"
    summary = f"{format_plural(len(apart), 'robot')} of {format_count(len(study.robots))} {verb} from the type."
    first = study.differences[0]
    return [tag("strong", {}, summary), typeset(f" Most significant: {first.robot}, {first.sentence}.")]


def _next_steps(study: FleetStudy, record: Mapping[str, Any]) -> list[Html]:
    """Return the next steps for robots that differ."""
    if not study.differences:
        return []
    robot = study.differences[0].robot
    text = f"Check the causes in the table, most significant first. Then identify {robot} alone:"
    # The pattern with the name of this robot in it is left to the shell, which lists the files.
    logs = str(record.get("logs", "LOGS")).replace(f"{{{study.group_by[0]}}}", robot)
    logs = re.sub(r"\{\w+\}", "*", logs)
    arm = record.get("robot", {}).get("given", "ROBOT")
    words = str(Command("identify", arm, "LOGS", "--hold-out", 0.3, "--out", robot)).replace("LOGS", logs)
    command = tag("code", {"class": "command", "tabindex": "0"}, words)
    return [class_tag("div", "cards", card("Next steps", [p(text), command]))]


def _histories_section(study: FleetStudy) -> Section | None:
    known = zip(study.differences, study.histories, strict=True)
    drawn = [(difference, *history) for difference, history in known if np.isfinite(history[0]).sum() > 1]
    if not drawn:
        return None
    plots, figures = {}, []
    for k, (difference, days, sizes) in enumerate(drawn[:MAX_HISTORIES]):
        robot, cause = difference.robot, f"{difference.cause.what} of {difference.cause.where}"
        plots[f"history-{k}"] = _plot_history(robot, difference.cause.unit, days, sizes)
        caption = [tag("b", {}, robot), f", {cause}"]
        figures.append(figure(f"history-{k}", f"{cause} of {robot}", caption, shape="small"))
    lead = "Size of each difference in every log, over the time since the first log."
    return Section("time", "Over time", [p(lead), class_tag("div", "grid", figures)], plots)


def _plot_history(robot: str, unit: str, days: Array, sizes: Array) -> dict[str, Any]:
    order = np.argsort(days, kind="stable")
    order = order[np.isfinite(days + sizes)[order]]
    passed, time_unit = _choose_time_unit(days[order] - days[order[0]])
    curve = series(robot, "measured", passed, sizes[order] * (1.0 if unit else 100.0))
    return plot(
        axis("since the first log", time_unit),
        [pane(axis("size", unit or "%"), [curve], height=PLOT_HEIGHT_PX, zero=True)],
    )


def _choose_time_unit(days: Array) -> tuple[Array, str]:
    """Return times in the largest unit in which they last at least one unit; seconds if none is small enough."""
    units = {"days": 1.0, "h": 24.0, "min": 24.0 * 60.0, "s": 24.0 * 3600.0}
    unit = next((unit for unit, factor in units.items() if days[-1] * factor >= 1), "s")
    return days * units[unit], unit


def _comparison_section(study: FleetStudy) -> Section | None:
    """Draw friction and offset of every joint for all robots."""
    fleet_type = study.type.estimate
    known = [member for member in study.robots if member.estimate is not None]
    if fleet_type is None or len(known) < 2:
        return None
    apart = {(difference.robot, difference.cause.where) for difference in study.differences}
    plots, figures = {}, []
    for k, parameter in enumerate(fleet_type.parameters):
        if parameter.kind not in DRAWN_KINDS:
            continue
        ends = [_interval(member.estimate.beta[k], member.deviations[k]) for member in known if member.estimate]
        key = f"comparison-{k}"
        if len(known) <= MAX_NAMED_ROBOTS:
            interval = _interval(fleet_type.beta[k], study.type.deviations[k])
            rows = {"the type": interval, **{m.key[0]: end for m, end in zip(known, ends, strict=True)}}
            robots_apart = {robot for robot, joint in apart if joint == parameter.link_or_joint}
            plots[key] = _plot_forest(rows, robots_apart, parameter.unit)
        else:
            plots[key] = _plot_band(ends, float(fleet_type.beta[k]), parameter.name, parameter.unit)
        caption = f"{parameter.name}: {DRAWN_KINDS[parameter.kind]} of {parameter.link_or_joint}"
        figures.append(figure(key, f"{parameter.name} of every robot", caption, shape="small"))
    lead = (
        "Friction and offset of every robot, compared with the type. Bars: two standard deviations on both sides, from "
        f"the differences between at least {MIN_LOGS} logs; none where fewer logs of a robot are informative"
    )
    if len(known) > MAX_NAMED_ROBOTS:
        lead += (
            f"; the straight line is the type, robot 1 is {known[0].key[0]}, robot {len(known)} is {known[-1].key[0]}"
        )
    return Section("robots", "Robots compared with the type", [p(f"{lead}."), class_tag("div", "grid", figures)], plots)


Interval = tuple[float, float, float]
"""Value, and value minus and plus two standard deviations, NaN if they are unknown."""


def _interval(value: float, deviation: float) -> Interval:
    half = 2 * deviation if isfinite(deviation) else nan
    return float(value), float(value - half), float(value + half)


def _plot_forest(rows: Mapping[str, Interval], apart: set[str], unit: str) -> dict[str, Any]:
    """Draw one row for each robot below that of the type; robots in `apart` have another colour."""
    names = list(rows)
    groups = {
        "type": ("predicted", names[:1]),
        "robots": ("measured", [name for name in names[1:] if name not in apart]),
        "differing": ("second", [name for name in names[1:] if name in apart]),
    }
    curves = [
        interval_series(
            title,
            role,
            group,
            [(rows[n][0], names.index(n), *rows[n][1:]) for n in group],
            [tuple(None if isnan(end) else end for end in rows[n]) for n in group],
        )
        for title, (role, group) in groups.items()
        if group
    ]
    ends = [end for row in rows.values() for end in row if isfinite(end)]
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    x = axis("value", typeset(unit), extent=(low - margin, high + margin))
    return plot(
        x, [pane(axis("robot", names=names), curves, height=max(PLOT_HEIGHT_PX // 2, ROW_HEIGHT_PX * len(names)))]
    )


def _plot_band(ends: Sequence[Interval], type_value: float, name: str, unit: str) -> dict[str, Any]:
    """Draw a band over the numbers of many robots."""
    places = [float(k + 1) for k in range(len(ends))]
    values = [interval[0] for interval in ends]
    low, high = ([i[0] if isnan(i[k]) else i[k] for i in ends] for k in (1, 2))
    curves = [
        series("± 2 deviations", "band", places, low, kind="band", y2=high),
        series("robots", "measured", places, values),
        series("type", "predicted", [places[0], places[-1]], [type_value] * 2),
    ]
    return plot(axis("robot, by name"), [pane(axis(name, unit), curves, height=PLOT_HEIGHT_PX)], group="robots")


def _type_section(study: FleetStudy) -> Section | None:
    fleet_type = study.type.estimate
    if fleet_type is None:
        return None
    columns = [Column("parameter"), Column("value", number=True), Column("deviation", number=True), Column("unit")]
    lines: list[Sequence[str]] = [
        (parameter.name, format_number(float(value)), format_number(float(deviation), 2), typeset(parameter.unit))
        for parameter, value, deviation in zip(
            fleet_type.parameters, fleet_type.beta, study.type.deviations, strict=True
        )
    ]
    lead = (
        f"{typeset(fleet_type.status)} From {format_plural(study.type.logs, 'log')} of the robots that do not differ."
    )
    return Section("type", "The type", [p(lead), table(columns, lines, "Values of the type")])


def _logs_section(study: FleetStudy, record: Mapping[str, Any]) -> Section:
    earlier = study.logs - study.gathered
    kept = f" {format_plural(earlier, 'log')} had been read before." if earlier > 0 else ""
    body = [
        p(f"{format_plural(study.gathered, 'log')} {'was' if study.gathered == 1 else 'were'} read in this run.{kept}")
    ]
    if study.excluded:
        lines = [(log.name, log.reason) for log in study.excluded[:MAX_LISTED_LOGS]]
        body.append(table([Column("log"), Column("reason")], lines, f"{len(study.excluded)} logs are excluded"))
    created = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    body.append(class_tag("p", "fine", f"Created {created} by mindyn {record.get('version', '')}."))
    return Section("logs", "Logs", body)
