"""Write the public names with their parameters, one per line: `python tools/snapshot_api.py > tests/contracts/api.txt`.

tests/contracts/test_stability.py compares the file with the package: a change of a public name is then seen in review.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import mindyn


def public_modules() -> list[str]:
    """Return mindyn and its packages that export names."""
    packages = [f"mindyn.{module.name}" for module in pkgutil.iter_modules(mindyn.__path__) if module.ispkg]
    return ["mindyn", *sorted(name for name in packages if getattr(importlib.import_module(name), "__all__", ()))]


def describe_api() -> Iterator[str]:
    """Return one line for each public function, class, method, attribute and constant."""
    for module in public_modules():
        package = importlib.import_module(module)
        for name in sorted(package.__all__):
            value = getattr(package, name)
            yield f"{module}.{name}{_parameters(value)}"
            if module == "mindyn" and inspect.isclass(value):
                yield from (f"{module}.{name}.{line}" for line in _members(value))


def _members(kind: type) -> Iterator[str]:
    for name in sorted(name for name in dir(kind) if not name.startswith("_")):
        value = inspect.getattr_static(kind, name)
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        yield f"{name}{_parameters(function)}" if inspect.isfunction(function) else name


def _parameters(value: object) -> str:
    """Return the parameters without types and with defaults."""
    if not callable(value):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return f"({', '.join(str(p).split('=')[0] + ('=...' if p.default is not p.empty else '') for p in shown)})"


if __name__ == "__main__":
    print(*describe_api(), sep="\n")
