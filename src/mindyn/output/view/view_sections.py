"""Sections of the page of a robot: the robot in space, joints and links, distances, torques."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.errors import list_names
from mindyn.foundation.findings import Finding
from mindyn.foundation.pages.document import (
    Column,
    Content,
    Html,
    Section,
    class_tag,
    figure,
    format_quantity,
    p,
    table,
    tabs,
    tag,
    typeset,
)
from mindyn.foundation.pages.plots import axis, pack_times, pane, plot, series, thinned_series
from mindyn.output.view.link_drawings import DrawnLinks
from mindyn.output.view.playback import Closest, Playback, Torques
from mindyn.output.view.scene import UNITS
from mindyn.robots.robot import Robot

BUCKETS: Final = 1500
"""Buckets of a curve, of each of which two points are drawn."""
PEAKS: Final = 6
"""Residual peaks that are listed."""
PEAK_DISTANCE: Final = 0.03
"""Smallest distance of two listed peaks of a joint, relative to the length of the log."""
TORQUE_UNITS: Final = {"revolute": "N m", "prismatic": "N"}


def space_section(
    robot: Robot,
    drawn: DrawnLinks,
    scene: dict[str, Any],
    playback: Playback | None,
    picture: Html,
    findings: Sequence[Finding],
    *,
    title: str | None = None,
) -> Section:
    """Return the section with the robot in space."""
    names = (robot.root.name, *robot.link_names)
    what = robot.name if playback is None else f"{robot.name}: {playback.title}"
    floor = None if playback is None else scene["floor"]
    ground = "the plane z = 0" if floor is None else f"the floor at z = {format_quantity(floor, 'm')}"
    if playback is not None and playback.closest is not None and floor is None:
        ground += "; no floor is checked"
    texts = [drawn.caption, f"The grid is {ground}. Red, green and blue lines are the x, y and z axes of the root."]
    if playback is not None and drawn.capsules:
        guessed = list(dict.fromkeys(names[part["link"]] for part in drawn.capsules if part["guess"]))
        about = f"are guesses for {list_names(guessed)}, which may be larger" if guessed else "contain the links"
        texts.append(f"Translucent capsules {about}.")
    if scene["boxes"] or scene["posts"]:
        texts.append("Obstacles are translucent too.")
    if playback is not None and playback.closest is not None:
        texts.append("The closest checked pair is red.")
    if playback is not None and playback.residual is not None:
        texts.append(
            "Links are redder where the residual of their joint is larger, red from 25 % of its peak torque; or, by "
            "choice, where its torque is larger."
        )
    elif playback is not None and playback.torque is not None:
        texts.append("Links are redder where the torque of their joint is larger.")
    texts.append("Drag to turn, hold Ctrl and scroll to zoom.")
    area = tag("div", {"class": "area", "data-label": what}, picture)
    view = tag("figure", {"class": "space", "id": "space-view"}, area, tag("figcaption", {}, " ".join(texts)))
    notes = [tag("li", {}, typeset(str(finding))) for finding in findings]
    content: list[Content] = [view]
    if notes:
        content.append(tag("ul", {}, notes))
    title = title or ("The robot" if playback is None else "The motion")
    return Section("robot", title, content, {"scene": scene})


def joints_section(robot: Robot, scene: dict[str, Any]) -> Section:
    """Return the section with a slider for each primary joint."""
    words = "Each slider covers the limits of its joint, or half a turn to both sides without limits."
    if scene["dependence"]["kind"] == "tables":
        words += " The loops were closed for one joint at a time: moving one joint moves the others home."
    elif robot.has_dependents:
        words += f" These joints follow: {', '.join(robot.dependent_names)}."
    return Section("joints", "Joints", [p(words), tag("div", {"id": "sliders"})])


def links_section(robot: Robot, drawn: DrawnLinks) -> Section:
    """Return the table of masses, centres of mass, and whether a body can have this inertia."""
    rows: list[list[Content]] = []
    for k, link in enumerate(robot.links, start=1):
        if link.phi is None:
            rows.append([link.name, "–", "–", "not given"])
            continue
        reason = drawn.impossible.get(k)
        answer = "yes" if reason is None else class_tag("span", "bad", f"no: {typeset(reason)}")
        if link.phi[0] == 0:
            rows.append([link.name, "0 kg", "–", answer])
            continue
        mass, com, _ = mass_com_inertia(link.phi)
        rows.append([link.name, format_quantity(mass, "kg"), ", ".join(f"{1e3 * v:.0f}" for v in com), answer])
    lead = "Bodies with the inertial parameters of all links can exist."
    if drawn.impossible:
        lead = "No body can have the inertial parameters of the red links."
    elif not robot.has_parameters:
        lead = "The robot file does not state the inertial parameters of all links."
    words = (
        f"{lead} Turn on Inertia above: ellipsoids of constant density with the same mass and inertia, and a dot at "
        "each centre of mass."
    )
    columns = [Column("Link"), Column("Mass", number=True), Column("Centre of mass, mm"), Column("Can exist")]
    return Section("links", "Links", [p(words), table(columns, rows, "Inertial parameters of the links")])


def distance_section(closest: Closest) -> Section:
    """Return the smallest distance over time."""
    k = int(closest.gap.argmin())
    words = (
        f"The smallest distance of all checked pairs, {1e3 * closest.gap[k]:.0f} mm, is that of "
        f"{closest.names[int(closest.pair[k])]} at {closest.time[k]:.1f} s. Click on the curve to see the pose."
    )
    curve = series("distance", "predicted", np.round(closest.time, 4).tolist(), np.round(closest.gap, 5).tolist())
    drawn = plot(axis("time", "s"), [pane(axis("distance", "m"), [curve], height=200, zero=True)], group="view")
    body = [p(typeset(words)), figure("distance", "Smallest distance over time", "Zero is contact.")]
    return Section("distance", "Smallest distance", body, {"distance": drawn})


def torque_section(robot: Robot, torques: Torques) -> Section:
    """Return measured and predicted torque and the residual of each joint, with its largest peaks."""
    plots: dict[str, Any] = {"shared": {"view-time": pack_times(torques.time, BUCKETS)}}
    panels: list[tuple[str, Content]] = []
    for k, joint in enumerate(robot.primary_joints):
        unit = TORQUE_UNITS[joint.kind]
        measured = torques.measured[:, k]
        panes = [pane(axis("torque", unit), [thinned_series("measured", "measured", "view-time", measured, BUCKETS)],
                      height=170)]  # fmt: skip
        if torques.predicted is not None:
            predicted = torques.predicted[:, k]
            panes[0]["series"].append(thinned_series("predicted", "predicted", "view-time", predicted, BUCKETS))
            residual = thinned_series("residual", "residual", "view-time", measured - predicted, BUCKETS)
            panes.append(pane(axis("residual", unit), [residual], height=120, zero=True))
        plots[f"view-torque-{k}"] = plot(axis("time", "s"), panes, group="view")
        label = f"Torque of {joint.name} over time"
        panels.append((joint.name, figure(f"view-torque-{k}", label, "Click to see the pose at this time.")))
    if torques.predicted is None:
        words: list[Content] = [p("The robot file has no inertial parameters, so nothing predicts the torque.")]
    else:
        words = [
            p(f"Predicted by {torques.model}. Click on a peak of the residual, or on a button, to see the pose there."),
            _peaks(robot, torques, torques.measured - torques.predicted),
        ]
    return Section("torque", "Torque", [*words, tabs("view-torque", "Joint", panels)], plots)


def _peaks(robot: Robot, torques: Torques, residual: np.ndarray[Any, Any]) -> Html:
    """Return buttons for the largest residuals relative to the largest torque of the joint."""
    peak = np.abs(torques.measured).max(axis=0)
    sizes = np.abs(residual) / np.where(peak > 0, peak, np.inf)
    items, reach = [], max(1, int(PEAK_DISTANCE * len(sizes)))
    for _ in range(PEAKS):
        row, k = np.unravel_index(int(sizes.argmax()), sizes.shape)
        if sizes[row, k] <= 0:
            break
        joint = robot.primary_joints[int(k)]
        time = float(torques.time[row])
        text = f"{joint.name} at {time:.2f} s: {format_quantity(float(residual[row, k]), TORQUE_UNITS[joint.kind])}"
        items.append(
            tag("li", {}, tag("button", {"type": "button", "data-time": f"{time:.4f}", "data-joint": str(k)}, text))
        )
        sizes[max(0, row - reach) : row + reach + 1, k] = 0.0
    return class_tag("ul", "peaks", items)


def limits_section(robot: Robot) -> Section:
    """Return the table of limits."""
    rows: list[list[Content]] = []
    for joint in robot.primary_joints:
        own, unit = joint.limits, UNITS[joint.kind]
        ends = "–" if own.lower is None or own.upper is None else f"{own.lower:.4g} to {own.upper:.4g} {unit}"
        speed = "–" if own.velocity is None else f"{own.velocity:.4g} {unit}/s"
        effort = "–" if own.effort is None else f"{own.effort:.4g} {TORQUE_UNITS[joint.kind]}"
        rows.append([joint.name, *map(typeset, (ends, speed, effort))])
    columns = [Column("Joint"), Column("Range"), Column("Speed"), Column("Effort")]
    return Section("limits", "Limits", [table(columns, rows, "Limits of the joints")])
