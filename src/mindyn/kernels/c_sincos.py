"""sin and cos of several angles at once, in C: one pack of vector registers for all joints of an arm.

Six calls of libm take 60 ns of an arm's inverse dynamics, one pack of eight 12 ns. The method is that of `sincos`
(reduction by Cody & Waite, the same polynomials), without relying on fused operations: pi/2 = P1 + P2 + P3 where P1 and
P2 have 37 bits, so that their products with k < 2^16 are exact. Packs are vector types of gcc and clang, which lower
them to whatever the target has; other compilers, fast-math (which would cancel the rounding by addition) and angles
beyond the fast range use libm.
"""

from __future__ import annotations

from mindyn.kernels.sincos import RANGE_LIMIT, TABLES, TWO_OVER_PI
from mindyn.kernels.source_text import literal

HALF_PI = (1.5707963267923333, 2.5633441515839558e-12, 1.0562999066987428e-23)
WIDEST = 8


def packs(count: int) -> list[int]:
    """Widths (powers of two) of the packs that take `count` angles, filled up in the last; none for a single angle."""
    if count < 2:
        return []
    widths = [WIDEST] * (count // WIDEST)
    rest = count % WIDEST
    return [*widths, max(2, 1 << (rest - 1).bit_length())] if rest else widths


def routine_name(width: int) -> str:
    """The C function of a pack."""
    return f"mindyn_sincos{width}"


def routine(width: int) -> str:
    """The C function `(angles, sines, cosines)` of `width` numbers each."""
    table = TABLES[64]
    high, middle, low = map(literal, HALF_PI)
    return f"""\
static void {routine_name(width)}(const double *angles, double *sines, double *cosines)
{{
#if defined(__GNUC__) && !defined(__FAST_MATH__)
  typedef double numbers __attribute__((vector_size({8 * width})));
  typedef unsigned long long bits __attribute__((vector_size({8 * width})));
  int small = 1;
  for (int k = 0; k < {width}; ++k) small &= fabs(angles[k]) <= {literal(RANGE_LIMIT)};
  if (small) {{
    numbers x, t, k, r, z, s, c;
    bits n, odd, sine, cosine;
    memcpy(&x, angles, sizeof x);
    t = x * {literal(TWO_OVER_PI)} + {literal(table.round_number)};
    k = t - {literal(table.round_number)};
    r = ((x - k * {high}) - k * {middle}) - k * {low};
    z = r * r;
    s = {_horner(table.sine)};
    c = {_horner(table.cosine)};
    s = r * z * s + r;
    c = z * c + 1.0;
    n = (bits)t;
    odd = 0 - (n & 1);
    sine = (((bits)s & ~odd) | ((bits)c & odd)) ^ ((n & 2) << 62);
    cosine = (((bits)c & ~odd) | ((bits)s & odd)) ^ (((n + 1) & 2) << 62);
    memcpy(sines, &sine, sizeof sine);
    memcpy(cosines, &cosine, sizeof cosine);
    return;
  }}
#endif
  for (int k = 0; k < {width}; ++k) {{
    sines[k] = sin(angles[k]);
    cosines[k] = cos(angles[k]);
  }}
}}
"""


def _horner(coefficients: tuple[float, ...]) -> str:
    """The polynomial in z, highest coefficient innermost; every product is of a vector."""
    text = literal(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        sign, size = ("-", -coefficient) if coefficient < 0 else ("+", coefficient)
        text = f"({text} * z {sign} {literal(size)})"
    return text
