"""Public names of a package, imported when they are first used: `import mindyn` and its rooms cost nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def named_lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of `package` [PEP 562]: a name of `homes` comes from the module of the package that has it."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it offers: {', '.join(home_of)}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return attribute
