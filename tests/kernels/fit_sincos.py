"""Derives the polynomials of `mindyn.kernels.sincos` by Remez exchange; `python tests/kernels/fit_sincos.py` prints
them.

On |r| <= half_width, with z = r^2, in relative error of the whole function:

    sin(r) ~ r + r z (s_0 + s_1 z + ...)          cos(r) ~ 1 + z (c_0 + c_1 z + ...)
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 50
Real = Callable[[mp.mpf], mp.mpf]


def _series(z: mp.mpf, first: int) -> mp.mpf:
    """sum_k (-1)^(k+1) z^k / (2 k + first)!: the tail of sin (first=3) or cos (first=2) after its leading term, over
    z.
    """
    return mp.nsum(lambda k: (-1) ** (int(k) + 1) * z**k / mp.factorial(2 * k + first), [0, 30])


def sine_tail(z: mp.mpf) -> mp.mpf:
    return _series(z, 3)


def cosine_tail(z: mp.mpf) -> mp.mpf:
    return _series(z, 2)


def fit(name: str, count: int, half_width: float) -> tuple[list[mp.mpf], mp.mpf]:
    """`count` coefficients, lowest first, and the largest relative error of sin or cos with them."""
    tail = sine_tail if name == "sin" else cosine_tail
    return _remez(tail, lambda z: z / (1 + z * tail(z)), count, mp.mpf(half_width) ** 2)


def _remez(function: Real, weight: Real, count: int, end: mp.mpf) -> tuple[list[mp.mpf], mp.mpf]:
    nodes = [end * (1 + mp.cos(mp.pi * (2 * k + 1) / (2 * count + 2))) / 2 for k in range(count + 1)][::-1]
    grid = [end * k / 400 for k in range(1, 401)]
    values = [(z, function(z), weight(z)) for z in grid]
    for _ in range(8):
        coefficients = _level(function, weight, nodes)
        errors = [(_horner(coefficients, z) - f) * w for z, f, w in values]
        nodes = _alternating_peaks(grid, errors, count + 1)
    return coefficients, max(abs(e) for e in errors)


def _level(function: Real, weight: Real, nodes: list[mp.mpf]) -> list[mp.mpf]:
    """The polynomial whose weighted errors at the nodes are equal and alternate in sign."""
    count = len(nodes) - 1
    rows = [[z**k for k in range(count)] + [(-1) ** i / weight(z)] for i, z in enumerate(nodes)]
    solution = mp.lu_solve(mp.matrix(rows), mp.matrix([function(z) for z in nodes]))
    return [solution[k] for k in range(count)]


def _alternating_peaks(grid: list[mp.mpf], errors: list[mp.mpf], count: int) -> list[mp.mpf]:
    peaks: list[int] = []
    for k, error in enumerate(errors):
        if peaks and mp.sign(errors[peaks[-1]]) == mp.sign(error):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = k
        else:
            peaks.append(k)
    return [grid[k] for k in peaks[-count:]]


def _horner(coefficients: list[mp.mpf], z: mp.mpf) -> mp.mpf:
    return sum(coefficient * z**k for k, coefficient in enumerate(coefficients))


if __name__ == "__main__":
    for dtype, half_width, counts in (
        ("float64", 0.7855, {"sin": 6, "cos": 6}),
        ("float32", 0.789, {"sin": 3, "cos": 3}),
    ):
        for name, count in counts.items():
            coefficients, error = fit(name, count, half_width)
            print(dtype, name, [float(c) for c in coefficients], f"relative error {float(error):.1e}")
