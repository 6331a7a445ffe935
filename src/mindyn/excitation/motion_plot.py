"""The page of a designed motion: the arm moving among floor and obstacles, every joint beside its limits, clearance,
and what will be known of every parameter. One HTML file, nothing loaded from elsewhere.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.excitation.capsules import Capsule
from mindyn.excitation.clearance import Points
from mindyn.excitation.constraints import Box
from mindyn.excitation.encounters import UNMOVED_M
from mindyn.kernels.model import compile_model
from mindyn.kernels.skeleton import skeleton_along
from mindyn.pages.document import document
from mindyn.pages.markup import (
    SPACE,
    Column,
    Content,
    Section,
    card,
    classed,
    figure,
    markup,
    number,
    p,
    table,
    tabs,
    tag,
    typeset,
)
from mindyn.pages.plots import axis, pane, plot, series
from mindyn.robots.meshes import Meshes

if TYPE_CHECKING:
    from mindyn.excitation.motion_design import MotionDesign

POINTS: Final = 601
"""Points of a curve: more would not be seen."""
POSES: Final = 200
ALONG: Final = 17
"""Points along the axis of a capsule at which its distance from boxes and posts is taken."""
SHOWN: Final = 0.01
"""Part of a limit from which on it is shown."""
NEXT: Final = (
    "Run the samples of the files beside this page on the arm, the rehearsal first (the same path, slowly), and "
    "log position and torque. Then, with the robot that the motion was designed for:"
)
IDENTIFY: Final = "mindyn identify ROBOT run1.csv --hold-out 0.3 --out run1"
UNITS: Final = {"revolute": ("rad", "N m"), "prismatic": ("m", "N")}


def html_plot(design: MotionDesign, meshes: Meshes | None = None) -> str:
    """The page."""
    run = design.run()
    t = np.linspace(0, run.seconds, POINTS)
    motion = [run.derivative(t, order) for order in range(3)]
    sections = [
        _summary(design),
        _robot(design, meshes),
        _joints(design, t, motion),
        *_clearance(design, t, motion[0]),
        _limits(design),
        _parameters(design),
    ]
    about = f"{design.seconds:g} s" + ("" if design.approach is None else ", with the way from home and back")
    return document(f"Motion of {design.robot.name}", about, sections)


def _summary(design: MotionDesign) -> Section:
    """The first screen: is it safe and what will it tell, what next, what was taken for granted."""
    first, *others = map(typeset, design.summary())
    told, more = (others[0], others[1:]) if design.prediction.relative is not None else ("", others)
    assumed = [
        tag("li", {}, typeset(f"{note[:1].upper()}{note[1:]}.")) for note in (str(one) for one in design.findings)
    ]
    cards = [
        card("What next", [p(NEXT), classed("code", "command", IDENTIFY)]),
        card("What it uses", [p(one) for one in more]),
        *([card("What was taken for granted", [tag("ul", {}, assumed)])] if assumed else []),
    ]
    lead = classed("div", "lead", p(tag("strong", {}, first), f" {told}"))
    return Section("motion", "The motion", markup([lead, classed("div", "cards", cards)]))


def _robot(design: MotionDesign, meshes: Meshes | None) -> Section:
    """The arm along the run, with floor and obstacles."""
    run = design.run()
    times = np.linspace(0, run.seconds, POSES)
    q = run.derivative(times, 0)
    tau = _torque(design, [run.derivative(times, order) for order in range(3)])
    parts = None
    if tau is not None:
        greatest = np.abs(tau).max(axis=0)
        parts = np.abs(tau) / np.where(greatest > 0, greatest, 1.0)
    drawn = skeleton_along(design.robot, q, times, parts, _floor(design), _solids(design), meshes)
    caption = "Drag to turn, + and − zoom. The grid is the floor, dashed lines are what the arm must not hit."
    area = tag("div", {"class": "area", "data-label": f"Motion of {design.robot.name}"})
    view = tag("figure", {"class": "robot", "id": "robot-view"}, area, tag("figcaption", {}, caption))
    names = tag("ol", {"class": "joints"}, [tag("li", {}, name) for name in design.robot.joint_names])
    values = {name: getattr(drawn, name) for name in drawn.__dataclass_fields__}
    return Section("robot", "The arm", markup([classed("div", "drawing", view, names)]), {"skeleton": values})


def _torque(design: MotionDesign, motion: list[Array]) -> Array | None:
    """(N, n) by the prior that the motion was designed with; None where there is none."""
    values = design.prediction.values
    if values is None or design.robot.has_dependents:
        return None
    Y = compile_model(design.robot, drives=bool(design.robot.drives)).regressor(*motion)
    return np.asarray(Y @ values) if Y.shape[-1] == len(values) else None


def _floor(design: MotionDesign) -> float | None:
    room = None if design.around is None else design.around.room
    return float(room.lower[2]) if room is not None and np.isfinite(room.lower[2]) else None


def _solids(design: MotionDesign) -> list[list[list[float]]]:
    """Edges of boxes, axes of posts, edges of the workspace where it is finite."""
    around = design.around
    if around is None:
        return []
    lines = [line for box in around.boxes for line in _edges(box)]
    lines += [[post.a.tolist(), post.b.tolist()] for post in around.posts]
    whole = around.workspace
    if whole is not None and np.isfinite([whole.lower, whole.upper]).all():
        lines += _edges(whole)
    return lines


def _edges(box: Box) -> list[list[list[float]]]:
    corners = [np.where(chosen, box.upper, box.lower) for chosen in product((False, True), repeat=3)]
    pairs = [(a, b) for k, a in enumerate(corners) for b in corners[k + 1 :] if (a != b).sum() == 1]
    return [[a.tolist(), b.tolist()] for a, b in pairs]


def _joints(design: MotionDesign, t: Array, motion: list[Array]) -> Section:
    limits, tau = design.limits, _torque(design, motion)
    plots: dict[str, Any] = {"shared": {"run-time": t.tolist()}}
    panels = []
    for j, joint in enumerate(design.robot.primary_joints):
        unit, torque_unit = UNITS[joint.kind]
        ends = [
            ("position", unit, motion[0][:, j], limits.lower[j], limits.upper[j]),
            ("velocity", f"{unit}/s", motion[1][:, j], -limits.velocity[j], limits.velocity[j]),
            ("acceleration", f"{unit}/s²", motion[2][:, j], -limits.acceleration[j], limits.acceleration[j]),
        ]
        if tau is not None:
            ends.append(("torque", torque_unit, tau[:, j], -limits.effort[j], limits.effort[j]))
        panes = []
        for what, of, values, low, high in ends:
            curves = [series(what, "predicted", "run-time", values.tolist())]
            if np.isfinite([low, high]).all():
                allowed = ([float(low)] * len(t), [float(high)] * len(t))
                curves.insert(0, series("allowed", "band", "run-time", allowed[0], kind="band", y2=allowed[1]))
            panes.append(pane(axis(what, of), curves, height=120, zero=True))
        plots[f"joint-{j}"] = plot(axis("time", "s"), panes, group="run")
        caption = f"{joint.name}: position, velocity, acceleration" + ("" if tau is None else " and torque")
        panels.append((joint.name, figure(f"joint-{j}", caption, f"{caption}, within what is allowed.")))
    words = "Limits are those that the motion was asked to keep, the asked part of speed and acceleration."
    return Section("joints", "Joints", markup([p(words), tabs("joints", "Joint", panels)]), plots)


def _clearance(design: MotionDesign, t: Array, q: Array) -> list[Section]:
    """Distances from floor and obstacles over time; none where there is nothing to hit."""
    around = design.around
    moving = [one for one in design.capsules if one.link and design.robot.link_index(one.link) >= 0]
    if around is None or not moving or design.robot.has_dependents:
        return []
    shares, ends = np.linspace(0, 1, ALONG)[:, None], np.tile(np.isin(np.arange(ALONG), (0, ALONG - 1)), len(moving))
    points = np.concatenate([one.a + shares * (one.b - one.a) for one in moving])
    links = [design.robot.link_index(one.link) for one in moving for _ in shares]
    radii = np.repeat([one.radius for one in moving], ALONG)
    P = Points(design.robot, links, points).positions(q)
    curves, floor = [], _floor(design)
    if floor is not None:
        # As the motion was kept above it: ends of capsules; what no joint lifts stands as it is mounted.
        lifted = ends & (np.ptp(P[..., 2], axis=0) > UNMOVED_M)
        if lifted.any():
            heights = (P[..., 2] - floor - radii)[:, lifted].min(axis=1)
            curves.append(series("floor", "measured", t.tolist(), heights.tolist()))
    for k, box in enumerate(around.boxes):
        outside = np.maximum(np.maximum(box.lower - P, P - box.upper), 0.0)
        gaps = (np.linalg.norm(outside, axis=-1) - radii).min(axis=1)
        curves.append(series(f"box {k + 1}", "predicted", t.tolist(), gaps.tolist()))
    for k, post in enumerate(around.posts):
        curves.append(series(f"post {k + 1}", "prior", t.tolist(), _from_post(P, radii, post).tolist()))
    if not curves:
        return []
    drawn = plot(axis("time", "s"), [pane(axis("distance", "m"), curves, height=220, zero=True)], group="run")
    words = (
        "Least distance of the arm from what stands around: of its capsules, at their ends from the floor and at "
        f"{ALONG} points along each from the rest."
    )
    body = markup([p(words), figure("clearance", "Clearance over time", "Zero is contact.")])
    return [Section("clearance", "Clearance", body, {"clearance": drawn})]


def _from_post(P: Array, radii: Array, post: Capsule) -> Array:
    along = post.b - post.a
    length = float(along @ along)
    share = np.clip((P - post.a) @ along / length, 0, 1) if length > 0 else np.zeros(P.shape[:-1])
    gaps = np.linalg.norm(P - post.a - share[..., None] * along, axis=-1) - radii - post.radius
    return np.asarray(gaps.min(axis=1))


def _limits(design: MotionDesign) -> Section:
    near = sorted(((value, label) for label, value in design.used.items() if value > SHOWN), reverse=True)
    rows: list[list[Content]] = [[label, f"{100 * value:.1f} %"] for value, label in near]
    columns = [Column("Limit"), Column("Used", number=True)]
    return Section("limits", "Part of every limit used", table(columns, rows, "Parts of the limits that are used"))


def _parameters(design: MotionDesign) -> Section:
    """What will be known of every parameter: absolutely where its value is near zero."""
    found, relative = design.prediction, design.prediction.relative
    rows: list[list[Content]] = []
    for k, name in enumerate(found.names):
        value = "–" if found.values is None else number(float(found.values[k]))
        part = "–" if relative is None or not np.isfinite(relative[k]) else f"{100 * relative[k]:.2g} %"
        rows.append(
            [
                tag("code", {}, name),
                value,
                number(float(found.deviations[k]), 2),
                typeset(found.units[k]).replace(" ", SPACE),
                part,
                number(float(found.excitation[k]), 3),
            ]
        )
    words = (
        f"Standard deviations to be expected of a log at {design.rate_hz:g} Hz; relative ones where the value is not "
        "near zero. Excitation is the root-mean-square torque of one unit of the parameter, in deviations of the "
        "torque noise."
    )
    titles = ("Prior value", "Deviation", "Unit", "Relative", "Excitation")
    heads = [Column("Parameter"), *(Column(title, number=title != "Unit") for title in titles)]
    body = markup([p(words), table(heads, rows, "Predicted standard deviations of the parameters")])
    return Section("parameters", "What will be known", body)
