"""Notebook views of values: `notebook_page` is a page with figures of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.excitation.motion_design import MotionDesign
from mindyn.excitation.motion_plot import html_plot
from mindyn.logs.log import Log
from mindyn.pages.document import (
    Column,
    Content,
    Section,
    figure,
    format_plural,
    render_document,
    table,
    tabs,
    to_html,
)
from mindyn.pages.notebook import Page
from mindyn.pages.plots import axis, bucket_extremes, bucket_times, pack_exactly, pack_levels, pane, plot, series
from mindyn.report.collection import collect_report_data
from mindyn.report.excitation_and_friction import excitation_section, friction_section
from mindyn.report.inputs import ReportInputs
from mindyn.report.parameter_table import parameter_section
from mindyn.report.residuals import residual_section
from mindyn.report.verdict_sections import torque_section

PLOT_BUCKETS: Final = 8000


def notebook_page(value: object, *more: Any) -> Page:
    """Return the page of a value; `PAGES` lists the supported classes."""
    for kind in type(value).__mro__:
        if kind in PAGES:
            return PAGES[kind](value, *more)
    raise InputError(
        f"{type(value).__name__} has no figures; supported: {', '.join(kind.__name__ for kind in PAGES)}",
        code=Code.UNSUPPORTED,
        subject=type(value).__name__,
    )


def _format_range(values: Array) -> str:
    return f"{values.min():.4g} to {values.max():.4g}"


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


PAGES: Final[Mapping[type, Callable[..., Page]]] = {
    Estimate: _estimate_page,
    Log: _log_page,
    MotionDesign: lambda design, meshes=None: Page(html_plot(design, meshes), f"Motion of {design.robot.name}"),
}
