"""Standard parameters, and the combinations of them that the dynamics depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.parameters.parameter import Parameter

__all__ = [
    "Parameter",
]

__getattr__ = named_lazily(
    __name__,
    {
        "parameter": ("Parameter",),
    },
)
