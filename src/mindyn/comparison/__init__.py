"""Comparison of methods on recorded logs with held-out rows, and on simulated logs by Monte Carlo."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
