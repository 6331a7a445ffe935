"""Identify a robot from its logs: select settings, build equations, fit, quantify, diagnose."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
