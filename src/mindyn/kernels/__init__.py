"""Equations as machine code: SIMD through LLVM, C, CUDA; operation counts; `Model`."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
