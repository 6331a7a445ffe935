"""mindyn, minimal dynamics: the smallest model that explains a robot arm, and the fastest code that evaluates it."""

from mindyn.lazy_names import import_lazily

__version__ = "1.0.0rc1"
__all__, __getattr__ = import_lazily(__name__, __file__)
__all__ += ["__version__"]

_DRAWER = "mindyn.report.notebookk"
"""The module that draws values in notebooks: a later layer than their own (see `mindyn.pages.notebook`)."""


def __dir__() -> list[str]:
    return sorted(__all__)
