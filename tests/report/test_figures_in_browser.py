"""Figures as a reader meets them: read under the pointer, switched, saved as numbers and as pictures."""

from __future__ import annotations

import re
from pathlib import Path

from reported_arms import arm, estimate_of


def test_every_figure_opens_is_read_under_the_pointer_switched_and_saved(open_page):
    """All kinds of figures: values under the pointer, curves that the legend hides, and three files each."""
    page = open_page()
    for tabs in page.locator("[role=tablist]").all():
        for tab in tabs.locator("[role=tab]").all():
            tab.click()
    page.locator("#torque [role=tab]").first.click()
    page.evaluate("Plot.all.forEach((plot) => plot.draw())")
    kinds = {}
    for figure in page.locator("figure[data-plot]").all():
        if figure.is_visible():
            kinds.setdefault(figure.get_attribute("data-plot").split("-")[0], figure)
    assert set(kinds) == {"torque", "forest", "coverage", "friction", "histogram", "spectrum", "against", "motion"}
    for kind, figure in kinds.items():
        figure.scroll_into_view_if_needed()
        drawing = figure.locator(".area svg")
        box = drawing.bounding_box()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.3 * box["height"])
        if kind not in ("coverage",):
            assert figure.locator(".tip").is_visible(), kind
            assert re.search(r"\d", figure.locator(".tip").inner_text()), kind
        page.mouse.move(0, 0)
        for ending in ("CSV", "SVG", "PNG"):
            figure.locator("summary").click()
            with page.expect_download() as saved:
                figure.get_by_role("button", name=ending).click()
            content = Path(saved.value.path()).read_bytes()
            assert saved.value.suggested_filename.endswith(ending.lower())
            starts = {"CSV": b'"quantity"', "SVG": b"<svg", "PNG": b"\x89PNG"}[ending]
            assert content.startswith(starts), (kind, ending)
            assert len(content) > 300, (kind, ending)
        toggles = figure.locator(".toggle")
        if toggles.count() > 1:
            before = drawing.locator("path.curve").count()
            toggles.first.click()
            assert toggles.first.get_attribute("aria-pressed") == "false"
            assert drawing.locator("path.curve").count() == before - 1, kind
            toggles.first.click()
            assert drawing.locator("path.curve").count() == before, kind


def test_the_pointer_tells_time_and_all_traces_of_all_joints(open_page):
    page = open_page()
    page.get_by_role("tab", name="All joints").first.click()
    page.wait_for_timeout(300)
    figures = page.locator("#torque .glance figure:not([hidden])")
    assert figures.count() == 4
    box = figures.first.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 60)
    told = [figure.locator(".tip").inner_text().splitlines() for figure in figures.all()]
    assert all(len(lines) == 4 and lines[0].startswith("time ") for lines in told)
    assert len({lines[0] for lines in told}) == 1, "all joints at the same time"
    assert len({lines[1] for lines in told}) == 4, "each with its own torque"


def test_saved_numbers_are_those_of_the_report(open_page):
    page = open_page()
    figure = page.locator("#parameters figure").first
    figure.scroll_into_view_if_needed()
    figure.locator("summary").click()
    with page.expect_download() as saved:
        figure.get_by_role("button", name="CSV").click()
    rows = [line.split(",") for line in Path(saved.value.path()).read_text().splitlines()[1:]]
    found = estimate_of(arm())
    low, high = (dict(zip(found.names, ends, strict=True)) for ends in found.intervals)
    assert rows
    for _, series, name, value, *ends in rows:
        if series.strip('"') == "this estimate":
            key = name.strip('"')
            assert float(value) == found.value(key)
            assert [float(end) for end in ends] == [low[key], high[key]]
