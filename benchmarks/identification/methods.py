"""Methods of identification side by side on a simulated arm, by Monte Carlo: what `mindyn compare` does.

python -m benchmarks.identification.methods [--repetitions 100] [--record]
"""

from __future__ import annotations

import os

import mindyn
from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine
from mindyn.comparison.bench_setting import BenchSetting
from mindyn.comparison.method_bench import compare_methods

ROBOT = "puma560_yoshida"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repetitions", type=int, default=BenchSetting().repetitions)
    options = parser.parse_args()
    setting = BenchSetting(repetitions=options.repetitions)
    workers = os.cpu_count() or 1
    found = compare_methods(mindyn.load_robot(ROBOT), setting, workers=workers)
    table = [("method", "bias", "spread", "time of a fit", "tests")]
    for one in found.results:
        errors = (f"{100 * one.total_bias:.2f} %", f"{100 * one.total_spread:.2f} %")
        table.append((one.method, *errors, f"{one.seconds:.3f} s", str(one.tests)))
    publish(
        Section(
            "methods",
            "Methods of identification",
            f"mindyn compare {ROBOT}` or `python -m benchmarks.identification.methods",
            this_machine(),
            [
                f"{setting.repetitions} repetitions of {setting.seconds:g} s at {setting.rate_hz:g} Hz, coupled gears, "
                f"friction, encoder counts, differentiated accelerations, torque noise of "
                f"{100 * setting.torque_noise:g} %. Bias and spread are torque errors on an independent clean motion."
            ],
            table,
            [f"All repetitions took {found.seconds:.0f} s with {workers} processes."],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
