"""Methods compared on recorded logs with held-out rows, and on simulated ones by Monte Carlo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.comparison.bench_setting import BenchSetting
    from mindyn.comparison.comparing import compare_on_logs
    from mindyn.comparison.log_sets import read_sets
    from mindyn.comparison.method_bench import Comparison, compare_methods

__all__ = [  # noqa: RUF022 - in the order of the work
    "read_sets",
    "compare_on_logs",
    "compare_methods",
    "Comparison",
    "BenchSetting",
]

__getattr__ = named_lazily(
    __name__,
    {
        "log_sets": ("read_sets",),
        "comparing": ("compare_on_logs",),
        "method_bench": ("compare_methods", "Comparison"),
        "bench_setting": ("BenchSetting",),
    },
)
