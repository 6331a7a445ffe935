"""Robots as frozen values: links, joints, drives, loops; readers; joint frames; bundled robots."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
