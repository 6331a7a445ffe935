"""Sections of what is left over, of simulated motion, of the robot itself, and of how it was all made."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from mindyn.pages.markup import (
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
"""Power, in multiples of the median over frequencies, from which on a residual has a strongest frequency."""
HOW_TO_READ: Final = (
    "A level residual is noise; a hump where the torque is strong means that something is missing in the model."
)
UNKNOWN_INPUT_NOTE: Final = "How it was driven is not stated."


def residual_section(data: ReportData) -> Section | None:
    """How what is left is spread, and at which frequencies it lies."""
    if not data.residuals:
        return None
    plots: dict[str, object] = {}
    panels: list[tuple[str, Content]] = []
    for k, (joint, one) in enumerate(zip(data.joints, data.residuals, strict=True)):
        plots[f"histogram-{k}"] = _histogram_plot(one, joint.torque_unit)
        shown = [
            figure(
                f"histogram-{k}",
                f"Histogram of the residuals of {joint.name}",
                _describe_histogram(one, joint.torque_unit),
            )
        ]
        if one.frequency:
            plots[f"spectrum-{k}"] = _spectrum_plot(one, joint.torque_unit)
            shown.append(figure(f"spectrum-{k}", f"Power spectra of {joint.name}", _describe_spectrum(one)))
        clouds = []
        units = {"position": joint.position_unit, "speed": f"{joint.position_unit}/s", "torque": joint.torque_unit}
        for what, values in one.against:
            plots[f"against-{what}-{k}"] = _scatter_plot(one, what, values, units[what], joint.torque_unit)
            label = f"Residual of {joint.name} against its {what}"
            clouds.append(figure(f"against-{what}-{k}", label, f"Against {what}.", shape="small"))
        panels.append((joint.name, [class_tag("div", "pair", shown), class_tag("div", "grid", clouds)]))
    logs = "held-out" if data.residual_role == "held out" else "training"
    words = f"What the model leaves unexplained: measured less predicted torque, on the {logs} logs."
    return Section("residuals", "Residuals", to_html([p(words), tabs("residuals", "Joint", panels)]), plots)


def _histogram_plot(one: ResidualData, unit: str) -> object:
    curves = [series("found", "bars", one.edges, one.density, kind="bars")]
    curves.append(series("normal", "normal", one.edges, one.normal))
    return plot(axis("residual", unit), [pane(axis("density", f"1/({unit})"), curves, height=210, zero=True)])


def _scatter_plot(one: ResidualData, what: str, values: Sequence[float], unit: str, torque_unit: str) -> object:
    order = sorted(range(len(values)), key=values.__getitem__)
    points = series("residual", "residual", [values[k] for k in order], [one.samples[k] for k in order], kind="points")
    return plot(axis(what, unit), [pane(axis("residual", torque_unit), [points], height=150, zero=True)])


def _spectrum_plot(one: ResidualData, unit: str) -> object:
    curves = [series("torque", "measured", one.frequency, one.torque_power)]
    curves.append(series("residual", "residual", one.frequency, one.residual_power))
    y = axis("power", f"({unit})²/Hz", log=True)
    return plot(axis("frequency", "Hz", log=True), [pane(y, curves, height=210)])


def _describe_histogram(one: ResidualData, unit: str) -> str:
    normal = "0.27 % of a normal spread would be"
    return (
        f"Mean {format_quantity(one.mean, unit, 2)}, standard deviation {format_quantity(one.deviation, unit)}; "
        f"{format_percent(one.beyond_three)} of the samples lie beyond three deviations, where {normal}."
    )


def _describe_spectrum(one: ResidualData) -> str:
    strongest = max(range(len(one.frequency)), key=lambda k: one.residual_power[k])
    peak = one.residual_power[strongest] > MIN_PEAK_RATIO * median(one.residual_power)
    told = f"The residual is strongest near {format_quantity(one.frequency[strongest], 'Hz', 2)}. " if peak else ""
    return f"{told}{HOW_TO_READ}"


def motion_section(data: ReportData) -> Section | None:
    """Simulated beside measured positions."""
    found = data.motion
    if found is None:
        return None
    plots: dict[str, object] = {"shared": {"time-motion": found.time}}
    panels: list[tuple[str, Content]] = []
    for k, joint in enumerate(data.joints):
        curves = [
            series("measured", "measured", "time-motion", found.measured[k]),
            series("simulated", "predicted", "time-motion", found.simulated[k]),
        ]
        unit = joint.position_unit
        y = pane(axis("position", unit), curves, height=250)
        plots[f"motion-{k}"] = plot(axis("time", "s"), [y], group="motion")
        words = f"{joint.name}: simulated and measured differ by {format_quantity(found.rms[k], unit)} rms."
        panels.append((joint.name, figure(f"motion-{k}", f"Position of {joint.name} over time", words)))
    how = f"{found.how[:1].upper()}{found.how[1:]}" if found.how else UNKNOWN_INPUT_NOTE
    words = f"The model's motion beside the measured one over {found.seconds:.4g} s. {typeset(how)}"
    return Section(
        "motion", "Simulated and measured motion", to_html([p(words), tabs("motion", "Joint", panels)]), plots
    )


def robot_section(data: ReportData) -> Section | None:
    """The kinematic skeleton, turnable."""
    drawn = data.skeleton
    if drawn is None:
        return None
    caption = (
        f"{data.robot}: {format_plural(len(drawn.names), 'joint')}, numbered from the root. Short bars are joint axes, the "
        "arrow is gravity; the more of its greatest torque a joint has, the darker it is. Drag to turn, or use the "
        "arrow keys; + and − zoom."
    )
    if drawn.meshes:
        caption += (
            f" Meshes: {sum(part.triangles for part in drawn.meshes)} triangles of the files that the robot names."
        )
    area = tag("div", {"class": "area", "data-label": f"Kinematic skeleton of {data.robot}"})
    view = tag("figure", {"class": "robot", "id": "robot-view"}, area, tag("figcaption", {}, caption))
    names = tag("ol", {"class": "joints"}, [tag("li", {}, name) for name in drawn.names])
    skeleton = {name: getattr(drawn, name) for name in drawn.__dataclass_fields__}
    return Section("robot", "The robot", to_html([class_tag("div", "drawing", view, names)]), {"skeleton": skeleton})


def provenance_section(data: ReportData) -> Section:
    """Inputs, settings, versions, and the command that repeats it."""
    made = data.provenance
    repeat: Content = (
        tag("pre", {"tabindex": "0", "role": "region", "aria-label": "Command"}, tag("code", {}, made.command))
        if made.command
        else p("Made from Python; the files and settings below repeat it.")
    )
    parts: list[Content] = [p(typeset(data.status)), tag("h3", {}, "To repeat it"), repeat]
    if made.sources:
        rows = [[tag("code", {}, path), tag("code", {"class": "hash"}, digest)] for path, digest in made.sources]
        parts += [tag("h3", {}, "Files"), table([Column("File"), Column("SHA-256")], rows, "Files and their hashes")]
    if made.notes:
        parts += [tag("h3", {}, "Notes"), tag("ul", {}, [tag("li", {}, typeset(note)) for note in made.notes])]
    settings = [[tag("code", {}, name), typeset(value)] for name, value in made.settings]
    versions = [[name, value] for name, value in made.versions]
    parts += [
        tag(
            "details",
            {"class": "raw"},
            tag("summary", {}, "Settings"),
            _pairs_table("Setting", settings, "Settings of the fit"),
        ),
        tag(
            "details",
            {"class": "raw"},
            tag("summary", {}, "Versions"),
            _pairs_table("Package", versions, "Versions of the packages"),
        ),
    ]
    return Section("making", "How it was made", to_html(parts))


def _pairs_table(title: str, rows: list[list[Content]] | list[list[str]], caption: str) -> Html:
    return table([Column(title), Column("Value")], rows, caption)
