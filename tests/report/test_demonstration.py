"""`make demo`: the estimate agrees with the simulation, and the report works in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import mindyn
from mindyn.cli.demo_command import couple_wrist

MINDYN = Path(sys.executable).parent / "mindyn"
PHONE, DESKTOP = (390, 844), (1280, 900)
WRITTEN = {"report.html", "estimate.json", "puma560.urdf", "puma560.c", "puma560.h"}


def test_the_demo_identifies_the_simulated_robot_and_writes_a_report(tmp_path, request):
    piped = os.environ | {"COLUMNS": ""}
    words = [MINDYN, "demo", "--verbose", "--out", tmp_path / "demo"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=piped)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "demo").iterdir()} == WRITTEN
    values_are_the_simulated_ones(tmp_path / "demo" / "estimate.json")
    second = done.stdout.split("On the second motion")[1]
    totals = next(line for line in second.splitlines() if line.startswith("total")).split()[1:]
    assert all(float(total) < 5.0 for total in totals if total != "%")
    assert len(totals) >= 4
    report_opens(request, tmp_path / "demo" / "report.html")


def values_are_the_simulated_ones(path: Path) -> None:
    estimate = mindyn.load_estimate(path)
    true = replace(estimate.base, robot=couple_wrist(mindyn.load_robot("puma560"))).values
    for name in ("fc1", "mcx2R", "Izz2R"):
        k = estimate.names.index(name)
        assert abs(estimate.beta[k] - true[k]) < min(5 * estimate.deviations[k], 0.02 * true[k])


def report_opens(request, path: Path) -> None:
    """Check tabs, zoom, rotation and accessibility at two widths; skipped without a browser."""
    axe_api = pytest.importorskip("axe_playwright_python.sync_playwright")
    open_page = request.getfixturevalue("open_page")
    ticks = "#torque [role=tabpanel]:not([hidden]) figure:not([hidden]) svg text.tick[text-anchor=middle]"
    for size in (DESKTOP, PHONE):
        page = open_page(size, path=path)
        page.locator("#torque [role=tab]").nth(3).click()
        page.locator("#torque-panel-3").first.scroll_into_view_if_needed()
        page.locator("#torque-panel-3 path.curve").nth(2).wait_for(state="attached")
        whole = page.locator(ticks).all_text_contents()
        page.get_by_role("button", name="Zoom in").first.click()
        assert page.locator(ticks).all_text_contents() != whole
        page.locator("#robot .area").scroll_into_view_if_needed()
        before = page.evaluate("view.camera.position.toArray()")
        page.locator("#robot").get_by_role("button").first.click()
        assert page.evaluate("view.camera.position.toArray()") != before
        text = axe_api.Axe().run(page)
        assert text.violations_count == 0, text.generate_report()
