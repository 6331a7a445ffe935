"""Forward dynamics in time: one accurate simulation, thousands of rollouts at once, and what sensors would see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.simulation.control_laws import ControlLaw
    from mindyn.simulation.controllers import ProportionalDerivative
    from mindyn.simulation.results import TorqueLog
    from mindyn.simulation.rollouts import compiled_rollout
    from mindyn.simulation.sensors import measure

__all__ = [  # noqa: RUF022 - in the order of the work
    "compiled_rollout",
    "ProportionalDerivative",
    "ControlLaw",
    "TorqueLog",
    "measure",
]

__getattr__ = named_lazily(
    __name__,
    {
        "rollouts": ("compiled_rollout",),
        "controllers": ("ProportionalDerivative",),
        "control_laws": ("ControlLaw",),
        "results": ("TorqueLog",),
        "sensors": ("measure",),
    },
)
