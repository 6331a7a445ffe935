"""The plot of a designed motion: one HTML page with drawings in it, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from mindyn.algebra.values import Array

if TYPE_CHECKING:
    from mindyn.excitation.motion_design import MotionDesign

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 200, 70, 26, 8
POINTS: Final = 601
"""Points of a curve: more would not be seen."""
SHOWN: Final = 0.01
"""Part of a limit from which on it is shown."""
TITLE: Final = 16
"""Height above a curve for its title."""
UNITS: Final = {"revolute": "rad", "prismatic": "m"}
ORDERS: Final = (("position", ""), ("velocity", "/s"), ("acceleration", "/s²"))


def html_plot(design: MotionDesign) -> str:
    """Joint motion with its limits, the part of every limit used, excitation and predicted deviation of parameters."""
    relative = design.prediction.relative
    names = design.prediction.names
    parts = [
        f"<h1>Motion of {escape(design.robot.name)}</h1>",
        f"<p>{escape(design.status)}.</p>",
        *(f"<p>Note: {escape(note)}.</p>" for note in design.notes),
        "<h2>Joint motion</h2>",
        "<p>Dashed: limits.</p>",
        *(_joint(design, k) for k in range(len(design.robot.primary_names))),
        "<h2>Part of every limit used</h2>",
        f"<p>Those below {100 * SHOWN:g} % are left out.</p>",
        bars({label: value for label, value in design.used.items() if value > SHOWN}, "part of the limit"),
        "<h2>Excitation of every parameter</h2>",
        "<p>Root-mean-square torque of one unit of the parameter, in standard deviations of the torque noise.</p>",
        bars(dict(zip(names, design.prediction.excitation.tolist(), strict=True)), "excitation"),
    ]
    if relative is not None:
        known = {name: float(100 * r) for name, r in zip(names, relative, strict=True) if np.isfinite(r)}
        parts += [
            "<h2>Predicted relative standard deviation</h2>",
            f"<p>Of every parameter with a prior value, from a log at {design.rate_hz:g} Hz, in percent.</p>",
            bars(known, "relative standard deviation, %"),
        ]
    style = "body{font:14px sans-serif;max-width:900px;margin:2em auto;color:#222}svg{display:block;margin:.4em 0}"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Motion of {escape(design.robot.name)}'
        f"</title><style>{style}</style></head><body><main>\n" + "\n".join(parts) + "\n</main></body></html>\n"
    )


def _joint(design: MotionDesign, joint: int) -> str:
    t = np.linspace(0, design.seconds, POINTS)
    limits = design.limits
    bounds = (
        (limits.lower[joint], limits.upper[joint]),
        (-limits.velocity[joint], limits.velocity[joint]),
        (-limits.acceleration[joint], limits.acceleration[joint]),
    )
    name = design.robot.primary_names[joint]
    unit = UNITS[design.robot.primary_joints[joint].kind]
    drawings = [
        curve(t, design.motion.derivative(t, order)[:, joint], bounds[order], f"{name}: {what}, {unit}{per}")
        for order, (what, per) in enumerate(ORDERS)
    ]
    return f"<h3>{escape(name)}</h3>" + "".join(drawings)


def curve(t: Array, y: Array, bounds: Sequence[float], title: str) -> str:
    """One line over time, dashed lines at the finite bounds."""
    finite = [b for b in bounds if np.isfinite(b)]
    low, high = min(float(y.min()), *finite, 0.0), max(float(y.max()), *finite, 0.0)
    high = high if high > low else low + 1.0
    x_of = LEFT + (WIDTH - LEFT - 10) * (t - t[0]) / (t[-1] - t[0])

    def height(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP - TITLE) * (value - low) / (high - low)

    points = " ".join(f"{x:.1f},{height(v):.1f}" for x, v in zip(x_of, y, strict=True))
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{height(b):.1f}" y2="{height(b):.1f}" stroke="#b03020" '
        'stroke-dasharray="6 4"/>'
        for b in finite
    ]
    ticks = [_text(LEFT - 6, height(v) + 4, f"{v:.3g}", "end") for v in sorted({low, 0.0, high})]
    ticks += [_text(float(x), HEIGHT - 8, f"{s:.3g} s", "middle") for x, s in zip(x_of[::150], t[::150], strict=True)]
    ticks.append(_text(LEFT, TOP + TITLE - 8, title, "start"))
    body = "".join([*lines, f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>', *ticks])
    return _svg(HEIGHT, title, body)


def bars(values: Mapping[str, float], title: str) -> str:
    """One horizontal bar for each name, on a logarithmic scale where sizes differ by more than a hundred."""
    if not values:
        return "<p>None.</p>"
    sizes = np.array(list(values.values()))
    positive = sizes[sizes > 0]
    logarithmic = len(positive) > 0 and positive.max() > 100 * positive.min()
    if logarithmic:
        floor = positive.min() / 2
        lengths = np.log(np.maximum(sizes, floor) / floor) / np.log(positive.max() / floor)
    else:
        lengths = sizes / (positive.max() if len(positive) else 1.0)
    row, label = 18, 230
    body = ""
    for k, ((name, value), length) in enumerate(zip(values.items(), lengths, strict=True)):
        y, width = TOP + k * row, (WIDTH - label - 90) * float(length)
        body += _text(label - 6, y + 13, name, "end")
        body += f'<rect x="{label}" y="{y + 2}" width="{width:.1f}" height="{row - 4}" fill="#1f5fa8"/>'
        body += _text(label + width + 5, y + 13, f"{value:.3g}", "start")
    return _svg(TOP + row * len(values) + 6, title + (" (logarithmic)" if logarithmic else ""), body)


def _svg(height: float, title: str, body: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {height}" width="100%">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}">{escape(words)}</text>'
