"""Equations as machine code: SIMD through LLVM, C, CUDA; operation counts; `Model`."""
