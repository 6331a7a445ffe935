"""Common parts of C and CUDA sources: identifiers, comments that names cannot end, expressions, descriptions."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mindyn.foundation.escaping import c_comment
from mindyn.kernels.operation_counts import operation_counts
from mindyn.kernels.program import LIBM, Op, Program

_KEYWORDS = """
    Eigen alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t
    class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue
    decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if
    inline int joint_count linux long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast std struct switch template this thread_local throw true try typedef typeid typename union unix
    unsigned using virtual void volatile wchar_t while xor xor_eq
    main count Real lane tile base
"""
_RESERVED = frozenset(_KEYWORDS.split()) | frozenset((*LIBM.values(), "sin", "cos", "sincos", "NAN", "INFINITY"))

_TEMPLATES = {
    Op.ADD: "{0} + {1}",
    Op.SUB: "{0} - {1}",
    Op.MUL: "{0} * {1}",
    Op.DIV: "{0} / {1}",
    Op.NEG: "-{0}",
    Op.SIGN: "{0} > {zero} ? {one} : ({0} < {zero} ? -{one} : {0})",
    Op.LT: "{0} < {1} ? {one} : {zero}",
    Op.LE: "{0} <= {1} ? {one} : {zero}",
    Op.EQ: "{0} == {1} ? {one} : {zero}",
    Op.NE: "{0} != {1} ? {one} : {zero}",
    Op.NOT: "{0} == {zero} ? {one} : {zero}",
    Op.AND: "{0} != {zero} && {1} != {zero} ? {one} : {zero}",
    Op.OR: "{0} != {zero} || {1} != {zero} ? {one} : {zero}",
    Op.IF_ELSE_ZERO: "{0} != {zero} ? {1} : {zero}",
}

Facts = Sequence[tuple[str, int | str]]
"""Definitions of a header: names with numbers or texts."""
SI_UNITS = "SI units: rad or m, N m or N, kg, kg m^2; arrays are row-major."
DRIVES_COMMENT = {
    True: "Drives are on: inverse_dynamics and bias include friction, offsets and extra torques; inverse_dynamics, "
    "inertia_matrix and forward_dynamics include rotor inertia; gravity includes only the links. Load-dependent "
    "friction depends on accelerations: inverse_dynamics and forward_dynamics include all of it, bias at qdd = 0.",
    False: "Drives are off: only the links, without rotor inertia, friction, offsets or extra torques.",
}
"""Sentence in headers of generated code about what torques include, with drives and without."""


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A program to write as source code: the function's name, its description, and `argument: meaning and unit`."""

    program: Program
    name: str
    summary: str
    meanings: Mapping[str, str] = field(default_factory=dict)


def identifier(name: str, taken: Sequence[str] = ()) -> str:
    """Return a C identifier like `name`, not reserved and not in `taken`.

    Names such as `v12`, `r12` and `v12_sines` are reserved for our own variables.
    """
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not text or not text[0].isalpha():
        text = f"x_{text}"
    if text in _RESERVED or re.fullmatch(r"[crsv]\d+(_[a-z]+)?|mindyn_sincos\d+", text):
        text += "_"
    while text in taken:
        text += "_"
    return text


def file_identifier(stem: str) -> str:
    """Return a C identifier from a file's name, for the macros of its header and the namespace of its C++ header."""
    return identifier(stem.rpartition("/")[2])


def identifiers(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Return distinct identifiers for the names, in order."""
    distinct: list[str] = []
    for name in names:
        distinct.append(identifier(name, [*taken, *distinct]))
    return distinct


def literal(value: float) -> str:
    """Return `value` as a C literal with 17 digits, which determine a double exactly."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = f"{value:.17g}"
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def c_names(functions: Sequence[SourceFunction], prefix: str) -> list[str]:
    """Return the C names of functions."""
    return identifiers([prefix + function.name for function in functions])


def argument_names(program: Program) -> tuple[list[str], list[str]]:
    """Return the C names of the inputs and of the outputs."""
    names = identifiers([argument.name for argument in program.arguments])
    return names[: len(program.inputs)], names[len(program.inputs) :]


def describe_function(
    function: SourceFunction,
    size: str = "{}",
    shared: Collection[str] = (),
    cost: str = "Cost: {}. Outputs may overlap inputs.",
) -> str:
    """Return a comment that says what a function computes, its arguments and its cost.

    `size` and `cost` are formats of a shape and of operation counts; arguments in `shared` are one for all samples.
    """
    program = function.program
    inputs, outputs = argument_names(program)
    lines = [f"/* {c_comment(function.summary)}", " *"]
    for name, argument in zip([*inputs, *outputs], program.arguments, strict=True):
        meaning = c_comment(function.meanings.get(argument.name, ""))
        form = "{}; one for all" if argument in program.inputs and argument.name in shared else size
        lines.append(f" *   {name} [{form.format(shape_text(argument.shape))}] {meaning}".rstrip())
    return "\n".join([*lines, " *", f" * {cost.format(operation_counts(program))} */"])


def constant_literal(value: int | str) -> str:
    """Return a fact as a C literal."""
    return str(value) if isinstance(value, int) else '"' + c_comment(value).replace('"', "'") + '"'


def expression(op: Op, operands: Sequence[str], zero: str, one: str) -> str:
    """Return `op` of the operands in C, with function names of the C library."""
    if op in LIBM:
        return f"{LIBM[op]}({', '.join(operands)})"
    return _TEMPLATES[op].format(*operands, zero=zero, one=one)


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text: `6` or `6 x 36, row-major`."""
    return str(shape[0]) if len(shape) == 1 else f"{' x '.join(str(n) for n in shape)}, row-major"
