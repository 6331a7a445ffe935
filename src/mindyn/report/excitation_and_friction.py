"""Sections of what was found: condition and excitation, friction, comparison."""

from __future__ import annotations

from typing import Any, Final

from mindyn.pages.markup import (
    NO_BREAK_SPACE,
    Column,
    Content,
    Section,
    class_tag,
    figure,
    format_count,
    format_number,
    format_percent,
    format_quantity,
    legend,
    p,
    table,
    tag,
    to_html,
)
from mindyn.pages.plots import axis, pane, plot, series
from mindyn.report.data import FrictionData, JointMotion, ReportData

GOOD_CONDITION_NUMBER: Final = 100.0
"""A condition number up to this is the usual aim of exciting motions [Gautier & Khalil 1992]."""
SLOW_SPEED_FRACTION: Final = 0.1
"""Part of the fastest speed at which friction is told besides: a smooth sign has no value just above rest."""


LARGE_ERROR_FRACTION: Final = 10.0
"""Part from which on decimals say nothing."""


def excitation_section(data: ReportData) -> Section | None:
    """Condition number and what the joints did."""
    found = data.excitation
    if found is None:
        return None
    facts = [
        ("Condition number", "not stated" if found.condition_number is None else f"{found.condition_number:.3g}"),
        ("Parameters found", f"{found.identifiable_count} of {len(data.parameters)}"),
        ("Equations in the fit", format_count(found.rows)),
    ]
    listed = tag("dl", {"class": "facts"}, [tag("div", {}, tag("dt", {}, k), tag("dd", {}, v)) for k, v in facts])
    units = [(joint.name, joint.position_unit) for joint in data.joints]
    columns = [Column("Joint"), Column("Range", number=True), Column("Of its limits", number=True)]
    columns += [Column("Greatest speed", number=True), Column("Greatest acceleration", number=True)]
    rows = [_motion_row(name, unit, one) for (name, unit), one in zip(units, found.joints, strict=True)]
    plots = {
        f"coverage-{k}": _coverage_plot(one, unit)
        for k, (one, (_, unit)) in enumerate(zip(found.joints, units, strict=True))
    }
    figures = [
        figure(
            f"coverage-{k}",
            f"Positions and speeds of {name}",
            f"{name}: {_visited_fraction(one)} of the cells visited.",
            shape="small",
        )
        for k, ((name, _), one) in enumerate(zip(units, found.joints, strict=True))
    ]
    logs = "training" if found.role == "training" else "held-out"
    left_out = sum(row.state == "left out" for row in data.parameters)
    parts: list[Content] = [p(_describe_condition(found.condition_number, left_out, len(data.parameters))), listed]
    parts += [table(columns, rows, f"Motion of the joints in the {logs} logs")]
    parts += [p("Where each joint went: position across, speed upwards, darker where it spent longer.")]
    parts += [class_tag("div", "grid", figures)]
    return Section("excitation", "Condition and excitation", to_html(parts), plots)


def _describe_condition(condition: float | None, dropped: int, total: int) -> str:
    gone = f" {dropped} of {total} were left out of the fit; the condition number counts them in." if dropped else ""
    if condition is None:
        return f"This estimator states no condition number, or the data leave parameters open.{gone}"
    if condition <= GOOD_CONDITION_NUMBER:
        return f"The motion tells the parameters apart well: errors of the torque are hardly magnified.{gone}"
    return (
        f"The motion tells some parameters apart badly: a condition number up to {GOOD_CONDITION_NUMBER:g} is usual for "
        f"exciting motions. Look at the deviations, and consider a richer motion.{gone}"
    )


def _motion_row(name: str, unit: str, one: JointMotion) -> list[Content]:
    part = "–"
    if one.limit_low is not None and one.limit_high is not None and one.limit_high > one.limit_low:
        part = format_percent((one.high - one.low) / (one.limit_high - one.limit_low))
    reach = f"{format_number(one.low, 3)} to {format_quantity(one.high, unit)}"
    return [name, reach, part, format_quantity(one.speed, f"{unit}/s"), format_quantity(one.acceleration, f"{unit}/s²")]


def _visited_fraction(one: JointMotion) -> str:
    cells = "".join(one.coverage)
    return format_percent(sum(cell != "0" for cell in cells) / len(cells))


def _coverage_plot(one: JointMotion, unit: str) -> object:
    made: dict[str, Any] = {"name": "visited", "role": "cells", "kind": "cells", "rows": list(one.coverage)}
    made |= {"x": [one.low, one.high], "y": [-one.speed, one.speed]}
    return plot(axis("position", unit), [pane(axis("speed", f"{unit}/s"), [made], height=130)])


def friction_section(data: ReportData) -> Section | None:
    """Friction of every joint over its speed."""
    if not data.friction:
        return None
    plots = {f"friction-{k}": _friction_plot(data, k, one) for k, one in enumerate(data.friction)}
    figures = [
        figure(f"friction-{k}", f"Friction of {joint.name} over its speed", _describe_friction(data, k), shape="small")
        for k, joint in enumerate(data.joints)
    ]
    words = "Friction torque of each joint at steady speed, without its constant offset; the band is the 95 % interval"
    words += " of the fit without physical bounds." if data.constrained else "."
    if any(one.load_coefficients is not None for one in data.friction):
        words += " Friction grows with the load of the gear besides: tau_f = (fc + f_load |load|) sign(qd) + fv qd, the"
        words += " load being the torque that links and rotors take; the curves are without load."
    keys = [("found", "predicted", "line"), ("95 % interval", "band", "band")]
    keys += [("samples of the log", "data", "points")] if any(one.data_speed for one in data.friction) else []
    keys += [("prior", "prior", "line")] if any(one.prior and any(one.prior) for one in data.friction) else []
    return Section("friction", "Friction", to_html([p(words), legend(*keys), class_tag("div", "grid", figures)]), plots)


def _friction_plot(data: ReportData, joint: int, one: FrictionData) -> object:
    curves = []
    if one.low is not None and one.high is not None:
        curves.append(series("95 %", "band", one.speed, one.low, kind="band", y2=one.high))
    if one.prior is not None and any(one.prior):
        curves.append(series("prior", "prior", one.speed, one.prior))
    if one.data_speed:
        curves.insert(0, series("data", "data", one.data_speed, one.data_torque, kind="points"))
    curves.append(series("found", "predicted", one.speed, one.torque))
    unit, rate = data.joints[joint].torque_unit, f"{data.joints[joint].position_unit}/s"
    return plot(axis("speed", rate), [pane(axis("friction", unit), curves, height=150, zero=True)])


def _describe_friction(data: ReportData, joint: int) -> str:
    one, unit = data.friction[joint], data.joints[joint].torque_unit
    if not any(one.torque):
        return f"{data.joints[joint].name}: no friction was found."
    rate = f"{data.joints[joint].position_unit}/s"
    slow = next(k for k, speed in enumerate(one.speed) if speed >= SLOW_SPEED_FRACTION * one.speed[-1])
    slower, faster = (
        f"{format_quantity(one.torque[k], unit)} at {format_quantity(one.speed[k], rate)}" for k in (slow, -1)
    )
    return f"{data.joints[joint].name}: {slower}, {faster}{_describe_load_friction(one.load_coefficients)}."


def _describe_load_friction(load_coefficients: tuple[float, float] | None) -> str:
    if load_coefficients is None or not any(load_coefficients):
        return ""
    driven, braked = (format_percent(part) for part in load_coefficients)
    return (
        f"; and {driven} of the load" if driven == braked else f"; and {driven} of a driven load, {braked} of a braked"
    )


def comparison_section(data: ReportData) -> Section | None:
    """Errors of this estimate, of others and of the prior model, side by side."""
    if not data.comparison:
        return None
    columns = [Column("Relative error"), *(Column(one.name, number=True) for one in data.comparison)]
    rows = [
        _comparison_row(joint.name, [one.relative[k] for one in data.comparison]) for k, joint in enumerate(data.joints)
    ]
    rows.append(_comparison_row("all joints together", [one.total for one in data.comparison]))
    rows.append(_comparison_row("mean over joints", [sum(one.relative) / len(one.relative) for one in data.comparison]))
    kind = "the held-out logs" if data.verdict.held_out else "their own fits"
    best = min(data.comparison, key=lambda one: one.total)
    words = (
        f"Least in total on {kind}: {best.name}, with {_format_percent(best.total)}. The least of every row is bold."
    )
    about = [
        tag("li", {}, tag("strong", {}, one.name), f": {one.about}")
        for one in data.comparison
        if one.about not in ("", one.name)
    ]
    shown = table(columns, rows, f"Relative torque errors on {kind}")
    return Section(
        "comparison", "Comparison with other models", to_html([p(words), shown, tag("ul", {"class": "fine"}, about)])
    )


def _comparison_row(name: str, values: list[float]) -> list[Content]:
    shown, least = [_format_percent(value) for value in values], _format_percent(min(values))
    return [name, *(tag("strong", {}, one) if one == least else one for one in shown)]


def _format_percent(value: float) -> str:
    """Percent with two decimals, so that near ones differ."""
    return f"{100 * value:.2f}{NO_BREAK_SPACE}%" if value < LARGE_ERROR_FRACTION else format_percent(value)
