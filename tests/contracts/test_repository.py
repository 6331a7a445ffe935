"""What the repository promises about itself: sizes, examples, the README's words and numbers."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest

import mindyn
from mindyn.logs import LOG_FORMATS
from mindyn.robots import ROBOT_FORMATS

ROOT = Path(__file__).parents[2]
REFERENCE = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md")))
PYTHON_FILES = [path for part in ("src", "tests", "benchmarks", "examples") for path in (ROOT / part).rglob("*.py")]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path, tmp_path, monkeypatch, capsys):
    """In this process: a process of its own takes a second more for each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:  # an optional package is missing
        if ended.code is not None:
            raise
    assert capsys.readouterr().out


def code_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)


def programs(path: Path) -> str:
    """The Python of an example, a notebook or a page."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text())["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return path.read_text() if path.suffix == ".py" else "\n".join(code_blocks(path))


@pytest.mark.parametrize(
    "path",
    [
        *EXAMPLES,
        *sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")),
        *DOCUMENTS,
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_users_are_shown_public_names_alone(path):
    """`mindyn` itself, and what the API page lists by its package."""
    listed = set(re.findall(r"^::: (mindyn\.\S+)$", REFERENCE, re.MULTILINE))
    nodes = [node for node in ast.walk(ast.parse(programs(path))) if isinstance(node, ast.ImportFrom | ast.Import)]
    named = [f"{node.module}.{item.name}" for node in nodes if isinstance(node, ast.ImportFrom) for item in node.names]
    named += [
        item.name for node in nodes if isinstance(node, ast.Import) for item in node.names if item.name != "mindyn"
    ]
    ours = [name for name in named if name.startswith("mindyn.")]
    assert set(ours) <= listed


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_run_and_print_what_they_say(path, tmp_path, monkeypatch, capsys):
    """Blocks of a page run in order; `# -> x` after a print is compared with what it prints."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for block in code_blocks(path):
        with patch.dict(LOG_FORMATS), patch.dict(ROBOT_FORMATS):  # formats that a page adds stay with it
            exec(compile(block, str(path), "exec"), space)
        expected = re.findall(r"print\(.*\)  # -> (.*)", block)
        printed = capsys.readouterr().out.splitlines()
        assert [line for line in printed if line in expected] == expected, f"{path.name} prints {printed}"


@pytest.mark.parametrize("path", sorted({*DOCUMENTS, *ROOT.glob("*.md")}), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_within_the_repository_resolve(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_public_name_exists():
    for name in mindyn.__all__:
        assert getattr(mindyn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = mindyn.nonsense


PACKAGES = sorted(
    path.parent.name for path in (ROOT / "src" / "mindyn").glob("*/__init__.py") if "import_lazily" in path.read_text()
)


@pytest.mark.parametrize("package_name", PACKAGES)
def test_a_package_offers_what_it_lists(package_name):
    """The names of the stub exist, and are those of the API page; none is hidden by a module of its name."""
    path = ROOT / "src" / "mindyn" / package_name / "__init__.py"
    package = import_module(f"mindyn.{package_name}")
    stub = ast.parse(path.with_suffix(".pyi").read_text())
    imports = [(node.module, alias) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert package.__all__ == [alias.name for _, alias in imports]
    assert all(home.startswith(f"mindyn.{package_name}.") and alias.asname == alias.name for home, alias in imports)
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert not [name for name in package.__all__ if (path.parent / f"{name}.py").exists()]
    assert not set(package.__all__) & set(mindyn.__all__)
    listed = re.findall(rf"^::: mindyn\.{package_name}\.(\w+)$", REFERENCE, re.MULTILINE)
    assert sorted(listed) == sorted(package.__all__)  # a package has several pages
    offered = ", ".join(package.__all__)
    with pytest.raises(
        AttributeError, match=f"^module 'mindyn.{package_name}' has no attribute 'nonsense'; it has: {offered}$"
    ):
        _ = package.nonsense


def test_documentation_lists_the_bundled_robots():
    page = (ROOT / "docs" / "robot-format.md").read_text()
    assert not [name for name in mindyn.bundled_robots() if f"`{name}`" not in page]


def test_readme_count_of_the_general_puma_is_the_counted_one():
    import numpy as np
    from robots import random_phi

    rng = np.random.default_rng(0)
    robot = mindyn.load_robot("puma560")
    links = tuple(mindyn.Link(link.name, random_phi(rng)) for link in robot.links)
    counts = mindyn.compile_model(replace(robot, links=links)).operation_counts["inverse_dynamics"]
    match = re.search(r"(\d+) multiplications and (\d+) additions", (ROOT / "README.md").read_text())
    assert match is not None
    assert (counts.multiplications, counts.additions) == (int(match[1]), int(match[2]))
