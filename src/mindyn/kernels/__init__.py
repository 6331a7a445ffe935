"""Equations as machine code: SIMD through LLVM, C, CUDA; operation counts; `Model`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.kernels.observer import MomentumObserver

__all__ = [
    "MomentumObserver",
]

__getattr__ = named_lazily(
    __name__,
    {
        "observer": ("MomentumObserver",),
    },
)
