"""Streaming regression: R factors per joint, information, what the data can tell."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
