"""`draw_links`: how each link of a robot is drawn, and its mass distribution as an ellipsoid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import MindynError, list_names
from mindyn.foundation.pages.document import format_plural
from mindyn.motions.excitation.volumes import Volume, link_segments
from mindyn.robots.link_solids import VolumeSource, locate_file_link
from mindyn.robots.loading import read_description
from mindyn.robots.meshes import Meshes
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot

DIGITS: Final = 5
"""Decimals of lengths in m."""


@dataclass(frozen=True, slots=True)
class DrawnLinks:
    """Links for the page.

    meshes     of the links that have one
    capsules   volumes of all links: link number, ends, radius, whether it is guessed
    solid      links that are drawn by their volumes, since they have no mesh
    lines      link number and segments of links that have neither
    caption    what the drawing consists of
    impossible reason by link number why no body has the inertial parameters of the file
    """

    meshes: Meshes
    capsules: tuple[dict[str, Any], ...]
    solid: tuple[int, ...]
    lines: tuple[dict[str, Any], ...]
    caption: str
    impossible: dict[int, str]


def draw_links(robot: Robot, meshes: Meshes, volumes: Sequence[Volume]) -> DrawnLinks:
    """Return how each link is drawn: by its mesh, otherwise by its volume, otherwise as lines between its joints."""
    names = (robot.root.name, *robot.link_names)
    meshed = {part.link for part in meshes.parts}
    known = {robot.link_index(v.link) + 1: v for v in volumes if v.link and v.source is not VolumeSource.FRAMES}
    solid = tuple(number for number in range(len(names)) if number not in meshed and number in known)
    bare = [k for k in range(len(names)) if k not in meshed and k not in solid and link_segments(robot, names[k])]
    lines = tuple(
        {"link": k, "ends": [[_rounded(a), _rounded(b)] for a, b in link_segments(robot, names[k])]} for k in bare
    )
    capsules = tuple(
        {
            "link": robot.link_index(volume.link) + 1,
            "a": _rounded(capsule.a),
            "b": _rounded(capsule.b),
            "radius": round(float(capsule.radius), DIGITS),
            "guess": volume.source.is_guess,
        }
        for volume in volumes
        if volume.link
        for capsule in volume.covers
    )
    guessed = [names[k] for k in solid if known[k].source.is_guess]
    by_mesh, by_volume, by_line = ([names[k] for k in numbers] for numbers in (sorted(meshed), solid, bare))
    caption = _describe(by_mesh, by_volume, by_line, guessed, sum(part.triangles for part in meshes.parts))
    return DrawnLinks(meshes, capsules, solid, lines, caption, find_impossible_links(robot))


def _describe(meshed: list[str], solid: list[str], bare: list[str], guessed: list[str], triangles: int) -> str:
    """Return a sentence on what is drawn."""
    parts = []
    if meshed:
        parts.append(f"{format_plural(len(meshed), 'link')} by meshes ({format_plural(triangles, 'triangle')})")
    if solid:
        words = f"{format_plural(len(solid), 'link')} by volumes, without meshes"
        parts.append(f"{words}, guessed from the inertia: {list_names(guessed, 6)}" if guessed else words)
    if bare:
        words = f"{format_plural(len(bare), 'link')} as lines between joints, without shapes"
        parts.append(f"{words}: {list_names(bare, 6)}")
    return f"Drawn: {'; '.join(parts)}." if parts else "The robot has no shapes and no lengths to draw."


def find_impossible_links(robot: Robot) -> dict[int, str]:
    """Return for each moving link, by its number from 1, why no body has the inertial parameters of the file.

    Links on fixed joints count for the link that carries them.
    """
    reasons: dict[int, str] = {}
    for place, link in _file_links(robot):
        consistency = link.consistency()
        if consistency.status == "inconsistent" and place > 0:
            reasons.setdefault(place, f"{link.name}: {consistency.reason}")
    return reasons


def _file_links(robot: Robot) -> list[tuple[int, Link]]:
    """Return the links of the file with the number of the link that carries each; those of the robot without a file."""
    own = [(number, link) for number, link in enumerate(robot.links, start=1)]
    if not robot.file or not Path(robot.file).is_file():
        return own
    try:
        description = read_description(robot.file)
    except (MindynError, OSError):
        return own
    placed = [(locate_file_link(robot, link.name), link) for link in description.links]
    return own + [(robot.link_index(place[0]) + 1, link) for place, link in placed if place is not None]


def describe_inertia(link: Link) -> dict[str, Any] | None:
    """Return mass, centre of mass, and the ellipsoid of constant density with the same inertia; None if unknown.

    Negative moments, which no body has, are drawn by their magnitude.
    """
    if link.phi is None or link.phi[0] == 0 or not np.isfinite(link.phi).all():
        return None
    mass, com, J = mass_com_inertia(link.phi)
    moments, axes = np.linalg.eigh(J.trace() / 2 * np.eye(3) - J)
    half = np.sqrt(5 * np.abs(moments) / abs(mass))
    if np.linalg.det(axes) < 0:
        axes = axes * [1, 1, -1]
    return {"mass": float(mass), "com": _rounded(com), "half": _rounded(half), "axes": _rounded(axes.ravel())}


def _rounded(values: Array) -> list[float]:
    return [round(float(value), DIGITS) for value in values]
