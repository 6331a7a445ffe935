"""sin and cos of a vector within 2 ulp, for |x| <= 1e5; `large_angles` computes larger angles.

x = k pi/2 + r with |r| <= pi/4 is computed in three fused steps (Cody & Waite). With pi/2 = P1 + P2 + P3, where P1 and
P2 are rounded to the format, x - k P1 is exact for |x| <= 1e5 (the last bit of P1 is 2^-52, and k P1 cancels all bits
of x above 1), so that only the last steps round. Without fused steps, k (17 bits) is multiplied by parts of 36 bits,
which is exact; float32 is reduced in float64. sin r and cos r are minimax polynomials in z = r^2, derived by
`tests/kernels/fit_sincos.py`. The sign of zero is not kept: sin(-0) is +0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mindyn.kernels.vector_code import CodeLines

RANGE_LIMIT = 1e5
"""Largest |x| of the fast path, for which its accuracy holds."""


@dataclass(frozen=True, slots=True)
class SincosTable:
    """Constants of one format; adding `round_number` = 1.5 * 2^(mantissa bits) rounds to an integer in the low bits."""

    half_pi: tuple[float, float, float]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    round_number: float


SINCOS = {
    64: SincosTable(
        half_pi=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        sine=(
            *(-0.1666666666666663, 0.008333333333322104, -0.0001984126982957739),
            *(2.75573136170312e-06, -2.5050747059736945e-08, 1.5896188204939447e-10),
        ),
        cosine=(
            *(-0.4999999999999941, 0.0416666666664876, -0.001388888887057151),
            *(2.4801578642276518e-05, -2.755524128665425e-07, 2.0630570397579626e-09),
        ),
        round_number=1.5 * 2.0**52,
    ),
    32: SincosTable(
        half_pi=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100059819e-15),
        sine=(-0.16666654272282516, 0.008332139062075338, -0.00019512291857459903),
        cosine=(-0.4999988144339813, 0.0416555716709021, -0.0013589086526047973),
        round_number=1.5 * 2.0**23,
    ),
}
TWO_OVER_PI = 0.6366197723675814


def _leading_bits(value: float) -> float:
    """Return the first 36 bits of `value`: their product with an integer of 17 bits is a double."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.trunc(mantissa * 2.0**36), exponent - 36)


_P1, _P2, _P3 = SINCOS[64].half_pi
EXACT_PARTS = _leading_bits(_P1), _P1 - _leading_bits(_P1), _leading_bits(_P2), _P2 - _leading_bits(_P2) + _P3
"""pi/2 in parts of at most 36 bits, except for the last."""


def emit_sincos(body: CodeLines, x: str) -> tuple[str, str]:
    """Emit sin(x) and cos(x) of a vector.

    Lanes that are out of range get meaningless numbers, but cause no exception.
    """
    table, form = SINCOS[body.form.bits], body.form
    rounded = body.multiply_add(x, form.splat(TWO_OVER_PI), form.splat(table.round_number))
    k = body.let(f"fsub {form.vector} {rounded}, {form.splat(table.round_number)}")
    return emit_reduced(body, _emit_remainder(body, x, k), body.as_integers(rounded))


def emit_reduced(body: CodeLines, r: str, k: str) -> tuple[str, str]:
    """Emit sin and cos of r + k pi/2 for |r| <= pi/4 and integers k."""
    table, form = SINCOS[body.form.bits], body.form
    z = body.let(f"fmul {form.vector} {r}, {r}")
    sine = body.multiply_add(body.let(f"fmul {form.vector} {r}, {z}"), _horner(body, table.sine, z), r)
    cosine = body.multiply_add(z, _horner(body, table.cosine, z), form.splat(1.0))
    return _rotate_quadrants(body, k, sine, cosine)


def _emit_remainder(body: CodeLines, x: str, k: str) -> str:
    """Emit x - k pi/2 for integers k of at most 17 bits."""
    form = body.form
    if form.fused:
        r = x
        for part in SINCOS[form.bits].half_pi:
            r = body.fma(k, form.splat(-part), r)
        return r
    wide = replace(form, bits=64)
    r, k = (body.let(f"fpext {form.vector} {value} to {wide.vector}") if form.bits == 32 else value for value in (x, k))
    for part in EXACT_PARTS:
        product = body.let(f"fmul {wide.vector} {k}, {wide.splat(part)}")
        r = body.let(f"fsub {wide.vector} {r}, {product}")
    return body.let(f"fptrunc {wide.vector} {r} to {form.vector}") if form.bits == 32 else r


def emit_out_of_range(body: CodeLines, x: str) -> str:
    """Emit truth values: |x| > 1e5, or x is NaN."""
    return body.compare("ugt", body.intrinsic("fabs", x), body.form.splat(RANGE_LIMIT))


def _horner(body: CodeLines, coefficients: tuple[float, ...], z: str) -> str:
    total = body.form.splat(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = body.multiply_add(total, z, body.form.splat(coefficient))
    return total


def _rotate_quadrants(body: CodeLines, k: str, sine: str, cosine: str) -> tuple[str, str]:
    """Emit sin and cos of r + k pi/2.

    They are exchanged for odd k; sin changes its sign with bit 1 of k, cos with bit 1 of k + 1.
    """
    form = body.form
    odd = body.let(f"icmp ne {form.integers} {body.integer('and', k, form.splat_integer(1))}, {form.splat_integer(0)}")
    flip_sine = _bit_1_as_sign(body, k)
    flip_cosine = _bit_1_as_sign(body, body.integer("add", k, form.splat_integer(1)))
    swapped_sine, swapped_cosine = body.select(odd, cosine, sine), body.select(odd, sine, cosine)
    return _flip(body, swapped_sine, flip_sine), _flip(body, swapped_cosine, flip_cosine)


def _bit_1_as_sign(body: CodeLines, k: str) -> str:
    shifted = body.integer("shl", k, body.form.splat_integer(body.form.bits - 2))
    return body.integer("and", shifted, body.form.splat_integer(-(2 ** (body.form.bits - 1))))


def _flip(body: CodeLines, value: str, sign: str) -> str:
    return body.as_numbers(body.integer("xor", body.as_integers(value), sign))


def emit_checked_sincos(
    body: CodeLines, angles: list[str], allocations: list[str], label: str
) -> list[tuple[str, str]]:
    """Emit (sin, cos) of every angle: the fast path, and a branch to `@sincos_beyond` if a lane of any angle is out of
    range.

    `allocations` receives the lines that reserve the slow path's stack memory; `label` makes block names unique.
    """
    fast = [emit_sincos(body, angle) for angle in angles]
    before = body.block
    body.line(f"br i1 {_any_out_of_range(body, angles)}, label %slow{label}, label %join{label}, !prof !1")
    body.start_block(f"slow{label}")
    slow = _call_slow_routine(body, angles, fast, allocations, label)
    body.line(f"br label %join{label}")
    body.start_block(f"join{label}")
    kind = body.form.vector
    joined = [
        body.let(f"phi {kind} [ {quick}, %{before} ], [ {careful}, %slow{label} ]")
        for fast_pair, slow_pair in zip(fast, slow, strict=True)
        for quick, careful in zip(fast_pair, slow_pair, strict=True)
    ]
    return list(zip(joined[0::2], joined[1::2], strict=True))


def _any_out_of_range(body: CodeLines, angles: list[str]) -> str:
    out_of_range = emit_out_of_range(body, angles[0])
    for angle in angles[1:]:
        out_of_range = body.let(f"or {body.form.truths} {out_of_range}, {emit_out_of_range(body, angle)}")
    return body.any_lane(out_of_range)


def _call_slow_routine(
    body: CodeLines, angles: list[str], fast: list[tuple[str, str]], allocations: list[str], label: str
) -> list[tuple[str, str]]:
    form = body.form
    size = form.bytes * form.width
    arrays = {
        f"%angles{label}": angles,
        f"%sines{label}": [s for s, _ in fast],
        f"%cosines{label}": [c for _, c in fast],
    }
    for name, values in arrays.items():
        allocations.append(f"  {name} = alloca [{len(angles)} x {form.vector}], align {size}")
        for k, value in enumerate(values):
            body.line(f"store {form.vector} {value}, ptr {body.offset(name, k * size)}, align {size}")
    pointers = ", ".join(f"ptr {name}" for name in arrays)
    body.line(f"call void @sincos_beyond({pointers}, i64 {len(angles) * form.width})")
    _, sines, cosines = (
        [body.let(f"load {form.vector}, ptr {body.offset(name, k * size)}, align {size}") for k in range(len(angles))]
        for name in arrays
    )
    return list(zip(sines, cosines, strict=True))
