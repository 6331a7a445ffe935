"""Draw the page of a designed motion as one self-contained HTML file.

The page shows the arm with floor and obstacles, every joint with its limits, the distances, and the predicted accuracy
of every parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Severity
from mindyn.foundation.hints import Command
from mindyn.foundation.pages.document import (
    NO_BREAK_SPACE,
    Column,
    Content,
    Section,
    card,
    class_tag,
    figure,
    p,
    render_document,
    table,
    tabs,
    tag,
    typeset,
    typeset_sentence,
)
from mindyn.foundation.pages.plots import axis, pack_exactly, pane, plot, series
from mindyn.kernels.model import compile_model
from mindyn.motions.excitation.body_pairs import Encounter, Encounters, gaps_of
from mindyn.motions.excitation.motion_design import MotionDesign
from mindyn.output.view.link_drawings import draw_links
from mindyn.output.view.picture import draw_picture
from mindyn.output.view.playback import play_motion
from mindyn.output.view.scene import describe_scene
from mindyn.output.view.view_sections import space_section
from mindyn.output.view.write_view import link_poses, view_extras
from mindyn.robots.meshes import Meshes

POINTS: Final = 601
"""Largest number of visible points of a curve."""
POSES: Final = 200
READABLE: Final = 2.5
"""A torque limit is drawn if its ratio to the largest torque is at most this."""
ROLES: Final = {"floor": "predicted", "links": "second", "obstacles": "third", "walls": "fourth"}
"""Colours of distances."""
SIGNAL_ROLES: Final = {"position": "predicted", "velocity": "second", "acceleration": "third", "torque": "fourth"}
"""Colours of the curves of a joint."""
SHOWN: Final = 0.01
"""Smallest used fraction of a limit that is shown."""
NEXT: Final = (
    "Play the sample files next to this page on the arm, the rehearsal first (the same path, slowly), and "
    "log position and torque. Then, with the robot that the motion was designed for:"
)
FORBIDDEN: Final = (
    "Do not play these files on a robot. Turn on the checks that are listed above, and design the motion again:"
)
UNITS: Final = {"revolute": ("rad", "N m"), "prismatic": ("m", "N")}


def draw_motion_page(design: MotionDesign, meshes: Meshes | None = None) -> str:
    """Return the text of the page."""
    run = design.run()
    t = np.linspace(0, run.seconds, POINTS)
    motion = run.rows(t)
    times = np.linspace(0, run.seconds, POSES)
    encounters, apart = design.encounters, np.zeros((POSES, 0))
    if encounters is not None:
        encounters = replace(encounters, checked=tuple(one for one in encounters.checked if one.is_checked))
        poses = encounters.bodies.poses(run.derivative(times, 0))
        gaps = [gaps_of(encounters.bodies, encounter, poses, is_exact=True) for encounter in encounters.checked]
        apart = np.stack(gaps, axis=1) if gaps else apart
    sections = [
        _summary(design),
        _arm(design, meshes),
        _joints(design, t, motion),
        *_clearance(encounters, times, apart),
        _limits(design),
        _parameters(design),
    ]
    about = f"{design.seconds:g} s" + ("" if design.approach is None else ", with the path from and to home")
    return render_document(f"Motion of {design.robot.name}", about, sections, extras=view_extras())


def _summary(design: MotionDesign) -> Section:
    """Return the first screen: safety, predicted accuracy, next steps and assumptions."""
    first, duration, *others = design.summary()
    robot = Path(design.robot.file).name or "ROBOT"
    command = Command("identify", robot, "run1.csv", "--hold-out", 0.3, "--out", "run1")
    if design.errors:
        command = Command("excite", robot, "--out", "motion")
    notes = [finding for finding in design.findings if finding.severity is Severity.INFO]
    warnings = [finding for finding in design.findings if finding not in notes]
    cards = [
        *_notes("Warnings", sorted(warnings, key=lambda finding: finding.severity is not Severity.ERROR)),
        card("Next steps", [p(FORBIDDEN if design.errors else NEXT), class_tag("code", "command", str(command))]),
        card("Predicted accuracy", [p(typeset_sentence(other)) for other in others]),
        *_notes("Assumptions", notes),
    ]
    lead = class_tag("div", "lead", p(tag("strong", {}, typeset(duration)), typeset_sentence(f" {first}")))
    return Section("motion", "The motion", [lead, class_tag("div", "cards", cards)])


def _notes(title: str, findings: Sequence[Finding]) -> list[Content]:
    """Return a card with findings; none without findings."""
    items = [tag("li", {}, typeset_sentence(f"{note[:1].upper()}{note[1:]}.")) for note in map(str, findings)]
    return [card(title, [tag("ul", {}, items)])] if items else []


def _arm(design: MotionDesign, meshes: Meshes | None) -> Section:
    """Return the arm along the run, with its volumes, floor and obstacles."""
    robot, run = design.robot, design.run()
    volumes = () if design.encounters is None else design.encounters.bodies.volumes
    playback = play_motion(robot, run, design.encounters)
    drawn = draw_links(robot, Meshes() if meshes is None else meshes, volumes)
    scene = describe_scene(robot, drawn, design.safety, playback)
    picture = draw_picture(robot, drawn, link_poses(robot, playback.q[0]), f"Picture of {robot.name}")
    return space_section(robot, drawn, scene, playback, picture, (), title="The arm")


def _torque(design: MotionDesign, motion: tuple[Array, Array, Array]) -> Array | None:
    """Return the torque (N, n) by the prior of the design; None without a prior."""
    values = design.prediction.values
    if values is None or design.robot.has_dependents:
        return None
    Y = compile_model(design.robot, with_drives=bool(design.robot.drives)).regressor(*motion)
    return np.asarray(Y @ values) if Y.shape[-1] == len(values) else None


def _joints(design: MotionDesign, t: Array, motion: tuple[Array, Array, Array]) -> Section:
    limits, tau = design.limits, _torque(design, motion)
    plots: dict[str, Any] = {"shared": {"run-time": pack_exactly(t)}}
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
            curves = [series(what, SIGNAL_ROLES[what], "run-time", pack_exactly(values))]
            if what == "torque" and high > READABLE * np.abs(values).max() > 0:
                what = f"torque (limit {high:.3g})"  # whose band would flatten the curve
            elif np.isfinite([low, high]).all():
                whole, lower, upper = [0.0, float(t[-1])], [float(low)] * 2, [float(high)] * 2
                curves.insert(0, series("allowed", "band", whole, lower, kind="band", y2=upper))
            panes.append(pane(axis(what, of), curves, height=120, zero=True))
        plots[f"joint-{j}"] = plot(axis("time", "s"), panes, group="view")
        caption = f"{joint.name}: position, velocity, acceleration" + ("" if tau is None else " and torque")
        panels.append((joint.name, figure(f"joint-{j}", caption, f"{caption}, within its limits.")))
    words = "The limits of speed and acceleration are the requested fractions of the robot's limits."
    return Section("joints", "Joints", [p(words), tabs("joints", "Joint", panels)], plots)


def _clearance(encounters: Encounters | None, t: Array, apart: Array) -> list[Section]:
    """Return a plot of the smallest distances over time, by obstacle; "" if nothing was checked."""
    if encounters is None or not encounters.checked:
        return []
    kinds = [_near(encounters, encounter) for encounter in encounters.checked]
    curves = [
        series(kind, role, np.round(t, 4), np.round(apart[:, [k == kind for k in kinds]].min(axis=1), 5))
        for kind, role in ROLES.items()
        if kind in kinds
    ]
    drawn = plot(axis("time", "s"), [pane(axis("distance", "m"), curves, height=220, zero=True)], group="view")
    words = "Smallest distance between the volumes of the links, and from them to the floor, walls and obstacles."
    body = [p(words), figure("clearance", "Clearance over time", "Zero is contact.")]
    return [Section("clearance", "Clearance", body, {"clearance": drawn})]


def _near(encounters: Encounters, encounter: Encounter) -> str:
    if encounter.direction is not None:
        return "floor" if encounter.names[1] == "floor" else "walls"
    return "links" if encounters.bodies.volumes[encounter.bodies[1]].link else "obstacles"


def _limits(design: MotionDesign) -> Section:
    near = sorted(((value, label) for label, value in design.used.items() if value > SHOWN), reverse=True)
    rows: list[list[Content]] = [[label, f"{100 * value:.1f} %"] for value, label in near]
    columns = [Column("Limit"), Column("Used", number=True)]
    return Section("limits", "Used fraction of every limit", table(columns, rows, "Used fractions of the limits"))


def _parameters(design: MotionDesign) -> Section:
    """Return a table of the predicted accuracy of every parameter; absolute numbers if the value is not significant."""
    rows: list[list[Content]] = [
        [tag("code", {}, name), *(typeset(cell).replace(" ", NO_BREAK_SPACE) for cell in cells)]
        for name, *cells in design.prediction.rows()
    ]
    words = (
        f"Standard deviations to be expected of a log at {design.rate_hz:g} Hz; relative ones where the value is not "
        "near zero. Excitation is the root-mean-square torque of one unit of the parameter, in deviations of the "
        "torque noise."
    )
    titles = ("Prior value", "Deviation", "Unit", "Relative", "Excitation")
    heads = [Column("Parameter"), *(Column(title, number=title != "Unit") for title in titles)]
    body = [p(words), table(heads, rows, "Predicted standard deviations of the parameters")]
    return Section("parameters", "Predicted accuracy", body)
