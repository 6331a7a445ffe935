"""Diagnose an identified weight that no arm of this reach has, for robot files without masses.

The identified weight must be plausible for the lengths of the links. The weight of a slender arm of reach L, diameter L
/ s and density rho exerts the torque g w at its shoulder,

    w = integral of x dm = pi rho L^4 / (8 s^2)

so that w / L^4 depends only on density and slenderness. A wrong unit of the torque, or a current that is read as a
torque, changes it by a factor that no material explains.
"""

from __future__ import annotations

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.identification.diagnostics.file_comparison import states_masses
from mindyn.robots.robot import Robot


def run(data: DiagnosticData) -> list[Finding]:
    """Return a finding if the identified weight is far outside what arms of this reach have."""
    robot, gravity = data.estimate.robot, float(np.linalg.norm(data.estimate.robot.gravity))
    if robot.loops or states_masses(data.robot) or not gravity > 0 or data.smooth is None or data.is_poorly_excited:
        return []
    torques, reaches = _weight_torques(data), find_reaches(robot)
    is_revolute = np.array([joint.kind != "prismatic" for joint in robot.primary_joints])
    joint = int(np.argmax(np.where(is_revolute, torques, 0.0)))
    reach = float(reaches[[j.name for j in robot.joints].index(data.joint_names[joint])])
    moment = float(torques[joint]) / gravity
    low, high = (bound * reach**4 for bound in limit.PLAUSIBLE_WEIGHT)
    if not (reach > 0 and is_revolute[joint]) or low <= moment <= high:
        return []
    mass, least, most = (2 * value / reach for value in (moment, low, high))
    message = (
        f"the identified weight is implausible: an arm with a reach of {reach:.2g} m would weigh about {mass:.2g} kg; "
        f"{least:.2g} to {most:.2g} kg are plausible"
    )
    remedy = (
        "Check units.torque, current_gains (N m per A), side and gears of the log, and the unit of the robot's lengths"
    )
    return [warning(Kind.IMPLAUSIBLE_WEIGHT, message, remedy, (), mass, "kg")]


def _weight_torques(data: DiagnosticData) -> Array:
    """Return the largest torque (n,) due to weight at random positions of all joints."""
    joints = len(data.joint_names)
    q = np.random.default_rng(0).uniform(-np.pi, np.pi, (limit.MIN_ROWS_PER_PARAMETER * joints, joints))
    segments = np.arange(len(q), dtype=np.int64)
    columns = data.weight_columns(q, data.estimate.regressor.directions(q, np.zeros_like(q), segments, 1.0))
    return np.asarray(np.abs(columns @ data.estimate.beta).max(axis=0))


def find_reaches(robot: Robot) -> Array:
    """Return for each joint the length, m, of the chain beyond it.

    The last link is assumed to have the mean link length.
    """
    steps = [float(np.linalg.norm((joint.origin @ joint.tip).translation)) for joint in robot.joints]
    last = float(np.mean([step for step in steps if step > 0] or [0.0]))
    reaches = np.zeros(len(robot.joints))
    for k in reversed(range(len(robot.joints))):  # joints are sorted from the base outwards
        joint = robot.joints[k]
        beyond = [
            float(np.linalg.norm(other.origin.translation)) + reaches[m]
            for m, other in enumerate(robot.joints)
            if other.parent == joint.child
        ]
        reaches[k] = float(np.linalg.norm(joint.tip.translation)) + max(beyond, default=last)
    return reaches
