"""mindyn (minimal dynamics): identify the smallest dynamic model of a robot arm and generate fast code for it."""

from mindyn.foundation.lazy_names import import_lazily

__version__ = "1.0.0rc1"
__all__, __getattr__ = import_lazily(__name__, __file__)
__all__ += ["__version__"]

_DRAWER, _CARDS = "mindyn.output.report.notebook_pages", "mindyn.output.report.cards"
"""Modules that draw values in notebooks, a later layer than the values (`mindyn.foundation.pages.notebook_display`)."""


def __dir__() -> list[str]:
    return sorted(__all__)
