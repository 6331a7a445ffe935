"""Fleets of robots of one type: estimates of every robot, and robots that differ from the type or drift."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
