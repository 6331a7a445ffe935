"""sin and cos of exported C: packs as exact as libm to 2 ulp, everywhere."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from mindyn.kernels.code_files import packs, routine_name, sincos_routine

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
FLAGS = {
    "fused": ("-O3", "-march=native"),
    "plain": ("-O2", "-ffp-contract=off"),
    "not optimised": ("-O0",),
    "fast-math, by libm": ("-O2", "-ffast-math"),
}


def angles() -> np.ndarray:
    """Random angles of all sizes, neighbours of the multiples of pi/4, and what lies beyond the fast range."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-12, 5, 4000)
    near = np.arange(-4000, 4000) * (np.pi / 4)
    far = np.rint(rng.uniform(-63000, 63000, 4000)) * (np.pi / 2)
    beyond = rng.uniform(1e5, 1e9, 64)
    return np.concatenate(
        [sizes, -sizes, near, np.nextafter(near, 9e9), far, np.nextafter(far, -9e9), beyond, [0, 1e5]]
    )


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("width", [2, 4, 8])
def test_packs_are_within_two_units_in_the_last_place(tmp_path, name, width):
    text = f"#include <math.h>\n#include <string.h>\n{sincos_routine(width)}\n" + (
        "void many(const double *x, double *s, double *c, long count)\n"
        f"{{ for (long k = 0; k < count; k += {width}) {routine_name(width)}(x + k, s + k, c + k); }}\n"
    )
    (tmp_path / "pack.c").write_text(text)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]
    command = ["gcc", *strict, *FLAGS[name], "-shared", "-fPIC", "-o", "pack.so", "pack.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    many = ctypes.CDLL(str(tmp_path / "pack.so")).many
    x = angles()
    x = np.concatenate([x, np.zeros(-len(x) % width)])
    results = np.empty((2, len(x)))
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, *results)]
    many(*pointers, ctypes.c_long(len(x)))
    for values, exact in zip(results, (np.sin(x), np.cos(x)), strict=True):
        # NumPy's own sine and cosine of doubles are within one unit.
        assert (np.abs(values - exact) <= 3 * np.spacing(np.abs(exact))).all()


def test_not_finite_input_gives_nan(tmp_path):
    (tmp_path / "pack.c").write_text(
        f"#include <math.h>\n#include <string.h>\n{sincos_routine(2)}\n"
        f"void pair(const double *x, double *s, double *c) {{ {routine_name(2)}(x, s, c); }}\n"
    )
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-o", "pack.so", "pack.c", "-lm"], cwd=tmp_path, check=True, text=True
    )
    pair = ctypes.CDLL(str(tmp_path / "pack.so")).pair
    x, results = np.array([np.nan, 1.0]), np.empty((2, 2))
    pair(*(ctypes.c_void_p(array.ctypes.data) for array in (x, *results)))
    assert np.isnan(results[:, 0]).all()
    np.testing.assert_array_almost_equal_nulp(results[:, 1], [np.sin(1.0), np.cos(1.0)], 1)


@pytest.mark.parametrize(
    ("count", "widths"), [(0, []), (1, []), (2, [2]), (3, [4]), (6, [8]), (9, [8, 2]), (20, [8, 8, 4])]
)
def test_packs_take_all_angles(count, widths):
    assert packs(count) == widths
