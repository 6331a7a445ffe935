"""Simulate one joint under a position servo for several sets of values at once, in compiled code.

    I a = kp (u - q) - kd v - F sgn(v) - load,    I = Ia + M

The step is implicit in damping and Coulomb friction, so that a joint sticks exactly and needs no smoothed sign:

    b = I v + h (kp (u - q) - load),   v = (b - clip(b, -h F, h F)) / (I + h kd),   q = q + h v

With further values, friction and drive are

    F = fc (1 + rest / (1 + (v / 0.05)^2)) + loaded |load|,    drive = clip(kp (u - q) - inner kd v, -limit, limit)

where inner is 0 or 1: whether the limit applies to damping too. Rows are sequential, and values are lanes of a vector
registers: sixteen sets cost as much as one.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_double, c_int64, c_void_p
from functools import cache
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.kernels.numerics.native import NativeCode, assemble_code, load

LANES: Final = 16
"""Sets of values per call: a step waits for four operations, during which two AVX-512 registers cost as much as one."""
ROW_FIELDS: Final = ("late", "load", "inertia", "step_s", "steps", "is_start", "q", "v", "early", "switch")
"""Columns of the table of a joint; q and v are the state from which the simulation begins where `is_start` is 1. The
target is `early` until `switch` steps after the row, and `late` from then on; in a step that contains the switch, their
mean acts."""
VALUE_FIELDS: Final = ("kp", "kd", "fc", "ia")
"""Values of a joint: gains, Coulomb friction and armature."""
EXTRA_FIELDS: Final = ("rest", "loaded", "limit", "inner")
"""Further values: friction at rest relative to fc, friction per load, and the limit of the drive."""
NO_EXTRAS: Final = (0.0, 0.0, np.inf, 0.0)
STRIBECK_SPEED: Final = 0.05
"""Speed (rad/s, m/s) at which half of the additional friction at rest is left; friction of grease falls at about it."""


def simulate_joint(rows: Array, values: Array) -> Array:
    """Return the positions (N, k) at the rows (N, 10) of a joint's table, for values (k, 4).

    Values (k, 8) also contain `EXTRA_FIELDS`. Values that make the simulation unstable give numbers that are not
    finite or very large.
    """
    parts = [np.empty((len(rows), LANES)) for _ in range(-(-len(values) // LANES))]
    _run_rollout(rows, values, parts)
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))[:, : len(values)]


def sum_losses(rows: Array, values: Array, weights: Array, scale: float) -> Array:
    """Return the sums (k,) of w 2 (sqrt(1 + z^2) - 1) over the rows, z = (simulated - measured position) / scale.

    weights  (N,) of the rows
    """
    parts = [np.empty(LANES) for _ in range(-(-len(values) // LANES))]
    _run_rollout(rows, values, parts, np.ascontiguousarray(weights, dtype=np.float64), 1.0 / scale)
    return np.concatenate(parts)[: len(values)]


def _run_rollout(
    rows: Array, values: Array, parts: list[Array], weights: Array | None = None, inverse_scale: float = 1.0
) -> None:
    """Compute the parts of the result, each with one set of values per SIMD lane; the last set fills unused lanes."""
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    whole = np.column_stack([values, np.tile(NO_EXTRAS, (len(values), 1))])[:, :8]
    filled = whole[np.minimum(np.arange(len(parts) * LANES), len(values) - 1)]
    rest, _, limit, _ = whole[:, 4:].T
    code = _compile(bool(rest.any()), bool(np.isfinite(limit).any()), weights is not None)
    function = CFUNCTYPE(None, c_int64, *[c_void_p] * 4, c_double)(code.address)
    for out, some in zip(parts, filled.reshape(len(parts), LANES, 8), strict=True):
        table = np.ascontiguousarray(some.T)
        place = 0 if weights is None else weights.ctypes.data
        function(len(rows), rows.ctypes.data, table.ctypes.data, out.ctypes.data, place, inverse_scale)


@cache
def _compile(has_rest: bool, has_limit: bool, gives_losses: bool) -> NativeCode:
    return load(assemble_code(_rollout_ir(has_rest, has_limit, gives_losses)), "rollout")


_BEFORE_STEPS: Final = """  %size = call {vector} @llvm.fabs.v{LANES}f64({vector} %load)
  %by_load = fmul {vector} %loaded, %size
  %friction = fadd {vector} %fc, %by_load
  %sliding = fmul {vector} %step_s, %friction
  %slip = fmul {vector} %step_s, %fc
  %more = fmul {vector} %slip, %rest
  %most = fmul {vector} %step_s, %limit
  %least = fneg {vector} %most
  %inside = fmul {vector} %inner, %damped
  %limited = fsub {vector} %divisor, %inside
  %inverse_limited = fdiv {vector} %ones, %limited
  %keep = fmul {vector} %total, %inverse
  %pull = fmul {vector} %stiff, %inverse
  %by_step = fmul {vector} %pull, %step_s
  %share_kept = fsub {vector} %keep, %by_step
  %pushed = fmul {vector} %push, %inverse
  %sliding_is = fcmp ogt {vector} %sliding, zeroinitializer
  %sliding_most = select <{LANES} x i1> %sliding_is, {vector} %sliding, {vector} zeroinitializer
  %slowed = fmul {vector} %sliding_most, %inverse"""
_WITHOUT_LIMIT: Final = """  %ahead = fmul contract {vector} %pull, %target
  %wanted = fsub contract {vector} %ahead, %pushed
  %back = fmul contract {vector} %pull, %p_now
  %left = fsub contract {vector} %wanted, %back
  %kept = fmul contract {vector} %share_kept, %v_now
  %b = fadd contract {vector} %kept, %left"""
_WITH_LIMIT: Final = """  %error = fsub {vector} %target, %q_now
  %momentum = fmul {vector} %total, %v_now
  %whole = fmul {vector} %stiff, %error
  %lost = fmul {vector} %inside, %v_now
  %wanted = fsub {vector} %whole, %lost
  %bounded_1_is = fcmp ogt {vector} %wanted, %least
  %bounded_1 = select <{LANES} x i1> %bounded_1_is, {vector} %wanted, {vector} %least
  %bounded_is = fcmp olt {vector} %bounded_1, %most
  %bounded = select <{LANES} x i1> %bounded_is, {vector} %bounded_1, {vector} %most
  %is_free = fcmp oeq {vector} %bounded, %wanted
  %force = select <{LANES} x i1> %is_free, {vector} %whole, {vector} %bounded
  %chosen = select <{LANES} x i1> %is_free, {vector} %inverse, {vector} %inverse_limited
  %sum = fadd {vector} %momentum, %force
  %momentum_next = fsub {vector} %sum, %push
  %b = fmul {vector} %momentum_next, %chosen"""
_AT_REST: Final = """  %speed_2 = fmul {vector} %v_now, %v_now
  %relative = fmul contract {vector} %speed_2, %slowness
  %fall = fadd contract {vector} %relative, %ones
  %at_rest = fdiv {vector} %more, %fall
  %any_sign = fadd {vector} %sliding, %at_rest
  %any_sign_is = fcmp ogt {vector} %any_sign, zeroinitializer
  %stiction = select <{LANES} x i1> %any_sign_is, {vector} %any_sign, {vector} zeroinitializer
  %high = fmul {vector} %stiction, %{divisor}"""
_STEP: Final = """  %low = fneg {vector} %high
  %above_is = fcmp ogt {vector} %b, %low
  %above = select <{LANES} x i1> %above_is, {vector} %b, {vector} %low
  %held_is = fcmp olt {vector} %above, %high
  %held = select <{LANES} x i1> %held_is, {vector} %above, {vector} %high
  %v_next = fsub {vector} %b, %held"""
"""IR before the steps of a row, and of a step: b without friction, the largest change by friction, the difference,
all divided by I + h kd. Without a limit, b uses the position before the last step, so that a step waits for four
operations only."""
_POSITIONS: Final = """  %out_at = getelementptr {vector}, ptr %out, i64 %i
  store {vector} %q_row, ptr %out_at, align 8"""
_LOSSES: Final = """  %sum_before = load {vector}, ptr %out, align 8
  %weight_at = getelementptr double, ptr %weights, i64 %i
  %weight_s = load double, ptr %weight_at
  %weight_0 = insertelement {vector} poison, double %weight_s, i64 0
  %weight = shufflevector {vector} %weight_0, {vector} poison, <{LANES} x i32> zeroinitializer
  %residual = fsub {vector} %q_row, %q
  %z = fmul {vector} %residual, %inverse_scales
  %z_2 = fmul {vector} %z, %z
  %radicand = fadd {vector} %z_2, %ones
  %root = call {vector} @llvm.sqrt.v{LANES}f64({vector} %radicand)
  %excess = fsub {vector} %root, %ones
  %twice = fadd {vector} %excess, %excess
  %loss = fmul {vector} %weight, %twice
  %sum_now = fadd {vector} %sum_before, %loss
  store {vector} %sum_now, ptr %out, align 8"""
"""What a row does with its position."""


def _rollout_ir(has_rest: bool, has_limit: bool, gives_losses: bool) -> str:
    """Return the LLVM IR of `rollout(count, rows, values, out, weights, inverse_scale)`.

    out is (count, lanes) positions, or (lanes) sums of losses; only the latter use weights and scale.
    """
    vector = f"<{LANES} x double>"
    lines: list[str] = []

    def splat(name: str, scalar: str) -> None:
        zeros = f"<{LANES} x i32> zeroinitializer"
        lines.append(f"  %{name}_0 = insertelement {vector} poison, double {scalar}, i64 0")
        lines.append(f"  %{name} = shufflevector {vector} %{name}_0, {vector} poison, {zeros}")

    for k, name in enumerate(ROW_FIELDS):
        lines.append(f"  %{name}_at = getelementptr double, ptr %row_at, i64 {k}")
        lines.append(f"  %{name}_s = load double, ptr %{name}_at")
        if name not in ("steps", "is_start", "switch"):
            splat(name, f"%{name}_s")
    reading = "\n".join(lines)
    values = "\n".join(
        f"  %{name}_at = getelementptr {vector}, ptr %values, i64 {k}\n"
        f"  %{name} = load {vector}, ptr %{name}_at, align 8"
        for k, name in enumerate((*VALUE_FIELDS, *EXTRA_FIELDS))
    )
    divisor = "chosen" if has_limit else "inverse"
    constant = (
        f"  %high = fmul {{vector}} %{'sliding_most' if has_limit else 'slowed'}, %{'chosen' if has_limit else 'ones'}"
    )
    drive = _WITH_LIMIT if has_limit else _WITHOUT_LIMIT
    texts = (_BEFORE_STEPS, drive, _AT_REST if has_rest else constant, _STEP, _LOSSES if gives_losses else _POSITIONS)
    parts = [text.format(vector=vector, LANES=LANES, divisor=divisor) for text in texts]
    before_steps, velocity, result = parts[0], "\n".join(parts[1:4]), parts[4]
    lines.clear()
    splat("slowness", f"{STRIBECK_SPEED**-2:.17e}")
    splat("ones", "1.0")
    splat("inverse_scales", "%inverse_scale")
    constants = "\n".join(lines)
    nothing = f"  store {vector} zeroinitializer, ptr %out, align 8" if gives_losses else ""
    return f"""
declare {vector} @llvm.fabs.v{LANES}f64({vector})
declare {vector} @llvm.sqrt.v{LANES}f64({vector})
declare double @llvm.minnum.f64(double, double)
declare double @llvm.maxnum.f64(double, double)

define void @rollout(i64 %count, ptr noalias %rows, ptr noalias %values, ptr noalias %out, ptr noalias %weights,
    double %inverse_scale) nounwind {{
entry:
{values}
{constants}
{nothing}
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %row, label %end
row:
  %i = phi i64 [ 0, %entry ], [ %i_next, %row_end ]
  %q_before = phi {vector} [ zeroinitializer, %entry ], [ %q_last, %row_end ]
  %v_before = phi {vector} [ zeroinitializer, %entry ], [ %v_last, %row_end ]
  %offset = mul i64 %i, {len(ROW_FIELDS)}
  %row_at = getelementptr double, ptr %rows, i64 %offset
{reading}
  %starts = fcmp une double %is_start_s, 0.0
  %q_row = select i1 %starts, {vector} %q, {vector} %q_before
  %v_row = select i1 %starts, {vector} %v, {vector} %v_before
{result}
  %total = fadd {vector} %ia, %inertia
  %jump = fsub {vector} %late, %early
  %damped = fmul {vector} %step_s, %kd
  %divisor = fadd {vector} %total, %damped
  %inverse = fdiv {vector} %ones, %divisor
  %stiff = fmul {vector} %step_s, %kp
  %push = fmul {vector} %step_s, %load
{before_steps}
  %steps = fptosi double %steps_s to i64
  %moves = icmp sgt i64 %steps, 0
  %went = fmul {vector} %step_s, %v_row
  %p_row = fsub {vector} %q_row, %went
  br i1 %moves, label %step, label %row_end
step:
  %k = phi i64 [ 0, %row ], [ %k_next, %step ]
  %p_now = phi {vector} [ %p_row, %row ], [ %q_now, %step ]
  %v_now = phi {vector} [ %v_row, %row ], [ %v_next, %step ]
  %k_next = add i64 %k, 1
  %count_s = sitofp i64 %k_next to double
  %after = fsub double %count_s, %switch_s
  %after_0 = call double @llvm.maxnum.f64(double %after, double 0.0)
  %part = call double @llvm.minnum.f64(double %after_0, double 1.0)
  %share_0 = insertelement {vector} poison, double %part, i64 0
  %share = shufflevector {vector} %share_0, {vector} poison, <{LANES} x i32> zeroinitializer
  %change = fmul {vector} %share, %jump
  %target = fadd {vector} %early, %change
  %moved = fmul contract {vector} %step_s, %v_now
  %q_now = fadd contract {vector} %p_now, %moved
{velocity}
  %continues = icmp slt i64 %k_next, %steps
  br i1 %continues, label %step, label %row_end
row_end:
  %p_last = phi {vector} [ %p_row, %row ], [ %q_now, %step ]
  %v_last = phi {vector} [ %v_row, %row ], [ %v_next, %step ]
  %moved_last = fmul contract {vector} %step_s, %v_last
  %q_last = fadd contract {vector} %p_last, %moved_last
  %i_next = add i64 %i, 1
  %again = icmp slt i64 %i_next, %count
  br i1 %again, label %row, label %end
end:
  ret void
}}
"""
