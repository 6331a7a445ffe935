"""Imports only point backwards: folder order is data order."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mindyn"
LAYERS = (
    "foundation",
    "robots",
    "parameters",
    "equations",
    "kernels",
    "logs",
    "regression",
    "motions",
    "identification",
    "applications",
    "output",
    "papers",
    "cli",
    "__main__",
)
"""Top-level packages in the order of the data."""
PARTS = {
    "foundation": (..., "algebra", "processes", ..., "pages"),
    "kernels": ("numerics", ...),
    "logs": (..., "formats", ..., "drafts"),
    "motions": ("simulation", "excitation", "step_plans"),
    "identification": (
        "estimators",
        "feasibility",
        "prediction",
        ...,
        "selection",
        "uncertainty",
        "diagnostics",
        "elasticity",
        "servos",
        ...,
    ),
    "identification/feasibility": ("optimisation", "conditions", "checks", "fits", "projections", "full_models", ...),
    "applications": ("validation", "payload", "wrench", "step_tests", "contact", "comparison", "fleet"),
    "output": ("export", "view", "report"),
}
"""Parts of a package or of a folder in their order; single files stand anywhere, as long as no circle results."""
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def module_name(path: Path) -> str:
    return ".".join(("mindyn", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_name(path) for path in FILES}


@cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_modules(path: Path, walk: Callable[[ast.AST], Iterator[ast.AST]] = ast.walk) -> set[str]:
    """Modules of mindyn that a file imports: by statement, wherever it stands, or by `import_module` and its name.

    A module's name counts wherever it stands as a text, since such a text is there to be imported; of an f-string, the
    text before the first value counts with every module that begins so.
    """
    result: set[str] = set()
    for node in walk(parse_file(path)):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES
            result |= inner or {node.module or ""}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            result |= {node.value} & MODULES
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            begin = str(node.values[0].value)
            result |= {name for name in MODULES if begin.startswith("mindyn.") and name.startswith(begin)}
    return {name for name in result if name.startswith("mindyn.")}


def walk_runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`, which import nothing when the program runs."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from walk_runtime_nodes(node)


def imported_layers(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported_modules(path)}


def test_imports_point_backwards():
    for path in FILES:
        layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        assert layer in LAYERS, f"{layer} is not a layer of the design"
        later = [name for name in imported_layers(path) if LAYERS.index(name) > LAYERS.index(layer)]
        assert not later, f"{path} imports from {later}, which come after it"


def test_parts_of_a_package_import_backwards():
    for package, listed in PARTS.items():
        order = [name for name in listed if name is not ...]
        folders = {path.name for path in (SOURCE / package).iterdir() if path.is_dir() and path.name[0] != "_"}
        assert folders <= set(order), f"{folders - set(order)} of {package} have no place in the order"
        for path in FILES:
            folder = (SOURCE / package).relative_to(SOURCE).parts
            here = path.relative_to(SOURCE).with_suffix("").parts
            if here[: len(folder)] != folder or here[len(folder)] not in order:
                continue
            prefix = ".".join(("mindyn", *folder, ""))
            imported = imported_modules(path)
            others = {name.removeprefix(prefix).split(".")[0] for name in imported if name.startswith(prefix)}
            later = [name for name in others if name in order and order.index(name) > order.index(here[len(folder)])]
            assert not later, f"{path} imports from {later}, which come after it"


def test_modules_of_a_layer_import_one_another_without_a_circle():
    """Not even by an import inside a function: what needs one another is one idea.

    `Robot` alone may: its methods name what other modules make of a robot.
    """
    graph = {module_name(path): imported_modules(path, walk_runtime_nodes) - {module_name(path)} for path in FILES}
    graph["mindyn.robots.robot"] -= {
        f"mindyn.robots.{name}" for name in ("drive_matrices", "edits", "floating_base", "table")
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(f"modules import one another: {' -> '.join(circle.args[1])}")


@pytest.mark.parametrize(
    "text",
    [
        "from importlib import import_module\nimport_module('mindyn.cli.demo_command')",
        "TABLE = {'demo': ('mindyn.cli.demo_command', 'demo')}",
        "import importlib\nname = 'demo'\nimportlib.import_module(f'mindyn.cli.{name}')",
        "def late():\n    from mindyn.cli.demo_command import demo",
        "from mindyn.cli import demo_command",
        "import mindyn.cli.demo_command",
    ],
)
def test_an_import_is_seen_however_it_is_written(text, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert "mindyn.cli.demo_command" in imported_modules(path)


def test_private_names_stay_in_their_module():
    for path in FILES:
        imports = [node for node in ast.walk(parse_file(path)) if isinstance(node, ast.ImportFrom)]
        names = [alias.name for node in imports if (node.module or "").startswith("mindyn") for alias in node.names]
        assert not [name for name in names if name.startswith("_") and not name.startswith("__")], path
