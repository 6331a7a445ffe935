"""Imports only point backwards: folder order is data order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mindyn"
LAYERS = (
    *(
        "notation",
        "errors",
        "notes",
        "files",
        "algebra",
        "robots",
        "parameters",
        "equations",
        "kernels",
        "identifiability",
        "logs",
    ),
    *("simulation", "regression", "excitation", "estimators", "feasibility", "validation", "export"),
    *("report", "papers", "cli"),
)
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported_layers(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names = [node.module or ""]
        found |= {name.split(".")[1] for name in names if name.startswith("mindyn.")}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_backwards(path):
    layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert layer in LAYERS, f"{layer} is not a layer of the design"
    later = [name for name in imported_layers(path) if LAYERS.index(name) > LAYERS.index(layer)]
    assert not later, f"{layer} imports from {later}, which come after it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_private_names_stay_in_their_module(path):
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    ours = [alias.name for node in imports if (node.module or "").startswith("mindyn") for alias in node.names]
    assert not [name for name in ours if name.startswith("_") and not name.startswith("__")]
