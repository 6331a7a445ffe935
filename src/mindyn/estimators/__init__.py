"""Estimators with a common protocol and result: from rows of equations to an `Estimate`."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
