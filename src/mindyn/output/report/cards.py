"""Small tables and pictures that notebooks show for values, without scripts, in the colours of the notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

from mindyn.applications.validation.validate import Validation
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import list_names
from mindyn.foundation.pages.document import Content, Html, format_percent, format_plural, p, tag, typeset
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.check_feasible import Feasibility
from mindyn.identification.runs_with_loads import Payload
from mindyn.logs.log import Log
from mindyn.motions.excitation.motion_design import MotionDesign
from mindyn.output.report.parameter_rows import parameter_rows
from mindyn.output.report.verdict import GRADE_LABELS
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.regression.experiment import Experiment
from mindyn.robots.robot import Robot
from mindyn.robots.table import count_joints, tabulate_joints

MAX_ROWS: Final = 40
"""Most rows of a table, bars and curves of a picture,"""
MAX_NAMES: Final = 8
MAX_CELL: Final = 120
"""and characters of a cell."""
POINTS: Final = 160
"""Points of a curve."""
WIDTH, HEIGHT, BAR_HEIGHT = 420, 110, 16
COLOURS: Final = ("#4c8dd6", "#e08a3c", "#3fa66b", "#c65b5b", "#9272c4", "#98806b", "#c878b2", "#8f8f8f")
"""Readable on light and dark grounds; text has the colour of the notebook."""
MOTION_RATE_HZ: Final = 20.0


def card(value: object) -> str:
    """Return the HTML of a value; `CARDS` lists the classes."""
    draw = next(CARDS[kind] for kind in type(value).__mro__ if kind in CARDS)
    return str(draw(value))


def _card(title: str, facts: Sequence[tuple[str, str]], picture: Html | None, *table: Content) -> Html:
    items = [tag("li", {}, f"{name}: {_shorten(text)}") for name, text in facts if text]
    parts: list[Content] = [tag("strong", {}, title), tag("ul", {}, items)]
    return tag("div", {}, [*parts, *([] if picture is None else [picture]), *table])


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 4]} ..."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Content]:
    """Return a table of the first rows, and how many more there are."""
    cells = [tag("tr", {}, [tag("td", {}, _shorten(cell)) for cell in row]) for row in rows[:MAX_ROWS]]
    heads = tag("tr", {}, [tag("th", {}, name) for name in head])
    more = [p(f"{len(rows) - MAX_ROWS} more rows")] if len(rows) > MAX_ROWS else []
    return [tag("table", {}, tag("thead", {}, heads), tag("tbody", {}, cells)), *more]


def _svg(label: str, height: float, parts: Sequence[Content]) -> Html:
    box = {"viewBox": f"0 0 {WIDTH} {height:g}", "width": str(WIDTH), "height": f"{height:g}", "role": "img"}
    return tag("svg", {**box, "aria-label": label}, parts)


def _line(points: Array, colour: str) -> Html:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return tag("polyline", {"points": text, "fill": "none", "stroke": colour, "stroke-width": "1.5"})


def _fit(values: Array, size: float) -> Array:
    """Scale values to 4 ... size - 4."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return np.asarray(4 + (values - low) / (high - low or 1.0) * (size - 8))


def _curves(label: str, t: Array, columns: Array) -> Html | None:
    """Draw a curve for each column over time."""
    if len(t) < 2 or not np.isfinite(columns).any():
        return None
    rows = np.unique(np.linspace(0, len(t) - 1, POINTS).astype(int))
    x, y = _fit(t[rows], WIDTH), HEIGHT - _fit(columns[rows][:, : len(COLOURS)], HEIGHT)
    lines = [_line(np.column_stack([x, y[:, k]])[np.isfinite(y[:, k])], COLOURS[k]) for k in range(y.shape[1])]
    return _svg(label, HEIGHT, lines)


def _bars(label: str, names: Sequence[str], values: Sequence[float], text: Callable[[float], str]) -> Html | None:
    """Draw a horizontal bar for each finite value."""
    kept = [(name, value) for name, value in zip(names, values, strict=True) if isfinite(value)][:MAX_ROWS]
    largest = max((abs(value) for _, value in kept), default=0.0)
    if not kept:
        return None
    parts: list[Content] = []
    for k, (name, value) in enumerate(kept):
        length, y = 200 * abs(value) / (largest or 1.0), k * BAR_HEIGHT
        bar = {"x": "130", "y": str(y + 3), "width": f"{length:.1f}", "height": str(BAR_HEIGHT - 6)}
        parts.append(tag("rect", {**bar, "fill": COLOURS[0]}))
        for x, words, anchor in ((124.0, name[:20], "end"), (136.0 + length, text(value), "start")):
            place = {"x": f"{x:.1f}", "y": str(y + 12), "text-anchor": anchor, "font-size": "11"}
            parts.append(tag("text", {**place, "fill": "currentColor"}, words))
    return _svg(label, len(kept) * BAR_HEIGHT + 4.0, parts)


def _robot_card(robot: Robot) -> Html:
    head, *rows = tabulate_joints(robot)
    facts = [
        ("drives", format_plural(len(robot.drives), "joint") if robot.drives else "none"),
        ("loops", list_names([loop.name for loop in robot.loops], MAX_NAMES)),
        ("notes", "; ".join(map(str, robot.findings))),
    ]
    return _card(f"{robot.name}: {count_joints(robot)}", facts, _draw_robot(robot), *_table(head, rows))


def _draw_robot(robot: Robot) -> Html:
    """Draw the joints as points and the links as lines, with all joints at zero, from the side."""
    frames: list[Pose] = []
    points = [np.zeros(3)]
    for joint, parent in zip(robot.joints, robot.parents, strict=True):
        place = joint.origin if parent < 0 else frames[parent] @ joint.origin
        points.append(place.translation)
        frames.append(place @ joint.tip)
    flat = np.array([(x + 0.45 * y, z + 0.3 * y) for x, y, z in points])
    scale = (HEIGHT - 20) / max(float(np.ptp(flat, axis=0).max()), 1e-9)
    drawn = (flat - flat.min(axis=0)) * scale * (1, -1) + (10, HEIGHT - 10)
    ends = [(drawn[parent + 1], drawn[k + 1]) for k, parent in enumerate(robot.parents)]
    lines = [_line(np.array(pair), "currentColor") for pair in ends]
    dots = [tag("circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "4", "fill": COLOURS[0]}) for x, y in drawn]
    return _svg(f"Joints of {robot.name} at zero", HEIGHT, [*lines, *dots])


def _base_card(base: BaseParameters) -> Html:
    title = f"{base.robot.name}: {base.count} base parameters of {len(base.labels)} ({base.form})"
    known = base.robot.has_parameters
    values = [f"{value:.6g}" for value in base.values] if known else [""] * base.count
    rows = list(zip(base.names, values, base.shown_expressions, strict=True))
    picture = _bars("Values", base.names, base.values.tolist(), "{:.3g}".format) if known else None
    return _card(title, [], picture, *_table(("name", "value", "formula"), rows))


def _format_range(values: Array) -> str:
    finite = values[np.isfinite(values)]
    return f"{finite.min():.4g} to {finite.max():.4g}" if len(finite) else "none"


def _signal_rows(log: Log) -> list[tuple[str, str, str]]:
    named = enumerate(log.joint_names)
    return [(name, _format_range(log.q[:, k]), _format_range(log.tau[:, k])) for k, name in named]


SIGNALS: Final = ("joint", "position, rad or m", "torque, N m or N")


def _log_card(log: Log) -> Html:
    files = list_names([source.path for source in log.sources], MAX_NAMES)
    facts = [("file", files), ("notes", "; ".join(map(str, log.findings)))]
    title = f"Log: {format_plural(len(log), 'row')} over {log.duration_s:.4g} s"
    return _card(title, facts, _curves("Positions", log.time, log.q), *_table(SIGNALS, _signal_rows(log)))


def _experiment_card(experiment: Experiment) -> Html:
    logs = [log for log in experiment.logs if isinstance(log, Log)]
    rows = [(log.name or f"log {k}", str(len(log)), f"{log.duration_s:.4g}") for k, log in enumerate(logs, 1)]
    streamed = len(experiment.logs) - len(logs)
    facts = [("streamed", format_plural(streamed, "log") if streamed else "")]
    picture = _curves("Positions of the first log", logs[0].time, logs[0].q) if logs else None
    title = f"Experiment of {experiment.robot.name}: {format_plural(len(experiment.logs), 'log')}"
    return _card(title, facts, picture, *(_table(("log", "rows", "duration, s"), rows) if rows else ()))


def _estimate_card(estimate: Estimate) -> Html:
    rows = parameter_rows(estimate)
    counts = Counter(row.state for row in rows)
    facts = [("method", estimate.provenance.method), ("result", typeset(estimate.status))]
    facts.append(("parameters", ", ".join(f"{count} {state}" for state, count in counts.items())))
    intervals = ["" if row.low is None else f"{row.low:.5g} to {row.high:.5g}" for row in rows]
    cells = [
        (row.name, f"{row.value:.5g}", text, row.unit, row.state) for row, text in zip(rows, intervals, strict=True)
    ]
    known = [row for row in rows if row.relative is not None]
    label = "Standard deviation relative to the value"
    picture = _bars(label, [row.name for row in known], [row.relative or 0.0 for row in known], format_percent)
    head = ("parameter", "value", "95 % interval", "unit", "state")
    return _card(f"Estimate of {estimate.robot.name}", facts, picture, *_table(head, cells))


def _validation_card(validation: Validation) -> Html:
    e = validation.error
    title = f"Torque error {format_percent(e.total)} on {format_plural(e.rows, 'sample')}"
    columns = (e.joint_names, e.relative.tolist(), e.rmse.tolist(), validation.grades)
    rows = [
        (name, format_percent(part) if isfinite(part) else "no torque", f"{rms:.3g}", GRADE_LABELS[grade])
        for name, part, rms, grade in zip(*columns, strict=True)
    ]
    picture = _bars("Torque error of each joint", e.joint_names, e.relative.tolist(), format_percent)
    return _card(title, [], picture, *_table(("joint", "error", "rms, N m or N", "grade"), rows))


def _design_card(design: MotionDesign) -> Html:
    facts = [
        ("safety", design.headline),
        ("used limits", ", ".join(f"{kind} {format_percent(part)}" for kind, part in design.shares.items())),
        ("result", design.status),
    ]
    q, _, _, t = design.sample(MOTION_RATE_HZ)
    rows = [(name, _format_range(q[:, k])) for k, name in enumerate(design.robot.primary_names)]
    title = f"Motion of {design.robot.name}: {design.seconds:g} s"
    return _card(title, facts, _curves("Positions", t, q), *_table(SIGNALS[:2], rows))


def _payload_card(payload: Payload) -> Html:
    lines = str(payload).splitlines()
    centre = payload.centre.tolist()
    picture = _bars("Centre of mass, m", ("x, m", "y, m", "z, m"), centre, "{:.4g}".format)
    return _card(f"Payload at {payload.link}", [], picture, tag("pre", {}, "\n".join(lines)))


def _feasibility_card(feasibility: Feasibility) -> Html:
    words = {True: ("yes", COLOURS[2]), False: ("no", COLOURS[3]), None: ("undecided", COLOURS[7])}
    rows, parts = [], list[Content]()
    for k, answer in enumerate(feasibility.answers):
        (word, colour), question = words[answer.holds], answer.question.replace("_", " ")
        rows.append((question, word, answer.reason))
        x, y = 8 + k * WIDTH / 3, BAR_HEIGHT / 2
        parts.append(tag("circle", {"cx": f"{x:g}", "cy": f"{y:g}", "r": "6", "fill": colour}))
        place = {"x": f"{x + 12:g}", "y": f"{y + 4:g}", "font-size": "11", "fill": "currentColor"}
        parts.append(tag("text", place, f"{question}: {word}"))
    picture = _svg("Answers to the three questions", BAR_HEIGHT, parts)
    return _card("Physical feasibility", [], picture, *_table(("question", "answer", "reason"), rows))


CARDS: Final[dict[type, Callable[[Any], Html]]] = {
    Robot: _robot_card,
    BaseParameters: _base_card,
    Log: _log_card,
    Experiment: _experiment_card,
    Estimate: _estimate_card,
    Validation: _validation_card,
    MotionDesign: _design_card,
    Payload: _payload_card,
    Feasibility: _feasibility_card,
}
