"""Between the parts of identification stand types: no meaning in names, provenance or attributes asked for by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mindyn"
LAYERS = ("regression", "estimators", "feasibility", "validation", "identification", "export", "report", "cli")
FILES = sorted(path for layer in LAYERS for path in (SOURCE / layer).rglob("*.py"))
SHOWS_PROVENANCE = {"report/making.py", "estimators/estimate.py"}
"""These write it out whole: for people, and to the estimate's file."""
PARAMETER_SYMBOLS = ("Im", "fv", "fc", "fo", "f_", "fvj", "fcj", "mc", "mcx", "I", "m")


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def literals(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_a_parameter_is_is_not_read_off_its_name(path):
    asked = [node for node in calls(path) if isinstance(node.func, ast.Attribute) and node.func.attr == "startswith"]
    found = [ast.unparse(node) for node in asked if literals(node) & set(PARAMETER_SYMBOLS)]
    named = [ast.unparse(node) for node in asked if not literals(node) and "name" in ast.unparse(node.func)]
    assert not found + [one for one in named if path.parts[-2] != "cli"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_provenance_is_written_and_never_read(path):
    """`{**found.provenance, ...}` hands it on; an entry of it is asked for nowhere."""
    tree = ast.parse(path.read_text())
    handed_on = {
        id(value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if key is None
    }
    read = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "provenance" and id(node) not in handed_on
    ]
    assert not read or str(path.relative_to(SOURCE)) in SHOWS_PROVENANCE


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_estimators_are_asked_by_their_protocol(path):
    asked = [node for node in calls(path) if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")]
    subjects = [ast.unparse(node.args[0]) for node in asked]
    assert not {"estimator", "fit", "method", "solver"} & set(subjects)
