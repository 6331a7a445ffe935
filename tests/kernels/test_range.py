"""No kernel returns NaN for finite input: overflow and division by zero raise errors, and so do masked arrays."""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace

import casadi
import numpy as np
import pytest
from closeness import assert_close
from raising import raises
from robots import random_robot

import mindyn
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import SINGULAR_INERTIA_HINT
from mindyn.logs.log import log_from_arrays

ROBOT = mindyn.load_robot("puma560")
MODEL = mindyn.compile_model(ROBOT)
ARM = ("inverse_dynamics", "forward_dynamics", "bias", "regressor", "energy", "standard_regressor")
INPUTS = {"bias": 2, "energy": 2}


@pytest.mark.parametrize("batch", [(), (1,), (37,)])
@pytest.mark.parametrize("name", ARM)
def test_an_overflow_is_an_error_that_names_the_large_input(name, batch):
    given = np.full((INPUTS.get(name, 3), *batch, 6), 0.3)
    given[1] = 1e155
    given[1, ..., 1] = -1e155  # their sum is finite, and so is that of all
    with raises(InputError, Code.NOT_FINITE, MODEL.kernel(name).program.outputs[0].name) as caught:
        MODEL.kernel(name)(*given)
    assert caught.value.hint.startswith("qd reaches 1e+155")


@pytest.mark.parametrize("size", [1e70, 1e120])
def test_beyond_the_guaranteed_range_results_are_correct_or_raise(size):
    q, qd, qdd = np.full((3, 5, 6), 0.3)
    tau = MODEL.inverse_dynamics(q, size * qd, qdd)
    assert_close(tau / size**2, MODEL.inverse_dynamics(q, 1e20 * qd, qdd) / 1e40, 1e-12)


def test_float32_overflows_are_errors():
    model = mindyn.compile_model(ROBOT, dtype="float32")
    q, qd, qdd = np.full((3, 5, 6), 0.3, dtype=np.float32)
    with raises(InputError, Code.NOT_FINITE, "tau") as caught:
        model.inverse_dynamics(q, np.full_like(qd, 1e25), qdd)
    assert caught.value.hint.startswith("qd reaches 1e+25")


def test_parameters_that_overflow_are_errors():
    heavy = replace(ROBOT, links=tuple(replace(link, phi=1e200 * np.asarray(link.phi)) for link in ROBOT.links))
    q, qd, qdd = np.full((3, 5, 6), 0.3)
    with raises(InputError, Code.NOT_FINITE, "tau"):
        mindyn.compile_model(heavy).inverse_dynamics(q, 1e58 * qd, qdd)


def test_a_singular_inertia_matrix_at_run_time_is_an_error():
    model = mindyn.compile_model(ROBOT, parameters="input")
    q, qd, tau = np.full((3, 5, 6), 0.3)
    for given in ((q, qd, tau), (q[0], qd[0], tau[0])):
        with raises(InputError, Code.NOT_FINITE, "qdd") as caught:
            model.forward_dynamics(*given, np.zeros(60))
        assert caught.value.hint == SINGULAR_INERTIA_HINT


def massless(*names):
    """The robot with links of these names that have no inertia."""
    links = tuple(replace(link, phi=np.zeros(10)) if link.name in names else link for link in ROBOT.links)
    return replace(ROBOT, links=links)


@pytest.mark.parametrize(
    "names", [("link6",), ("link5", "link6"), ("link1", "link2", "link3", "link4", "link5", "link6")]
)
def test_an_arm_without_inertia_raises_before_anything_is_computed(names, tmp_path):
    model = mindyn.compile_model(massless(*names))
    for call in (
        lambda: model.forward_dynamics(*np.zeros((3, 6))),
        lambda: model.bind("forward_dynamics"),
        lambda: model.write_c(tmp_path / "arm.c", "forward_dynamics"),
    ):
        with raises(MissingPhysicsError, Code.MISSING_VALUE, "joint6"):
            call()
    driven = mindyn.compile_model(massless(*names), with_drives=True).forward_dynamics(*np.full((3, 6), 0.1))
    assert np.isfinite(driven).all()


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_point_mass_on_its_own_axis_has_no_inertia(seed, long, monkeypatch):
    """Test also an arm that is so long that only articulated bodies are traced."""
    if long:
        monkeypatch.setattr("mindyn.equations.forward_dynamics._min_factoring_operations", lambda _: np.inf)
    robot = random_robot(seed, joints=4, tree=False, special=False, tips=False)
    last = replace(robot.joints[-1], kind="revolute")
    phi = phi_about_origin(2.0, 0.7 * last.axis, np.zeros((3, 3)))
    links = (*robot.links[:-1], replace(robot.links[-1], phi=phi))
    arm = replace(robot, joints=(*robot.joints[:-1], last), links=links)
    with raises(MissingPhysicsError, Code.MISSING_VALUE, robot.joints[-1].name):
        mindyn.compile_model(arm).kernel("forward_dynamics")


def test_a_division_by_zero_is_an_error_unless_checks_are_off():
    x = casadi.SX.sym("x", 2)
    function = casadi.Function("f", [x], [1 / x], ["x"], ["y"])
    with raises(InputError, Code.NOT_FINITE, "y"):
        Kernel(function)(np.array([[1.0, 2.0]] * 3 + [[1.0, 0.0]]))
    assert np.isinf(Kernel(function, check_finite=False)(np.array([1.0, 0.0]))[1])


def test_masked_arrays_raise_in_every_function():
    masked = np.ma.masked_array(np.zeros((4, 6)), mask=np.eye(4, 6))
    plain = np.zeros((4, 6))
    names = [f"j{k}" for k in range(6)]
    calls = [
        lambda: MODEL.inverse_dynamics(plain, masked, plain),
        lambda: MODEL.inverse_dynamics(plain[0], masked[0], plain[0]),
        lambda: MODEL.inverse_dynamics(plain, plain, plain, out=masked),
        lambda: log_from_arrays(names, np.arange(4.0), plain, masked),
        lambda: log_from_arrays(names, np.ma.masked_array(np.arange(4.0)), plain, plain),
        lambda: mindyn.Samples(tuple(names), masked, plain, plain, plain, 100.0, np.zeros(4, np.int64)),
        lambda: ROBOT.with_payload(mass=1.0, com=np.ma.masked_array(np.zeros(3)), inertia=np.eye(3)),
        lambda: mindyn.simulate(ROBOT, None, seconds=0.1, q0=masked[0]),
    ]
    for call in calls:
        with raises(InputError, Code.WRONG_TYPE):
            call()


BOUND = """
import gc, numpy as np, mindyn
model = mindyn.compile_model(mindyn.load_robot("puma560"))
expected = model.gravity(np.zeros(6))
bound = model.bind("gravity")
out, run = bound.outputs[0], bound.run
del model, bound
gc.collect()
rubbish = [np.full(6, 7.0) for _ in range(10_000)]
assert run() == 0
assert (out == expected).all()
"""


def test_a_bound_function_keeps_its_arrays_alive():
    subprocess.run([sys.executable, "-c", BOUND], check=True, timeout=120)
    run = mindyn.compile_model(ROBOT).bind("gravity").run
    gc.collect()
    assert run() == 0
