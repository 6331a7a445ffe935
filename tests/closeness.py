"""The only tolerances of the test suite, and one comparison that refuses empty references."""

from __future__ import annotations

import numpy as np

EXACT = 0.0
ROUND_TRIP = 1e-14
"""Geometry and parameters through URDF or MJCF text."""
SAME_ALGEBRA = 1e-12
"""Two ways to compute one thing within this code base."""
ORACLE = 1e-10
"""Against an independent library."""
PUBLISHED_FILE = 1e-9
"""Against an independent library that reads the same published file."""
DERIVATIVE = 1e-6
"""Against central differences with steps of 1e-5 or so."""
SOLVED = 1e-6
"""What an interior-point program ends with, beside the optimum by other means."""
COARSE_MESH = 1e-2
"""Volume of a body whose mesh was made coarse for a page."""


def assert_close(actual, reference, rtol: float) -> None:
    """max |actual - reference| <= rtol * max |reference|; a vacuous reference is an error, not a pass."""
    actual, reference = np.asarray(actual, dtype=float), np.asarray(reference, dtype=float)
    assert reference.size > 0, "the reference is empty"
    assert np.isfinite(reference).all(), "the reference is not finite"
    assert np.abs(reference).max() > 0, "the reference is identically zero: assert the zero with assert_negligible"
    assert actual.shape == reference.shape, f"shapes differ: {actual.shape} and {reference.shape}"
    error = np.abs(actual - reference).max() / np.abs(reference).max()
    assert error <= rtol, f"relative error {error:.3g} exceeds {rtol:.3g}"


def assert_negligible(actual, scale: float, rtol: float) -> None:
    """max |actual| <= rtol * scale, for what must vanish beside a quantity of the given size."""
    actual = np.asarray(actual, dtype=float)
    assert actual.size > 0, "nothing to compare"
    assert scale > 0, "the scale is zero"
    error = np.abs(actual).max() / scale
    assert error <= rtol, f"{error:.3g} of the scale exceeds {rtol:.3g}"
