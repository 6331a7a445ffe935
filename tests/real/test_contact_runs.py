"""Pushes of a UR10e: thresholds from half of a free motion, no alarm on the other half, every push found.

The pushes were labelled from the motor currents alone, before any detector was run: the six currents of `push_1` and
`push_2` were plotted over time (s after the first row) and the times at which a current had left its level of rest and
not yet come back were read off by eye, with the joints whose currents had plainly left theirs. Currents that creep back
for seconds after a push were not counted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mindyn
from mindyn.applications.contact.detection import contact_thresholds, contact_trace, find_contacts
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings

FOLDER = Path(os.environ.get("MINDYN_REAL_DATA", "/nonexistent")) / "ur10e_innopolis"
JOINTS = ("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint")
STATED = {
    "columns": {"time": "t_s", "position": "q{i}_rad", "velocity": "qd{i}_rad_s", "torque": "current{i}_A"},
    "units": {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "A"},
    "side": "joint",
    "current_gains": [14.87, 13.26, 11.13, 10.62, 11.03, 11.47],
}
PUSHES = {
    "push_1": [(2.2, 2.65, (1,)), (4.9, 5.7, (1, 2, 3, 4, 5)), (8.7, 9.3, (1, 2)), (12.2, 13.0, (2,))],
    "push_2": [
        *((0.85, 1.3, (1,)), (2.8, 3.6, (1, 2, 3, 4, 5)), (5.2, 5.75, (2,)), (8.3, 8.95, (1,))),
        *((11.6, 12.25, (1, 2, 3, 4, 5)), (14.4, 15.05, (1,))),
    ],
}
"""From, to (s) and numbers of the joints, as labelled by hand."""


@pytest.mark.skipif(not FOLDER.is_dir(), reason="MINDYN_REAL_DATA holds no ur10e_innopolis")
def test_every_push_is_found_and_nothing_else():
    robot = mindyn.load_robot(FOLDER / "model" / "ur10e.urdf")

    def log(name):
        return mindyn.read_log(FOLDER / f"{name}.parquet", robot, metadata=STATED)

    free = log("free")
    first, second = free.take(slice(0, len(free) // 2)), free.take(slice(len(free) // 2, len(free)))
    equation_settings = EquationSettings(mindyn.Conditioning(motion_hz=10.0), friction=Friction("tanh", 0.03))
    estimate = mindyn.identify(robot, [first], mindyn.LeastSquares(), equation_settings)
    thresholds = contact_thresholds(estimate, [first])
    assert not contact_trace(estimate, second, thresholds).alarms.any()
    for name, pushes in PUSHES.items():
        contacts = find_contacts(contact_trace(estimate, log(name), thresholds), robot)
        assert len(contacts) == len(pushes)
        for contact, (start, end, joints) in zip(contacts, pushes, strict=True):
            assert contact.start_s < end
            assert contact.end_s > start
            assert {JOINTS[j - 1] for j in joints} <= set(contact.joints)
            assert contact.link == robot.joints[robot.joint_names.index(max(contact.joints, key=JOINTS.index))].child
