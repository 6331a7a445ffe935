"""Bodies on held joints: they keep the inertials of the file, and the link that carries them gets the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mindyn.algebra.inertia import check_consistency
from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array
from mindyn.errors import Code, ExportError, list_names
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.robots.assembly import assemble
from mindyn.robots.description import Description, FixedJoint, Selection
from mindyn.robots.parts import Link
from mindyn.robots.robot import Robot


def find_held_poses(described: Description, lock: Mapping[str, float]) -> dict[str, Pose]:
    """Return the pose of the child in its parent for each joint that is held or mimics a held joint."""
    if not lock:
        return {}
    free = {joint.name for joint in described.joints if not isinstance(joint, FixedJoint)}
    held = described.select(Selection(lock)).joints
    return {joint.name: joint.origin for joint in held if isinstance(joint, FixedJoint) and joint.name in free}


def find_held_links(described: Description, lock: Mapping[str, float]) -> dict[str, str]:
    """Return the held joint for each link that moves with one in the file, directly or through fixed joints."""
    above, places = {joint.child: joint for joint in described.joints}, find_held_poses(described, lock)

    def moved_by(name: str) -> str | None:
        joint = above.get(name)
        if isinstance(joint, FixedJoint) and not joint.held:
            return moved_by(joint.parent)
        return joint.name if joint is not None and joint.name in places else None

    moving = {link.name: moved_by(link.name) for link in described.links} if lock else {}
    return {link: joint for link, joint in moving.items() if joint is not None}


def subtract_held_bodies(robot: Robot, described: Description, held: Mapping[str, str], file: str) -> dict[str, Array]:
    """Subtract bodies on held joints from phi of each moving link.

    Raises `ExportError` if the file gives no inertials for such a body, or if the rest is not a physical body.
    """
    known = {link.name: link.phi for link in robot.links if link.phi is not None}
    if not held:
        return known
    stated = {held[link.name] for link in described.links if link.name in held and link.phi is not None}
    unknown = [link for link, joint in held.items() if joint not in stated]
    if unknown:
        raise ExportError(
            f"{file} has no inertials for {list_names(unknown)}, which move with joints that the robot holds",
            hint="add them to the file: these bodies keep them, and the body that carries them gets the rest",
            code=Code.MISSING_VALUE,
            subject=unknown[0],
        )
    nothing = np.zeros(PARAMETERS_PER_LINK)
    alone = [
        link if link.name in held and link.phi is not None else Link(link.name, nothing) for link in described.links
    ]
    kept = assemble(replace(described, links=tuple(alone)).select(robot.selection))
    rest = {}
    for link in kept.links:
        assert link.phi is not None
        if link.name not in known:
            continue
        rest[link.name] = known[link.name] - link.phi
        verdict = check_consistency(rest[link.name])
        if link.phi.any() and not verdict.is_feasible:
            raise ExportError(
                f"bodies on held joints have a mass of {link.phi[0]:.4g} kg in {file}; without them, {link.name!r}, "
                f"identified with {known[link.name][0]:.4g} kg, is not a physical body: {verdict.reason}",
                hint="reduce the inertials of these bodies in the file, or remove their joints",
                code=Code.NOT_FEASIBLE,
                subject=link.name,
            )
    return rest
