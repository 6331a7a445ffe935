"""Report section on elastic joints: values, and deflection over torque of each joint."""

from __future__ import annotations

from typing import Any

import numpy as np

from mindyn.foundation.pages.document import (
    Column,
    Content,
    Section,
    class_tag,
    figure,
    format_percent,
    format_quantity,
    p,
    table,
)
from mindyn.foundation.pages.plots import axis, pane, plot, series
from mindyn.identification.elasticity.records import JointElasticity
from mindyn.output.report.report_data import JointData, ReportData


def elasticity_section(data: ReportData) -> Section | None:
    """Return the section with stiffness and deflection of every joint; None if they were not identified."""
    if data.elasticity is None:
        return None
    titles = ("Joint", "Elasticity", "Stiffness", "95 % interval", "Damping", "Encoder offset", "Unexplained")
    rows, plots, figures = [], {}, []
    for k, (joint, values) in enumerate(zip(data.joints, data.elasticity.joints, strict=True)):
        rows.append(_value_row(joint, values))
        curve = data.elasticity.curves[k] if k < len(data.elasticity.curves) else np.zeros((0, 2))
        if values.state == "unusable" or not len(curve):
            continue
        plots[f"deflection-{k}"] = _plot_deflection(joint, values, curve)
        caption = f"{joint.name}: {values.reason or 'stiffness determined'}."
        figures.append(figure(f"deflection-{k}", f"Deflection of {joint.name} over its torque", caption, shape="small"))
    words = (
        "The deflection is the position of the motor minus that of the link, without the time offset of the encoders. "
        "The slope over the torque through the joint is the compliance; the width of a loop is hysteresis or backlash."
    )
    body: list[Content] = [
        p(words),
        table([Column(title, number=k > 1) for k, title in enumerate(titles)], rows, "Elasticity of the joints"),
        class_tag("div", "grid", figures),
    ]
    return Section("elasticity", "Elastic joints", body, plots)


def _value_row(joint: JointData, values: JointElasticity) -> tuple[str, ...]:
    unit = f"{joint.torque_unit}/{joint.position_unit}"
    low, high = values.stiffness_interval
    known = values.is_determined
    return (
        joint.name,
        values.state,
        format_quantity(values.stiffness, unit) if known else "",
        f"{low:.3g} to {high:.3g} {unit}" if known else "",
        format_quantity(values.damping, f"{joint.torque_unit} s/{joint.position_unit}") if values.damping > 0 else "",
        format_quantity(values.time_offset_s, "s") if values.state != "unusable" else "",
        format_percent(values.relative_residual) if np.isfinite(values.relative_residual) else "",
    )


def _plot_deflection(joint: JointData, values: JointElasticity, curve: np.ndarray) -> dict[str, Any]:
    """Return the plot of deflection over torque, with the line of the compliance if it is determined."""
    torque, deflection = curve[np.argsort(curve[:, 0], kind="stable")].T
    curves = [series("measured", "residual", torque, deflection, kind="points")]
    if values.is_determined:
        ends = np.array([torque.min(), torque.max()])
        middle = values.compliance * (ends - torque.mean()) + deflection.mean()
        curves.append(series("compliance", "predicted", ends, middle))
    y = pane(axis("deflection", joint.position_unit), curves, height=230)
    return plot(axis("torque through the joint", joint.torque_unit), [y])
