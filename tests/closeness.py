"""The only tolerances of the test suite, and comparisons that reject empty references."""

from __future__ import annotations

import numpy as np

EXACT = 0.0
ROUND_TRIP = 1e-14
"""Geometry and parameters through URDF or MJCF text."""
SAME_ALGEBRA = 1e-12
"""Two computations of the same quantity within this code base."""
ORACLE = 1e-10
"""Comparison with an independent library."""
PUBLISHED_FILE = 1e-9
"""Comparison with an independent library that reads the same published file."""
DERIVATIVE = 1e-6
"""Comparison with central differences with steps of about 1e-5."""
SOLVED = 1e-6
"""Comparison of an interior-point solution with the optimum by other means."""
COARSE_MESH = 1e-2
"""Volume of a body whose mesh was simplified for a page."""


def assert_close(actual, reference, rtol: float) -> None:
    """Assert max |actual - reference| <= rtol * max |reference|; an empty or zero reference fails."""
    actual, reference = np.asarray(actual, dtype=float), np.asarray(reference, dtype=float)
    assert reference.size > 0, "the reference is empty"
    assert np.isfinite(reference).all(), "the reference is not finite"
    assert np.abs(reference).max() > 0, "the reference is identically zero: assert the zero with assert_negligible"
    assert actual.shape == reference.shape, f"shapes differ: {actual.shape} and {reference.shape}"
    error = np.abs(actual - reference).max() / np.abs(reference).max()
    assert error <= rtol, f"relative error {error:.3g} exceeds {rtol:.3g}"


def assert_negligible(actual, scale: float, rtol: float) -> None:
    """Assert max |actual| <= rtol * scale, for a value that must vanish relative to the scale."""
    actual = np.asarray(actual, dtype=float)
    assert actual.size > 0, "nothing to compare"
    assert scale > 0, "the scale is zero"
    error = np.abs(actual).max() / scale
    assert error <= rtol, f"{error:.3g} of the scale exceeds {rtol:.3g}"
