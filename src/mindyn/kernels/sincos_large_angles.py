"""sin and cos of angles beyond the fast range, one lane at a time: reduction by Payne and Hanek in integers.

With x = m 2^e (m a 53-bit integer), x 2/pi modulo 4 needs only the bits of 2/pi of weight 2^(1-e) and below. A window
of 192 of them, times m, gives the quadrant (2 bits) and the fraction (126 bits, of which a double can cancel 62), so r
is correct to the last bit for every double.
"""

from __future__ import annotations

from mindyn.kernels.sincos import RANGE_LIMIT, SINCOS, emit_reduced
from mindyn.kernels.vectors import CodeLines, Format

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
