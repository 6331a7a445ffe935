"""Between the parts of identification stand types: no meaning in names, provenance or attributes asked for by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mindyn"
FILES = sorted(SOURCE.rglob("*.py"))
SHOWS_PROVENANCE = {"output/report/provenance_section.py", "identification/estimators/estimate.py"}
"""These write it out whole: for people, and to the estimate's file."""
OF_OTHER_NAMES = {"robots", "numerics", "kernels", "logs", "cli"}
"""Layers with names of files, threads, columns and joints, and none of parameters."""
PARAMETER_SYMBOLS = ("Im", "fv", "fc", "fo", "f_", "fvj", "fcj", "mc", "mcx", "I", "m")


def literals(node: ast.AST) -> set[str]:
    return {item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def read_off_names(tree: ast.AST) -> list[str]:
    """Places where the beginning of a text is compared with the symbol of a parameter."""
    result = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            begins = node.func.attr in ("startswith", "removeprefix", "match", "fullmatch", "partition")
            result += [ast.unparse(node)] if begins and literals(node) & set(PARAMETER_SYMBOLS) else []
        elif isinstance(node, ast.Compare) and literals(node) & set(PARAMETER_SYMBOLS):
            parts = [item.slice for item in ast.walk(node) if isinstance(item, ast.Subscript)]
            first = [part for part in parts if isinstance(part, ast.Slice) or ast.unparse(part) == "0"]
            result += [ast.unparse(node)] if first else []
    return result


def names_begun_with(tree: ast.AST) -> list[str]:
    """Names whose beginning is compared with what some variable holds."""
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    begins = [node for node in asked if node.func.attr == "startswith" and not literals(node)]
    return [ast.unparse(node) for node in begins if "name" in ast.unparse(node.func)]


def provenance_reads(tree: ast.AST) -> list[ast.AST]:
    """Where notes of a provenance are read: anything but handing them on whole, `{**found.provenance.notes, ...}`."""
    dictionaries = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    handed_on = {
        id(value) for node in dictionaries for key, value in zip(node.keys, node.values, strict=True) if key is None
    }
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node).endswith("provenance.notes")
        and id(node) not in handed_on
    ]


def entries_asked_for(tree: ast.AST) -> list[str]:
    """Single notes of a provenance: by subscript, `get`, `pop` or `in`."""
    named = [f"{owner}provenance.notes" for owner in ("", "self.", "estimate.", "found.")]

    def is_it(node: ast.AST) -> bool:
        return ast.unparse(node) in named

    result = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_it(node.value):
            result.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_it(node.func.value):
            result += [ast.unparse(node)] if node.func.attr in ("get", "pop") else []
        elif (
            isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn) and is_it(node.comparators[0])
        ):
            result.append(ast.unparse(node))
    return result


def find_string_attributes(tree: ast.AST) -> set[str]:
    """Estimators whose attributes are asked for by their names."""
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    subjects = [ast.unparse(node.args[0]) for node in asked if node.func.id in ("getattr", "hasattr")]
    return {"estimator", "fit", "method", "solver", "self.estimator"} & set(subjects)


def violations(path: Path) -> list[object]:
    tree, place = ast.parse(path.read_text()), path.relative_to(SOURCE).as_posix()
    by_name = [] if place.split("/")[0] in OF_OTHER_NAMES else names_begun_with(tree)
    reads = [] if place in SHOWS_PROVENANCE else provenance_reads(tree)
    return [*read_off_names(tree), *by_name, *reads, *entries_asked_for(tree), *find_string_attributes(tree)]


def test_the_type_of_a_parameter_says_what_it_is():
    """Not its name; notes are written, never read; estimators are asked by their protocol."""
    assert {str(path): violations(path) for path in FILES if violations(path)} == {}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("is_rotor = parameter.startswith('Im')", read_off_names),
        ("is_drive = one.startswith(('fv', 'fc'))", read_off_names),
        ("same = name.startswith(other)", names_begun_with),
        ("is_friction = name[:2] == 'fc'", read_off_names),
        ("is_mass = label[0] == 'm'", read_off_names),
        ("rest = name.removeprefix('fo')", read_off_names),
        ("weights = found.provenance.notes['joint_weights']", provenance_reads),
        ("weights = self.provenance.notes.get('joint_weights')", entries_asked_for),
        ("constrained = 'unconstrained' in estimate.provenance.notes", entries_asked_for),
        ("friction = getattr(estimator, 'friction', None)", find_string_attributes),
        ("known = hasattr(solver, 'left_out')", find_string_attributes),
    ],
)
def test_what_the_contract_forbids_is_seen(text, seen):
    assert seen(ast.parse(text))
