"""sin and cos of angles beyond the fast range of `sincos`, one lane after the other.

Angles are reduced by Payne and Hanek's method in integers. With x = m 2^e (m a 53-bit integer), x 2/pi modulo 4 needs
only the bits of 2/pi of weight 2^(1-e) and below. A window of 192 of these bits, times m, gives the quadrant (2 bits)
and the fraction (126 bits, of which a double can cancel 62), so that r is correct to the last bit for every double.
"""

from __future__ import annotations

from mindyn.kernels.sincos import RANGE_LIMIT, SINCOS, emit_reduced
from mindyn.kernels.vector_code import CodeLines, Format

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
    sine, cosine = emit_reduced(body, "%r", "%k")
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
