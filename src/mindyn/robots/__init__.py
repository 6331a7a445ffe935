"""Robots as immutable values: links, joints, drives and loops; file readers; joint frames; bundled robots."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
