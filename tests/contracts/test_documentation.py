"""What the documentation promises: it builds without a warning, reads without a network, and names what exists."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
import typer

import mindyn
from mindyn.cli.main import app, load_function
from mindyn.foundation.errors import MissingExtraError

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
REFERENCE_PAGES = re.findall(r"\(api/(\w+)\.md\)", (ROOT / "docs" / "api.md").read_text())
REFERENCE = "\n".join((ROOT / "docs" / "api" / f"{name}.md").read_text() for name in REFERENCE_PAGES)
PAPERS = (ROOT / "docs" / "papers.md").read_text()
COMMANDS = {command.name or command.callback.__name__ for command in app.registered_commands}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages as HTML; any warning is an error (of those that --quiet hides mkdocs would count none)."""
    if any(find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("mkdocs, mkdocs-material or mkdocstrings is not installed")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.full
def test_every_page_is_built(site):
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    assert {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES} <= built


@pytest.mark.full
def test_pages_fetch_nothing(site):
    """Links may lead out; scripts, styles, pictures and fonts may not."""
    for path in site.rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\">]*", path.read_text()
        )
        assert not fetched, f"{path.name} fetches {fetched}"
    for path in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", path.read_text()), path.name


@pytest.mark.full
def test_pages_search_from_disk_and_fit_a_phone(site):
    """Search finds a page without a server; no page is wider than a phone, and no path in a table is broken."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no chromium is found on the path")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto((site / "index.html").as_uri())
        result = page.locator(".md-search-result__item").first
        for attempt in range(20):  # what is typed before the page's scripts listen is lost
            page.fill("[data-md-component=search-query]", ("payload", "friction")[attempt % 2])
            with suppress(api.TimeoutError):
                result.wait_for(state="attached", timeout=2000)
                break
        assert result.count() == 1
        page.set_viewport_size({"width": 390, "height": 844})
        for name in ("index", "papers", "benchmarks"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert page.evaluate(
                "[...document.querySelectorAll('td code')].every((c) => c.getClientRects().length < 2)"
            )
        page.goto((site / "index.html").as_uri())
        heights = page.locator("figure.flow text").evaluate_all(
            "all => all.map((t) => t.getBoundingClientRect().height)"
        )
        assert min(heights) > 10
        browser.close()


@pytest.mark.full
def test_links_of_built_pages_resolve(site):
    """Files, and the places in them."""
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', path.read_text())) for path in site.rglob("*.html")}
    for path in anchors:
        for target in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', path.read_text()):
            if re.match(r"[a-z]+:", target) or path.name == "404.html":
                continue
            file, _, place = target.partition("#")
            aim = (path.parent / file).resolve() if file else path
            aim = aim / "index.html" if aim.is_dir() else aim
            assert aim.exists(), f"{path.name} links to {target}"
            assert not place or aim not in anchors or place in anchors[aim], f"{path.name} links to {target}"


def defines(module, name):
    """Whether `module` has `name`; of a module whose extra is not installed, whether its source does."""
    try:
        return hasattr(import_module(module), name)
    except MissingExtraError:
        tree = ast.parse(Path(find_spec(module).origin).read_text())
        return name in {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}


def test_reference_has_every_public_name():
    listed = re.findall(r"^::: mindyn\.(\w+)$", REFERENCE, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert listed == [name for name in mindyn.__all__ if name != "__version__"]
    of_modules = re.findall(r"^::: (mindyn\.\S+)\.(\w+)$", REFERENCE, re.MULTILINE)
    assert all(defines(module, name) for module, name in of_modules)


def shell_lines():
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                if line.startswith("mindyn "):
                    yield pytest.param(line, id=f"{page.stem}: {line}")


@pytest.mark.parametrize("line", list(shell_lines()))
def test_commands_of_the_pages_exist_with_their_options(line):
    name, *arguments = shlex.split(line)[1:]
    if name == "--help":
        return
    assert name in COMMANDS
    alone = typer.Typer(add_completion=False)
    alone.command(name)(load_function(name))
    command = typer.main.get_command(alone)
    _, extra, _ = command.make_parser(command.context_class(command)).parse_args(list(arguments))
    assert not extra
    context = command.make_context(name, list(arguments), resilient_parsing=True)
    missing = [param.name for param in command.params if param.required and context.params[param.name] in (None, ())]
    assert not missing, f"{line!r} leaves out {missing}"


def test_every_command_has_a_line():
    page = (ROOT / "docs" / "commands.md").read_text()
    assert {name for name in COMMANDS if f"| `mindyn {name}` |" not in page} == set()


def test_files_of_the_papers_page_exist():
    named = set(re.findall(r"`((?:src|tests|examples)/[\w/.]+)`", PAPERS))
    assert len(named) > 50
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]


EQUATIONS = {
    "Lin 1995": {"": 117, "A": 8},
    "Lin and Fang 1999": {"": 55, "A": 10, "B": 12, "C": 3},
    "Angeles, Ma and Rojas 1988": {"": 59},
    "Sheu and Walker 1991": {"": 30},
    "Yoshida 1996": {"2.": 207, "3.": 38, "4.": 51, "A.": 25, "B.": 40},
}
"""The last equation of each paper, of its appendices and chapters."""


@pytest.mark.parametrize("paper", list(EQUATIONS))
def test_every_equation_of_a_paper_has_a_row(paper):
    section = PAPERS.split(f"\n## {paper}\n")[1].split("\n## ")[0]
    cells = ", ".join(re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)).split(", ")
    result = {prefix: set() for prefix in EQUATIONS[paper]}
    for cell in cells:
        match = re.fullmatch(r"((?:[A-C]\.?|\d\.)?)(\d+)(?:–\1(\d+))?", cell)
        if match:
            result[match[1]] |= set(range(int(match[2]), int(match[3] or match[2]) + 1))
    assert result == {prefix: set(range(1, last + 1)) for prefix, last in EQUATIONS[paper].items()}


def test_names_of_the_papers_page_exist():
    """`function` in `src/mindyn/module.py`: the module defines it."""
    pairs = re.findall(r"`(\w+)` in `(src/mindyn/[\w/]+)\.py`", PAPERS)
    assert len(pairs) > 50
    for name, module in pairs:
        home = import_module(module.removeprefix("src/").replace("/", "."))
        assert hasattr(home, name), f"{module}.py has no {name}"
