"""Load-dependent friction in closed loops, where the pins carry a part of the load.

The oracle computes the load of a primary joint from Pinocchio's tree and the multipliers of the pins; the friction
formulas are written here.
"""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from identifiability.loop_oracle import LoopOracle
from laws.closed_linkages import linkage
from raising import raises

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.errors import Code, RobotError
from mindyn.kernels.observer import MomentumObserver
from mindyn.robots import Mimic

WIDTH, TAKEN, VISCOUS = 0.05, 0.3, 0.7
LINKAGES = (("five-bar", 1), ("slider-crank", 1), ("ball", 3))


def worn(robot, taken=TAKEN):
    """Add load friction to every primary joint and viscous friction to every joint."""
    drives = tuple(mindyn.Drive(name, viscous=VISCOUS) for name in robot.joint_names)
    formula = f"abs(load) * tanh(qd / {WIDTH})"
    extras = tuple(mindyn.ExtraTorque(f"worn_{name}", name, formula, taken) for name in robot.primary_names)
    return replace(robot, drives=drives, extras=extras)


def states(robot):
    """Return closed positions, rates and accelerations of the primary joints."""
    closure, rng = home_closure(robot), np.random.default_rng(4)
    p = closure.home[list(closure.primary)] + rng.uniform(-0.15, 0.15, (10, len(closure.primary)))
    q, reached = closure.find_reachable(p)
    assert reached.sum() >= 3
    return q[reached], *rng.normal(size=(2, reached.sum(), p.shape[1]))


def compute_expected(robot, q, pd, pdd):
    """Return torques (k,) of one state by the multipliers of the pins, plus explicit friction."""
    oracle = LoopOracle(robot)
    load = oracle.torque_rows(q, pd, pdd) @ robot.phi
    W, qd, _ = oracle.projection(q, pd, pdd)
    return load + TAKEN * np.abs(load) * np.tanh(pd / WIDTH) + W.T @ (VISCOUS * qd)


@pytest.mark.parametrize("case", LINKAGES)
def test_torques_have_the_load_of_the_multipliers(case):
    robot = linkage(*case)
    q, pd, pdd = states(robot)
    tau = np.array([compute_expected(robot, *state) for state in zip(q, pd, pdd, strict=True)])
    assert_close(evaluate(worn(robot), "inverse_dynamics", q, pd, pdd), tau, ORACLE)
    assert_close(evaluate(worn(robot), "forward_dynamics", q, pd, tau), pdd, ORACLE)
    at_rest = np.array([compute_expected(robot, *state) for state in zip(q, pd, np.zeros_like(pdd), strict=True)])
    assert_close(evaluate(worn(robot), "bias", q, pd), at_rest, ORACLE)


def evaluate(robot, name, *columns):
    """Evaluate a traced equation with drives."""
    function = loop_equation(robot, name, with_drives=True)
    return np.array([np.array(function.call(list(row))[0])[:, 0] for row in zip(*columns, strict=True)])


def test_rotors_of_all_joints_are_part_of_the_load():
    """A rotor on a passive joint loads the joints that move it."""
    robot = worn(linkage("five-bar", 0))
    heavy = replace(robot, drives=tuple(replace(drive, rotor_inertia=0.4) for drive in robot.drives))
    q, pd, pdd = states(robot)
    plain = replace(heavy, extras=(), drives=tuple(replace(drive, viscous=0.0) for drive in heavy.drives))
    load = evaluate(plain, "inverse_dynamics", q, pd, pdd)
    viscous = evaluate(replace(heavy, extras=()), "inverse_dynamics", q, pd, pdd) - load
    tau = load + TAKEN * np.abs(load) * np.tanh(pd / WIDTH) + viscous
    assert_close(evaluate(heavy, "inverse_dynamics", q, pd, pdd), tau, ORACLE)
    assert_close(evaluate(heavy, "forward_dynamics", q, pd, tau), pdd, ORACLE)
    C = [np.array(loop_equation(arm, "coriolis", with_drives=True).call([q[0], pd[0]])[0]) for arm in (heavy, plain)]
    assert_close(C[0], C[1], ORACLE)


def test_models_with_parameters_as_input_have_load_friction():
    robot = linkage("five-bar", 0)
    q, pd, pdd = states(robot)
    used = worn(robot)
    model = mindyn.compile_model(used, with_drives=True, parameters="input")
    values = [*(x for drive in used.drives for x in (0.0, drive.viscous, 0.0, 0.0)), *(TAKEN for _ in used.extras)]
    tau = np.array([compute_expected(robot, *state) for state in zip(q, pd, pdd, strict=True)])
    assert_close(model.kernel("inverse_dynamics")(q, pd, pdd, robot.phi, np.array(values)), tau, ORACLE)
    with raises(RobotError, Code.UNSUPPORTED, used.extras[0].name):
        model.kernel("forward_dynamics")


def test_a_mimic_joint_loads_the_joint_that_it_follows():
    """The load of a motor includes all joints that it moves."""
    bars = mindyn.load_robot("five_bar")
    robot = replace(bars, loops=(), home=None, mimics=(Mimic("joint4", "joint2", -1.5, 0.2),))
    rng = np.random.default_rng(5)
    p, pd, pdd = rng.normal(size=(3, 6, 4))
    plain = mindyn.compile_model(robot)
    load = plain.inverse_dynamics(p, pd, pdd)
    used = replace(worn(robot), drives=())
    tau = load + TAKEN * np.abs(load) * np.tanh(pd / WIDTH)
    assert_close(evaluate(used, "inverse_dynamics", p, pd, pdd), tau, ORACLE)
    assert_close(evaluate(used, "forward_dynamics", p, pd, tau), pdd, ORACLE)


def test_exported_c_has_load_friction(tmp_path):
    robot = linkage("five-bar", 0)
    q, pd, pdd = (rows[0] for rows in states(robot))
    mindyn.compile_model(worn(robot), with_drives=True).write_c(tmp_path / "bar.c", ["inverse_dynamics"])
    library = tmp_path / "bar.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "bar.c", "-lm"], check=True)
    tau, closure, pointer = np.empty(2), np.empty(2), ctypes.POINTER(ctypes.c_double)
    function = ctypes.CDLL(str(library)).bar_inverse_dynamics
    function(*(np.ascontiguousarray(array).ctypes.data_as(pointer) for array in (q, pd, pdd, tau, closure)))
    assert_close(tau, compute_expected(robot, q, pd, pdd), ORACLE)


def test_loads_that_torques_do_not_determine_are_rejected():
    """The load of a passive joint is unknown, and so are loads in functions that project the open tree."""
    robot = mindyn.load_robot("five_bar")
    for joint, formula in (("joint3", "abs(load) * tanh(qd / 0.1)"), ("joint2", "load5 * tanh(qd / 0.1)")):
        extra = mindyn.ExtraTorque("worn", joint, formula, 0.1)
        with raises(RobotError, Code.UNSUPPORTED, "worn"):
            mindyn.compile_model(replace(robot, extras=(extra,)), with_drives=True).kernel("inverse_dynamics")
    used = worn(robot)
    model = mindyn.compile_model(used, with_drives=True)
    with raises(RobotError, Code.UNSUPPORTED, used.extras[0].name):
        MomentumObserver(model, 20.0, 1e-3)
    with raises(RobotError, Code.UNSUPPORTED, used.extras[0].name):
        mindyn.compile_model(worn(robot, 0.9), with_drives=True).kernel("forward_dynamics")
