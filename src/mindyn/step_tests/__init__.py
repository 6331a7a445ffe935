"""Step-by-step tests: plan them, simulate or read their logs, identify a few parameters from each, and check them."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
