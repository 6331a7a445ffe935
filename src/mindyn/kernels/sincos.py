"""sin and cos of a vector within 2 ulp: fast for |x| <= 1e5, by `sincos_large_angles` beyond.

x = k pi/2 + r, |r| <= pi/4, in three fused steps (Cody & Waite): with pi/2 = P1 + P2 + P3, P1 and P2 rounded to the
format, x - k P1 is exact for |x| <= 1e5 (the last bit of P1 is 2^-52, and k P1 cancels all of x above 1), so only the
last steps round. Without fused steps, k (17 bits) is multiplied by parts of 36 bits, exactly; float32 is reduced in
float64. sin r and cos r are minimax polynomials in z = r^2, derived by `tests/kernels/fit_sincos.py`. The sign of zero
is not kept: sin(-0) is +0.

sin and cos of angles beyond the fast range, one lane at a time: reduction by Payne and Hanek in integers.

With x = m 2^e (m a 53-bit integer), x 2/pi modulo 4 needs only the bits of 2/pi of weight 2^(1-e) and below. A window
of 192 of them, times m, gives the quadrant (2 bits) and the fraction (126 bits, of which a double can cancel 62), so r
is correct to the last bit for every double.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mindyn.kernels.vectors import CodeLines, Format

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
    """Emit sin(x) and cos(x) of a vector whose lanes are all in range; other lanes get garbage, never a trap."""
    table, form = SINCOS[body.form.bits], body.form
    rounded = body.multiply_add(x, form.splat(TWO_OVER_PI), form.splat(table.round_number))
    k = body.let(f"fsub {form.vector} {rounded}, {form.splat(table.round_number)}")
    r = _emit_remainder(body, x, k)
    return emit_reduced(body, r, body.as_integers(rounded))


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


def emit_reduced(body: CodeLines, r: str, k: str) -> tuple[str, str]:
    """Emit sin and cos of r + k pi/2 for |r| <= pi/4 and integers k."""
    table, form = SINCOS[body.form.bits], body.form
    z = body.let(f"fmul {form.vector} {r}, {r}")
    sine = body.multiply_add(body.let(f"fmul {form.vector} {r}, {z}"), _horner(body, table.sine, z), r)
    cosine = body.multiply_add(z, _horner(body, table.cosine, z), form.splat(1.0))
    return _rotate_quadrants(body, k, sine, cosine)


def emit_out_of_range(body: CodeLines, x: str) -> str:
    """Emit truth values: |x| > 1e5, or x is NaN."""
    return body.compare("ugt", body.intrinsic("fabs", x), body.form.splat(RANGE_LIMIT))


def _horner(body: CodeLines, coefficients: tuple[float, ...], z: str) -> str:
    total = body.form.splat(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = body.multiply_add(total, z, body.form.splat(coefficient))
    return total


def _rotate_quadrants(body: CodeLines, k: str, sine: str, cosine: str) -> tuple[str, str]:
    """Emit sin and cos of r + k pi/2: swapped for odd k; sin changes sign with bit 1 of k, cos with bit 1 of k + 1."""
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
    """Emit (sin, cos) of every angle: the fast path, and a branch to `@sincos_beyond` if any lane of any angle is out
    of range.

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
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d"
    "",
    16,
)
"""The first 1280 bits of 2/pi after the binary point."""

_TABLE_WORDS = 21
"""64 zero bits (angles of few turns start before the binary point), then 1280 bits."""


def large_angle_routines(form: Format) -> str:
    """Return the IR of `@sincos_beyond(angles, sines, cosines, count)`; lanes in range keep their values.

    Therefore the result of a sample does not depend on its neighbours.
    """
    kind, narrow = form.scalar, form.bits == 32
    widened = "fpext float %x to double" if narrow else "bitcast double %x to double"
    narrowed = "fptrunc double {0} to float" if narrow else "bitcast double {0} to double"
    return f"""{_angle_routine()}
define internal void @sincos_beyond(ptr %angles, ptr %sines, ptr %cosines, i64 %count) cold noinline nounwind {{
entry:
  %results = alloca [2 x double]
  %second = getelementptr double, ptr %results, i64 1
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %done ]
  %at = getelementptr {kind}, ptr %angles, i64 %i
  %x = load {kind}, ptr %at
  %size = call {kind} @llvm.fabs.f{form.bits}({kind} %x)
  %beyond = fcmp ugt {kind} %size, {form.literal(RANGE_LIMIT)}
  br i1 %beyond, label %slow, label %done
slow:
  %wide = {widened}
  call void @one_angle(double %wide, ptr %results)
  %sine = load double, ptr %results
  %cosine = load double, ptr %second
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


def _angle_routine() -> str:
    """Return the IR of `@one_angle(x, results)`: sine and cosine of a double beyond the fast range; NaN if x is not
    finite.
    """
    body = CodeLines(Format(64, 1))
    _write_reduction(body)
    sine, cosine = emit_reduced(body, "%r", "%k")
    body.line(f"%minus_sine = fneg double {sine}")
    body.line(f"%signed_sine = select i1 %negative, double %minus_sine, double {sine}")
    _write_results(body, "%signed_sine", cosine)
    body.start_block("not_finite")
    body.line("%nan = fsub double %x, %x")
    _write_results(body, "%nan", "%nan")
    text = "\n".join(body.lines)
    return f"""
@two_over_pi = internal constant [{_TABLE_WORDS} x i64] [{", ".join(f"i64 {word}" for word in _words())}]
define internal void @one_angle(double %x, ptr %results) cold noinline nounwind {{
entry:
{text}
}}
"""


def _words() -> list[int]:
    """Return the table, highest word first, as signed integers."""
    words = [(TWO_OVER_PI_BITS >> shift) & (2**64 - 1) for shift in range(64 * (_TABLE_WORDS - 1) - 64, -64, -64)]
    return [0, *words]


def _write_results(body: CodeLines, sine: str, cosine: str) -> None:
    body.line(f"store double {sine}, ptr %results")
    body.line(f"store double {cosine}, ptr {body.offset('%results', 8)}")
    body.line("ret void")


def _write_reduction(body: CodeLines) -> None:
    """Write %r and %k with |x| = r + k pi/2, and %negative, the sign of x; branch to %not_finite."""
    body.lines += _REDUCTION.format(
        high=Format(64, 1).literal(SINCOS[64].half_pi[0]),
        low=Format(64, 1).literal(SINCOS[64].half_pi[1]),
    ).splitlines()


_REDUCTION = """\
  %bits = bitcast double %x to i64
  %negative = icmp slt i64 %bits, 0
  %shifted = lshr i64 %bits, 52
  %exponent = and i64 %shifted, 2047
  %finite = icmp ne i64 %exponent, 2047
  br i1 %finite, label %reduce, label %not_finite
reduce:
  ; |x| = m 2^e; the window starts at bit p = e + 62 of the table, whose bit 64 has weight 1/2
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %p = sub i64 %exponent, 1013
  %word = lshr i64 %p, 6
  %shift = and i64 %p, 63
  %at0 = getelementptr i64, ptr @two_over_pi, i64 %word
  %at1 = getelementptr i64, ptr %at0, i64 1
  %at2 = getelementptr i64, ptr %at0, i64 2
  %at3 = getelementptr i64, ptr %at0, i64 3
  %a0 = load i64, ptr %at0
  %a1 = load i64, ptr %at1
  %a2 = load i64, ptr %at2
  %a3 = load i64, ptr %at3
  %w2 = call i64 @llvm.fshl.i64(i64 %a0, i64 %a1, i64 %shift)
  %w1 = call i64 @llvm.fshl.i64(i64 %a1, i64 %a2, i64 %shift)
  %w0 = call i64 @llvm.fshl.i64(i64 %a2, i64 %a3, i64 %shift)
  ; the highest 128 of the lowest 192 bits of m w
  %m128 = zext i64 %m to i128
  %w0wide = zext i64 %w0 to i128
  %w1wide = zext i64 %w1 to i128
  %w2wide = zext i64 %w2 to i128
  %p0 = mul i128 %m128, %w0wide
  %p1 = mul i128 %m128, %w1wide
  %p2 = mul i128 %m128, %w2wide
  %p0high = lshr i128 %p0, 64
  %p2high = shl i128 %p2, 64
  %low = add i128 %p1, %p0high
  %f = add i128 %low, %p2high
  ; f = 2 bits of quadrant and 126 of fraction: k to the nearest, the rest signed
  %half = shl i128 1, 125
  %up = add i128 %f, %half
  %k128 = lshr i128 %up, 126
  %k = trunc i128 %k128 to i64
  %rest = shl i128 %f, 2
  %below = icmp slt i128 %rest, 0
  %opposite = sub i128 0, %rest
  %size = select i1 %below, i128 %opposite, i128 %rest
  %zeros = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %normal = shl i128 %size, %zeros
  %top = lshr i128 %normal, 64
  %top64 = trunc i128 %top to i64
  ; 64 significant bits as the sum of two doubles, times pi/2
  %head = and i64 %top64, -2048
  %tail = and i64 %top64, 2047
  %a = uitofp i64 %head to double
  %b = uitofp i64 %tail to double
  %zeros64 = trunc i128 %zeros to i64
  %power = sub i64 959, %zeros64
  %scalebits = shl i64 %power, 52
  %scale = bitcast i64 %scalebits to double
  %as = fmul double %a, %scale
  %bs = fmul double %b, %scale
  %product = fmul double %as, {high}
  %minus_product = fneg double %product
  %error = call double @llvm.fma.f64(double %as, double {high}, double %minus_product)
  %error2 = call double @llvm.fma.f64(double %as, double {low}, double %error)
  %error3 = call double @llvm.fma.f64(double %bs, double {high}, double %error2)
  %r_size = fadd double %product, %error3
  %minus_r = fneg double %r_size
  %r = select i1 %below, double %minus_r, double %r_size"""
