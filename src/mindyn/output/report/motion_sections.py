"""Report sections on excitation, simulated motion and the robot."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import MindynError
from mindyn.foundation.pages.document import (
    Column,
    Content,
    Section,
    class_tag,
    figure,
    format_count,
    format_number,
    format_percent,
    format_quantity,
    p,
    table,
    tabs,
    tag,
    typeset,
)
from mindyn.foundation.pages.plots import axis, pack_times, pane, plot, thinned_series
from mindyn.motions.excitation.volumes import Volume, volumes_of
from mindyn.output.report.report_data import JointData, LogView, ReportData
from mindyn.output.report.torque_sections import MAX_BUCKETS
from mindyn.output.view.dependence import rest_position
from mindyn.output.view.link_drawings import draw_links
from mindyn.output.view.picture import draw_picture
from mindyn.output.view.playback import Playback, Torques, play_torques
from mindyn.output.view.scene import describe_scene
from mindyn.output.view.view_sections import space_section
from mindyn.output.view.write_view import link_poses
from mindyn.robots.meshes import Meshes
from mindyn.robots.parts import Limits
from mindyn.robots.robot import Robot

GOOD_CONDITION_NUMBER: Final = 100.0
"""Usual target for the condition number of exciting trajectories [Gautier & Khalil 1992]."""
COVERAGE_CELLS: Final = (28, 20)
"""Numbers of cells for position and speed."""
UNKNOWN_INPUT_NOTE: Final = "The input of the simulation is not known."
TITLE: Final = "The robot"


def excitation_section(data: ReportData) -> Section | None:
    """Return the section with the condition number and the motion of the joints."""
    if not data.logs:
        return None
    estimate, logs = data.estimate, data.select_logs("training")
    count, condition = len(data.parameters), estimate.data.condition_number
    identifiable = count - len(estimate.values.dropped) - len(estimate.values.unidentifiable)
    facts = {
        "Condition number": "not available" if condition is None else f"{condition:.3g}",
        "Identifiable parameters": f"{identifiable} of {count}",
        "Equations in the fit": format_count(sum(residual.rows for residual in estimate.data.residuals)),
    }
    listed = [tag("div", {}, tag("dt", {}, key), tag("dd", {}, value)) for key, value in facts.items()]
    titles = ("Joint", "Range", "Range / limits", "Peak speed", "Peak acceleration")
    q, qd, qdd = (
        np.concatenate([getattr(view.prediction.samples, name) for view in logs]) for name in ("q", "qd", "qdd")
    )
    rows, plots, figures = [], {}, []
    for k, (joint, limits) in enumerate(zip(data.joints, estimate.robot.primary_joints, strict=True)):
        rows.append(_motion_row(joint, q[:, k], qd[:, k], qdd[:, k], limits.limits))
        plots[f"coverage-{k}"], visited = _draw_coverage(q[:, k], qd[:, k], joint.position_unit)
        caption = f"{joint.name}: {format_percent(visited)} of the cells visited."
        figures.append(figure(f"coverage-{k}", f"Positions and speeds of {joint.name}", caption, shape="small"))
    dropped = sum(row.state == "dropped" for row in data.parameters)
    parts: list[Content] = [
        p(_describe_condition(condition, dropped, count)),
        tag("dl", {"class": "facts"}, listed),
        table(
            [Column(title, number=k > 0) for k, title in enumerate(titles)],
            rows,
            f"Motion of the joints in the {logs[0].role.replace(' ', '-')} logs",
        ),
        p("Visited positions (horizontal) and speeds (vertical) of each joint; darker cells were visited longer."),
        class_tag("div", "grid", figures),
    ]
    return Section("excitation", "Condition and excitation", parts, plots)


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


def _motion_row(joint: JointData, q: Array, qd: Array, qdd: Array, limits: Limits) -> list[Content]:
    fraction, unit = "–", joint.position_unit
    if limits.lower is not None and limits.upper is not None and limits.upper > limits.lower:
        fraction = format_percent(np.ptp(q) / (limits.upper - limits.lower))
    return [
        joint.name,
        f"{format_number(q.min(), 3)} to {format_quantity(q.max(), unit)}",
        fraction,
        format_quantity(np.abs(qd).max(), f"{unit}/s"),
        format_quantity(np.abs(qdd).max(), f"{unit}/s²"),
    ]


def _draw_coverage(q: Array, qd: Array, unit: str) -> tuple[object, float]:
    """Draw how long each cell of positions and speeds was visited, as levels 0 to 9; also return the part visited."""
    fastest, low, high = float(np.abs(qd).max()), float(q.min()), float(q.max())
    reach = [(-(fastest or 1.0), fastest or 1.0), (low, high) if high > low else (low - 1, high + 1)]
    counts, _, _ = np.histogram2d(qd, q, bins=COVERAGE_CELLS[::-1], range=reach)
    levels = np.where(counts > 0, 1 + np.rint(8 * np.sqrt(counts / max(counts.max(), 1))), 0).astype(int)
    cells = {
        "name": "visited",
        "role": "cells",
        "kind": "cells",
        "rows": ["".join(map(str, row)) for row in levels],
        "x": [low, high],
        "y": [-fastest, fastest],
    }
    drawn = plot(axis("position", unit), [pane(axis("speed", f"{unit}/s"), [cells], height=130)])
    return drawn, float(np.mean(levels > 0))


def motion_section(data: ReportData) -> Section | None:
    """Return the section with simulated and measured positions."""
    motion = data.motion
    if motion is None:
        return None
    plots: dict[str, object] = {"shared": {"time-motion": pack_times(motion.t, MAX_BUCKETS)}}
    panels: list[tuple[str, Content]] = []
    for k, joint in enumerate(data.joints):
        curves = [
            thinned_series("measured", "measured", "time-motion", motion.measured[:, k], MAX_BUCKETS),
            thinned_series("simulated", "predicted", "time-motion", motion.simulated[:, k], MAX_BUCKETS),
        ]
        unit = joint.position_unit
        y = pane(axis("position", unit), curves, height=250)
        plots[f"motion-{k}"] = plot(axis("time", "s"), [y], group="motion")
        words = f"{joint.name}: simulated and measured differ by {format_quantity(motion.rms[k], unit)} rms."
        panels.append((joint.name, figure(f"motion-{k}", f"Position of {joint.name} over time", words)))
    how = f"{motion.status[:1].upper()}{motion.status[1:]}" if motion.status else UNKNOWN_INPUT_NOTE
    words = f"Simulated and measured motion over {motion.t[-1] - motion.t[0]:.4g} s. {typeset(how)}"
    body = [p(words), tabs("motion", "Joint", panels)]
    return Section("motion", "Simulated and measured motion", body, plots)


def robot_section(data: ReportData) -> Section:
    """Return the section with the robot in space, along the first log if there is one."""
    robot = data.estimate.robot
    drawn = draw_links(robot, Meshes() if data.meshes is None else data.meshes, _volumes(robot))
    playback = None if not data.logs else _play(data.logs[0])
    q = rest_position(robot) if playback is None else playback.q[0]
    picture = draw_picture(robot, drawn, link_poses(robot, q), f"Picture of {robot.name}")
    return space_section(robot, drawn, describe_scene(robot, drawn, None, playback), playback, picture, (), title=TITLE)


def _volumes(robot: Robot) -> tuple[Volume, ...]:
    """Return the volumes of the links; none if they are unknown."""
    try:
        return volumes_of(robot).volumes
    except (MindynError, OSError):
        return ()


def _play(view: LogView) -> Playback:
    """Return the recorded motion with the torque that the estimate predicts."""
    prediction = view.prediction
    torques = Torques(prediction.time, prediction.measured, prediction.predicted, "the estimate")
    return play_torques(view.name, prediction.samples.q, torques)
