"""Estimators with one API and one result, and the road from logs to an estimate."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
