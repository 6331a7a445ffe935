"""Report sections on excitation, friction, and the comparison with other models."""

from __future__ import annotations

from typing import Any, Final

from mindyn.pages.document import (
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
"""Usual target for the condition number of exciting trajectories [Gautier & Khalil 1992]."""
SLOW_SPEED_FRACTION: Final = 0.1
"""Fraction of the highest speed at which the caption gives friction: a smooth sign is zero close to rest."""
MOST_LAWS: Final = 3
"""Friction laws that the caption of a curve names."""
LARGE_ERROR_FRACTION: Final = 10.0
"""Relative error from which on decimals are not shown."""


def excitation_section(data: ReportData) -> Section | None:
    """Return the section with the condition number and the motion of the joints."""
    excitation = data.excitation
    if excitation is None:
        return None
    facts = [
        (
            "Condition number",
            "not available" if excitation.condition_number is None else f"{excitation.condition_number:.3g}",
        ),
        ("Identifiable parameters", f"{excitation.identifiable_count} of {len(data.parameters)}"),
        ("Equations in the fit", format_count(excitation.rows)),
    ]
    listed = tag("dl", {"class": "facts"}, [tag("div", {}, tag("dt", {}, k), tag("dd", {}, v)) for k, v in facts])
    columns = [Column("Joint"), Column("Range", number=True), Column("Range / limits", number=True)]
    columns += [Column("Peak speed", number=True), Column("Peak acceleration", number=True)]
    rows, plots, figures = [], {}, []
    for k, (joint, motion) in enumerate(zip(data.joints, excitation.joints, strict=True)):
        rows.append(_motion_row(joint.name, joint.position_unit, motion))
        plots[f"coverage-{k}"] = _coverage_plot(motion, joint.position_unit)
        caption = f"{joint.name}: {_visited_fraction(motion)} of the cells visited."
        figures.append(figure(f"coverage-{k}", f"Positions and speeds of {joint.name}", caption, shape="small"))
    logs = "training" if excitation.role == "training" else "held-out"
    dropped = sum(row.state == "dropped" for row in data.parameters)
    parts: list[Content] = [p(_describe_condition(excitation.condition_number, dropped, len(data.parameters))), listed]
    parts += [table(columns, rows, f"Motion of the joints in the {logs} logs")]
    parts += [
        p("Visited positions (horizontal) and speeds (vertical) of each joint; darker cells were visited longer.")
    ]
    parts += [class_tag("div", "grid", figures)]
    return Section("excitation", "Condition and excitation", to_html(parts), plots)


def _describe_condition(condition: float | None, dropped: int, total: int) -> str:
    note = f" {dropped} of {total} parameters were dropped; the condition number includes them." if dropped else ""
    if condition is None:
        return f"No condition number: the estimator has none, or some parameters are not identifiable.{note}"
    if condition <= GOOD_CONDITION_NUMBER:
        return f"The motion excites all parameters well: torque errors are hardly amplified.{note}"
    return (
        "The motion excites some parameters poorly: exciting trajectories usually reach a condition number of at most "
        f"{GOOD_CONDITION_NUMBER:g}. Check the standard deviations, and consider a more exciting trajectory.{note}"
    )


def _motion_row(name: str, unit: str, motion: JointMotion) -> list[Content]:
    fraction = "–"
    if motion.limit_low is not None and motion.limit_high is not None and motion.limit_high > motion.limit_low:
        fraction = format_percent((motion.high - motion.low) / (motion.limit_high - motion.limit_low))
    reach = f"{format_number(motion.low, 3)} to {format_quantity(motion.high, unit)}"
    return [
        name,
        reach,
        fraction,
        format_quantity(motion.speed, f"{unit}/s"),
        format_quantity(motion.acceleration, f"{unit}/s²"),
    ]


def _visited_fraction(motion: JointMotion) -> str:
    cells = "".join(motion.coverage)
    return format_percent(sum(cell != "0" for cell in cells) / len(cells))


def _coverage_plot(motion: JointMotion, unit: str) -> object:
    cells: dict[str, Any] = {"name": "visited", "role": "cells", "kind": "cells", "rows": list(motion.coverage)}
    cells |= {"x": [motion.low, motion.high], "y": [-motion.speed, motion.speed]}
    return plot(axis("position", unit), [pane(axis("speed", f"{unit}/s"), [cells], height=130)])


def friction_section(data: ReportData) -> Section | None:
    """Return the section with the friction of every joint over speed."""
    if not data.friction:
        return None
    plots = {f"friction-{k}": _friction_plot(data, k, friction) for k, friction in enumerate(data.friction)}
    figures = [
        figure(f"friction-{k}", f"Friction of {joint.name} over its speed", _describe_friction(data, k), shape="small")
        for k, joint in enumerate(data.joints)
    ]
    has_bands = any(friction.laws for friction in data.friction)
    words = "Friction torque of each joint at constant speed, without torque offset. "
    if has_bands:
        words += "The band, over the speeds driven, contains the curve of another recording at the temperatures of "
        words += "these logs in 95 % of all cases: it includes all friction laws that the logs cannot separate, and "
        words += "the drift of friction within the logs. Intervals of single coefficients hold only for the law that "
        words += "was selected and the temperature of the logs."
    else:
        words += "The band is the 95 % interval" + (" of the fit without physical bounds." if data.constrained else ".")
    if any(friction.load_coefficients is not None for friction in data.friction):
        words += " Friction also grows with the load of the gear: tau_f = (fc + f_load |load|) sign(qd) + fv qd, where"
        words += " load is the torque of links and rotors; the curves show friction "
        words += "under the mean load of the logs." if has_bands else "without load."
    keys = [("identified", "predicted", "line"), ("95 % band" if has_bands else "95 % interval", "band", "band")]
    keys += [("samples of the log", "data", "points")] if any(friction.data_speed for friction in data.friction) else []
    keys += (
        [("prior", "prior", "line")]
        if any(friction.prior and any(friction.prior) for friction in data.friction)
        else []
    )
    return Section("friction", "Friction", to_html([p(words), legend(*keys), class_tag("div", "grid", figures)]), plots)


def _friction_plot(data: ReportData, joint: int, friction: FrictionData) -> object:
    curves = []
    if friction.low is not None and friction.high is not None:
        rising = sum(speed < 0 for speed in friction.band_speed)
        for part in (slice(0, rising), slice(rising, None)):  # no speed between both directions was driven steadily
            x, low, high = friction.band_speed[part], friction.low[part], friction.high[part]
            curves += [series("95 %", "band", x, low, kind="band", y2=high)] if x else []
    if friction.prior is not None and any(friction.prior):
        curves.append(series("prior", "prior", friction.speed, friction.prior))
    if friction.data_speed:
        curves.insert(0, series("data", "data", friction.data_speed, friction.data_torque, kind="points"))
    curves.append(series("identified", "predicted", friction.speed, friction.torque))
    unit, rate = data.joints[joint].torque_unit, f"{data.joints[joint].position_unit}/s"
    return plot(axis("speed", rate), [pane(axis("friction", unit), curves, height=150, zero=True)])


def _describe_friction(data: ReportData, joint: int) -> str:
    friction, unit = data.friction[joint], data.joints[joint].torque_unit
    if not any(friction.torque):
        return f"{data.joints[joint].name}: no friction was identified."
    rate = f"{data.joints[joint].position_unit}/s"
    slow = next(k for k, speed in enumerate(friction.speed) if speed >= SLOW_SPEED_FRACTION * friction.speed[-1])
    slower, faster = (
        f"{format_quantity(friction.torque[k], unit)} at {format_quantity(friction.speed[k], rate)}" for k in (slow, -1)
    )
    laws = sorted(friction.laws.items(), key=lambda entry: -entry[1])[:MOST_LAWS]
    listed = ", ".join(f"{law} {format_percent(part)}" for law, part in laws)
    about = f" Laws in the band: {listed}." if laws else ""
    return f"{data.joints[joint].name}: {slower}, {faster}{_describe_load_friction(friction)}.{about}"


def _describe_load_friction(friction: FrictionData) -> str:
    if friction.load_coefficients is None or not any(friction.load_coefficients):
        return ""
    driven, braked = (format_percent(part) for part in friction.load_coefficients)
    parts = f"{driven} of the load" + ("" if driven == braked else f" while driving, {braked} while braking")
    return f"; including {parts}" if friction.load else f"; plus {parts}"


def comparison_section(data: ReportData) -> Section | None:
    """Return the section that compares the errors of this estimate, others and the prior model."""
    if not data.comparison:
        return None
    columns = [Column("Relative error"), *(Column(column.name, number=True) for column in data.comparison)]
    rows = [
        _comparison_row(joint.name, [column.relative[k] for column in data.comparison])
        for k, joint in enumerate(data.joints)
    ]
    rows.append(_comparison_row("all joints together", [column.total for column in data.comparison]))
    rows.append(
        _comparison_row("mean over joints", [sum(column.relative) / len(column.relative) for column in data.comparison])
    )
    kind = "the held-out logs" if data.verdict.held_out else "the fits"
    best = min(data.comparison, key=lambda column: column.total)
    words = (
        f"Smallest total error on {kind}: {best.name}, with {_format_percent(best.total)}. "
        "The smallest error of each row is bold."
    )
    about = [
        tag("li", {}, tag("strong", {}, column.name), f": {column.about}")
        for column in data.comparison
        if column.about not in ("", column.name)
    ]
    shown = table(columns, rows, f"Relative torque errors on {kind}")
    return Section(
        "comparison", "Comparison with other models", to_html([p(words), shown, tag("ul", {"class": "fine"}, about)])
    )


def _comparison_row(name: str, values: list[float]) -> list[Content]:
    shown, least = [_format_percent(value) for value in values], _format_percent(min(values))
    return [name, *(tag("strong", {}, text) if text == least else text for text in shown)]


def _format_percent(value: float) -> str:
    """Format a fraction as percent with two decimals, so that similar models differ."""
    return f"{100 * value:.2f}{NO_BREAK_SPACE}%" if value < LARGE_ERROR_FRACTION else format_percent(value)
