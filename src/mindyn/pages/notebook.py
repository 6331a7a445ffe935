"""Values that show themselves in a notebook, and pages that they give when they are asked to be plotted.

What a value looks like is drawn by the report, a later layer, which is imported when someone looks.
"""

from __future__ import annotations

from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from mindyn.files import write_file_atomically

PAGE_HEIGHT_PX: Final = 640
"""Pixels of a page inside a notebook."""


class Page:
    """One self-contained HTML page: a notebook shows it, `save` writes it."""

    __slots__ = ("height", "html", "title")

    def __init__(self, html: str, title: str, height: int = PAGE_HEIGHT_PX) -> None:
        self.html, self.title, self.height = html, title, height

    def save(self, path: str | Path) -> None:
        """Write it as a file that opens from disk and loads nothing."""
        write_file_atomically(path, self.html)

    def __repr__(self) -> str:
        return f"Page({self.title!r}, {len(self.html) // 1024} kB; .save(path) writes it)"

    def _repr_html_(self) -> str:
        """A frame of its own, so that neither style nor script meets those of the notebook."""
        style = f"width:100%;height:{self.height}px;border:1px solid #8884;border-radius:6px"
        return f'<iframe title="{escape(self.title)}" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


class NotebookDisplay:
    """A value with a table of its own in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(_import_drawer().notebook_table(self))


def draw_page(value: object, *more: Any) -> Page:
    """The page of a value: figures of the report that it alone, or with `more`, has the numbers for."""
    made = _import_drawer().notebook_page(value, *more)
    assert isinstance(made, Page)
    return made


def _import_drawer() -> Any:
    """The module of the report that draws values."""
    package: Any = import_module("mindyn")
    return import_module(package._DRAWER)
