"""Report section that compares the error of the estimate with those of other models."""

from __future__ import annotations

from typing import Final

from mindyn.foundation.pages.document import (
    NO_BREAK_SPACE,
    Column,
    Content,
    Section,
    class_tag,
    format_percent,
    p,
    table,
    tag,
)
from mindyn.output.report.report_data import ReportData

LARGE_ERROR_FRACTION: Final = 10.0
"""Relative error from which on decimals are not shown."""


def comparison_section(data: ReportData) -> Section | None:
    """Return the section that compares the errors of this estimate, others and the prior model."""
    models = data.comparison
    if not models:
        return None
    errors = {joint.name: [model.relative[k] for model in models] for k, joint in enumerate(data.joints)}
    errors["all joints together"] = [model.total for model in models]
    errors["mean over joints"] = [sum(model.relative) / len(model.relative) for model in models]
    kind = "the held-out logs" if data.verdict.held_out else "the fits"
    best = min(models, key=lambda model: model.total)
    words = (
        f"Smallest total error on {kind}: {best.name}, with {_format_percent(best.total)}. "
        "The smallest error of each row is bold."
    )
    columns = [Column("Relative error"), *(Column(model.name, number=True) for model in models)]
    rows = [_comparison_row(name, values) for name, values in errors.items()]
    about = [
        tag("li", {}, tag("strong", {}, model.name), f": {model.about}")
        for model in models
        if model.about not in ("", model.name)
    ]
    parts = [p(words), table(columns, rows, f"Relative torque errors on {kind}"), class_tag("ul", "fine", about)]
    return Section("comparison", "Comparison with other models", parts)


def _comparison_row(name: str, values: list[float]) -> list[Content]:
    shown, least = [_format_percent(value) for value in values], _format_percent(min(values))
    return [name, *(tag("strong", {}, text) if text == least else text for text in shown)]


def _format_percent(value: float) -> str:
    """Format a fraction as percent with two decimals, so that similar models differ."""
    return f"{100 * value:.2f}{NO_BREAK_SPACE}%" if value < LARGE_ERROR_FRACTION else format_percent(value)
