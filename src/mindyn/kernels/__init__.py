"""Equations as machine code: SIMD through LLVM, C, CUDA; operation counts; `Model`."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
