"""Estimators with one API and one result, and the road from logs to an estimate."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
