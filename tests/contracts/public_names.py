"""The public names of mindyn: those of the stubs, the only lists."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2] / "src" / "mindyn"


def public_names() -> dict[str, Any]:
    """Return every name that mindyn or a package exports, by the module that defines it."""
    stubs = [PACKAGE / "__init__.pyi", *sorted(PACKAGE.glob("*/__init__.pyi"))]
    imports = [node for stub in stubs for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    pairs = [(str(node.module), alias.name) for node in imports for alias in node.names]
    return {f"{module}.{name}": getattr(import_module(module), name) for module, name in pairs}
