"""Figures in a browser: values under the pointer, legends, and saving as numbers and pictures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mesh_samples import arm as urdf
from mesh_samples import stl
from reported_arms import arm, estimate_of, log_of

import mindyn
from mindyn.robots.meshes import read_meshes


def test_every_figure_can_be_opened_read_switched_and_saved(open_page):
    """Check values under the pointer, the legend, and three files for each kind of figure."""
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


def test_the_pointer_shows_time_and_all_traces(open_page):
    page = open_page()
    page.get_by_role("tab", name="All joints").first.click()
    page.wait_for_timeout(300)
    figures = page.locator("#torque .glance figure:not([hidden])")
    assert figures.count() == 4
    box = figures.first.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 60)
    readout = [figure.locator(".tip").inner_text().splitlines() for figure in figures.all()]
    assert all(len(lines) == 4 and lines[0].startswith("time ") for lines in readout)
    assert len({lines[0] for lines in readout}) == 1, "all joints at the same time"
    assert len({lines[1] for lines in readout}) == 4, "each with its own torque"


def test_saved_numbers_equal_the_report(open_page):
    page = open_page()
    figure = page.locator("#parameters figure").first
    figure.scroll_into_view_if_needed()
    figure.locator("summary").click()
    with page.expect_download() as saved:
        figure.get_by_role("button", name="CSV").click()
    rows = [line.split(",") for line in Path(saved.value.path()).read_text().splitlines()[1:]]
    estimate = estimate_of(arm())
    low, high = (dict(zip(estimate.names, ends, strict=True)) for ends in estimate.intervals)
    assert rows
    for _, series, name, value, *ends in rows:
        if series.strip('"') == "this estimate":
            key = name.strip('"')
            assert float(value) == estimate.value(key)
            assert [float(end) for end in ends] == [low[key], high[key]]


def test_meshes_are_drawn_moved_and_hidden(open_page, tmp_path):
    """Check that meshes are drawn, move with a rotation, and disappear if they are unchecked."""
    mesh = tmp_path / "box.stl"
    mesh.write_bytes(stl())
    source = tmp_path / "arm.urdf"
    source.write_text(urdf('<mesh filename="box.stl" scale="0.1 0.1 0.1"/>'))
    robot = mindyn.load_robot(source)
    meshes = read_meshes(source, robot)
    path = tmp_path / "report.html"
    mindyn.write_report(estimate_of(robot), path, training_logs=log_of(robot, 1), meshes=meshes)
    page = open_page(path=path)
    if not page.evaluate("Boolean(document.createElement('canvas').getContext('webgl2'))"):
        pytest.skip("this Chromium has no WebGL")
    page.locator("#space-view").scroll_into_view_if_needed()
    page.get_by_label("Path of the tip").uncheck()
    painted = """() => {
        view.render();
        const canvas = document.querySelector("#space-view canvas"), gl = canvas.getContext("webgl2");
        const pixels = new Uint8Array(4 * canvas.width * canvas.height);
        gl.readPixels(0, 0, canvas.width, canvas.height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
        let count = 0, weight = 0;
        for (let k = 0; k < pixels.length / 4; k++) if (pixels[4 * k + 3] > 0) { count++; weight += k % canvas.width; }
        return [count / (canvas.width * canvas.height), count ? weight / count / canvas.width : 0];
    }"""
    share, middle = page.evaluate(painted)
    assert 0.02 < share < 0.6
    page.get_by_role("button", name="Turn right").click()
    assert page.evaluate(painted)[1] != middle
    links = page.get_by_label("Links")
    links.uncheck()
    assert page.evaluate(painted)[0] < share - 0.005
    links.check()
    assert page.evaluate(painted)[0] > 0.02
    assert page.evaluate("view.layers.links.filter((part) => part.geometry.type === 'BufferGeometry').length") > 0
