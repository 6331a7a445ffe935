"""Tests go through public names; a file that imports a private one says why in its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
MOST_PRIVATE_NAMES = 198
"""Private names that all tests import. It may only fall."""


def private_imports(tree: ast.Module) -> list[str]:
    """Return the private names of mindyn that a file imports."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    pairs = [(str(node.module), alias.name) for node in nodes for alias in node.names]
    return [f"{module}.{name}" for module, name in pairs if module.startswith("mindyn") and name.startswith("_")]


def test_files_that_import_private_names_say_why():
    trees = {path.relative_to(TESTS).as_posix(): ast.parse(path.read_text()) for path in TESTS.rglob("*.py")}
    names = {path: private_imports(tree) for path, tree in trees.items()}
    silent = [
        path for path, private in names.items() if private and "rivate" not in (ast.get_docstring(trees[path]) or "")
    ]
    assert silent == []
    assert sum(map(len, names.values())) <= MOST_PRIVATE_NAMES
