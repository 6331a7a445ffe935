"""All formulations give the same numbers; "auto" selects the cheapest."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from raising import raises
from robots import random_motion, random_robot

from mindyn import build_equation, compile_model, load_robot
from mindyn.equations.formulations import ANY_TREE, INERTIA_MATRIX, INVERSE_DYNAMICS
from mindyn.foundation.errors import Code, InputError, UnknownNameError
from mindyn.kernels.operation_counts import operation_counts
from mindyn.kernels.tracing import trace


@pytest.mark.parametrize("robot", [random_robot(3, joints=5, tree=False), random_robot(4, joints=6, tree=True)])
def test_formulations_agree(robot):
    q, qd, qdd = random_motion(robot, 1)
    for makers, name, motion in (
        (INVERSE_DYNAMICS, "inverse_dynamics", (q, qd, qdd)),
        (INERTIA_MATRIX, "inertia_matrix", (q,)),
    ):
        expected = np.array(build_equation(robot, name, parameters="standard")(*motion))
        for formulation in ("auto", *(f for f in makers if robot.is_serial or f in ANY_TREE)):
            assert_close(np.array(build_equation(robot, name, formulation=formulation)(*motion)), expected, ORACLE)


@pytest.mark.parametrize("name", ["puma560", "stanford"])
def test_auto_selects_the_cheapest_formulation_and_the_default_is_as_cheap(name):
    robot = load_robot(name)
    totals = {
        f: operation_counts(trace(build_equation(robot, "inverse_dynamics", formulation=f))).total
        for f in INVERSE_DYNAMICS
    }
    auto = operation_counts(trace(build_equation(robot, "inverse_dynamics", formulation="auto"))).total
    default = operation_counts(trace(build_equation(robot, "inverse_dynamics"))).total
    assert auto <= min(totals.values()) * 1.01  # counted before factoring
    assert default <= auto


def test_a_model_can_be_given_a_formulation():
    robot = load_robot("puma560")
    q = np.linspace(-1, 1, 6)
    expected = compile_model(robot).inertia_matrix(q)
    assert_close(compile_model(robot, inertia_matrix="mlc_1").inertia_matrix(q), expected, ORACLE)
    assert_close(compile_model(robot, inertia_matrix="auto").inertia_matrix(q), expected, ORACLE)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "magic"):
        compile_model(robot, inverse_dynamics="magic").inverse_dynamics(q, q, q)
    with raises(InputError, Code.UNSUPPORTED, "kane"):
        build_equation(robot, "inverse_dynamics", parameters="input", formulation="kane")


GENERAL = {"puma560": (233, 223), "stanford": (201, 196)}


@pytest.mark.parametrize("name", GENERAL)
def test_general_arms_take_at_most_the_counts_of_the_reference(name):
    """All base parameters nonzero: random bodies on the bundled geometry; counted after every pass."""
    from dataclasses import replace

    from robots import random_phi

    from mindyn import Link

    rng = np.random.default_rng(0)
    robot = load_robot(name)
    robot = replace(robot, links=tuple(Link(link.name, random_phi(rng)) for link in robot.links))
    counts = operation_counts(trace(build_equation(robot, "inverse_dynamics")))
    multiplications, additions = GENERAL[name]
    assert counts.multiplications <= multiplications
    assert counts.additions <= additions


def test_the_symmetric_stanford_arm_takes_at_most_the_counts_of_the_reference():
    counts = operation_counts(trace(build_equation(load_robot("stanford"), "inverse_dynamics")))
    assert counts.multiplications <= 121
    assert counts.additions <= 103
