"""Robot files as people publish them: nearly all load, and give the torques that Pinocchio reads from the same file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from closeness import PUBLISHED_FILE

from mindyn import MindynError, load_robot
from mindyn.equations.catalogue import equation

FOLDER = os.environ.get("MINDYN_ROBOT_FILES", "")
REASONS = {
    "mimics another joint": 21,
    "has no moving joint": 3,
    "the file is xacro, not URDF": 2,
    "link names must be unique": 1,
}
"""Why files of the collection do not load, and how many at most."""

pytestmark = pytest.mark.skipif(not FOLDER, reason="MINDYN_ROBOT_FILES is not set: published robots are not bundled")


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return sorted(Path(FOLDER).rglob("*.urdf"))


def test_files_load_or_say_a_reason_that_a_person_agrees_with(files):
    refused: dict[str, list[str]] = {}
    for path in files:
        try:
            robot = load_robot(path)
            robot.consistency()
            assert str(robot)
        except MindynError as error:
            reason = next((one for one in REASONS if one in error.message), error.message)
            refused.setdefault(reason, []).append(path.name)
    assert len(files) >= 160
    assert set(refused) <= set(REASONS), refused
    assert all(len(names) <= REASONS[reason] for reason, names in refused.items()), refused


def test_torques_are_pinocchios(files):
    compared = 0
    for path in files:
        try:
            robot = load_robot(path, snap=False)
            model = pin.buildModelFromXML(path.read_text(encoding="utf-8"))
        except (MindynError, ValueError):
            continue
        if not robot.has_parameters or len(robot.primary_names) < robot.joint_count:
            continue
        q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, robot.joint_count))
        state, rates, accelerations = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        columns = []
        for i, name in enumerate(robot.joint_names):
            joint = model.joints[model.getJointId(name)]
            state[joint.idx_q : joint.idx_q + joint.nq] = q[i] if joint.nq == 1 else (np.cos(q[i]), np.sin(q[i]))
            columns.append(joint.idx_v)
        rates[columns], accelerations[columns] = qd, qdd
        expected = pin.rnea(model, model.createData(), state, rates, accelerations)[columns]
        found = equation(robot, "inverse_dynamics", parameters="standard")(q, qd, qdd).full().ravel()
        error = np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-3)
        assert error <= PUBLISHED_FILE, f"{path.name}: torques differ from Pinocchio's by {error:.2g}"
        compared += 1
    assert compared >= 80
