"""Exact derivatives of an equation as functions of the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi

from mindyn.equations.catalogue import Function


def _symbols(function: Function) -> dict[str, Any]:
    return {name: casadi.SX.sym(name, function.sparsity_in(k)) for k, name in enumerate(function.name_in())}


def jacobians(function: Function, inputs: Sequence[str]) -> Function:
    """Return the Jacobians of the row-major output by each motion input as blocks (rows, columns of the input)."""
    symbols = _symbols(function)
    output, *closure = function.call([*symbols.values()])
    flat = casadi.vec(output.T)
    blocks = [casadi.cse(casadi.jacobian(flat, casadi.vec(symbols[name].T))) for name in inputs] + closure
    names = [f"d{function.name_out()[0]}_d{name}" for name in inputs] + function.name_out()[1:]
    return casadi.Function(f"{function.name()}_derivatives", [*symbols.values()], blocks, [*symbols], names)


def gradients(function: Function, inputs: Sequence[str], places: Sequence[int] | None = None) -> Function:
    """Return the gradients of sum(V * output) by each motion input; `places` restricts V to row-major elements."""
    symbols = _symbols(function)
    output, *closure = function.call([*symbols.values()])
    summed = output if places is None else casadi.vec(casadi.densify(output).T)[list(places)]
    V = casadi.SX.sym("V", *summed.shape)
    total = casadi.sum1(casadi.vec(V * summed))
    gradients = [casadi.cse(casadi.densify(casadi.gradient(total, symbols[name]))) for name in inputs] + closure
    names = [f"gradient_{name}" for name in inputs] + function.name_out()[1:]
    return casadi.Function(f"{function.name()}_adjoint", [*symbols.values(), V], gradients, [*symbols, "V"], names)
