"""Assemble a robot from a description: find the root, merge fixed joints, sort the joints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mindyn.foundation.algebra.inertia import MOMENT_ROUNDING, least_moment, transform_phi
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.errors import Code, RobotError, list_names, unknown_name_error
from mindyn.foundation.findings import Finding, Kind, info, warning
from mindyn.robots.description import AnyJoint, Description, FixedJoint, UnsupportedJoint, hold_mimics_of_fixed_joints
from mindyn.robots.parts import Frame, Joint, Link, Loop
from mindyn.robots.robot import Robot, require_unique

Carriers = Mapping[str, tuple[str, Pose]]
"""For every link: the link that carries it rigidly (the link itself if it moves), and its pose in the frame of that
link.
"""


def assemble_robot(description: Description) -> Robot:
    """Assemble the robot of a description; links behind fixed joints become frames of the link that carries them.

    Raise `RobotError` if the links have several roots or form a cycle.
    """
    d = hold_mimics_of_fixed_joints(description) if description.mimics else description
    links = {link.name: link for link in d.links}
    hint = "rename the links, also in the joints that use them"
    require_unique((link.name for link in d.links), "link names must be unique", hint=hint)
    root, order = _sort_depth_first(links, d.joints)
    for joint in d.joints:
        if isinstance(joint, UnsupportedJoint):
            raise joint.error
    if error := next((d.unsupported_links[name] for name in links if name in d.unsupported_links), None):
        raise error
    findings = d.findings
    if d.keep_order and _is_sorted(d.joints, root):
        order = list(d.joints)
    elif d.keep_order:
        names = list_names(joint.name for joint in order if isinstance(joint, Joint))
        message = f"joints were sorted, parents before children; the order of q is: {names}"
        findings = (*findings, info(Kind.SORTED_JOINTS, message))
    carrier = _find_carriers(order, links)
    moving = [joint for joint in order if isinstance(joint, Joint)]
    bodies = _merge_links([root, *(joint.child for joint in moving)], links, carrier, order)
    findings = tuple(dict.fromkeys((*findings, *_find_negative_inertia(bodies.values()))))
    fixed = [Frame(name, *carrier[name]) for name in links if carrier[name][0] != name]
    return Robot(
        root=bodies[root],
        joints=tuple(attach_joint(joint, carrier) for joint in moving),
        links=tuple(bodies[joint.child] for joint in moving),
        frames=(*fixed, *(attach_frame(frame, carrier) for frame in d.frames)),
        loops=tuple(attach_loop(loop, carrier) for loop in d.loops),
        home=np.array([d.home.get(joint.name, 0.0) for joint in moving]) if d.home and d.loops else None,
        findings=findings,
        **_common_fields(d),
    )


def _find_negative_inertia(links: Iterable[Link]) -> Iterator[Finding]:
    """Yield a finding for every link with a negative principal moment of inertia."""
    for link in links:
        if link.phi is None or (least := least_moment(link.phi)) is None:
            continue
        if least < -MOMENT_ROUNDING * float(np.abs(link.phi).max()):
            message = f"link {link.name!r} has a negative principal moment of inertia, {least:.4g} kg m^2"
            yield warning(Kind.NEGATIVE_INERTIA, message, "Correct its inertial parameters, or identify them")


def describe_robot(robot: Robot) -> Description:
    """Return the description from which `assemble_robot` builds `robot` again."""
    return Description(
        links=(robot.root, *robot.links),
        joints=robot.joints,
        frames=robot.frames,
        loops=robot.loops,
        home={} if robot.home is None else dict(zip(robot.joint_names, robot.home.tolist(), strict=True)),
        findings=robot.findings,
        keep_order=True,
        **_common_fields(robot),
    )


def _common_fields(given: Description | Robot) -> dict[str, Any]:
    """Return the fields that a robot takes unchanged from its description."""
    names = ("name", "gravity", "drives", "extras", "mimics", "source", "selection")
    return {name: getattr(given, name) for name in names}


def _sort_depth_first(links: Mapping[str, Link], joints: Sequence[AnyJoint]) -> tuple[str, list[AnyJoint]]:
    """Return the root, and the joints with parents before children and siblings in file order.

    Raise an error if the links do not form a tree.
    """
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                message = f"joint {joint.name!r} names the {role} link {link!r}, which does not exist"
                raise RobotError(message, code=Code.UNKNOWN_NAME, subject=link)
    children = Counter(joint.child for joint in joints)
    if repeated := next((name for name, count in children.items() if count > 1), None):
        raise RobotError(
            f"link {repeated!r} is the child of more than one joint",
            hint="describe a closed loop as a tree plus a [[loop]] (mindyn's TOML format), not with a second parent",
            subject=repeated,
        )
    roots = [name for name in links if name not in children]
    if not roots:
        raise RobotError(
            "the links form a cycle: every link is the child of a joint",
            hint="remove the joint that closes the cycle, and describe it as a [[loop]] (mindyn's TOML format)",
            subject=next(iter(links)),
        )
    if len(roots) > 1:
        raise RobotError(
            f"a robot must have one root link; these links have no parent: {list_names(roots)}",
            hint=f"select the tree of one of them: root={roots[0]!r} (--root {roots[0]})",
            subject=roots[1],
        )
    below: dict[str, list[AnyJoint]] = {}
    for joint in reversed(joints):
        below.setdefault(joint.parent, []).append(joint)
    order: list[AnyJoint] = []
    waiting = list(below.get(roots[0], ()))
    while waiting:
        joint = waiting.pop()
        order.append(joint)
        waiting.extend(below.get(joint.child, ()))
    if len(order) < len(joints):
        reached = {joint.child for joint in order}
        cycle = [joint.child for joint in joints if joint.child not in reached]
        message = f"these links form a cycle that is not connected to the root {roots[0]!r}: {list_names(cycle)}"
        raise RobotError(message, subject=cycle[0])
    return roots[0], order


def _is_sorted(joints: Sequence[AnyJoint], root: str) -> bool:
    """Return whether every parent precedes its children."""
    known = {root}
    for joint in joints:
        if joint.parent not in known:
            return False
        known.add(joint.child)
    return True


def _find_carriers(order: Sequence[AnyJoint], links: Mapping[str, Link]) -> Carriers:
    carrier = {name: (name, IDENTITY) for name in links}
    for joint in order:
        if isinstance(joint, FixedJoint):
            link, pose = carrier[joint.parent]
            carrier[joint.child] = (link, pose @ joint.origin)
    return carrier


def _locate_on_carrier(link: str, pose: Pose, carrier: Carriers) -> tuple[str, Pose]:
    if link not in carrier:
        raise unknown_name_error("link", link, carrier)
    place, X = carrier[link]
    return place, X @ pose


def attach_joint(joint: Joint, carrier: Carriers) -> Joint:
    """Return the joint on the link that carries its parent."""
    place, origin = _locate_on_carrier(joint.parent, joint.origin, carrier)
    return replace(joint, parent=place, origin=origin)


def attach_loop(loop: Loop, carrier: Carriers) -> Loop:
    """Return the loop between the links that carry its ends."""
    first, first_pose = _locate_on_carrier(loop.first, loop.first_pose, carrier)
    second, second_pose = _locate_on_carrier(loop.second, loop.second_pose, carrier)
    return replace(loop, first=first, first_pose=first_pose, second=second, second_pose=second_pose)


def attach_frame(frame: Frame, carrier: Carriers) -> Frame:
    """Return the frame on the link that carries its link."""
    return Frame(frame.name, *_locate_on_carrier(frame.link, frame.pose, carrier))


def transform_link(link: Link, X: Pose) -> Link:
    """Return the link in frame a, for a link that is given in frame b and X = X_ab."""
    if X.is_identity:
        return link
    phi = None if link.phi is None else transform_phi(X, link.phi)
    return Link(link.name, phi, tuple(replace(shape, pose=X @ shape.pose) for shape in link.shapes))


def _merge_links(
    places: Sequence[str], links: Mapping[str, Link], carrier: Carriers, order: Sequence[AnyJoint]
) -> dict[str, Link]:
    """Merge the root and each moving link with the links that they carry rigidly, each into one rigid body."""
    parts: dict[str, list[str]] = {place: [] for place in places}
    for name, (place, _) in carrier.items():
        parts[place].append(name)
    # Held joints separate bodies: the mass of such a body is unknown only if none of its links has parameters.
    solid = {name: name for name in links}
    for joint in order:
        if isinstance(joint, FixedJoint) and not joint.held:
            solid[joint.child] = solid[joint.parent]
    known = {solid[name] for name, link in links.items() if link.phi is not None}
    return {
        place: _merge_body(place, names, links, carrier, {solid[n] for n in names} <= known)
        for place, names in parts.items()
    }


def _merge_body(place: str, names: Sequence[str], links: Mapping[str, Link], carrier: Carriers, known: bool) -> Link:
    if len(names) == 1:
        return links[place]
    parts = [transform_link(links[name], carrier[name][1]) for name in names]
    phis = [part.phi for part in parts if part.phi is not None]
    shapes = tuple(shape for part in parts for shape in part.shapes)
    return Link(place, sum(phis[1:], start=phis[0]) if known else None, shapes)
