"""Sine and cosine within 2 ulp of mpmath for |x| <= 1e5, and correct beyond."""

from __future__ import annotations

from fractions import Fraction

import casadi as ca
import fit_sincos
import mpmath as mp
import numpy as np
import pytest

from mindyn.kernels import kernel as kernel_module
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.large_angles import TWO_OVER_PI_BITS
from mindyn.kernels.numerics import cache, native
from mindyn.kernels.numerics.machine import Machine, host
from mindyn.kernels.sincos import EXACT_PARTS, SINCOS, TWO_OVER_PI

ULP_LIMIT = 2.0
DTYPES = [np.float64, np.float32]


@pytest.fixture(
    scope="module",
    params=[(dtype, fused) for fused in (True, False) for dtype in DTYPES],
    ids=["float64", "float32", "float64 without FMA", "float32 without FMA"],
)
def sincos(request):
    """A function of an array of angles: their type, sines and cosines."""
    dtype, fused = request.param
    with pytest.MonkeyPatch.context() as patch:
        if not fused:
            if "x86_64" not in host().triple:
                pytest.skip("kernels without FMA are those of x86-64")
            plain = Machine(host().triple, "x86-64", "", 128, fused=False)
            for module in (kernel_module, native, cache):
                patch.setattr(module, "host", lambda: plain)
            cache._build_environment.cache_clear()
        yield from _evaluate(dtype)
    cache._build_environment.cache_clear()


def _evaluate(dtype):
    x = ca.SX.sym("x")
    function = ca.Function("sincos", [x], [ca.vertcat(ca.sin(x), ca.cos(x))], ["x"], ["y"])
    kernel = Kernel(function, dtype=dtype, check_finite=False)
    yield dtype, lambda angles: kernel(np.asarray(angles, dtype)[:, None]).T


def worst_ulp(dtype, angles, sines, cosines) -> float:
    """Largest error, in units in the last place of the exact value."""
    worst = 0.0
    with mp.workdps(60):
        for angle, sine, cosine in zip(angles, sines, cosines, strict=True):
            for got, exact in ((sine, mp.sin(mp.mpf(float(angle)))), (cosine, mp.cos(mp.mpf(float(angle))))):
                unit = mp.mpf(float(np.spacing(np.abs(dtype(float(exact))))))
                worst = max(worst, float(abs(mp.mpf(float(got)) - exact) / unit))
    return worst


def angles_of(name: str, dtype) -> np.ndarray:
    random = np.random.default_rng(0)
    multiples = np.arange(-60000, 60000, 151) * (np.pi / 2)
    return {
        "one turn": random.uniform(-4, 4, 2000),
        "many turns": random.uniform(-1e5, 1e5, 2000),
        "tiny to large": np.exp(random.uniform(-30, np.log(1e5), 1000)),
        "nearest to multiples of pi/2": multiples,
        "one above": np.nextafter(multiples.astype(dtype), dtype(np.inf)),
        "halfway between": multiples + np.pi / 4,
        "beyond the fast range": random.uniform(1e5, 1e9, 300) * random.choice([-1, 1], 300),
        "huge": np.exp(random.uniform(np.log(1e9), np.log(np.finfo(dtype).max), 300)),
    }[name].astype(dtype)


NAMES = [
    *("one turn", "many turns", "tiny to large", "nearest to multiples of pi/2", "one above", "halfway between"),
    *("beyond the fast range", "huge"),
]


@pytest.mark.parametrize("name", NAMES)
def test_sine_and_cosine_are_within_two_ulp(sincos, name):
    dtype, evaluate = sincos
    angles = angles_of(name, dtype)
    assert worst_ulp(dtype, angles, *evaluate(angles)) <= ULP_LIMIT


def test_sincos_of_the_double_nearest_to_a_multiple_of_half_pi(sincos):
    """6381956970095103 * 2^797: the double closest, relatively, to one [Muller, Elementary Functions]."""
    dtype, evaluate = sincos
    hardest = [6381956970095103.0 * 2.0**797] if dtype is np.float64 else [16367173.0 * 2.0**72]
    assert worst_ulp(dtype, np.array(hardest, dtype), *evaluate(hardest)) <= ULP_LIMIT


def test_zeros_are_exact(sincos):
    _, evaluate = sincos
    sines, cosines = evaluate([0.0, -0.0])
    assert sines.tolist() == [0.0, 0.0]  # of either sign: kernels ignore the sign of zero
    assert cosines.tolist() == [1.0, 1.0]


def test_not_finite_input_gives_nan(sincos):
    _, evaluate = sincos
    assert np.isnan(evaluate([np.nan, np.inf, -np.inf])).all()


def test_a_lane_out_of_range_does_not_change_the_others(sincos):
    _, evaluate = sincos
    angles = np.linspace(-3, 3, 32)
    mixed = angles.copy()
    mixed[5] = 1e8
    others = np.arange(32) != 5
    assert (evaluate(mixed)[:, others] == evaluate(angles)[:, others]).all()


@pytest.mark.parametrize(
    ("bits", "half_width", "name"), [(64, 0.7855, "sin"), (64, 0.7855, "cos"), (32, 0.789, "sin"), (32, 0.789, "cos")]
)
def test_coefficients_equal_the_fit(bits, half_width, name):
    table = SINCOS[bits].sine if name == "sin" else SINCOS[bits].cosine
    coefficients, error = fit_sincos.fit(name, len(table), half_width)
    assert [float(c) for c in coefficients] == pytest.approx(list(table), rel=1e-14)
    assert error < 2.0 ** (-53 if bits == 64 else -24)


@pytest.mark.parametrize(("bits", "dtype"), [(64, np.float64), (32, np.float32)])
def test_parts_of_half_pi_add_up_exactly(bits, dtype):
    with mp.workdps(80):
        rest = mp.pi / 2
        for part in SINCOS[bits].half_pi:
            assert dtype(part) == part
            assert dtype(float(rest)) == part
            rest -= mp.mpf(part)
        assert float(2 / mp.pi) == TWO_OVER_PI


def test_products_with_the_parts_for_cpus_without_fma_are_exact():
    for part in EXACT_PARTS[:-1]:
        assert float(Fraction(part) * 65535) == Fraction(part) * 65535
    with mp.workdps(80):
        assert abs(sum(map(mp.mpf, EXACT_PARTS)) - mp.pi / 2) < mp.mpf(2) ** -140


def test_bits_of_two_over_pi_are_correct():
    with mp.workprec(1400):
        assert int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1280)) == TWO_OVER_PI_BITS
