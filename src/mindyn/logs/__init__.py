"""Measured motion: logs with names and units, and the samples that regression reads."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
