"""Report sections on residuals, simulated motion, the robot and provenance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from mindyn.pages.document import (
    Column,
    Content,
    Html,
    Section,
    class_tag,
    figure,
    format_percent,
    format_plural,
    format_quantity,
    p,
    table,
    tabs,
    tag,
    to_html,
    typeset,
)
from mindyn.pages.plots import axis, pane, plot, series
from mindyn.report.data import ReportData, ResidualData

MIN_PEAK_RATIO: Final = 8.0
"""Power relative to the median over frequencies from which on a caption mentions a peak."""
HOW_TO_READ: Final = (
    "A flat residual spectrum is noise; a peak where the torque is large means that the model misses an effect."
)
UNKNOWN_INPUT_NOTE: Final = "The input of the simulation is not known."


def residual_section(data: ReportData) -> Section | None:
    """Return the section with histograms, spectra and scatter plots of the residuals."""
    if not data.residuals:
        return None
    plots: dict[str, object] = {}
    panels: list[tuple[str, Content]] = []
    for k, (joint, residual) in enumerate(zip(data.joints, data.residuals, strict=True)):
        plots[f"histogram-{k}"] = _histogram_plot(residual, joint.torque_unit)
        shown = [
            figure(
                f"histogram-{k}",
                f"Histogram of the residuals of {joint.name}",
                _describe_histogram(residual, joint.torque_unit),
            )
        ]
        if residual.frequency:
            plots[f"spectrum-{k}"] = _spectrum_plot(residual, joint.torque_unit)
            shown.append(figure(f"spectrum-{k}", f"Power spectra of {joint.name}", _describe_spectrum(residual)))
        clouds = []
        units = {"position": joint.position_unit, "speed": f"{joint.position_unit}/s", "torque": joint.torque_unit}
        for what, values in residual.against:
            plots[f"against-{what}-{k}"] = _scatter_plot(residual, what, values, units[what], joint.torque_unit)
            label = f"Residual of {joint.name} against its {what}"
            clouds.append(figure(f"against-{what}-{k}", label, f"Against {what}.", shape="small"))
        panels.append((joint.name, [class_tag("div", "pair", shown), class_tag("div", "grid", clouds)]))
    logs = "held-out" if data.residual_role == "held out" else "training"
    words = f"Residual: measured minus predicted torque on the {logs} logs."
    return Section("residuals", "Residuals", to_html([p(words), tabs("residuals", "Joint", panels)]), plots)


def _histogram_plot(residual: ResidualData, unit: str) -> object:
    curves = [series("residual", "bars", residual.edges, residual.density, kind="bars")]
    curves.append(series("normal", "normal", residual.edges, residual.normal))
    return plot(axis("residual", unit), [pane(axis("density", f"1/({unit})"), curves, height=210, zero=True)])


def _scatter_plot(residual: ResidualData, what: str, values: Sequence[float], unit: str, torque_unit: str) -> object:
    order = sorted(range(len(values)), key=values.__getitem__)
    points = series(
        "residual", "residual", [values[k] for k in order], [residual.samples[k] for k in order], kind="points"
    )
    return plot(axis(what, unit), [pane(axis("residual", torque_unit), [points], height=150, zero=True)])


def _spectrum_plot(residual: ResidualData, unit: str) -> object:
    curves = [series("torque", "measured", residual.frequency, residual.torque_power)]
    curves.append(series("residual", "residual", residual.frequency, residual.residual_power))
    y = axis("power", f"({unit})²/Hz", log=True)
    return plot(axis("frequency", "Hz", log=True), [pane(y, curves, height=210)])


def _describe_histogram(residual: ResidualData, unit: str) -> str:
    normal = "0.27 % would be expected for a normal distribution"
    return (
        f"Mean {format_quantity(residual.mean, unit, 2)}, standard deviation "
        f"{format_quantity(residual.deviation, unit)}; {format_percent(residual.beyond_three)} of the samples are "
        f"beyond three standard deviations; {normal}."
    )


def _describe_spectrum(residual: ResidualData) -> str:
    strongest = max(range(len(residual.frequency)), key=lambda k: residual.residual_power[k])
    peak = residual.residual_power[strongest] > MIN_PEAK_RATIO * median(residual.residual_power)
    strongest_note = (
        f"The residual has a peak near {format_quantity(residual.frequency[strongest], 'Hz', 2)}. " if peak else ""
    )
    return f"{strongest_note}{HOW_TO_READ}"


def motion_section(data: ReportData) -> Section | None:
    """Return the section with simulated and measured positions."""
    motion = data.motion
    if motion is None:
        return None
    plots: dict[str, object] = {"shared": {"time-motion": motion.time}}
    panels: list[tuple[str, Content]] = []
    for k, joint in enumerate(data.joints):
        curves = [
            series("measured", "measured", "time-motion", motion.measured[k]),
            series("simulated", "predicted", "time-motion", motion.simulated[k]),
        ]
        unit = joint.position_unit
        y = pane(axis("position", unit), curves, height=250)
        plots[f"motion-{k}"] = plot(axis("time", "s"), [y], group="motion")
        words = f"{joint.name}: simulated and measured differ by {format_quantity(motion.rms[k], unit)} rms."
        panels.append((joint.name, figure(f"motion-{k}", f"Position of {joint.name} over time", words)))
    how = f"{motion.how[:1].upper()}{motion.how[1:]}" if motion.how else UNKNOWN_INPUT_NOTE
    words = f"Simulated and measured motion over {motion.seconds:.4g} s. {typeset(how)}"
    return Section(
        "motion", "Simulated and measured motion", to_html([p(words), tabs("motion", "Joint", panels)]), plots
    )


def robot_section(data: ReportData) -> Section | None:
    """The kinematic skeleton, turnable."""
    drawn = data.skeleton
    if drawn is None:
        return None
    caption = (
        f"{data.robot}: {format_plural(len(drawn.names), 'joint')}, numbered from the root. Short bars are joint "
        "axes, the arrow is gravity; darker joints are closer to their peak torque. Drag or use the arrow keys to "
        "rotate; + and − zoom."
    )
    if drawn.meshes:
        caption += f" Meshes: {sum(part.triangles for part in drawn.meshes)} triangles of the mesh files of the robot."
    area = tag("div", {"class": "area", "data-label": f"Kinematic skeleton of {data.robot}"})
    view = tag("figure", {"class": "robot", "id": "robot-view"}, area, tag("figcaption", {}, caption))
    names = tag("ol", {"class": "joints"}, [tag("li", {}, name) for name in drawn.names])
    skeleton = {name: getattr(drawn, name) for name in drawn.__dataclass_fields__}
    return Section("robot", "The robot", to_html([class_tag("div", "drawing", view, names)]), {"skeleton": skeleton})


def provenance_section(data: ReportData) -> Section:
    """Return the section with inputs, settings, versions, and the command that repeats the run."""
    provenance = data.provenance
    repeat: Content = (
        tag("pre", {"tabindex": "0", "role": "region", "aria-label": "Command"}, tag("code", {}, provenance.command))
        if provenance.command
        else p("Identified from Python; the files and settings below reproduce it.")
    )
    parts: list[Content] = [p(typeset(data.status)), tag("h3", {}, "Reproduce it"), repeat]
    if provenance.sources:
        rows = [[tag("code", {}, path), tag("code", {"class": "hash"}, digest)] for path, digest in provenance.sources]
        parts += [tag("h3", {}, "Files"), table([Column("File"), Column("SHA-256")], rows, "Files and their hashes")]
    if provenance.notes:
        parts += [tag("h3", {}, "Notes"), tag("ul", {}, [tag("li", {}, typeset(note)) for note in provenance.notes])]
    settings = [[tag("code", {}, name), typeset(value)] for name, value in provenance.settings]
    versions = [[name, value] for name, value in provenance.versions]
    parts += [
        _raw_table("Settings", "Setting", settings, "Settings of the fit"),
        _raw_table("Versions", "Package", versions, "Versions of the packages"),
    ]
    return Section("making", "Provenance", to_html(parts))


def _raw_table(title: str, column: str, rows: list[list[Content]] | list[list[str]], caption: str) -> Html:
    shown = table([Column(column), Column("Value")], rows, caption)
    return class_tag("details", "raw", tag("summary", {}, title), shown)
