"""Notebook views of values: `notebook_table` is a small table, `notebook_page` a page with figures of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError, list_names
from mindyn.estimators.estimate import Estimate
from mindyn.excitation.motion_design import MotionDesign
from mindyn.excitation.motion_plot import html_plot
from mindyn.kernels.model import Model
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples
from mindyn.pages.document import (
    Column,
    Content,
    Html,
    Section,
    figure,
    format_percent,
    format_plural,
    p,
    render_document,
    table,
    tabs,
    tag,
    to_html,
    typeset,
)
from mindyn.pages.notebook import Page
from mindyn.pages.plots import axis, bucket_extremes, bucket_times, pack_exactly, pack_levels, pane, plot, series
from mindyn.parameters.base import BaseParameters
from mindyn.report.collection import collect_report_data
from mindyn.report.excitation_and_friction import excitation_section, friction_section
from mindyn.report.headlines import GRADE_LABELS
from mindyn.report.inputs import ReportInputs
from mindyn.report.parameter_table import parameter_section
from mindyn.report.residuals import residual_section
from mindyn.report.results import parameter_rows, verdict_data
from mindyn.report.verdict_sections import torque_section
from mindyn.robots.robot import Robot
from mindyn.robots.table import count_joints, joint_rows
from mindyn.validation.validate import Validation

Facts = Sequence[tuple[str, str]]
MAX_TABLE_ROWS: Final = 40
"""Most rows of a table in a notebook."""
PLOT_BUCKETS: Final = 8000
MAX_LISTED_NAMES: Final = 8


def notebook_table(value: object) -> str:
    """Return the HTML table of a value; `TABLES` lists the supported classes."""
    return str(_find_renderer(value, TABLES)(value))


def notebook_page(value: object, *more: Any) -> Page:
    """Return the page of a value; `PAGES` lists the supported classes."""
    page: Page = _find_renderer(value, PAGES)(value, *more)
    return page


def _find_renderer(value: object, table_of: Mapping[type, Callable[..., Any]]) -> Callable[..., Any]:
    for kind in type(value).__mro__:
        if kind in table_of:
            return table_of[kind]
    raise InputError(
        f"{type(value).__name__} has no figures; supported: {', '.join(kind.__name__ for kind in table_of)}",
        code=Code.UNSUPPORTED,
        subject=type(value).__name__,
    )


def _summary_block(title: str, facts: Facts, head: Sequence[str] = (), rows: Sequence[Sequence[Content]] = ()) -> Html:
    """Return a title, facts, and the first rows of a table."""
    listing = tag("ul", {}, [tag("li", {}, f"{name}: {value}") for name, value in facts if value])
    parts: list[Content] = [tag("strong", {}, title), listing]
    if rows:
        cells = [tag("tr", {}, [tag("td", {}, cell) for cell in row]) for row in rows[:MAX_TABLE_ROWS]]
        heads = tag("tr", {}, [tag("th", {}, name) for name in head])
        parts.append(tag("table", {}, tag("thead", {}, heads), tag("tbody", {}, cells)))
        parts += [p(f"{len(rows) - MAX_TABLE_ROWS} more rows")] if len(rows) > MAX_TABLE_ROWS else []
    return tag("div", {}, parts)


def _robot_table(robot: Robot) -> Html:
    head, *rows = joint_rows(robot)
    facts = [
        ("drives", format_plural(len(robot.drives), "joint") if robot.drives else "none"),
        ("loops", list_names([loop.name for loop in robot.loops], MAX_LISTED_NAMES)),
        ("notes", "; ".join(map(str, robot.findings))),
    ]
    return _summary_block(f"{robot.name}: {count_joints(robot)}", facts, head, rows)


def _base_table(base: BaseParameters) -> Html:
    title = f"{base.robot.name}: {base.count} base parameters of {len(base.labels)} ({base.form})"
    known = base.robot.has_parameters
    values = [f"{value:.6g}" for value in base.values] if known else [""] * base.count
    rows = list(zip(base.names, values, base.shown_expressions, strict=True))
    return _summary_block(title, [], ("name", "value", "formula"), rows)


def _model_table(model: Model) -> Html:
    facts = [
        ("joints", list_names(model.robot.primary_names, MAX_LISTED_NAMES)),
        ("drives", "with rotor inertia, friction and offsets" if model.drives else "excluded"),
        ("parameters", model.parameters),
        ("numbers", str(model.dtype)),
    ]
    return _summary_block(f"Model of {model.robot.name}", facts)


def _format_range(values: Array) -> str:
    return f"{values.min():.4g} to {values.max():.4g}"


def _log_table(log: Log) -> Html:
    files = list_names([source.path for source in log.sources], MAX_LISTED_NAMES)
    facts = [("file", files), ("notes", "; ".join(map(str, log.findings)))]
    rows = [(name, _format_range(log.q[:, k]), _format_range(log.tau[:, k])) for k, name in enumerate(log.joint_names)]
    title = f"Log: {format_plural(len(log), 'row')} over {log.duration_s:.4g} s"
    return _summary_block(title, facts, ("joint", "position, rad or m", "torque, N m or N"), rows)


def _samples_table(samples: Samples) -> Html:
    rows = [
        (name, *(_format_range(values[:, k]) for values in (samples.q, samples.qd, samples.qdd, samples.tau)))
        for k, name in enumerate(samples.joint_names)
    ]
    segments = format_plural(len(np.unique(samples.segments)), "segment")
    title = f"{format_plural(len(samples), 'sample')} at {samples.rate_hz:g} Hz in {segments}"
    return _summary_block(title, [], ("joint", "position", "velocity", "acceleration", "torque"), rows)


def _estimate_table(estimate: Estimate) -> Html:
    rows = parameter_rows(estimate, None)
    counts = Counter(row.state for row in rows)
    facts = [("method", estimate.method), ("result", typeset(estimate.status))]
    facts += [("parameters", ", ".join(f"{count} {state}" for state, count in counts.items()))]
    cells = [
        (
            row.name,
            f"{row.value:.5g}",
            "" if row.low is None else f"{row.low:.5g} to {row.high:.5g}",
            row.unit,
            row.state,
        )
        for row in rows
    ]
    head = ("parameter", "value", "95 % interval", "unit", "state")
    return _summary_block(f"Estimate of {estimate.robot.name}", facts, head, cells)


def _verdict_table(verdict: Validation) -> Html:
    data, names = verdict_data(verdict, held_out=True), verdict.error.joint_names
    rows = [
        (name, format_percent(joint.relative), f"{joint.rmse:.3g}", GRADE_LABELS[joint.grade])
        for name, joint in zip(names, data.joints, strict=True)
    ]
    title = f"Torque error {format_percent(verdict.error.total)} on {format_plural(verdict.error.rows, 'sample')}"
    return _summary_block(title, [], ("joint", "error", "rms, N m or N", "grade"), rows)


def _design_table(design: MotionDesign) -> Html:
    used = ", ".join(f"{kind} {format_percent(part)}" for kind, part in design.shares.items())
    facts = [("result", design.status), ("used limits", used), ("safety", design.headline)]
    return _summary_block(f"Motion of {design.robot.name}: {design.seconds:g} s", facts)


def _estimate_page(estimate: Estimate, *logs: Log) -> Page:
    """Return parameters and, with logs, torque, motion, friction and residuals."""
    data = collect_report_data(ReportInputs(estimate, training_logs=logs))
    makers = (torque_section, parameter_section, friction_section, residual_section, excitation_section)
    sections = [section for make in makers if (section := make(data)) is not None]
    return Page(
        render_document(f"{estimate.robot.name}: estimate", estimate.method, sections, heading=estimate.robot.name),
        "Estimate",
    )


def _log_page(log: Log) -> Page:
    """Return position, speed (if logged) and torque of every joint over time."""
    time = pack_exactly(bucket_times(log.time, PLOT_BUCKETS))
    plots: dict[str, object] = {"shared": {"time": time}}
    panels: list[tuple[str, Content]] = []
    signals = [("position", "rad or m", log.q), ("speed", "per s", log.qd), ("torque", "N m or N", log.tau)]
    for k, name in enumerate(log.joint_names):
        panes = [
            pane(
                axis(what, unit),
                [series(what, "measured", "time", pack_levels(bucket_extremes(values[:, k], PLOT_BUCKETS)))],
                height=150,
            )
            for what, unit, values in signals
            if values is not None
        ]
        plots[f"log-{k}"] = plot(axis("time", "s"), panes, group="log")
        panels.append((name, figure(f"log-{k}", f"Motion and torque of {name}", f"{name}: as logged.")))
    rows = [[name, _format_range(log.q[:, k]), _format_range(log.tau[:, k])] for k, name in enumerate(log.joint_names)]
    columns = [Column("Joint"), Column("Position, rad or m", number=True), Column("Torque, N m or N", number=True)]
    body = to_html([tabs("signals", "Joint", panels), table(columns, rows, "Ranges of the signals")])
    name = log.name or "Log"
    return Page(
        render_document(name, format_plural(len(log), "row"), [Section("signals", "Signals", body, plots)]), "Log"
    )


TABLES: Final[Mapping[type, Callable[[Any], Html]]] = {
    Robot: _robot_table,
    BaseParameters: _base_table,
    Model: _model_table,
    Log: _log_table,
    Samples: _samples_table,
    Estimate: _estimate_table,
    Validation: _verdict_table,
    MotionDesign: _design_table,
}
PAGES: Final[Mapping[type, Callable[..., Page]]] = {
    Estimate: _estimate_page,
    Log: _log_page,
    MotionDesign: lambda design, meshes=None: Page(html_plot(design, meshes), f"Motion of {design.robot.name}"),
}
