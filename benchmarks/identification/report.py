"""Measure the report of a million-row log of six joints: time to write, size, and speed in a browser.

python -m benchmarks.identification.report [--rows ROWS] [--record]
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import mindyn
from benchmarks.sections import Section, arguments, publish, spaced
from benchmarks.timing import this_machine
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.regression.regressor import with_estimated_drives

RATE = 1000.0
LIMIT_MB, LIMIT_S = 10, 3.0


def simulate_log(robot, rows: int, seed: int):
    """Return a log with five sines for each joint and 0.1 N m of torque noise."""
    rng = np.random.default_rng(seed)
    n = robot.joint_count
    t = np.arange(rows) / RATE
    q, qd, qdd = np.zeros((3, rows, n))
    for _ in range(5):
        w, a, phase = 2 * np.pi * rng.uniform(0.1, 0.8, n), rng.uniform(0.1, 0.3, n), rng.uniform(0, 2 * np.pi, n)
        angle = t[:, None] * w + phase
        q += a * np.sin(angle)
        qd += a * w * np.cos(angle)
        qdd -= a * w**2 * np.sin(angle)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    return log_from_arrays(robot.joint_names, t, q, tau + 0.1 * rng.standard_normal(tau.shape), qd, qdd)


def measure_in_browser(path: Path) -> dict[str, float]:
    """Return the seconds until the first plot is drawn, for a zoom, and for a plot in another tab."""
    from playwright.sync_api import sync_playwright

    result = {}
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        start = perf_counter()
        page.goto(path.as_uri())
        result["open, first screen"] = perf_counter() - start
        page.locator(
            "#torque-panel-0 figure"
        ).first.scroll_into_view_if_needed()  # plots are drawn when they are visible
        page.locator("#torque-panel-0 path.curve").nth(2).wait_for(state="attached")
        result["open, first plot drawn"] = perf_counter() - start
        timed = "(act) => { const start = performance.now(); act(); return (performance.now() - start) / 1000; }"
        result["redraw after a zoom"] = page.evaluate(f"({timed})(() => Plot.all[0].zoomBy(0.5))")
        result["redraw of the whole range"] = page.evaluate(f"({timed})(() => Plot.all[0].setRange(null))")
        start = perf_counter()
        page.locator("#torque [role=tab]").nth(3).click()
        page.locator("#torque-panel-3 path.curve").nth(2).wait_for(state="attached")
        result["another joint, click to drawn"] = perf_counter() - start
        browser.close()
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    robot = with_estimated_drives(mindyn.load_robot("puma560"))
    estimate = mindyn.identify(
        robot, simulate_log(robot, 20_000, 1), mindyn.LeastSquares(), mindyn.EquationSettings(AS_LOGGED)
    )
    log = simulate_log(robot, options.rows, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        start = process_time()
        mindyn.write_report(estimate, path, validation_logs=log)
        written = process_time() - start
        size = path.stat().st_size / 1e6
        seconds = measure_in_browser(path)
    table = [
        ("", "measured", "limit"),
        ("write, with the prediction (processor time)", f"{written:.2f} s", ""),
        ("size", f"{size:.1f} MB", f"< {LIMIT_MB} MB"),
        *(
            (what, f"{value:.3f} s", f"< {LIMIT_S:g} s" if what.startswith("open") else "")
            for what, value in seconds.items()
        ),
    ]
    publish(
        Section(
            "report",
            "Reports",
            "python -m benchmarks.identification.report",
            this_machine("playwright"),
            [f"{spaced(options.rows)} rows of {robot.joint_count} joints, opened in headless Chromium."],
            table,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
