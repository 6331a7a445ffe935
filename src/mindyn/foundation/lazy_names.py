"""Import the public names of a package on first use, so that `import mindyn` is fast."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def import_lazily(package: str, init_file: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` and `__getattr__` [PEP 562] of a package from `__init__.pyi`, the only list of its names."""
    stub = ast.parse(Path(init_file).with_name("__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: str(node.module) for node in imports for alias in node.names}

    def import_name(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has: {', '.join(module_of)}")
        return getattr(import_module(module_of[name]), name)

    return list(module_of), import_name
