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
from mindyn.kernels.source_text import Described
from mindyn.kernels.tracing import trace

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")

PUMA = puma_like()


def divided_inertia(arm):
    """The first row of M(q) over its first entry: several divisions by one number."""
    q = ca.SX.sym("q", 6)
    M = inertia_matrix(arm)(q)
    return ca.Function("divided", [q], [M[0, :].T / M[0, 0]], ["q"], ["x"])


FUNCTIONS = {
    "six_joints": inverse_dynamics(PUMA),
    "eight_joints": inverse_dynamics(random_arm(8)),
    "matrix": inertia_matrix(PUMA),
    "wide": regressor(random_arm(4)),
    "parameters": inverse_dynamics(PUMA, phi_as_input=True),
    "whole_rows": inertia_matrix(random_arm(8)),
    "divided": divided_inertia(PUMA),
}

SHIM = """
#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>
#define __CUDACC_RTC__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static
using std::min;
static float __fdividef(float a, float b) { return a / b; }
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
    described = [Described(trace(one), name, "") for name, one in FUNCTIONS.items()]
    runners = [
        runner(f"{one.name}_{suffix}", one.program, real)
        for one in described
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
    guarded = np.full((count + 1, reference[0].size), 77.0, dtype)
    arrays = [*inputs, guarded]
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    getattr(library, f"run_{name}_{suffix}")(pointers, ctypes.c_longlong(count))
    assert_close(guarded[:-1].reshape(reference.shape), reference, TOLERANCE[dtype])
    assert (guarded[-1] == 77.0).all()
