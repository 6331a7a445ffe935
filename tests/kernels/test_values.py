"""A kernel computes what its CasADi function computes."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from closeness import assert_close
from references import TOLERANCE, evaluate, random_inputs
from robots import random_robot
from serial_arm import derivatives, inertia_matrix, inverse_dynamics, puma_like, random_arm, regressor

import mindyn
from mindyn.kernels.array_layout import Layout
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.llvm import emit
from mindyn.kernels.numerics.native import assemble_code, load
from mindyn.kernels.tracing import trace
from mindyn.kernels.vector_code import Format

FUNCTIONS = {
    "inverse_dynamics": inverse_dynamics(puma_like()),
    "seven_joints": inverse_dynamics(random_arm(7)),
    "one_joint": inverse_dynamics(random_arm(1)),
    "inertia_matrix": inertia_matrix(puma_like()),
    "regressor": regressor(puma_like()),
    "derivatives": derivatives(random_arm(4)),
}


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_equal_their_casadi_function(name, dtype):
    function = FUNCTIONS[name]
    inputs = [a.astype(dtype) for a in random_inputs(function, (37,))]
    results = as_list(Kernel(function, dtype=dtype)(*inputs))
    for result, reference in zip(results, evaluate(function, *inputs), strict=True):
        assert result.dtype == dtype
        assert_close(result, reference, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", range(1, 18))
def test_every_tail_is_computed_and_nothing_is_written_beyond_it(count, dtype):
    function = FUNCTIONS["inverse_dynamics"]
    kernel = Kernel(function, dtype=dtype)
    inputs = [a.astype(dtype) for a in random_inputs(function, (count,))]
    guarded = np.full((count + 2, 6), 77.0, dtype)
    kernel(*inputs, out=guarded[1:-1])
    assert_close(guarded[1:-1], evaluate(function, *inputs)[0], TOLERANCE[dtype])
    assert (guarded[[0, -1]] == 77.0).all()


def test_one_sample_at_a_time_agrees_with_the_batch():
    function = FUNCTIONS["regressor"]
    inputs = random_inputs(function, (3,))
    kernel = Kernel(function)
    assert_close(np.stack([kernel(*(a[k] for a in inputs)) for k in range(3)]), kernel(*inputs), TOLERANCE[np.float64])


@pytest.mark.parametrize("part_size", [50, 300])
def test_divided_programs_equal_the_undivided_program(part_size, monkeypatch):
    function = FUNCTIONS["derivatives"]
    inputs = random_inputs(function, (21,))
    monkeypatch.setattr("mindyn.kernels.schedule.MAX_UNDIVIDED_STEPS", 0)
    monkeypatch.setattr("mindyn.kernels.schedule.STEPS_PER_PART", part_size)
    kernel = Kernel(function)
    monkeypatch.setattr("mindyn.kernels.kernel.load_or_build", lambda _, build: build())
    for result, reference in zip(kernel(*inputs), evaluate(function, *inputs), strict=True):
        assert_close(result, reference, TOLERANCE[np.float64])


@pytest.mark.parametrize(("bits", "register_bits"), [(64, 512), (64, 256), (32, 128)])
def test_huge_code_that_stores_by_calls_gives_the_same_numbers(bits, register_bits, monkeypatch):
    dtype = np.float64 if bits == 64 else np.float32
    function = FUNCTIONS["regressor"]
    inputs = [a.astype(dtype) for a in random_inputs(function, (19,))]
    monkeypatch.setattr("mindyn.kernels.kernel.load_or_build", lambda _, build: build())
    results = []
    monkeypatch.setattr("mindyn.kernels.schedule.STEPS_PER_PART", 10**9)
    for limit in (0, 10**9):
        monkeypatch.setattr("mindyn.kernels.schedule.MAX_UNDIVIDED_STEPS", limit)
        kernel = Kernel(function, dtype=dtype)
        monkeypatch.setattr(kernel, "_lanes", register_bits // bits)
        results.append(kernel(*inputs))
    assert_close(results[0], evaluate(function, *inputs)[0], TOLERANCE[dtype])
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("register_bits", [128, 256, 512])
def test_every_register_width_gives_the_same_numbers(bits, register_bits, monkeypatch):
    dtype = np.float64 if bits == 64 else np.float32
    function = FUNCTIONS["seven_joints"]
    inputs = [a.astype(dtype) for a in random_inputs(function, (19,))]
    kernel = Kernel(function, dtype=dtype)
    monkeypatch.setattr(kernel, "_lanes", register_bits // bits)
    assert_close(kernel(*inputs), evaluate(function, *inputs)[0], TOLERANCE[dtype])


def test_shared_inputs_are_one_sample_for_all():
    arm = puma_like()
    function = inverse_dynamics(arm, phi_as_input=True)
    kernel = Kernel(function, shared=("phi",))
    inputs = [*random_inputs(function, (11,))[:3], arm.phi]
    reference = evaluate(inverse_dynamics(arm), *inputs[:3])[0]
    assert_close(kernel(*inputs), reference, TOLERANCE[np.float64])
    assert_close(kernel(*(a[0] for a in inputs[:3]), arm.phi), reference[0], TOLERANCE[np.float64])


def test_values_of_shared_inputs_are_computed_once_per_call():
    x, p = ca.SX.sym("x", 2), ca.SX.sym("p", 2)
    function = ca.Function("f", [x, p], [x * ca.sin(p[0]) / p[1] + ca.sqrt(p[1]) * ca.cos(p[0])], ["x", "p"], ["y"])
    ir = emit(trace(function), Layout(Format(64, 8), shared=(1,)))
    blocks = ir[ir.index("@part0") :]
    assert "fmul" in blocks
    assert "sqrt" not in blocks
    inputs = [random_inputs(function, (9,))[0], np.array([0.3, 2.5])]
    assert_close(Kernel(function, shared=("p",))(*inputs), evaluate(function, *inputs)[0], TOLERANCE[np.float64])


@pytest.mark.parametrize("angle", [0.3, 1e7, -1e300])
def test_sines_of_shared_angles_are_computed_once_and_for_any_size(angle):
    x, p = ca.SX.sym("x"), ca.SX.sym("p")
    function = ca.Function("f", [x, p], [x * ca.sin(p) + ca.cos(p)], ["x", "p"], ["y"])
    inputs = [random_inputs(function, (9,))[0], np.array([angle])]
    assert_close(Kernel(function, shared=("p",))(*inputs), evaluate(function, *inputs)[0], TOLERANCE[np.float64])


def test_compact_outputs_hold_the_nonzeros_in_row_major_order():
    function = FUNCTIONS["regressor"]
    inputs = random_inputs(function, (13,))
    dense = Kernel(function)(*inputs)
    kernel = Kernel(function, compact=("Y",))
    compact = kernel(*inputs)
    assert compact.shape == (13, len(kernel.nonzeros("Y")))
    assert compact.shape[1] < dense[0].size
    assert (np.diff(kernel.nonzeros("Y")) > 0).all()
    assert_close(kernel.densify("Y", compact), dense, TOLERANCE[np.float64])


OPERATIONS = {
    "arithmetic": lambda a, b: [a + b, a - b, a * b, a / b, -a, 2 * a, a**2, 1 / b, a * -1],
    "signs": lambda a, b: [-a + b, -a - b, -a * -b, -a * b, a * -0.7, a - -b, -(a * -2)],
    "powers": lambda a, b: [ca.sqrt(ca.fabs(a)), ca.fabs(a) ** 1.7, ca.fabs(a) ** b, ca.exp(a), ca.log(b * b)],
    "trigonometry": lambda a, b: [ca.sin(a), ca.cos(b), ca.tan(a), ca.atan(a), ca.atan2(a, b)],
    "inverse trigonometry": lambda a, b: [ca.asin(a / 4), ca.acos(b / 4)],
    "hyperbolic": lambda a, b: [ca.tanh(a), ca.sinh(b), ca.cosh(a)],
    "comparisons": lambda a, b: [a < b, a <= b, a == a, ca.ne(a, b)],
    "sizes": lambda a, b: [ca.sign(a), ca.fabs(b), ca.fmin(a, b), ca.fmax(a, b)],
    "choices": lambda a, b: [ca.if_else(a > 0, b, -a), ca.logic_and(a > 0, b > 0), ca.logic_or(a > 0, b > 0)],
    "rounding": lambda a, b: [ca.floor(a), ca.ceil(b), ca.copysign(a, b), ca.logic_not(a > 0)],
    "nested sines": lambda a, b: [ca.sin(ca.cos(a) + b), ca.cos(3 * ca.sin(a))],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_equals_casadi(name, dtype):
    a, b = ca.SX.sym("a"), ca.SX.sym("b")
    function = ca.Function("f", [a, b], [ca.vertcat(*OPERATIONS[name](a, b))], ["a", "b"], ["y"])
    inputs = [x.astype(dtype) for x in random_inputs(function, (40,))]
    assert_close(Kernel(function, dtype=dtype)(*inputs), evaluate(function, *inputs)[0], TOLERANCE[dtype])


def test_sign_of_zero_is_zero_and_nan_stays_nan():
    a = ca.SX.sym("a")
    function = ca.Function("f", [a], [ca.vertcat(ca.sign(a), a * a, ca.sin(a), ca.sqrt(a))], ["a"], ["y"])
    kernel = Kernel(function, check_finite=False)
    assert (kernel(np.zeros((3, 1))) == [0.0, 0.0, 0.0, 0.0]).all()
    assert np.isnan(kernel(np.full((3, 1), np.nan))).all()


def test_object_code_can_be_loaded_from_its_bytes():
    function = FUNCTIONS["inverse_dynamics"]
    code = assemble_code(emit(trace(function), Layout(Format(64, 8))))
    first, second = load(code, "kernel"), load(bytes(bytearray(code)), "kernel")
    assert 0 != first.address != second.address != 0


def test_outputs_that_are_constants_or_inputs_need_no_arithmetic():
    x = ca.SX.sym("x", 3)
    function = ca.Function("f", [x], [ca.vertcat(x[2], 5.0, 0.0)], ["x"], ["y"])
    inputs = random_inputs(function, (10,))
    assert_close(Kernel(function)(*inputs), evaluate(function, *inputs)[0], 0.0)
    compact = Kernel(function, compact=("y",))
    assert compact.nonzeros("y").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "joints", "dtype"),
    [
        ("inertia_matrix", 7, "float64"),
        ("inertia_matrix", 9, "float32"),
        ("regressor", 6, "float64"),
        ("regressor", 14, "float64"),
    ],
)
def test_outputs_that_pass_the_caches_by_are_equal_and_stay_in_their_bounds(name, joints, dtype, monkeypatch):
    robot = random_robot(joints, joints=joints, tree=False, special=True)
    for compact in (False, True) if joints < 14 else (True,):
        plain = mindyn.compile_model(robot, dtype=dtype).kernel(name, compact=compact)
        with monkeypatch.context() as patch:
            patch.setattr("mindyn.kernels.kernel.STREAMED_BYTES", 2**12)
            streamed = mindyn.compile_model(robot, dtype=dtype).kernel(name, compact=compact)
        for count in (17, 1000, 1003):
            motion = np.random.default_rng(count).uniform(-2, 2, (len(plain.input_shapes), count, joints)).astype(dtype)
            reference = plain(*motion)
            assert np.array_equal(streamed(*motion), reference)
            assert np.array_equal(streamed(*motion, threads=2), reference)
            for offset in (1, 2, 5):
                guarded = np.full(reference.size + 32, 7, dtype)
                out = guarded[offset:][: reference.size].reshape(reference.shape)
                streamed(*motion, out=out)
                assert np.array_equal(out, reference)
                assert (guarded[:offset] == 7).all()
                assert (guarded[offset + reference.size :] == 7).all()
