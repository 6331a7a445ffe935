"""How good an estimate is on rows it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.validation.step_checks import StepCheck, StepChecks, check_steps
    from mindyn.validation.trajectories import Trajectories, simulated_against_measured
    from mindyn.validation.validate import Verdict, compare

__all__ = [  # noqa: RUF022 - in the order of the work
    "compare",
    "Verdict",
    "simulated_against_measured",
    "Trajectories",
    "check_steps",
    "StepChecks",
    "StepCheck",
]

__getattr__ = named_lazily(
    __name__,
    {
        "validate": ("compare", "Verdict"),
        "trajectories": ("simulated_against_measured", "Trajectories"),
        "step_checks": ("check_steps", "StepChecks", "StepCheck"),
    },
)
