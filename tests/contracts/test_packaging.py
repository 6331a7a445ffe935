"""The package's metadata agrees with itself: one version, one set of addresses, one list of dependencies."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import mindyn

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
URLS = PROJECT["project"]["urls"]
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


def test_addresses_stand_in_one_file():
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
