"""Add what is known when the pages are built: the report of the demo, and how to install a published package."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from mindyn.foundation import hints

INSTALL = """## Install

```sh
uvx mindyn demo                     # try it without installing it
pip install mindyn && mindyn demo   # install it into the active environment
```

Or from source: on"""
"""The begin of the installation once the package is published."""
REPORTS = {"examples/puma560.html": Path("build/demo/report.html")}


def on_files(files: Files, config: Any) -> Files:
    """Add the reports as files of the site."""
    for name, path in REPORTS.items():
        if path.is_file():
            files.append(File.generated(config, name, abs_src_path=str(path.absolute())))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name the published package on the first page, and link the reports from the gallery."""
    if page.file.src_uri == "index.md" and hints.PUBLISHED:
        return markdown.replace("## Install\n\nOn", INSTALL, 1)
    if page.file.src_uri != "gallery.md":
        return markdown
    links = [f"[Open the live report]({name}){{ .md-button }}" for name, path in REPORTS.items() if path.is_file()]
    return markdown.replace("## The first screen", "\n\n".join([*links, "## The first screen"]), 1)
