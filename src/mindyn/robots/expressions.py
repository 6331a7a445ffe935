"""Parse formulas of extra torques, `sin(q) * 3.0`, `sign(qd) * exp(-(qd / 0.1) ** 2)`, and of friction laws.

Variables of a torque are q and qd of its joint, and q1, qd2, ... of joints by number; load, load1, ... is the torque of
links and rotors at the joint (`equations.drives.drive_torques`). Accelerations are not allowed, so that forward
dynamics remains linear apart from loads. Only arithmetic and the functions of `ARITY` are allowed.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindyn.foundation.errors import Code, RobotError

ARITY = {"sin": 1, "cos": 1, "tan": 1, "sqrt": 1, "exp": 1, "log": 1, "tanh": 1, "abs": 1, "sign": 1, "atan2": 2}
"""Number of arguments of each function that a formula may use."""
MAX_FORMULA_CHARACTERS = 1000
"""Length of a formula."""

NUMPY_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in ARITY if name != "atan2"},
    "atan2": np.arctan2,
}
"""Functions of a formula on arrays."""

_MOTION_VARIABLE = re.compile(r"(q|qd|load)([1-9][0-9]*)?")
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: a,
}


_TRIAL_VALUE = 0.7
"""Value of all variables at which a formula is evaluated when it is read, to report a formula without a value early."""


@dataclass(frozen=True, slots=True)
class Formula:
    """Checked formula: its text, syntax tree and the names of its variables."""

    text: str
    tree: ast.expr
    variables: frozenset[str]

    @property
    def needs_load(self) -> bool:
        """Whether the formula depends on the torque that a joint carries."""
        return any(name.startswith("load") for name in self.variables)

    def evaluate(self, variables: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
        """Evaluate the formula on numbers, arrays or symbols."""
        return _evaluate_node(self.tree, variables, functions)

    def substitute(self, texts: Mapping[str, str], variables: Collection[str] | None = None) -> Formula:
        """Replace variables by texts; `variables` are those that the result may have, as in `parse_formula`."""
        trees = {name: ast.parse(text, mode="eval").body for name, text in texts.items()}
        return parse_formula(ast.unparse(_Substitution(trees).visit(copy.deepcopy(self.tree))), variables)


class _Substitution(ast.NodeTransformer):
    def __init__(self, trees: Mapping[str, ast.expr]) -> None:
        self.trees = trees

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.trees.get(node.id, node)


def parse_formula(text: str, variables: Collection[str] | None = None) -> Formula:
    """Parse a formula; raise `RobotError` for anything other than arithmetic, numbers, variables and known functions.

    variables  allowed names; the default is q, qd, load, q1, qd2, ...
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_FORMULA_CHARACTERS:
        message = f"a formula must be a text of at most {MAX_FORMULA_CHARACTERS} characters, got {text!r:.60}"
        raise RobotError(message, code=Code.INVALID_VALUE, subject=text)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        message = f"the formula {text!r} cannot be parsed"
        hint = "an example: 2.5 * sin(q) + 0.1 * qd"
        raise RobotError(message, hint=hint, code=Code.INVALID_VALUE, subject=text) from error
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    known = {name for name in names if (_MOTION_VARIABLE.fullmatch(name) if variables is None else name in variables)}
    formula = Formula(text, tree, frozenset(known))
    try:
        with np.errstate(all="raise", under="ignore"):
            trial = formula.evaluate(dict.fromkeys(formula.variables, np.float64(_TRIAL_VALUE)), NUMPY_FUNCTIONS)
    except _UnsupportedPartError as error:
        valid = "q qd load (or q1, qd2, ...)" if variables is None else " ".join(variables)
        parts = f"numbers, + - * / **, {valid}, {', '.join(ARITY)} with their arguments"
        message = f"{str(error)!r} in the formula {text!r} is not supported; a formula can contain {parts}"
        raise RobotError(message, code=Code.UNSUPPORTED, subject=str(error)) from None
    except (ArithmeticError, ValueError, RecursionError, TypeError) as error:
        message = f"the formula {text!r} has no value at q = qd = {_TRIAL_VALUE}: {error}"
        raise RobotError(message, code=Code.INVALID_VALUE, subject=text) from error
    if not isinstance(trial, (int, float)) or not math.isfinite(trial):
        message = f"the formula {text!r} is {trial} at q = qd = {_TRIAL_VALUE}; it must be a finite number"
        raise RobotError(message, code=Code.NOT_FINITE, subject=text)
    return formula


class _UnsupportedPartError(Exception):
    """Part of a formula that is not supported."""


def _evaluate_node(node: ast.AST, variables: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.Name(id=name) if name in variables:
            return variables[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate_node(operand, variables, functions))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            sides = (_evaluate_node(side, variables, functions) for side in (left, right))
            return _OPERATORS[type(op)](*sides)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if len(arguments) == ARITY.get(name):
            return functions[name](*(_evaluate_node(argument, variables, functions) for argument in arguments))
    raise _UnsupportedPartError(ast.unparse(node))
