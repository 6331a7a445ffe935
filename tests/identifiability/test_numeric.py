"""The numeric method compared with structural sets, under constraints, with drives; and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from closed_models import closed_model
from closeness import ORACLE, assert_close
from parameters.oracle import row_space
from parameters.oracle import sample_rows as oracle_rows
from raising import raises
from robots import NONE, random_motion, random_robot, with_random_drives

from mindyn import build_equation, load_robot
from mindyn.equations.identifiability.numeric import numeric_base
from mindyn.equations.identifiability.parameter_space import compute_row_space, constraint_matrix, essential_space
from mindyn.foundation.errors import Code, InputError, MindynError, RobotError, UnknownNameError
from mindyn.parameters.structural import structural_base


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("source", ["energy", "torque"])
def test_numeric_and_structural_sets_span_the_same_space(seed, source):
    robot = random_robot(seed, joints=1 + seed % 5)
    numeric, structural = numeric_base(robot, source, seed=seed), structural_base(robot)
    assert numeric.count == structural.count
    if numeric.count:
        structural.transform_to(numeric)
        numeric.transform_to(structural)


@pytest.mark.parametrize("seed", range(5))
def test_numeric_and_structural_sets_with_drives_span_the_same_space(seed):
    # Along gravity a prismatic joint's mass, rotor and offset are one parameter less, which structural sets do not see.
    robot = with_random_drives(random_robot(seed + 50, joints=3, gravity=NONE), seed)
    numeric, structural = numeric_base(robot, "torque", with_drives=True), structural_base(robot, with_drives=True)
    assert numeric.count == structural.count
    structural.transform_to(numeric)


@pytest.mark.parametrize("name", ["five_bar", "palletiser"])
def test_base_values_of_loops_give_the_torques(name):
    robot = load_robot(name)
    base, dynamics = numeric_base(robot), closed_model(robot)
    rng = np.random.default_rng(0)
    p, pd, pdd = rng.uniform(-2, 2, (3, 10, len(dynamics.primary_names)))
    tau = dynamics.inverse_dynamics(p, pd, pdd)
    assert_close(dynamics.regressor(p, pd, pdd, base) @ base.values, tau, ORACLE)


def test_a_users_priority_is_kept():
    robot = load_robot("puma560")
    given = numeric_base(robot, priority=["Izz1", "mcx6"])
    assert "Izz1R" in numeric_base(robot).names
    assert not any(name.startswith("Izz1") for name in given.names)
    structural_base(robot).transform_to(given)


def test_constraints_lower_the_count_and_keep_the_dynamics():
    """Links 4 to 6 are bodies of revolution: the count is the rank of the regressor on such parameters."""
    robot = load_robot("puma560")
    relations = [{label: 1.0} for i in (4, 5, 6) for label in (f"Ixy{i}", f"Ixz{i}", f"Iyz{i}", f"mcx{i}", f"mcy{i}")]
    relations += [{f"Ixx{i}": 1.0, f"Iyy{i}": -1.0} for i in (4, 6)]
    C = constraint_matrix(robot, relations)
    base = numeric_base(robot, constraints=C)
    free = np.linalg.svd(C)[2][len(C) :].T
    assert base.count == len(row_space(oracle_rows(robot, 0) @ free)[0]) < 36
    phi = free @ np.random.default_rng(0).normal(size=free.shape[1])
    q, qd, qdd = random_motion(robot, 0)
    Y = np.array(build_equation(robot, "standard_regressor")(q, qd, qdd))
    assert_close(Y @ (base.embedding @ (base.matrix @ phi)), Y @ phi, ORACLE)


def test_three_mass_redistributions_reduce_the_five_bar_from_26_to_23():
    """[Sheu & Walker 1991, section 5.3]: each constraint that the dynamics can see takes one parameter."""
    robot = load_robot("five_bar")
    base = numeric_base(robot)
    assert numeric_base(robot, constraints=base.matrix[[3, 10, 20]]).count == 23


def test_the_essential_vector_is_the_smallest_with_the_same_dynamics():
    robot = load_robot("puma560")
    space = essential_space(robot)
    vector = space.vector(robot.phi)
    assert_close(structural_base(robot).matrix @ vector, structural_base(robot).values, ORACLE)
    assert np.linalg.norm(vector) < np.linalg.norm(robot.phi)
    assert np.abs(space.null @ vector).max() < 1e-10
    assert_close(space.basis @ space.basis.T, np.eye(36), ORACLE)


def test_an_unclear_rank_raises_and_a_nearly_unclear_one_is_noted():
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(20, 20)))[0] for _ in range(2))
    with raises(RobotError, Code.INACCURATE):
        compute_row_space(U @ np.diag(10.0 ** -(0.9 * np.arange(0.0, 20.0))) @ V, np.ones(20))
    near = compute_row_space(U @ np.diag([1.0] * 10 + [1e-13] * 10) @ V, np.ones(20))
    assert near.dimension == 10
    assert near.gap < 1e-4
    assert "not clear" in compute_row_space(U @ np.diag([1.0] * 9 + [1e-6] + [5e-9] * 10) @ V, np.ones(20)).notes[0]


def test_wrong_requests_raise():
    robot = load_robot("puma560")
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "Ixx9"):
        numeric_base(robot, priority=["Ixx9"])
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "Ixx9"):
        constraint_matrix(robot, [{"Ixx9": 1.0}])
    with raises(InputError, Code.DUPLICATE):
        numeric_base(robot, priority=["m1", "m1"])
    with raises(InputError, Code.UNKNOWN_NAME):
        numeric_base(robot, "power")
    with raises(InputError, Code.UNSUPPORTED, "source"):
        numeric_base(robot, with_drives=True)
    with raises(MindynError, Code.WRONG_SHAPE, "constraints"):
        numeric_base(robot, constraints=[[1.0, 2.0]])
