"""Estimators with one API and one result, and the road from logs to an estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.estimators.closed_loop_instruments import ClosedLoopInstruments
    from mindyn.estimators.measurement_noise import MeasurementNoise
    from mindyn.estimators.recursive_instruments import RecursiveInstruments
    from mindyn.estimators.reduction import reduce_estimate
    from mindyn.estimators.wording import joint_residuals, told_from

__all__ = [  # noqa: RUF022 - in the order of the work
    "RecursiveInstruments",
    "ClosedLoopInstruments",
    "MeasurementNoise",
    "reduce_estimate",
    "joint_residuals",
    "told_from",
]

__getattr__ = named_lazily(
    __name__,
    {
        "recursive_instruments": ("RecursiveInstruments",),
        "closed_loop_instruments": ("ClosedLoopInstruments",),
        "measurement_noise": ("MeasurementNoise",),
        "reduction": ("reduce_estimate",),
        "wording": ("joint_residuals", "told_from"),
    },
)
