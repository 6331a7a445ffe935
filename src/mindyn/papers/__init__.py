"""What reproduces the tables, figures and experiments of the five papers, and nothing that anything else needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.papers.yoshida_values import yoshida_puma

__all__ = [
    "yoshida_puma",
]

__getattr__ = named_lazily(
    __name__,
    {
        "yoshida_values": ("yoshida_puma",),
    },
)
