"""LLVM IR of vectors of doubles, for loops over the columns of an array; masks exclude lanes after the last column."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from mindyn.kernels.numerics import native
from mindyn.kernels.numerics.cache import load_or_build


def compile_function(symbol: str, ir: str, *arguments: Any) -> Callable[..., None]:
    """Return the function `symbol` of an IR module, compiled or loaded from the cache; it releases the interpreter
    lock.
    """
    code = native.load(load_or_build((symbol, ir), lambda: native.assemble_code(ir)), symbol)
    function = ctypes.CFUNCTYPE(None, *arguments)(code.address)
    function.keep_alive = code  # type: ignore[attr-defined]
    return function


def declare_masked(lanes: int) -> str:
    """Declare the masked loads and stores of this module."""
    vector, mask = f"<{lanes} x double>", f"<{lanes} x i1>"
    return f"""\
declare {vector} @llvm.masked.load.v{lanes}f64.p0(ptr, i32, {mask}, {vector})
declare void @llvm.masked.store.v{lanes}f64.p0({vector}, ptr, i32, {mask})"""


def repeat_lines(name: str, value: str, kind: str, lanes: int) -> list[str]:
    """Return lines that put a scalar into every lane of the vector `name`."""
    vector = f"<{lanes} x {kind}>"
    return [
        f"  {name}.i = insertelement {vector} poison, {kind} {value}, i64 0",
        f"  {name} = shufflevector {vector} {name}.i, {vector} poison, <{lanes} x i32> zeroinitializer",
    ]


def load_and_repeat_lines(name: str, pointer: str, index: int, lanes: int) -> list[str]:
    """Return lines that load a number of an array into every lane of the vector `name`."""
    return [
        f"  {name}.p = getelementptr double, ptr {pointer}, i64 {index}",
        f"  {name}.v = load double, ptr {name}.p",
        *repeat_lines(name, f"{name}.v", "double", lanes),
    ]


def mask_lines(mask: str, count: str, lanes: int) -> list[str]:
    """Return lines that define a mask of the first `count` lanes."""
    steps = ", ".join(f"i64 {k}" for k in range(lanes))
    return [
        *repeat_lines(f"{mask}.all", count, "i64", lanes),
        f"  {mask} = icmp slt <{lanes} x i64> <{steps}>, {mask}.all",
    ]


def load_line(name: str, pointer: str, lanes: int, mask: str = "") -> str:
    """Return the line that loads a vector; lanes outside the mask, if one is given, are zero."""
    vector = f"<{lanes} x double>"
    if not mask:
        return f"  {name} = load {vector}, ptr {pointer}, align 8"
    given = f"ptr {pointer}, i32 8, <{lanes} x i1> {mask}, {vector} zeroinitializer"
    return f"  {name} = call {vector} @llvm.masked.load.v{lanes}f64.p0({given})"


def store_line(name: str, pointer: str, lanes: int, mask: str = "") -> str:
    """Return the line that stores a vector, or its lanes in the mask."""
    vector = f"<{lanes} x double>"
    if not mask:
        return f"  store {vector} {name}, ptr {pointer}, align 8"
    return (
        f"  call void @llvm.masked.store.v{lanes}f64.p0({vector} {name}, ptr {pointer}, i32 8, <{lanes} x i1> {mask})"
    )
