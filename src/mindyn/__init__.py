"""mindyn, minimal dynamics: the smallest model that explains a robot arm, and the fastest code that evaluates it."""

from mindyn.lazy_names import named_lazily

__version__ = "1.0.0rc1"
__all__, __getattr__ = named_lazily(__name__, __file__)
__all__ += ["__version__"]

_DRAWER = "mindyn.report.objects"
"""The module that draws values in notebooks: a later layer than their own (see `mindyn.pages.showing`)."""


def __dir__() -> list[str]:
    return sorted(__all__)
