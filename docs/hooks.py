"""Add what is known when pages are built: formulas as MathML, tables of the papers, the demo report, installation."""

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

from mindyn.cli.papers_command import PAGE_FILE
from mindyn.foundation import hints
from mindyn.papers.paper_catalogue import PAPERS
from mindyn.papers.reproduction import format_markdown

INSTALL = """## Install

```sh
uvx mindyn demo                     # try it without installing it
pip install mindyn && mindyn demo   # install it into the active environment
```

Or from source: on"""
"""The begin of the installation once the package is published."""
REPORTS = {"examples/puma560.html": Path("build/demo/report.html")}


def on_files(files: Files, config: Any) -> Files:
    """Add the tables of the papers and the reports as files of the site."""
    tables = format_markdown([paper.reproduce() for paper in PAPERS.values()])
    files.append(File.generated(config, PAGE_FILE, content=tables))
    for name, path in REPORTS.items():
        if path.is_file():
            files.append(File.generated(config, name, abs_src_path=str(path.absolute())))
    return files


FORMULA = re.compile(r"^\$\$(.+?)\$\$$", re.MULTILINE)
"""A line `$$...$$` with a formula in LaTeX, which GitHub shows as well."""


def render_formulas(markdown: str) -> str:
    """Replace formulas by MathML, which browsers draw without a script or a font from the network."""
    return FORMULA.sub(lambda found: f'<div class="formula">{convert(found[1], display="block")}</div>', markdown)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Draw formulas, name the published package on the first page, and link the reports from the gallery."""
    markdown = render_formulas(markdown)
    if page.file.src_uri == "index.md" and hints.PUBLISHED:
        return markdown.replace("## Install\n\nOn", INSTALL, 1)
    if page.file.src_uri != "gallery.md":
        return markdown
    links = [f"[Open the live report]({name}){{ .md-button }}" for name, path in REPORTS.items() if path.is_file()]
    return markdown.replace("## The first screen", "\n\n".join([*links, "## The first screen"]), 1)
