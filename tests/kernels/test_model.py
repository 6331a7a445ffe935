"""Every kernel of a model equals its CasADi function, on random robots, for every function of the public surface."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from robots import OBLIQUE, random_robot, with_random_drives

import mindyn
from mindyn.equations.catalogue import EQUATIONS
from mindyn.foundation.errors import Code, InputError, RobotError, UnknownNameError
from mindyn.kernels.model import LINK_FREE_EQUATIONS, list_equations

KERNEL = {"float64": 1e-13, "float32": 1e-4}


def inputs_of(model, name, rng, batch):
    """Random arrays for a kernel's inputs; parameters are shared by the batch."""
    kernel = model.kernel(name)
    names = [argument.name for argument in kernel.program.inputs]
    shared = ("phi", "drive_parameters", "beta")
    return [
        rng.uniform(-2, 2, shape if each in shared else (*batch, *shape)).astype(kernel.dtype)
        for each, shape in zip(names, kernel.input_shapes, strict=True)
    ]


def tolerance(name, robot, dtype):
    """Forward dynamics loses digits with the condition of M, whoever computes it."""
    if "forward" not in name or "kinematics" in name:
        return KERNEL[dtype]
    q = np.random.default_rng(0).uniform(-2, 2, (50, robot.joint_count))
    return KERNEL[dtype] * np.linalg.cond(mindyn.compile_model(robot).inertia_matrix(q)).max()


@pytest.mark.parametrize("seed", range(50))
def test_kernels_of_random_robots_equal_casadi(seed):
    robot = with_random_drives(random_robot(seed, joints=1 + seed % 8), seed)
    dtype = "float32" if seed % 5 == 4 else "float64"
    options = {"with_drives": seed % 2 == 0, "parameters": ("constant", "input", "base")[seed % 3], "dtype": dtype}
    model = mindyn.compile_model(robot, **options)
    rng = np.random.default_rng(seed)
    batch = ((1 + seed % 17,), (3, 2), (), (1,))[seed % 4]
    # Of the larger robots half of the functions, the other half of the next such robot: they take the time.
    names = list_equations(robot) if robot.joint_count < 6 else list_equations(robot)[seed // 8 % 2 :: 2]
    for name in names:
        arrays = inputs_of(model, name, rng, batch)
        actual, expected = model.kernel(name)(*arrays), by_casadi(model, name, arrays, batch)
        if expected.any():
            assert_close(actual, expected, tolerance(name, robot, dtype))
        else:
            assert not actual.any()


def by_casadi(model, name, arrays, batch):
    """Evaluate the CasADi function itself, sample by sample."""
    function, kernel = model.casadi(name), model.kernel(name)
    flat = [
        np.broadcast_to(a, (*batch, *shape)).reshape(-1, *shape)
        for a, shape in zip(arrays, kernel.input_shapes, strict=True)
    ]
    results = [np.array(function(*sample)) for sample in zip(*flat, strict=True)]
    return np.stack(results).reshape(*batch, *kernel.output_shapes[0])


@pytest.mark.parametrize("seed", range(0, 50, 10))
def test_derivatives_and_adjoints_equal_casadis(seed):
    robot = random_robot(seed, joints=4, tree=False, special=False, gravity=OBLIQUE)
    model = mindyn.compile_model(robot)
    rng = np.random.default_rng(seed)
    q, qd, qdd = rng.uniform(-2, 2, (3, 5, 4))
    step = 1e-6
    for name in ("inverse_dynamics", "regressor"):
        function = getattr(model, name)
        blocks = model.derivatives(name)(q, qd, qdd)
        V = rng.normal(size=function(q, qd, qdd).shape)
        gradients = model.adjoint(name)(q, qd, qdd, V)
        for k, (block, gradient) in enumerate(zip(blocks, gradients, strict=True)):
            motion = [q, qd, qdd]
            direction = rng.normal(size=4)
            moved = [m + step * direction if j == k else m for j, m in enumerate(motion)]
            back = [m - step * direction if j == k else m for j, m in enumerate(motion)]
            slope = (function(*moved) - function(*back)) / (2 * step)
            flat = slope.reshape(5, -1)
            assert_close(block.reshape(5, flat.shape[1], 4) @ direction, flat, 1e-6)
            assert_close(gradient @ direction, (V * slope).reshape(5, -1).sum(axis=1), 1e-5)


def test_the_adjoint_of_a_compact_output_equals_that_of_the_dense_output():
    model, rng = mindyn.compile_model(random_robot(1, joints=2)), np.random.default_rng(1)
    q, qd, qdd = rng.uniform(-2, 2, (3, 5, 2))
    V = rng.normal(size=model.regressor(q, qd, qdd).shape)
    places = model.kernel("regressor", compact=True).nonzeros("Y")
    gradients = model.adjoint("regressor", compact=True)(q, qd, qdd, V.reshape(5, -1)[:, places])
    assert_close(np.stack(gradients), np.stack(model.adjoint("regressor")(q, qd, qdd, V)), SAME_ALGEBRA)


def test_public_functions_have_the_documented_shapes():
    robot = mindyn.load_robot("panda")
    model = mindyn.compile_model(robot)
    q = np.zeros((4, 3, 7))
    n, count = 7, model.base.count
    documented = (
        (model.inverse_dynamics(q, q, q), (n,)),
        (model.inertia_matrix(q), (n, n)),
        (model.forward_kinematics(q, "flange"), (4, 4)),
        (model.geometric_jacobian(q, "link3"), (6, n)),
        (model.regressor(q, q, q), (n, count)),
        (model.standard_regressor(q, q, q), (n, 70)),
        (model.energy(q, q), (2,)),
        (model.energy_regressor(q, q), (2, 70)),
        (model.inverse_dynamics_with_wrenches(q, q, q, np.zeros((4, 3, 7, 6))), (n,)),
    )
    assert [values.shape for values, _ in documented] == [(4, 3, *shape) for _, shape in documented]
    assert set(model.operation_counts) == set(LINK_FREE_EQUATIONS) <= set(EQUATIONS)


def test_base_regressor_times_base_values_is_the_torque():
    robot = with_random_drives(mindyn.load_robot("panda"), 3)
    model = mindyn.compile_model(robot, with_drives=True)
    motion = np.random.default_rng(1).uniform(-2, 2, (3, 20, 7))
    assert_close(model.regressor(*motion) @ model.base.values, model.inverse_dynamics(*motion), 1e-11)


def test_compact_regressor_equals_the_dense_one_without_zeros():
    model = mindyn.compile_model(mindyn.load_robot("puma560"))
    motion = np.random.default_rng(1).uniform(-2, 2, (3, 9, 6))
    kernel = model.kernel("regressor", compact=True)
    compact = kernel(*motion)
    dense = model.regressor(*motion)
    assert compact.shape[-1] < dense[0].size / 1.5
    assert (kernel.densify("Y", compact) == dense).all()


def test_wrong_arguments_raise_with_their_name():
    model = mindyn.compile_model(mindyn.load_robot("puma560"))
    q = np.zeros((5, 6))
    with raises(InputError, Code.WRONG_SHAPE, "qd"):
        model.inverse_dynamics(q, np.zeros((5, 7)), q)
    bad = q.copy()
    bad[3, 2] = np.nan
    with raises(InputError, Code.NOT_FINITE, "q"):
        model.inverse_dynamics(bad, q, q)
    with raises(InputError, Code.NOT_FINITE, "q"):
        model.inverse_dynamics(np.full(6, np.inf), q[0], q[0])
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "tool"):
        model.forward_kinematics(q, "tool")
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "torque"):
        model.kernel("torque")
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "torque"):
        model.write_c("/tmp/never.c", ["torque"])
    with raises(InputError, Code.OUT_OF_RANGE, "threads"):
        model.inverse_dynamics(q, q, q, threads=0)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "x"):
        model.bind("gravity")["x"]
    with raises(InputError, Code.DISAGREEMENT, "puma560"):
        mindyn.compile_model(mindyn.load_robot("ur10"), base=model.base).regressor(q, q, q)
    for wrong in ({"dtype": "float16"}, {"parameters": "magic"}):
        with raises(InputError, Code.UNKNOWN_NAME, *wrong.values()):
            mindyn.compile_model(mindyn.load_robot("puma560"), **wrong)
    with raises(InputError, Code.WRONG_TYPE, "robot"):
        mindyn.compile_model("puma560")


def test_a_wrong_number_of_joints_is_answered_with_their_names():
    """Positions of a loop that is solved numerically may cover all joints, speeds the primary ones."""
    robot = mindyn.load_robot("five_bar")
    model, n, k = mindyn.compile_model(robot), len(robot.joints), robot.joint_count
    for shapes, subject, names in (((n - 1, k, k), "q", robot.joint_names), ((n, n, k), "qd", robot.primary_names)):
        with raises(InputError, Code.WRONG_SHAPE, subject) as raised:
            model.inverse_dynamics(*map(np.zeros, shapes))
        assert raised.value.hint is not None
        assert raised.value.hint.endswith(": " + ", ".join(names))


def test_arrays_have_one_column_for_each_counted_joint(tmp_path):
    """Dependent fingers and loops do not count, and an array with a column for them is answered with the others."""
    finger = '<body name="{0}" pos="0 {1} 0"><joint name="{0}" type="slide" axis="0 1 0"/><geom size="0.02"/></body>'
    (tmp_path / "hand.xml").write_text(
        '<mujoco><worldbody><body name="arm"><joint name="j1" axis="0 0 1"/><geom size="0.1"/>'
        + finger.format("left", 0.1)
        + finger.format("right", -0.1)
        + '</body></worldbody><equality><joint joint1="right" joint2="left" polycoef="0 -1 0 0 0"/></equality></mujoco>'
    )
    for robot in (mindyn.load_robot(tmp_path / "hand.xml"), mindyn.load_robot("palletiser")):
        n, model = robot.joint_count, mindyn.compile_model(robot)
        assert n == len(robot.primary_names) == len(robot.joints) - len(robot.dependent_names) < len(robot.joints)
        assert model.inverse_dynamics(*np.zeros((3, 5, n))).shape == (5, n)
        assert model.inertia_matrix(np.zeros(n)).shape == (n, n)
        assert str(robot).startswith(f"{robot.name}: {n} joints and {len(robot.dependent_names)} dependent joint")
        with raises(InputError, Code.WRONG_SHAPE, "q") as raised:
            model.inverse_dynamics(*np.zeros((3, len(robot.joints))))
        assert raised.value.hint == f"one value for each of robot.primary_names: {', '.join(robot.primary_names)}"


def test_standard_regressor_does_not_depend_on_how_parameters_enter():
    robot = mindyn.load_robot("puma560")
    motion = np.random.default_rng(1).uniform(-2, 2, (3, 4, 6))
    expected = mindyn.compile_model(robot).standard_regressor(*motion)
    for parameters in ("standard", "input", "base"):
        assert_close(mindyn.compile_model(robot, parameters=parameters).standard_regressor(*motion), expected, 1e-12)


def test_equations_without_projection_raise_for_robots_with_loops():
    model = mindyn.compile_model(mindyn.load_robot("palletiser"))
    with raises(RobotError, Code.UNSUPPORTED, "inverse_dynamics_with_tip_wrench"):
        model.kernel("inverse_dynamics_with_tip_wrench")
    with raises(InputError, Code.UNSUPPORTED, "inverse_dynamics"):
        mindyn.compile_model(mindyn.load_robot("palletiser"), inverse_dynamics="kane").kernel("inverse_dynamics")


@pytest.mark.parametrize("stem", ["my-arm", "2arm", "int", "arm.v2"])
def test_c_export_compiles_under_any_file_name(stem, tmp_path):
    model = mindyn.compile_model(mindyn.load_robot("planar2"))
    model.write_c(tmp_path / stem, ["gravity", ("forward_kinematics", "tip")], prefix="planar_")
    assert "planar_gravity(" in (tmp_path / f"{stem}.h").read_text()
    if shutil.which("cc"):
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", f"{stem}.c", "-o", "x.o"]
        subprocess.run(command, cwd=tmp_path, check=True)


def test_c_export_is_deterministic_and_escapes_names(tmp_path):
    robot = replace(mindyn.load_robot("puma560"), name='x */ system("rm") /* \\ ??/')
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        mindyn.compile_model(robot).write_c(tmp_path / folder / "arm.c", ["inverse_dynamics", "gravity"])
    for suffix in (".c", ".h"):
        first = (tmp_path / "a" / "arm").with_suffix(suffix).read_bytes()
        assert first == (tmp_path / "b" / "arm").with_suffix(suffix).read_bytes()
        assert b"*/ system" not in first
    assert "rad/s" in (tmp_path / "a" / "arm.h").read_text()


MANY = """
import sys, numpy as np, mindyn
model = mindyn.compile_model(mindyn.load_robot("puma560"))
motion = np.linspace(-1, 1, 3 * 10 * 6).reshape(3, 10, 6)
print(repr(float(model.inverse_dynamics(*motion).sum())))
"""


def test_32_processes_compile_the_same_robot_and_some_are_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("MINDYN_CACHE_DIR", str(tmp_path))
    started = [subprocess.Popen([sys.executable, "-c", MANY], stdout=subprocess.PIPE, text=True) for _ in range(32)]
    for process in started[::4]:
        process.kill()
    answers = [process.communicate()[0] for process in started]
    finished = {a for k, a in enumerate(answers) if k % 4}
    assert len(finished) == 1
    again = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    assert {again.stdout} == finished


def test_a_c_header_documents_what_torques_include(tmp_path):
    """Compare bias with inverse dynamics at zero acceleration, including friction and offsets."""
    robot = mindyn.load_robot("planar2")
    robot = replace(robot, drives=tuple(replace(drive, viscous=0.5, side="joint") for drive in robot.drives))
    for drives, comment in ((True, "bias include friction"), (False, "only the links, without rotor inertia")):
        model = mindyn.compile_model(robot, with_drives=drives)
        _, header = model.write_c(tmp_path / "arm.c", ["bias"], facts=[("ESTIMATE_SHA256", 'a"b')])
        text = header.read_text()
        assert comment in text
        assert "#define ARM_JOINT_COUNT 2\n" in text
        assert '#define ARM_ESTIMATE_SHA256 "a\'b"\n' in text
        q, qd = np.array([0.3, -0.2]), np.array([0.5, 1.5])
        assert_close(model.bias(q, qd), model.inverse_dynamics(q, qd, 0 * q), SAME_ALGEBRA)
        turned = model.bias(q, qd) - model.bias(q, -qd)
        assert bool(np.abs(turned).max() > 1e-3) is drives
