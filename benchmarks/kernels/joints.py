"""Measure the cost of inverse dynamics for 2 to 60 joints, with a plot.

python -m benchmarks.kernels.joints [--record]
"""

from __future__ import annotations

from time import process_time

import numpy as np

import mindyn
from benchmarks.sections import PAGE, Section, arguments, publish, spaced
from benchmarks.timing import measure_best_times, this_machine
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import cos_sin, rot_x
from mindyn.kernels.operation_counts import operation_counts

COUNTS = (2, 3, 4, 6, 8, 10, 14, 20, 28, 40, 60)
SAMPLES, SAMPLES_IN_MEMORY = 1024, 100_000
"""Samples of a batch that stays in cache, and of one that does not."""
SHORT = 20
"""Joints up to which, from 6 on, the straight line is drawn through the times."""


def build_arm(joints: int) -> mindyn.Robot:
    """Return a serial arm of general links, with offsets and axes that alternate by 90 and -90 degrees."""
    rng = np.random.default_rng(joints)
    names = ["base", *(f"link{i}" for i in range(1, joints + 1))]
    created, links = [], []
    for i in range(joints):
        twist = np.pi / 2 * (-1) ** i
        origin = Pose(rot_x(*cos_sin(twist)), (0.3, 0, 0)) @ Pose(None, (0, 0, 0.1))
        created.append(mindyn.Joint(f"joint{i + 1}", "revolute", names[i], names[i + 1], origin))
        points = rng.normal(scale=0.1, size=(6, 3))
        phi = sum(phi_about_origin(0.5, point, np.zeros((3, 3))) for point in points)
        links.append(mindyn.Link(names[i + 1], phi))
    return mindyn.Robot("arm", mindyn.Link("base"), tuple(created), tuple(links))


def measure(joints: int) -> tuple[int, float, float]:
    """Return the operations, and the nanoseconds per sample on one thread for data in cache and in memory."""
    kernel = mindyn.compile_model(build_arm(joints)).kernel("inverse_dynamics")
    runs = {}
    for samples in (SAMPLES, SAMPLES_IN_MEMORY):
        motion = np.random.default_rng(0).uniform(-1, 1, (3, samples, joints))
        out = np.empty_like(motion[0])
        runs[samples] = lambda motion=motion, out=out: kernel(*motion, out=out)
    seconds = measure_best_times(runs, 25, clock=process_time)
    return operation_counts(kernel.program).total, *(seconds[samples] / samples * 1e9 for samples in runs)


def fit_line(rows: list[tuple[int, int, float, float]]) -> tuple[float, float]:
    """Return slope and intercept of the line through the times of arms with 6 to SHORT joints."""
    slope, start = np.polyfit(*zip(*((n, ns) for n, _, ns, _ in rows if 6 <= n <= SHORT), strict=True), 1)
    return slope, start


def draw_plot(rows: list[tuple[int, int, float, float]]) -> str:
    """Draw the nanoseconds over the joints, with the line through those of short arms."""
    width, height, left, bottom = 640, 360, 60, 40
    top_ns = max(ns for _, _, ns, _ in rows) * 1.1
    x = lambda n: left + (width - left - 20) * n / 62  # noqa: E731
    y = lambda ns: height - bottom - (height - bottom - 20) * ns / top_ns  # noqa: E731
    slope, start = fit_line(rows)
    dots = [f'<circle cx="{x(n):.1f}" cy="{y(ns):.1f}" r="4" fill="#2563eb"/>' for n, _, ns, _ in rows]
    ticks = [f'<text x="{x(n):.0f}" y="{height - 20}" text-anchor="middle">{n}</text>' for n in range(0, 61, 10)]
    step = 10 ** np.floor(np.log10(top_ns))
    marks = np.arange(0, top_ns, step if top_ns / step < 8 else 2 * step)
    ticks += [f'<text x="{left - 8}" y="{y(m) + 4:.0f}" text-anchor="end">{m:.0f}</text>' for m in marks]
    line = f'<line x1="{x(0)}" y1="{y(max(start, 0)):.1f}" x2="{x(62)}" y2="{y(start + 62 * slope):.1f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
            '     font-size="12">',
            "<title>Inverse dynamics: nanoseconds per sample against the number of joints</title>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'{line} stroke="#94a3b8" stroke-dasharray="4 4"/>',
            *dots,
            *ticks,
            f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">joints</text>',
            f'<text x="{left}" y="14">ns per sample, one thread (line: {slope:.2f} ns per joint)</text>',
            "</svg>",
        ]
    )


def main() -> None:
    options = arguments(__doc__).parse_args()
    rows = [(n, *measure(n)) for n in COUNTS]
    table = [("joints", "operations", "time of a sample", "from memory", "ratio")]
    table += [(str(n), str(ops), f"{ns:.1f} ns", f"{far:.1f} ns", f"{far / ns:.2f}") for n, ops, ns, far in rows]
    (n0, first, *_), (n1, last, *_) = rows[-2:]
    slope, start = fit_line(rows)
    beyond = [f"{ns / (start + slope * n):.2f} at {n}" for n, _, ns, _ in rows if n > SHORT]
    if options.record:
        PAGE.with_name("cost-per-joint.svg").write_text(draw_plot(rows) + "\n")
    publish(
        Section(
            "joints",
            "Cost by number of joints",
            "python -m benchmarks.kernels.joints",
            this_machine(),
            [
                f"Inverse dynamics of arms with general links and perpendicular axes, in batches of {spaced(SAMPLES)} "
                f"samples that stay in cache, and of {spaced(SAMPLES_IN_MEMORY)} samples in memory.",
                "![nanoseconds per sample against joints](cost-per-joint.svg)",
            ],
            table,
            [
                f"The number of operations grows by {(last - first) / (n1 - n0):.0f} for each joint. Relative to the "
                f"line through the arms of 6 to {SHORT} joints the time is {', '.join(beyond)} joints: the "
                "code and the intermediate results of a long arm do not fit into the first-level caches."
            ],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
