"""Generated C and CUDA: they compile without a warning, agree, and no name escapes from a comment."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import casadi as ca
import numpy as np
import pytest
from closeness import assert_close
from references import TOLERANCE, evaluate, random_inputs
from serial_arm import derivatives, inertia_matrix, inverse_dynamics, puma_like, random_arm, regressor

import mindyn
from mindyn.foundation.escaping import c_comment
from mindyn.kernels.code_files import c_source
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.operation_counts import operation_counts
from mindyn.kernels.source_text import SourceFunction, identifier, literal
from mindyn.kernels.tracing import trace

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
FUNCTIONS = [
    inverse_dynamics(puma_like()),
    regressor(puma_like()),
    inertia_matrix(puma_like()),
    derivatives(random_arm(3)),
]
HOSTILE = ["arm */ int x; /*", "a\\\nb", "??/\n#error", "größe\u2028", "*/*/", "/", "*", "\x00\x07"]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")


def describe(function: ca.Function, summary: str = "What it computes.") -> SourceFunction:
    return SourceFunction(trace(function), function.name(), summary, {"q": "joint angles, rad"})


def compile_c(folder, functions, title="an arm"):
    written = c_source(functions, "arm", title)
    (folder / "arm.h").write_text(written.header)
    (folder / "arm.c").write_text(written.source)
    command = ["gcc", *STRICT, "-shared", "-fPIC", "-o", str(folder / "arm.so"), str(folder / "arm.c"), "-lm"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "arm.so"))


def call_c(library, function, inputs):
    outputs = [np.full(function.numel_out(k), np.nan) for k in range(function.n_out())]
    arrays = [np.ascontiguousarray(a) for a in (*inputs, *outputs)]
    getattr(library, function.name())(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))
    return outputs


@needs_gcc
def test_c_equals_casadi(tmp_path):
    library = compile_c(tmp_path, [describe(item) for item in FUNCTIONS])
    for function in FUNCTIONS:
        inputs = random_inputs(function, (1,))
        results = call_c(library, function, [a[0] for a in inputs])
        for result, reference in zip(results, evaluate(function, *inputs), strict=True):
            assert_close(result, reference[0].ravel(), TOLERANCE[np.float64])


@needs_gcc
def test_every_operation_compiles_and_agrees_in_c(tmp_path):
    a, b = ca.SX.sym("double"), ca.SX.sym("v3")
    every = [
        *(a + b, a - b, a * b, a / b, -a, 2 * a, a**2, 1 / b, ca.sqrt(ca.fabs(a)), ca.fabs(a) ** 1.7, ca.exp(a)),
        *(ca.sin(a), ca.cos(b), ca.tan(a), ca.atan2(a, b), ca.tanh(a), ca.sinh(b), ca.cosh(a), ca.asin(a / 4)),
        *(a < b, a <= b, ca.ne(a, b), a == b, ca.sign(a), ca.fmin(a, b), ca.fmax(a, b), ca.floor(a), ca.ceil(b)),
        *(ca.if_else(a > 0, b, -a), ca.logic_and(a > 0, b > 0), ca.logic_or(a > 0, b > 0), ca.logic_not(a)),
        *(ca.copysign(a, b), ca.SX(3), ca.SX(1e300) * a, ca.SX(0)),
    ]
    function = ca.Function("every", [a, b], [ca.vertcat(*every)], ["double", "v3"], ["sin"])
    library = compile_c(tmp_path, [describe(function)])
    inputs = random_inputs(function, (1,))
    reference = evaluate(function, *inputs)[0][0]
    result = call_c(library, function, [a[0] for a in inputs])[0]
    scale = np.where(reference == 0, 1.0, reference)
    assert_close(result / scale - reference / scale + 1.0, np.ones_like(result), TOLERANCE[np.float64])


@needs_gcc
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_escapes_from_its_comment(tmp_path, text):
    function = SourceFunction(trace(FUNCTIONS[0]), text, text, {"q": text, "tau": text})
    compile_c(tmp_path, [function], title=text)


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_are_one_line_of_plain_ascii(text):
    plain = c_comment(text)
    assert plain.isascii()
    assert plain.isprintable()
    assert not any(mark in f"/* {plain} */"[2:-2] for mark in ("*/", "/*", "\\", "??"))


def test_identifiers_are_legal_and_distinct():
    assert identifier("joint-1 angle") == "joint_1_angle"
    assert identifier("double") == "double_"
    assert identifier("v12") == "v12_"
    assert identifier("9lives") == "x_9lives"
    assert identifier("q", ["q"]) == "q_"
    assert identifier("größe").isascii()


@pytest.mark.parametrize("value", [0.1, -1.5, 3.0, 1e300, 5e-324, -0.0, np.pi])
def test_literals_are_exact(value):
    assert float(literal(value)) == value
    assert any(mark in literal(value) for mark in ".e")


def test_the_same_program_gives_the_same_bytes():
    first, second = (c_source([describe(inverse_dynamics(puma_like()))], "arm", "an arm") for _ in range(2))
    assert first == second
    first, second = (cuda_source([describe(inverse_dynamics(puma_like()))], "an arm") for _ in range(2))
    assert first == second


def test_the_header_documents_meaning_shapes_units_and_cost():
    header = c_source([describe(FUNCTIONS[0], "Torques of the arm.")], "arm", "an arm").header
    assert "Torques of the arm." in header
    assert "q [6] joint angles, rad" in header
    assert f"Cost: {operation_counts(trace(FUNCTIONS[0]))}" in header
    assert "void inverse_dynamics(const double *q, const double *qd, const double *qdd, double *tau);" in header


def test_c_has_no_globals_and_allocates_nothing():
    source = c_source([describe(function) for function in FUNCTIONS], "arm", "an arm").source
    assert not any(word in source for word in ("malloc", "free("))
    assert all("void mindyn_sincos" in line for line in source.splitlines() if "static" in line)
    begins = (" ", "/*", "#", "void", "static void", "{", "}")
    assert [line for line in source.splitlines() if line and not line.startswith(begins)] == []


@needs_nvcc
def test_cuda_compiles(tmp_path):
    functions = [describe(function) for function in FUNCTIONS]
    (tmp_path / "arm.cu").write_text(cuda_source(functions, HOSTILE[0]))
    command = [
        "nvcc",
        "-arch=sm_90",
        "--Werror",
        "all-warnings",
        "-c",
        "-o",
        str(tmp_path / "arm.o"),
        str(tmp_path / "arm.cu"),
    ]
    subprocess.run(command, check=True)


@needs_nvcc
def test_cuda_compiles_with_shared_parameters(tmp_path):
    function = describe(inverse_dynamics(puma_like(), phi_as_input=True))
    (tmp_path / "arm.cu").write_text(cuda_source([function], "an arm", shared=("phi",)))
    command = ["nvcc", "-arch=sm_90", "-c", "-o", str(tmp_path / "arm.o"), str(tmp_path / "arm.cu")]
    subprocess.run(command, check=True)


@needs_nvcc
def test_cuda_of_a_loop_compiles(tmp_path):
    mindyn.compile_model(mindyn.load_robot("slider_crank")).write_cuda(
        tmp_path / "press.cu", ("inverse_dynamics", "regressor")
    )
    command = ["nvcc", "-arch=sm_90", "-c", "-o", str(tmp_path / "press.o"), str(tmp_path / "press.cu")]
    subprocess.run(command, check=True)
    assert "closure" in (tmp_path / "press.cu").read_text()
