"""Show values in notebooks, and draw pages of them.

The report, a later layer, draws the values; it is imported on first use.
"""

from __future__ import annotations

from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from mindyn.foundation.atomic_files import write_file_atomically

PAGE_HEIGHT_PX: Final = 640
"""Height of a page inside a notebook."""


class Page:
    """Self-contained HTML page that a notebook shows and `save` writes to a file.

    Parameters
    ----------
    html : str
        Text of the page.
    title : str
        Title of the page.
    height : int, default 640
        Height inside a notebook, in pixels.
    """

    __slots__ = ("height", "html", "title")

    def __init__(self, html: str, title: str, height: int = PAGE_HEIGHT_PX) -> None:
        self.html, self.title, self.height = html, title, height

    def save(self, path: str | Path) -> Path:
        """Write the page to a file that opens from disk and loads nothing.

        Parameters
        ----------
        path : str or pathlib.Path
            File to write.

        Returns
        -------
        Path
            The written file.
        """
        return write_file_atomically(path, self.html)

    def __repr__(self) -> str:
        return f"Page({self.title!r}, {len(self.html) // 1024} kB; .save(path) writes it)"

    def _repr_html_(self) -> str:
        """Return a frame that isolates style and scripts from those of the notebook."""
        style = f"width:100%;height:{self.height}px;border:1px solid #8884;border-radius:6px"
        return f'<iframe title="{escape(self.title)}" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


class NotebookDisplay:
    """Base class of values that notebooks show as a table with a small picture."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return a table and a picture, without scripts, in the colours of the notebook."""
        package: Any = import_module("mindyn")
        return str(import_module(package._CARDS).card(self))


def draw_page(drawer: str, *values: object) -> Page:
    """Draw values with the function of this name in `mindyn.output.report.notebook_pages`."""
    package: Any = import_module("mindyn")
    page = getattr(import_module(package._DRAWER), drawer)(*values)
    assert isinstance(page, Page)
    return page
