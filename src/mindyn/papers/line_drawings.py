"""Redrawn figures as SVG: axes with round numbers, and curves with their names at the end; no external resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

import numpy as np

from mindyn.foundation.algebra.values import Array

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 74, 150, 14, 44
CURVE_COLOURS = ("#1f6fb2", "#c5512d", "#2f8f4e", "#7d4fa3", "#b38a00", "#4a4a4a", "#d1478c", "#0f8b8d")
MOST_POINTS = 400
"""Points of a curve: more would not be visible."""

Curve = tuple[Array, Array]
"""x and y."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A redrawn figure: `name` is its file without suffix, `svg` its text."""

    name: str
    title: str
    svg: str


def draw_lines(curves: Mapping[str, Curve], x_title: str, y_title: str) -> str:
    """Draw the curves by name; points that are not finite are left out."""
    every_x = np.concatenate([x for x, _ in curves.values()])
    every_y = np.concatenate([y for _, y in curves.values()])
    every_y = every_y[np.isfinite(every_y)]
    x_ticks, y_ticks = _ticks(every_x.min(), every_x.max()), _ticks(every_y.min(), every_y.max())
    x_range = (min(x_ticks[0], every_x.min()), max(x_ticks[-1], every_x.max()))
    y_range = (min(y_ticks[0], every_y.min()), max(y_ticks[-1], every_y.max()))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(x: Array, y: Array) -> tuple[Array, Array]:
        across = LEFT + (x - x_range[0]) / (x_range[1] - x_range[0]) * (right - LEFT)
        down = bottom - (y - y_range[0]) / (y_range[1] - y_range[0]) * (bottom - TOP)
        return across, down

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for value in x_ticks:
        (x,), _ = place(np.array([value]), np.array([y_range[0]]))
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{_label(value)}</text>')
    for value in y_ticks:
        _, (y,) = place(np.array([x_range[0]]), np.array([value]))
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{_label(value)}</text>')
    ends: list[float] = []
    for k, (name, (x, y)) in enumerate(curves.items()):
        step = max(1, len(x) // MOST_POINTS)
        kept = np.unique(np.append(np.arange(0, len(x), step), len(x) - 1))
        across, down = place(np.asarray(x)[kept], np.asarray(y)[kept])
        colour = CURVE_COLOURS[k % len(CURVE_COLOURS)]
        shown = np.isfinite(down)
        points = " ".join(f"{a:.1f},{d:.1f}" for a, d in zip(across[shown], down[shown], strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        height = _separate_height(float(down[shown][-1]), ends)
        ends.append(height)
        parts.append(f'<text x="{right + 7}" y="{height + 4:.1f}" fill="{colour}">{escape(name)}</text>')
    middle = (TOP + bottom) / 2
    parts += [
        f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444"/>',
        f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>',
        f'<text transform="translate(15 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>',
    ]
    return "\n".join([*parts, "</svg>", ""])


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers that span the range."""
    width = (high - low) or abs(high) or 1.0
    unit = 10.0 ** floor(log10(width / 5))
    step = next(k * unit for k in (1, 2, 5, 10) if width / (k * unit) <= 6)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [k * step for k in range(first, last + 1)]


def _label(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _separate_height(height: float, taken: Sequence[float], distance: float = 15.0) -> float:
    """Return the nearest height at which a name does not overlap another one."""
    for shift in np.arange(0, 60) * distance / 2:
        for candidate in (height - shift, height + shift):
            if all(abs(candidate - other) >= distance for other in taken) and TOP < candidate < HEIGHT - 4:
                return float(candidate)
    return height
