"""Pages of values for notebooks, which `mindyn.foundation.pages.notebook_display.draw_page` calls by their names."""

from __future__ import annotations

from typing import Final

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.pages.document import (
    Column,
    Content,
    Section,
    figure,
    format_plural,
    p,
    render_document,
    table,
    tabs,
)
from mindyn.foundation.pages.notebook_display import Page
from mindyn.foundation.pages.plots import axis, pack_times, pane, plot, thinned_series
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.check_feasible import check_feasible
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log
from mindyn.logs.pipeline import ConditionedSamples
from mindyn.motions.excitation.motion_design import MotionDesign
from mindyn.output.report.report_data import collect_report_data
from mindyn.output.report.write_report import build_page
from mindyn.output.view.motion_page import draw_motion_page
from mindyn.regression.experiment import Experiment
from mindyn.robots.meshes import Meshes

PLOT_BUCKETS: Final = 8000


def estimate_page(estimate: Estimate, *logs: Log) -> Page:
    """Return the report of an estimate and, with logs, of its torque, friction and residuals."""
    return Page(
        build_page(collect_report_data(estimate, training_logs=logs, feasibility=check_feasible(estimate))), "Estimate"
    )


def motion_page(design: MotionDesign, meshes: Meshes | None) -> Page:
    """Return the page of a designed motion."""
    return Page(draw_motion_page(design, meshes), f"Motion of {design.robot.name}")


def _format_range(values: Array) -> str:
    return f"{values.min():.4g} to {values.max():.4g}"


def log_page(log: Log) -> Page:
    """Return position, speed (if logged) and torque of every joint over time."""
    plots: dict[str, object] = {"shared": {"time": pack_times(log.time, PLOT_BUCKETS)}}
    panels: list[tuple[str, Content]] = []
    signals = [("position", "rad or m", log.q), ("speed", "per s", log.qd), ("torque", "N m or N", log.tau)]
    for k, name in enumerate(log.joint_names):
        panes = []
        for what, unit, values in signals:
            if values is not None:
                curve = thinned_series(what, "measured", "time", values[:, k], PLOT_BUCKETS)
                panes.append(pane(axis(what, unit), [curve], height=150))
        plots[f"log-{k}"] = plot(axis("time", "s"), panes, group="log")
        panels.append((name, figure(f"log-{k}", f"Motion and torque of {name}", f"{name}: as logged.")))
    rows = [[name, _format_range(log.q[:, k]), _format_range(log.tau[:, k])] for k, name in enumerate(log.joint_names)]
    columns = [Column("Joint"), Column("Position, rad or m", number=True), Column("Torque, N m or N", number=True)]
    body = [tabs("signals", "Joint", panels), table(columns, rows, "Ranges of the signals")]
    name = log.name or "Log"
    return Page(
        render_document(name, format_plural(len(log), "row"), [Section("signals", "Signals", body, plots)]), "Log"
    )


def experiment_page(experiment: Experiment, conditioning: Conditioning | None) -> Page:
    """Return the signals of every log as recorded, and the samples that a fit uses, over time."""
    excerpt = experiment.excerpt
    conditioned, logs = excerpt.samples(conditioning), excerpt.logs_in_memory
    sections = [_signal_section(log, k, conditioned, PLOT_BUCKETS // len(logs)) for k, log in enumerate(logs)]
    subtitle = f"{format_plural(len(conditioned.samples), 'sample')} from {format_plural(len(logs), 'log')}"
    notes = [str(finding) for finding in conditioned.findings]
    if notes:
        sections.append(Section("notes", "What was changed", [p(note) for note in notes]))
    return Page(render_document(f"Experiment of {experiment.robot.name}", subtitle, sections), "Experiment")


def _signal_section(log: Log, number: int, conditioned: ConditionedSamples, buckets: int) -> Section:
    """Return the section of one log: position, speed, acceleration and torque, as logged and as used."""
    used, samples, name = conditioned.logs == number, conditioned.samples, log.name or f"Log {number + 1}"
    logged_time, used_time = f"logged-{number}", f"used-{number}"
    times = {logged_time: log.time, **({used_time: conditioned.time[used]} if used.any() else {})}
    plots: dict[str, object] = {"shared": {key: pack_times(time, buckets) for key, time in times.items()}}
    signals = [
        ("position", "rad or m", log.q, samples.q),
        ("speed", "per s", log.qd, samples.qd),
        ("acceleration", "per s^2", log.qdd, samples.qdd),
        ("torque", "N m or N", log.tau, samples.tau),
    ]
    panels: list[tuple[str, Content]] = []
    for k, joint in enumerate(log.joint_names):
        panes = []
        for what, unit, logged, kept in signals:
            curves = []
            if logged is not None:
                curves.append(thinned_series(f"{what} as logged", "measured", logged_time, logged[:, k], buckets))
            if used.any():
                curves.append(thinned_series(f"{what} as used", "predicted", used_time, kept[used, k], buckets))
            panes.append(pane(axis(what, unit), curves, height=120))
        key = f"signals-{number}-{k}"
        plots[key] = plot(axis("time", "s"), panes, group=f"log-{number}")
        panels.append((joint, figure(key, f"Signals of {joint}, {name}", f"{joint}: as logged, and as a fit uses it.")))
    counts = f"{format_plural(len(log), 'row')} recorded, {format_plural(int(used.sum()), 'sample')} used."
    return Section(f"log-{number}", name, [p(counts), tabs(f"joints-{number}", "Joint", panels)], plots)
