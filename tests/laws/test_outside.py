"""Every formulation with a moving root and a wrench at the tip equals Pinocchio with a floating root."""

from __future__ import annotations

import subprocess

import numpy as np
import pinocchio as pin
import pytest
from closeness import ORACLE, assert_close
from oracles.pinocchio_oracle import pinocchio_model, se3
from raising import raises
from robots import random_motion, random_robot

from mindyn import build_equation, compile_model, load_robot
from mindyn.equations.formulations import ANY_TREE, INVERSE_DYNAMICS
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.parameters.lin import lin_base
from mindyn.robots.robot import Robot


def floating_model(robot: Robot) -> pin.Model:
    """Return the robot on a massless free flyer, with gravity in root components; the root frame is at the world's."""
    whole = pin.Model()
    whole.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
    root = whole.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    fixed = pinocchio_model(robot)
    for i in range(1, fixed.njoints):
        parent = root if fixed.parents[i] == 0 else fixed.parents[i] + 1
        whole.addJoint(parent, fixed.joints[i], fixed.jointPlacements[i], fixed.names[i])
        whole.appendBodyToJoint(i + 1, fixed.inertias[i], pin.SE3.Identity())
    return whole


def torques_on_moving_root(robot: Robot, motion, root_motion: np.ndarray) -> np.ndarray:
    """Return Pinocchio's torques at a root velocity v, which must not matter; its accelerations are a - w x v."""
    model = floating_model(robot)
    q, qd, qdd = motion
    w, wd, a = root_motion.reshape(3, 3)
    v = np.array([0.3, -0.7, 0.2])
    place = np.array([0, 0, 0, 0, 0, 0, 1.0])
    tau = pin.rnea(
        model,
        model.createData(),
        np.concatenate([place, q]),
        np.concatenate([v, w, qd]),
        np.concatenate([a - np.cross(w, v), wd, qdd]),
    )
    return tau[6:]


@pytest.mark.parametrize("seed", range(60))
def test_every_formulation_on_a_moving_root_equals_pinocchio(seed):
    robot = random_robot(seed, joints=1 + seed % 6, tree=None if seed % 3 else False)
    motion, root = random_motion(robot, seed), np.random.default_rng(seed).normal(size=9)
    expected = torques_on_moving_root(robot, motion, root)
    name = "inverse_dynamics_on_moving_root"
    for formulation in (None, *(f for f in INVERSE_DYNAMICS if robot.is_serial or f in ANY_TREE)):
        tau = build_equation(robot, name, formulation=formulation)(*motion, root)
        assert_close(np.array(tau).ravel(), expected, ORACLE)
    tau = build_equation(robot, name, parameters="input")(*motion, root, robot.phi)
    assert_close(np.array(tau).ravel(), expected, ORACLE)


@pytest.mark.parametrize("seed", range(40))
def test_every_formulation_with_a_wrench_at_the_tip_equals_pinocchio(seed):
    robot = random_robot(seed, joints=1 + seed % 6, tree=False)
    motion, wrench = random_motion(robot, seed), np.random.default_rng(seed).normal(scale=5, size=6)
    model = pinocchio_model(robot)
    forces = pin.StdVec_Force()
    for _ in range(robot.joint_count):
        forces.append(pin.Force.Zero())
    forces.append(se3(robot.joints[-1].tip).act(pin.Force(wrench[3:], wrench[:3])))
    expected = pin.rnea(model, model.createData(), *motion, forces)
    name = "inverse_dynamics_with_tip_wrench"
    for formulation in (None, *INVERSE_DYNAMICS):
        tau = build_equation(robot, name, formulation=formulation)(*motion, wrench)
        assert_close(np.array(tau).ravel(), expected, ORACLE)
    identified = build_equation(robot, name, parameters="base", base=lin_base(robot), formulation="mlc")
    assert_close(np.array(identified(*motion, wrench, lin_base(robot).values)).ravel(), expected, ORACLE)


def test_models_accept_root_motion_and_wrench_as_optional_inputs():
    robot = load_robot("stanford")
    rng = np.random.default_rng(0)
    motion = [rng.normal(size=(5, 6)) for _ in range(3)]
    root, wrench = rng.normal(size=(5, 9)), rng.normal(size=(5, 6))
    model = compile_model(robot, inverse_dynamics="kane")
    expected = [torques_on_moving_root(robot, m, r) for m, r in zip(np.stack(motion, 1), root, strict=True)]
    assert_close(model.inverse_dynamics(*motion, root_motion=root), expected, ORACLE)
    wrenches = np.zeros((5, 6, 6))
    wrenches[:, -1] = wrench
    other = compile_model(robot)
    expected = other.inverse_dynamics_with_wrenches(*motion, wrenches)
    assert_close(model.inverse_dynamics(*motion, tip_wrench=wrench), expected, ORACLE)
    assert_close(other.inverse_dynamics(*motion, root_motion=np.zeros(9)), other.inverse_dynamics(*motion), ORACLE)
    with raises(InputError, Code.UNSUPPORTED, "tip_wrench"):
        other.inverse_dynamics(*motion, root_motion=root, tip_wrench=wrench)


def test_base_parameters_of_a_fixed_root_are_rejected_for_a_moving_one():
    robot = load_robot("puma560")
    with raises(InputError, Code.UNSUPPORTED, "inverse_dynamics_on_moving_root"):
        build_equation(robot, "inverse_dynamics_on_moving_root", parameters="base")
    tree = random_robot(4, joints=6, tree=True)
    with raises(RobotError, Code.UNSUPPORTED, tree.name):
        build_equation(tree, "inverse_dynamics_with_tip_wrench")


def test_identified_mlc_with_a_wrench_run_in_c(tmp_path):
    """Compile a C program with Lin's recursion, MLC inputs and a moving root, and compare its output."""
    robot = load_robot("stanford")
    base = lin_base(robot)
    mlc = compile_model(robot, base=base, parameters="base", inverse_dynamics="mlc")
    mlc.write_c(tmp_path / "mlc.c", ["inverse_dynamics_with_tip_wrench"])
    compile_model(robot, inverse_dynamics="kane").write_c(tmp_path / "root.c", ["inverse_dynamics_on_moving_root"])
    q, qd, qdd = random_motion(robot, 3)
    wrench, root = np.arange(1.0, 7.0), np.arange(9.0) / 4
    arrays = {"q": q, "qd": qd, "qdd": qdd, "wrench": wrench, "root": root, "beta": base.values}
    text = "\n".join(f"double {k}[] = {{{', '.join(map(repr, v.tolist()))}}};" for k, v in arrays.items())
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "mlc.h"\n#include "root.h"\n'
        f"{text}\nint main(void) {{ double a[6], b[6];\n"
        "mlc_inverse_dynamics_with_tip_wrench(q, qd, qdd, wrench, beta, a);\n"
        "root_inverse_dynamics_on_moving_root(q, qd, qdd, root, b);\n"
        'for (int i = 0; i < 6; i++) printf("%.17g %.17g\\n", a[i], b[i]);\nreturn 0; }\n'
    )
    files = [str(tmp_path / name) for name in ("main.c", "mlc.c", "root.c")]
    subprocess.run(["cc", "-O1", "-o", str(tmp_path / "main"), *files, "-lm"], check=True)
    printed = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout
    at_tip, on_root = np.array([line.split() for line in printed.splitlines()], dtype=float).T
    assert_close(at_tip, compile_model(robot).inverse_dynamics(q, qd, qdd, tip_wrench=wrench), ORACLE)
    assert_close(on_root, torques_on_moving_root(robot, (q, qd, qdd), root), ORACLE)


@pytest.mark.parametrize("formulation", ["mlc_1", "mlc_2", "formulation_3"])
def test_forward_dynamics_with_the_inertia_matrix_of_a_formulation(formulation):
    robot = load_robot("stanford")
    q, qd, qdd = random_motion(robot, 1)
    model = pinocchio_model(robot)
    tau = pin.rnea(model, model.createData(), q, qd, qdd)
    expected = pin.aba(model, model.createData(), q, qd, tau)
    compiled = compile_model(robot, forward_dynamics=formulation)
    assert_close(compiled.forward_dynamics(q, qd, tau), expected, ORACLE)
