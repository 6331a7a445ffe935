"""URDFs as they are found in the world: the same torques as Pinocchio reads from the same file."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from closeness import ORACLE, assert_close

from mindyn import compile_model, load_robot
from mindyn.parameters.structural import structural_base

FILES = {
    "ur10_unisa/model/ur10_robot.urdf": 36,
    "staubli_tx40/model/tx40_mdh_modified.urdf": None,
    "kuka_lwr4/model/kuka_lwr4.urdf": 43,
    "kuka_lwr4/model/kuka_lwr4_cogimon.urdf": 43,
    "kuka_lwr4/model/kuka_lwr4_centroepiaggio.urdf": 43,
    "kuka_kr300/model/kr300_kinematic.urdf": 36,
}


@pytest.mark.parametrize("name", FILES)
def test_torques_equal_pinocchios_from_the_same_file(real_data, name):
    path = real_data / name
    robot = load_robot(path, snap=False)
    model = pin.buildModelFromUrdf(str(path))
    assert list(robot.joint_names) == list(model.names)[1:]
    q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, robot.joint_count))
    state = np.concatenate([_position(joint, value) for joint, value in zip(list(model.joints)[1:], q, strict=True)])
    expected = pin.rnea(model, model.createData(), state, qd, qdd)
    assert_close(compile_model(robot).inverse_dynamics(q, qd, qdd), expected, ORACLE)


def _position(joint, value):
    """Pinocchio stores a continuous joint as cos and sin."""
    return [value] if joint.nq == 1 else [np.cos(value), np.sin(value)]


@pytest.mark.parametrize(("name", "count"), [(name, count) for name, count in FILES.items() if count])
def test_base_counts(real_data, name, count):
    assert structural_base(load_robot(real_data / name)).count == count
