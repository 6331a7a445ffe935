"""Simulate one joint under a position servo for several sets of values at once, in compiled code.

    I a = kp (u - q) - kd v - F sgn(v) - load,    I = Ia + M

The step is implicit in damping and Coulomb friction, so that a joint sticks exactly and needs no smoothed sign:

    b = I v + h (kp (u - q) - load),   v = (b - clip(b, -h F, h F)) / (I + h kd),   q = q + h v

With further values, friction and drive are

    F = fc (1 + rest / (1 + (v / 0.05)^2)) + loaded |load|,    drive = clip(kp (u - q) - inner kd v, -limit, limit)

where inner is 0 or 1: whether the limit applies to damping too. Rows are sequential, and values are lanes of a vector
register: eight sets cost as much as one.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CFUNCTYPE, c_int64, c_void_p
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.once import compute_once
from mindyn.kernels.numerics.native import NativeCode, assemble_code, load

LANES: Final = 8
"""Sets of values per call: one AVX-512 register, or two of AVX2."""
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

    Values (k, 8) have those of `EXTRA_FIELDS` too. Values that make the simulation unstable give numbers that are not
    finite or very large.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    count = len(values)
    lanes = -(-count // LANES)
    filled = np.vstack([values, np.repeat(values[-1:], lanes * LANES - count, axis=0)])
    result = np.empty((lanes, len(rows), LANES))
    function, _ = _plain_rollout() if values.shape[1] == len(VALUE_FIELDS) else _whole_rollout()
    for lane, part in enumerate(filled.reshape(lanes, LANES, values.shape[1])):
        table = np.ascontiguousarray(part.T)
        function(len(rows), rows.ctypes.data, table.ctypes.data, result[lane].ctypes.data)
    return np.concatenate(list(result), axis=1)[:, :count]


Rollout = tuple[Callable[[int, int, int, int], None], NativeCode]


@compute_once
def _plain_rollout() -> Rollout:
    return _load_rollout(has_extras=False)


@compute_once
def _whole_rollout() -> Rollout:
    return _load_rollout(has_extras=True)


def _load_rollout(*, has_extras: bool) -> Rollout:
    code = load(assemble_code(_rollout_ir(has_extras=has_extras)), "rollout")
    return CFUNCTYPE(None, c_int64, c_void_p, c_void_p, c_void_p)(code.address), code


_PLAIN: Final = (
    """  %high = fmul {vector} %step_s, %fc
  %low = fneg {vector} %high""",
    "  %force = fmul {vector} %stiff, %error",
    "",
    "inverse",
)
_EXTRAS: Final = (
    """  %most = fmul {vector} %step_s, %limit
  %least = fneg {vector} %most
  %inside = fmul {vector} %inner, %damped
  %limited = fsub {vector} %divisor, %inside
  %inverse_limited = fdiv {vector} %ones, %limited
  %size = call {vector} @llvm.fabs.v{LANES}f64({vector} %load)
  %by_load_1 = fmul {vector} %loaded, %size
  %by_load = fmul {vector} %by_load_1, %step_s
  %sliding = fmul {vector} %step_s, %fc
  %more = fmul {vector} %sliding, %rest""",
    """  %whole = fmul {vector} %stiff, %error
  %lost = fmul {vector} %inside, %v_now
  %wanted = fsub {vector} %whole, %lost
  %bounded_1 = call {vector} @llvm.maxnum.v{LANES}f64({vector} %wanted, {vector} %least)
  %bounded = call {vector} @llvm.minnum.v{LANES}f64({vector} %bounded_1, {vector} %most)
  %is_free = fcmp oeq {vector} %bounded, %wanted
  %force = select <{LANES} x i1> %is_free, {vector} %whole, {vector} %bounded
  %chosen = select <{LANES} x i1> %is_free, {vector} %inverse, {vector} %inverse_limited""",
    """  %speed_2 = fmul {vector} %v_now, %v_now
  %relative = fmul {vector} %speed_2, %slowness
  %fall = fadd {vector} %relative, %ones
  %at_rest = fdiv {vector} %more, %fall
  %plain = fadd {vector} %sliding, %at_rest
  %any_sign = fadd {vector} %plain, %by_load
  %high = call {vector} @llvm.maxnum.v{LANES}f64({vector} %any_sign, {vector} zeroinitializer)
  %low = fneg {vector} %high""",
    "chosen",
)
"""IR before the steps of a row, the drive of a step, its friction, and the divisor of the velocity."""


def _rollout_ir(*, has_extras: bool) -> str:
    """Return the LLVM IR of `rollout(rows, table, values, out)`."""
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
        for k, name in enumerate((*VALUE_FIELDS, *EXTRA_FIELDS) if has_extras else VALUE_FIELDS)
    )
    before_steps, drive, friction, last = _EXTRAS if has_extras else _PLAIN
    before_steps, drive, friction = (
        text.format(vector=vector, LANES=LANES) for text in (before_steps, drive, friction)
    )
    lines.clear()
    splat("slowness", f"{STRIBECK_SPEED**-2:.17e}")
    slowness = "\n".join(lines)
    return f"""
declare {vector} @llvm.fabs.v{LANES}f64({vector})
declare double @llvm.minnum.f64(double, double)
declare double @llvm.maxnum.f64(double, double)
declare {vector} @llvm.minnum.v{LANES}f64({vector}, {vector})
declare {vector} @llvm.maxnum.v{LANES}f64({vector}, {vector})

define void @rollout(i64 %count, ptr noalias %rows, ptr noalias %values, ptr noalias %out) nounwind {{
entry:
{values}
{slowness}
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
  %out_at = getelementptr {vector}, ptr %out, i64 %i
  store {vector} %q_row, ptr %out_at, align 8
  %total = fadd {vector} %ia, %inertia
  %jump = fsub {vector} %late, %early
  %damped = fmul {vector} %step_s, %kd
  %divisor = fadd {vector} %total, %damped
  %ones = fdiv {vector} %step_s, %step_s
  %inverse = fdiv {vector} %ones, %divisor
  %stiff = fmul {vector} %step_s, %kp
  %push = fmul {vector} %step_s, %load
{before_steps}
  %steps = fptosi double %steps_s to i64
  %moves = icmp sgt i64 %steps, 0
  br i1 %moves, label %step, label %row_end
step:
  %k = phi i64 [ 0, %row ], [ %k_next, %step ]
  %q_now = phi {vector} [ %q_row, %row ], [ %q_next, %step ]
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
  %error = fsub {vector} %target, %q_now
  %momentum = fmul {vector} %total, %v_now
{drive}
{friction}
  %sum = fadd {vector} %momentum, %force
  %b = fsub {vector} %sum, %push
  %above = call {vector} @llvm.maxnum.v{LANES}f64({vector} %b, {vector} %low)
  %held = call {vector} @llvm.minnum.v{LANES}f64({vector} %above, {vector} %high)
  %free = fsub {vector} %b, %held
  %v_next = fmul {vector} %free, %{last}
  %moved = fmul {vector} %step_s, %v_next
  %q_next = fadd {vector} %q_now, %moved
  %continues = icmp slt i64 %k_next, %steps
  br i1 %continues, label %step, label %row_end
row_end:
  %q_last = phi {vector} [ %q_row, %row ], [ %q_next, %step ]
  %v_last = phi {vector} [ %v_row, %row ], [ %v_next, %step ]
  %i_next = add i64 %i, 1
  %again = icmp slt i64 %i_next, %count
  br i1 %again, label %row, label %end
end:
  ret void
}}
"""
