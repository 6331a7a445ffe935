"""A motion against its limits without mindyn's excitation code: its JSON coefficients, NumPy, Pinocchio and coal."""

from __future__ import annotations

from dataclasses import replace

import coal
import numpy as np
import pinocchio as pin
from oracles.pinocchio_oracle import pinocchio_model

from mindyn.motions.excitation.constraints import Box
from mindyn.motions.excitation.volumes import Capsule
from mindyn.robots.robot import Robot


def motion_at(record: dict, t: np.ndarray) -> list[np.ndarray]:
    """q, qd, qdd, jerk (N, n) of a Fourier record: ramp(t) * (sines, cosines), differentiated by the product rule."""
    ramp_s, period, end = record["family"]["ramp_s"], record["period_s"], record["seconds"]
    a, b = np.array(record["sines"]), np.array(record["cosines"])
    w = 2 * np.pi / period * np.arange(1, len(a) + 1)
    phase = np.outer(t - ramp_s, w)
    sin, cos = np.sin(phase), np.cos(phase)
    f = [sin @ a + cos @ b]
    f.append((w * cos) @ a - (w * sin) @ b)
    f.append(-(w**2 * sin) @ a - (w**2 * cos) @ b)
    f.append(-(w**3 * cos) @ a + (w**3 * sin) @ b)
    u = np.clip(np.minimum(t, end - t) / ramp_s, 0, 1)
    side = np.where(t < end - t, 1.0, -1.0) / ramp_s
    r0 = 35 * u**4 - 84 * u**5 + 70 * u**6 - 20 * u**7
    r1 = 140 * u**3 * (1 - u) ** 3 * side
    r2 = 420 * u**2 * (1 - u) ** 2 * (1 - 2 * u) * side**2
    r3 = 840 * u * (1 - u) * (1 - 5 * u + 5 * u**2) * side**3
    r0, r1, r2, r3 = (r[:, None] for r in (r0, r1, r2, r3))
    q = np.array(record["start"]) + r0 * f[0]
    return [
        q,
        r1 * f[0] + r0 * f[1],
        r2 * f[0] + 2 * r1 * f[1] + r0 * f[2],
        r3 * f[0] + 3 * r2 * f[1] + 3 * r1 * f[2] + r0 * f[3],
    ]


def with_masses(robot: Robot) -> Robot:
    """The robot with no link without or of mass zero and first moment zero: Pinocchio divides one by the other."""
    any_mass = np.array([1.0, 0, 0, 0, 1, 0, 0, 1, 0, 1])
    links = [k if k.phi is not None else replace(k, phi=any_mass) for k in robot.links]
    links = [replace(k, phi=np.array([1e-30, *k.phi[1:]])) if k.phi[0] == 0 else k for k in links]
    return replace(robot, links=tuple(links))


def torques(robot: Robot, q, qd, qdd) -> np.ndarray:
    """Recursive Newton-Euler by Pinocchio, and every drive by hand."""
    model = pinocchio_model(with_masses(robot))
    data = model.createData()
    tau = np.array([pin.rnea(model, data, *rows) for rows in zip(q, qd, qdd, strict=True)])
    for drive in robot.drives:
        motor = np.zeros(len(robot.joints))
        motor[robot.joint_index(drive.joint)] = drive.ratio
        for joint, ratio in drive.coupling.items():
            motor[robot.joint_index(joint)] = ratio
        expected = np.eye(len(robot.joints))[robot.joint_index(drive.joint)]
        acts = motor if drive.side == "motor" else expected
        u = qd @ acts
        tau += np.outer(drive.rotor_inertia * (qdd @ motor), motor)
        tau += np.outer(drive.viscous * u + drive.coulomb * np.sign(u) + drive.offset, acts)
    assert np.isfinite(tau).all()
    return tau


def smallest_gaps(robot: Robot, capsules, q, pairs) -> dict[tuple[int, int], float]:
    """The smallest distance of every pair over all positions, by coal: capsules, boxes, floors by their height."""
    model = pinocchio_model(robot)
    data = model.createData()
    shapes, places = [], []
    for capsule in capsules:
        if isinstance(capsule, Box):
            shapes.append(coal.Box(*(capsule.upper - capsule.lower)))
            places.append(pin.SE3(np.eye(3), (capsule.lower + capsule.upper) / 2))
            continue
        if isinstance(capsule, float):
            shapes.append(coal.Halfspace(np.array([0, 0, 1.0]), capsule))
            places.append(pin.SE3.Identity())
            continue
        axis, length = capsule.b - capsule.a, np.linalg.norm(capsule.b - capsule.a)
        shapes.append(coal.Capsule(capsule.radius, length) if length > 1e-12 else coal.Sphere(capsule.radius))
        turn = pin.Quaternion.FromTwoVectors(np.array([0, 0, 1.0]), axis if length > 1e-12 else np.array([0, 0, 1.0]))
        places.append(pin.SE3(turn.toRotationMatrix(), (capsule.a + capsule.b) / 2))
    links = [getattr(c, "link", "") for c in capsules]
    frames = [model.getFrameId(link) if link in robot.link_names else None for link in links]
    least = dict.fromkeys(pairs, np.inf)
    request = coal.DistanceRequest()
    for row in q:
        pin.framesForwardKinematics(model, data, row)
        X = [p if f is None else data.oMf[f] * p for f, p in zip(frames, places, strict=True)]
        X = [coal.Transform3s(x.rotation, x.translation) for x in X]
        for i, j in pairs:
            result = coal.DistanceResult()
            least[i, j] = min(least[i, j], coal.distance(shapes[i], X[i], shapes[j], X[j], request, result))
    return least


def neighbours(robot: Robot, capsules) -> set[tuple[int, int]]:
    """Pairs of capsules on one link, or on links with no other link with a capsule on the way between them."""
    links = [robot.link_index(c.link) for c in capsules]
    result = set()
    for i, item in enumerate(links):
        for j in range(i + 1, len(links)):
            way = set(robot.path(item)) ^ set(robot.path(links[j]))
            shared = set(robot.path(item)) & set(robot.path(links[j]))
            between = (way | ({max(shared)} if shared else {-1})) - {item, links[j]}
            if item == links[j] or not between & set(links):
                result.add((i, j))
    return result


def worst_parts(robot: Robot, limits, record: dict, rate_hz: float = 1000.0) -> dict[str, float]:
    """The largest part of every limit that the motion takes: kinematics and torque."""
    t = np.arange(int(record["seconds"] * rate_hz + 1e-9) + 1) / rate_hz
    q, qd, qdd, jerk = motion_at(record, t)
    tau = torques(robot, q, qd, qdd)
    parts = {
        "lower": ((limits.lower - q) / np.abs(limits.upper - limits.lower)).max() + 1,
        "upper": ((q - limits.upper) / np.abs(limits.upper - limits.lower)).max() + 1,
        "velocity": (np.abs(qd) / limits.velocity).max(),
        "acceleration": (np.abs(qdd) / limits.acceleration).max(),
        "jerk": (np.abs(jerk) / limits.jerk).max(),
        "torque": (np.abs(tau) / ((1 - limits.torque_margin) * limits.effort)).max(),
    }
    assert np.isfinite(list(parts.values())).all()
    return {name: float(value) for name, value in parts.items()}


def least_room(robot: Robot, capsules, record: dict, *, floor, boxes=(), rate_hz: float = 1000.0) -> dict[str, float]:
    """The least distance from the floor, from boxes and between links that are not neighbours, along the motion.

    The lowest point of a capsule is one of its ends; ends that are always at one height do not count.
    """
    robot = with_masses(robot)
    q = motion_at(record, np.arange(int(record["seconds"] * rate_hz + 1e-9) + 1) / rate_hz)[0]
    moving = [capsule for capsule in capsules if robot.link_index(capsule.link) >= 0]
    ends = [Capsule(item.link, end, end, item.radius) for item in moving for end in (item.a, item.b)]
    heights = heights_of(robot, ends, q[::50])
    ends = [end for end, height in zip(ends, heights.T, strict=True) if np.ptp(height) > 1e-9]
    room = {}
    if floor is not None and ends:
        room["floor"] = min(
            smallest_gaps(robot, [*ends, floor], q, [(i, len(ends)) for i in range(len(ends))]).values()
        )
    if boxes:
        pairs = [(i, len(moving) + k) for i in range(len(moving)) for k in range(len(boxes))]
        gaps = smallest_gaps(robot, [*moving, *boxes], q, pairs)
        room["boxes"] = min(gaps.values())
    apart = neighbours(robot, capsules)
    pairs = [(i, j) for j in range(len(capsules)) for i in range(j) if (i, j) not in apart]
    named = {(i, j): f"gap of {capsules[i].link} - {capsules[j].link}" for i, j in pairs}
    # pairs that touch wherever the joints are were left out of the design, as its notes say
    checked = [pair for pair in pairs if named[pair] in record["used"]]
    checked = [pair for pair in checked if not always_touch(robot, capsules, record["limits"], pair)]
    # guessed volumes that overlap in most positions have no distance: the record must list them as unchecked
    measured = {frozenset((item["first"], item["second"])) for item in record["check"]["distances"]}
    listed = {name for item in record["check"]["findings"] if item["severity"] == "warning" for name in item["joints"]}
    for i, j in checked:
        names = capsules[i].link, capsules[j].link
        assert frozenset(names) in measured or {" - ".join(names), " - ".join(names[::-1])} & listed
    checked = [(i, j) for i, j in checked if frozenset((capsules[i].link, capsules[j].link)) in measured]
    if checked:
        room["links"] = min(smallest_gaps(robot, capsules, q, checked).values())
    return room


def always_touch(robot: Robot, capsules, limits: dict, pair: tuple[int, int], count: int = 100) -> bool:
    """Whether two capsules overlap at all of some random positions within the limits: their joints cannot part them."""
    lower = [-np.pi if end is None else end for end in limits["lower"]]
    upper = [np.pi if end is None else end for end in limits["upper"]]
    probes = np.random.default_rng(0).uniform(lower, upper, (count, robot.joint_count))
    return all(smallest_gaps(robot, capsules, row[None], [pair])[pair] < 0 for row in probes)


def heights_of(robot: Robot, spheres, q) -> np.ndarray:
    """(N, k) of the centres, by Pinocchio."""
    model = pinocchio_model(robot)
    data = model.createData()
    frames = [model.getFrameId(sphere.link) for sphere in spheres]
    result = []
    for row in q:
        pin.framesForwardKinematics(model, data, row)
        result.append([(data.oMf[f] * sphere.a)[2] for f, sphere in zip(frames, spheres, strict=True)])
    return np.array(result)
