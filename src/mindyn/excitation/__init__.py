"""Motions that make the parameters visible: exciting trajectories and test plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.excitation.capsules import capsules_of
    from mindyn.excitation.motion_design import MotionDesign
    from mindyn.excitation.step_files import read_test_logs, write_motions, write_test_logs
    from mindyn.excitation.step_plan import StepPlan, load_plan
    from mindyn.excitation.step_simulation import simulate_tests

__all__ = [  # noqa: RUF022 - in the order of the work
    "MotionDesign",
    "capsules_of",
    "StepPlan",
    "load_plan",
    "write_motions",
    "write_test_logs",
    "read_test_logs",
    "simulate_tests",
]

__getattr__ = named_lazily(
    __name__,
    {
        "motion_design": ("MotionDesign",),
        "capsules": ("capsules_of",),
        "step_plan": ("StepPlan", "load_plan"),
        "step_files": ("write_motions", "write_test_logs", "read_test_logs"),
        "step_simulation": ("simulate_tests",),
    },
)
