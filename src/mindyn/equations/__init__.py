"""Every algorithm once, over CasADi SX, for any serial or tree robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.equations.projected_dynamics import LoopDynamics, loop_dynamics

__all__ = [
    "LoopDynamics",
    "loop_dynamics",
]

__getattr__ = named_lazily(
    __name__,
    {
        "projected_dynamics": ("LoopDynamics", "loop_dynamics"),
    },
)
