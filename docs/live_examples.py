"""Add reports that were written before the pages are built, such as that of the demo, to the site and the gallery."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPORTS = {"examples/puma560.html": Path("build/demo/report.html")}


def on_files(files: Files, config: Any) -> Files:
    """Add the reports as files of the site."""
    for name, path in REPORTS.items():
        if path.is_file():
            files.append(File.generated(config, name, abs_src_path=str(path.absolute())))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link the reports from the gallery."""
    if page.file.src_uri != "gallery.md":
        return markdown
    links = [f"[Open the live report]({name}){{ .md-button }}" for name, path in REPORTS.items() if path.is_file()]
    return markdown.replace("## The first screen", "\n\n".join([*links, "## The first screen"]), 1)
