"""`assert` in src narrows a type for the type checker and nothing else: `python -O` removes it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from closeness import assert_close

SOURCE = Path(__file__).parents[2] / "src"


def narrows(node: ast.Assert) -> bool:
    """Whether it is `assert x is not None`, `assert isinstance(x, T)` or `assert not isinstance(x, T)`, no more."""
    test = node.test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
        return _is_isinstance(test) and node.msg is None
    is_not_none = (
        isinstance(test, ast.Compare)
        and [type(op) for op in test.ops] == [ast.IsNot]
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )
    return (is_not_none or _is_isinstance(test)) and node.msg is None


def _is_isinstance(test: ast.expr) -> bool:
    return isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance"


def asserts(text: str) -> list[ast.Assert]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)]


def test_asserts_only_narrow_types():
    result = {
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in asserts(path.read_text())
        if not narrows(node)
    }
    assert not result, f"raise an error instead: {sorted(result)}"


def test_asserts_of_the_tests_hold_under_optimisation_too():
    with pytest.raises(AssertionError):
        assert_close([1.0], [2.0], 0.0)
    with pytest.raises(AssertionError):
        assert not asserts("assert x")


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("assert x is not None", True),
        ("assert not isinstance(x, str)", True),
        ("assert a.b is None", False),
        ("assert info == 0", False),
        ("assert x is not None, 'message'", False),
        ("assert isinstance(x, int) and x > 0", False),
        ("assert f(x) is not None and y", False),
    ],
)
def test_the_rule_itself(text, allowed):
    (node,) = asserts(text)
    assert narrows(node) is allowed
