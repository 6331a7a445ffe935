"""Streaming regression: R factors per joint, information, what the data can tell."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
