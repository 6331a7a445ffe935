"""The package's metadata agrees with itself: one version, one set of addresses, one list of dependencies."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import mindyn

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
URLS = PROJECT["project"]["urls"]
spec = importlib.util.spec_from_file_location("benchmark_study", ROOT / "benchmarks" / "study.py")
study = sys.modules["benchmark_study"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(study)
HOST_OF_PLACEHOLDERS = "example.org"


def test_version_and_date_have_one_home():
    """`src/mindyn/__init__.py` has the version; files that cannot derive it repeat it."""
    assert "version" in PROJECT["project"]["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {mindyn.__version__}\n" in citation
    assert f"version: {mindyn.__version__}\n" in (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    date = re.search(r"^date-released: (\d{4}-\d\d-\d\d)$", citation, re.MULTILINE)
    newest = re.search(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest.groups() == (mindyn.__version__, date[1])


def test_readme_links_are_absolute_when_built():
    """The substitutions of the build leave no relative link, use the addresses of `project.urls` and lose nothing."""
    text = readme = (ROOT / "README.md").read_text()
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) == len(re.findall(r"\]\(([^)\s]+)\)", readme)) > 20
    assert [target for target in targets if not target.startswith(f"{URLS['Repository']}/")] == []
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text)
    assert pictures
    assert all(target.startswith(f"{URLS['Repository']}/raw/") for target in pictures)


def test_addresses_are_defined_in_one_file():
    """No other file has an address of the project, so that publication changes pyproject.toml alone."""
    texts = [
        path for pattern in ("*.md", "*.cff", "*.yml", "paper/*.md", "docs/**/*.md") for path in ROOT.glob(pattern)
    ]
    forms = [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    assert [path for path in texts + forms if f"//{HOST_OF_PLACEHOLDERS}" in path.read_text()] == []
    assert all(url.startswith(f"https://{HOST_OF_PLACEHOLDERS}/") for url in URLS.values()), "publish: remove this line"


def test_conda_recipe_has_the_dependencies_of_the_package():
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    run = re.findall(r"- (\S+) (>=\S+)", recipe.partition("  run:\n")[2].partition("\ntests:")[0])
    assert dict(run).pop("python") == PROJECT["project"]["requires-python"]
    assert {f"{name}{bound}" for name, bound in run if name != "python"} == set(PROJECT["project"]["dependencies"])


def test_every_extra_has_a_row_in_the_platforms_page():
    page = (ROOT / "docs" / "platforms.md").read_text()
    assert [name for name in PROJECT["project"]["optional-dependencies"] if f"`{name}`" not in page] == []
    assert [name for name in PROJECT["dependency-groups"] if f"`{name}`" not in page] == []


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_make_help_lists_ten_targets_that_exist():
    listed = re.findall(r'@echo "make ([\w-]+)  ?', (ROOT / "Makefile").read_text())
    assert len(listed) == 10
    assert set(listed) <= make_targets()


def test_commands_of_make_in_the_texts_exist():
    """Every `make TARGET` and every `make study NAME=...` that a text shows can be run."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("docs/*/*.md"), *ROOT.rglob(".github/**/*.yml")]
    shown = {target for path in texts for target in re.findall(r"(?:`|run: |&& )make ([a-z][\w-]*)", path.read_text())}
    assert "study" in shown
    assert shown - make_targets() == set()
    studies = {name for path in texts for name in re.findall(r"make study NAME=([\w-]+)", path.read_text())}
    assert studies - set(study.STUDIES) == set()


def test_every_study_runs_files_that_exist():
    for name, item in study.STUDIES.items():
        for command in item.commands:
            first, second, *_ = [*command.split(), ""]
            module = ROOT / f"{second.replace('.', '/')}.py"
            assert (
                module.is_file() if first == "-m" and second != "pytest" else (ROOT / first).is_file() or first == "-m"
            ), name


def test_every_tool_has_a_row_in_its_page():
    page = (ROOT / "tools" / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+\.py)`", page, re.MULTILINE)) == {path.name for path in ROOT.glob("tools/*.py")}
