"""Compile equations to machine code, C and CUDA, and count their operations."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
