"""C of robots whose loops are solved for, compiled: torques and closure from a start that is a little off."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from laws.closed_linkages import linkage

import mindyn
from mindyn.equations.loop_closure import home_closure

DOUBLES = ctypes.POINTER(ctypes.c_double)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("robot", [mindyn.load_robot("five_bar"), linkage("slide", 1)], ids=lambda array: array.name)
def test_compiled_c_gives_the_same_torques_as_the_kernel(robot, tmp_path):
    model, closure = mindyn.compile_model(robot), home_closure(robot)
    model.write_c(tmp_path / "loop.c", ["inverse_dynamics"])
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
    subprocess.run(
        ["cc", *strict, "-O1", "-shared", "-fPIC", "-o", "loop.so", "loop.c", "-lm"], cwd=tmp_path, check=True
    )
    function = ctypes.CDLL(str(tmp_path / "loop.so")).loop_inverse_dynamics
    rng, k = np.random.default_rng(0), len(closure.primary)
    p = closure.home[list(closure.primary)] + rng.uniform(-0.05, 0.05, (4, k))
    pd, pdd = rng.normal(size=(2, 4, k))
    expected, q = model.inverse_dynamics(p, pd, pdd), closure.along(p)
    q[:, list(closure.dependent)] += 1e-5
    for row in range(4):
        tau, left = np.zeros(k), np.zeros(2)
        given = [np.ascontiguousarray(array[row]) for array in (q, pd, pdd)]
        function(*(array.ctypes.data_as(DOUBLES) for array in (*given, tau, left)))
        assert_close(tau, expected[row], ORACLE)
        assert left[0] < 1e-9 < 1e-3 < left[1]
    q[0, list(closure.dependent)] += 0.7
    given = [np.ascontiguousarray(array[0]) for array in (q, pd, pdd)]
    function(*(array.ctypes.data_as(DOUBLES) for array in (*given, tau, left)))
    assert left[0] > 1e-9  # said, not wrong in silence
