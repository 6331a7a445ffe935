"""Blocks of R factors computed on a GPU, for `build_rows(..., gpu=True)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.kernels.gpu import require_cuda_device
from mindyn.kernels.kernel import Kernel
from mindyn.logs.filters import extension_rows, lowpass, second_order_sections
from mindyn.logs.samples import Samples
from mindyn.regression import device
from mindyn.regression.device_rows import (
    MOTION,
    rows_program,
    rows_source,
    takes_directions,
    widths_of,
)
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor
from mindyn.regression.row_blocks import SampleSegment, windows
from mindyn.regression.settings import EquationSettings

MIN_SCALING_ROWS: Final = 2048
"""Smallest number of rows of a block that determine the scale of its columns."""


@dataclass
class DeviceFactors:
    """R factors of consecutive parts of samples, as `host_factors` returns them, computed by `device`.

    xp         CuPy; NumPy computes the same on the host
    rows_of    rows of the regressor
    smooth_of  low-pass filter for a cut-off and a rate
    """

    xp: Any
    rows_of: Callable[[Regressor], device.RowsOf]
    smooth_of: Callable[[float, float], device.Smooth]
    _made: tuple[Regressor, device.RowsOf] | None = None

    def __call__(
        self, regressor: Regressor, samples: Samples, settings: EquationSettings, spans: Sequence[tuple[int, int]]
    ) -> list[Information]:
        """Compute the parts one by one; the rows of each part scale its columns, which keeps all digits."""
        if self._made is None or self._made[0] is not regressor:
            self._made = regressor, self.rows_of(regressor)
        cutoff, step = settings.cutoff_hz, settings.step
        smooth = None if cutoff is None else self.smooth_of(cutoff, samples.rate_hz)
        motion = [regressor.positions(samples), *(getattr(samples, name) for name in MOTION[1:])]
        arrays = [np.ascontiguousarray(part, dtype=np.float64) for part in motion]
        if takes_directions(regressor):
            directions = regressor.directions(arrays[0], samples.qd, samples.segments, samples.rate_hz)
            arrays.append(np.ascontiguousarray(directions))
        spread_rows = max(MIN_SCALING_ROWS, device.SCALING_ROWS // max(1, len(spans)))
        whole = list(windows(SampleSegment(samples, range(len(samples))), cutoff, step))
        blocks = []
        for span in spans:
            parts = [part for window in whole if len((part := _within(window, span)).kept_rows)]
            if not parts:
                blocks.append(information_of_factors(regressor, [np.zeros((w, w)) for w in widths_of(regressor)], 0))
                continue
            usable = samples.usable
            factors = device.gather_on_device(
                self.xp,
                self._made[1],
                arrays,
                windows=parts,
                smooth=smooth,
                usable=usable,
                spread_rows=spread_rows,
            )
            counts = sum(len(part.kept_rows) for part in parts)
            if usable is not None:
                kept = np.concatenate([np.asarray(part.kept_rows) for part in parts])
                counts = usable[kept].sum(axis=0)
            blocks.append(information_of_factors(regressor, factors, counts))
        return blocks


def _within(window: device.Window, span: tuple[int, int]) -> device.Window:
    """Return the window with those of its kept rows that are in a span."""
    first, last, kept = window
    before = max(0, -(-(span[0] - kept.start) // kept.step))
    after = max(before, -(-(span[1] - kept.start) // kept.step))
    return device.Window(first, last, kept[before:after])


def gpu_factors() -> DeviceFactors:
    """Return the factors of the GPU that CuPy finds; raise an error that names the missing part otherwise."""
    cupy = require_cuda_device()

    def rows_of(regressor: Regressor) -> device.RowsOf:
        return device.kernel_rows(cupy, rows_source(regressor), widths_of(regressor))

    def smooth_of(cutoff_hz: float, rate_hz: float) -> device.Smooth:
        table = device.smoothing_table(*second_order_sections(cutoff_hz, rate_hz))
        return device.kernel_smooth(cupy, table, extension_rows(cutoff_hz, rate_hz))

    return DeviceFactors(cupy, rows_of, smooth_of)


def stand_in_factors() -> DeviceFactors:
    """Return the same steps and the same program on the CPU, to compare with on machines without a GPU."""

    def rows_of(regressor: Regressor) -> device.RowsOf:
        kernel = Kernel(rows_program(regressor))

        def rows(*samples: Array) -> list[Array]:
            values = kernel(*samples)
            return list(values) if isinstance(values, tuple) else [values]

        return rows

    def smooth_of(cutoff_hz: float, rate_hz: float) -> device.Smooth:
        def smooth(rows: list[Array], ends: Array) -> None:
            for A in rows:
                for first, last in ends:
                    lowpass(A[first:last], cutoff_hz, rate_hz, out=A[first:last])

        return smooth

    return DeviceFactors(np, rows_of, smooth_of)


def information_of_factors(regressor: Regressor, factors: list[Array], counts: Any) -> Information:
    """Return the information of R factors from a device; `counts` are rows of each joint, or of all alike."""
    for joint, (R, width) in enumerate(zip(factors, widths_of(regressor), strict=True)):
        if R.shape != (width, width) or not np.isfinite(R).all():
            raise InputError(
                f"the factor of joint {regressor.joint_names[joint]!r} has shape {R.shape} or is not finite; "
                f"({width}, {width}) of finite numbers is needed",
                hint="the job was written for another robot or friction, or its samples were not finite",
                code=Code.DISAGREEMENT,
                subject=regressor.joint_names[joint],
            )
    rows = tuple(np.broadcast_to(np.asarray(counts, dtype=np.int64), len(factors)).tolist())
    return Information(
        regressor.joint_names, regressor.names, regressor.columns, tuple(factors), rows, regressor.unforced
    )
