"""Accuracy of an estimate on logs that were not used in the fit."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
