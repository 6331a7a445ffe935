"""Planned motions and simulated motions: excitation, simulation and plans of step-by-step tests."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
