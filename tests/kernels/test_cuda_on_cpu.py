"""Generated CUDA computes what CasADi does: a C++ compiler builds it, and 32 threads with a barrier play a warp."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import casadi as ca
import numpy as np
import pytest
from closeness import assert_close
from references import TOLERANCE, evaluate, random_inputs
from serial_arm import inertia_matrix, inverse_dynamics, puma_like, random_arm, regressor

from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.source_text import SourceFunction
from mindyn.kernels.tracing import trace

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")

PUMA = puma_like()


def divide_inertia(arm):
    """The first row of M(q) over its first entry: several divisions by one number."""
    q = ca.SX.sym("q", 6)
    M = inertia_matrix(arm)(q)
    return ca.Function("divided", [q], [M[0, :].T / M[0, 0]], ["q"], ["x"])


def sines_and_cosines():
    q = ca.SX.sym("q", 2)
    return ca.Function("sines", [q], [ca.vertcat(ca.sin(q), ca.cos(q))], ["q"], ["x"])


FUNCTIONS = {
    "six_joints": inverse_dynamics(PUMA),
    "eight_joints": inverse_dynamics(random_arm(8)),
    "matrix": inertia_matrix(PUMA),
    "wide": regressor(random_arm(4)),
    "parameters": inverse_dynamics(PUMA, phi_as_input=True),
    "whole_rows": inertia_matrix(random_arm(8)),
    "divided": divide_inertia(PUMA),
    "sines": sines_and_cosines(),
}

SHIM = """
#include <algorithm>
#include <barrier>
#include <bit>
#include <cmath>
#include <thread>
#include <vector>
#define __CUDACC_RTC__
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define __shared__ static
using std::min;
using std::fabs, std::fmax;
static float __fdividef(float a, float b) { return a / b; }
static unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
static float __uint_as_float(unsigned n) { return std::bit_cast<float>(n); }
struct float2 { float x, y; };
struct Index { int x; };
static thread_local Index threadIdx, blockIdx;
static std::barrier<> warp(32);
static void __syncwarp() { warp.arrive_and_wait(); }
"""

RUNNER = """
extern "C" void run_%(name)s(void **a, long long count)
{
  for (int number = 0; number * 32 < count; ++number) {
    std::vector<std::thread> lanes;
    for (int lane = 0; lane < 32; ++lane)
      lanes.emplace_back([=] {
        threadIdx.x = number %% 4 * 32 + lane;
        blockIdx.x = number / 4;
        %(name)s(%(arguments)s, count);
      });
    for (auto &lane : lanes) lane.join();
  }
}
"""


def runner(name: str, program, real: str) -> str:
    pointers = [f"({real} *)a[{k}]" for k in range(len(program.arguments))]
    return RUNNER % {"name": name, "arguments": ", ".join(pointers)}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    described = [SourceFunction(trace(function), name, "") for name, function in FUNCTIONS.items()]
    runners = [
        runner(f"{function.name}_{suffix}", function.program, real)
        for function in described
        for suffix, real in (("f64", "double"), ("f32", "float"))
    ]
    (folder / "arm.cpp").write_text(SHIM + cuda_source(described, "arms", shared=("phi",)) + "".join(runners))
    command = ["g++", "-std=c++20", "-O1", "-w", "-pthread", "-shared", "-fPIC", "-o", "arm.so", "arm.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "arm.so"))


@pytest.mark.parametrize(("suffix", "dtype"), [("f64", np.float64), ("f32", np.float32)])
@pytest.mark.parametrize("count", [1, 32, 33, 150])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_cuda_equals_casadi(library, name, count, suffix, dtype):
    function = FUNCTIONS[name]
    inputs = [a.astype(dtype) for a in random_inputs(function, (count,))]
    if name == "parameters":
        inputs[3] = PUMA.phi.astype(dtype)
    reference = evaluate(function, *inputs)[0]
    result = run(library, f"{name}_{suffix}", inputs, reference[0].size)
    assert_close(result.reshape(reference.shape), reference, TOLERANCE[dtype])


@pytest.mark.parametrize(("suffix", "dtype"), [("f64", np.float64), ("f32", np.float32)])
@pytest.mark.parametrize("name", ["six_joints", "matrix"])
def test_arrays_may_begin_anywhere(library, name, suffix, dtype):
    function = FUNCTIONS[name]
    inputs = [a.astype(dtype) for a in random_inputs(function, (40,))]
    columns = evaluate(function, *inputs)[0][0].size
    even, odd = (run(library, f"{name}_{suffix}", inputs, columns, shift) for shift in (0, 1))
    np.testing.assert_array_equal(odd, even)


def test_sines_in_single_precision(library):
    """Within 2 units in the last place up to 1e5; beyond, as the C library has them."""
    rng = np.random.default_rng(0)
    near = np.arange(-400, 400)[:, None] * (np.pi / 2) + np.array([0.0, 1e-6])
    angles = np.concatenate([near, rng.uniform(-1e5, 1e5, (800, 2)), rng.uniform(1e5, 1e9, (64, 2))]).astype(np.float32)
    result = run(library, "sines_f32", [angles], 4)
    exact = np.concatenate([np.sin(angles.astype(float)), np.cos(angles.astype(float))], axis=1)
    assert (np.abs(result - exact) <= 2 * np.spacing(np.abs(exact).astype(np.float32))).all()
    strange = np.array([[np.nan, 1.0], [np.inf, 1.0]], np.float32)
    assert np.isnan(run(library, "sines_f32", [strange], 4)).tolist() == [[True, False, True, False]] * 2


def run(library, name, inputs, columns, shift=0):
    """Return the kernel's results; arrays begin `shift` numbers after an even address."""
    count, dtype = len(inputs[0]), inputs[0].dtype
    arrays = [copy_shifted(array, shift) for array in [*inputs, np.full((count + 1, columns), 77.0, dtype)]]
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    getattr(library, f"run_{name}")(pointers, ctypes.c_longlong(count))
    assert (arrays[-1][-1] == 77.0).all()
    return arrays[-1][:-1]


def copy_shifted(array, shift):
    """A copy that begins `shift` numbers after a multiple of 16 bytes."""
    room = np.empty(array.nbytes + 16 + shift * array.itemsize, np.uint8)
    first = -room.ctypes.data % 16 + shift * array.itemsize
    copy = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
