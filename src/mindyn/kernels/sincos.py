"""sin and cos of a vector within 2 ulp: fast for |x| <= 1e5, one lane after the other for larger |x|.

x = k pi/2 + r with |r| <= pi/4 is computed in three fused steps (Cody & Waite). With pi/2 = P1 + P2 + P3, where P1 and
P2 are rounded to the format, x - k P1 is exact for |x| <= 1e5 (the last bit of P1 is 2^-52, and k P1 cancels all bits
of x above 1), so that only the last steps round. Without fused steps, k (17 bits) is multiplied by parts of 36 bits,
which is exact; float32 is reduced in float64. sin r and cos r are minimax polynomials in z = r^2, derived by
`tests/kernels/fit_sincos.py`. The sign of zero is not kept: sin(-0) is +0.

Angles beyond the fast range are reduced by Payne and Hanek's method in integers. With x = m 2^e (m a 53-bit integer), x
2/pi modulo 4 needs only the bits of 2/pi of weight 2^(1-e) and below. A window of 192 of these bits, times m, gives the
quadrant (2 bits) and the fraction (126 bits, of which a double can cancel 62), so that r is correct to the last bit for
every double.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mindyn.kernels.vector_code import CodeLines, Format

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
    return _emit_reduced(body, _emit_remainder(body, x, k), body.as_integers(rounded))


def _emit_reduced(body: CodeLines, r: str, k: str) -> tuple[str, str]:
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


TWO_OVER_PI_BITS = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
"""The first 1280 bits of 2/pi after the binary point."""


def large_angle_routine(form: Format) -> str:
    """Return the IR of `@sincos_beyond(angles, sines, cosines, count)`; lanes in range keep their values.

    The result of a sample therefore does not depend on its neighbours. The table of bits is read at byte positions, the
    lowest byte first, with zeros above the 1280 bits.
    """
    kind, double = form.scalar, Format(64, 1)
    widened, narrowed = (
        ("fpext float %x to double", "fptrunc double {0} to float")
        if form.bits == 32
        else ("bitcast double %x to double", "bitcast double {0} to double")
    )
    body = CodeLines(double)
    sine, cosine = _emit_reduced(body, "%r", "%k")
    text = "\n".join(body.lines)
    high, low = map(double.literal, SINCOS[64].half_pi[:2])
    return f"""
@two_over_pi = internal constant i1408 {TWO_OVER_PI_BITS}
define internal void @sincos_beyond(ptr %angles, ptr %sines, ptr %cosines, i64 %count) cold noinline nounwind {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %at = getelementptr {kind}, ptr %angles, i64 %i
  %x = load {kind}, ptr %at
  %wide = {widened}
  %absolute = call double @llvm.fabs.f64(double %wide)
  %beyond = fcmp ugt double %absolute, {double.literal(RANGE_LIMIT)}
  br i1 %beyond, label %reduce, label %done
reduce:                         ; |x| = m 2^(exponent - 1075); NaN and infinity read the end of the table
  %bits = bitcast double %absolute to i64
  %exponent = lshr i64 %bits, 52
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %first = sub i64 2165, %exponent
  %byte = lshr i64 %first, 3
  %window_at = getelementptr i8, ptr @two_over_pi, i64 %byte
  %read = load i256, ptr %window_at, align 1
  %surplus = and i64 %first, 7
  %surplus_wide = zext i64 %surplus to i256
  %window = lshr i256 %read, %surplus_wide
  %m_wide = zext i64 %m to i256
  %product = mul i256 %m_wide, %window
  %part = lshr i256 %product, 64
  %f = trunc i256 %part to i128 ; 2 bits of quadrant and 126 of fraction: k to the nearest, the rest signed
  %up = add i128 %f, {2**125}
  %k_wide = lshr i128 %up, 126
  %k = trunc i128 %k_wide to i64
  %rest = shl i128 %f, 2
  %size = call i128 @llvm.abs.i128(i128 %rest, i1 false)
  %size_high = lshr i128 %size, 64
  %top = trunc i128 %size_high to i64
  %bottom = trunc i128 %size to i64
  %head = and i64 %top, -2048
  %tail = and i64 %top, 2047
  %a = uitofp i64 %head to double ; the rest = (a + b + c) / 2^64, times pi/2
  %b = uitofp i64 %tail to double
  %c_large = uitofp i64 %bottom to double
  %c = fmul double %c_large, {double.literal(2.0**-64)}
  %bc = fadd double %b, %c
  %main = fmul double %a, {high}
  %minus_main = fneg double %main
  %error1 = call double @llvm.fma.f64(double %a, double {high}, double %minus_main)
  %error2 = call double @llvm.fma.f64(double %a, double {low}, double %error1)
  %error3 = call double @llvm.fma.f64(double %bc, double {high}, double %error2)
  %r_large = fadd double %main, %error3
  %r_size = fmul double %r_large, {double.literal(2.0**-64)}
  %is_below = icmp slt i128 %rest, 0
  %minus_r = fneg double %r_size
  %r = select i1 %is_below, double %minus_r, double %r_size
{text}
  %nan = fsub double %wide, %wide ; 0 for finite x
  %positive_sine = fadd double {sine}, %nan
  %minus_sine = fneg double %positive_sine
  %is_negative = fcmp olt double %wide, 0.0
  %sine = select i1 %is_negative, double %minus_sine, double %positive_sine
  %cosine = fadd double {cosine}, %nan
  %sine_out = {narrowed.format("%sine")}
  %cosine_out = {narrowed.format("%cosine")}
  %to_sine = getelementptr {kind}, ptr %sines, i64 %i
  store {kind} %sine_out, ptr %to_sine
  %to_cosine = getelementptr {kind}, ptr %cosines, i64 %i
  store {kind} %cosine_out, ptr %to_cosine
  br label %done
done:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %lane, label %end
end:
  ret void
}}
"""
