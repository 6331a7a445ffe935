"""Reports in a browser: they open from disk, respond to keys and pointer, and load nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from reported_arms import arm, estimate_of, log_of

import mindyn

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
PHONE, DESKTOP = (390, 844), (1280, 900)
FIRST_PLOT = "#torque figure:not([hidden])"


def times(page):
    """Return the labels of the time axis of the visible torque plot."""
    shown = page.locator("#torque [role=tabpanel]:not([hidden]) figure:not([hidden]) svg")
    return shown.locator("text.tick[text-anchor=middle]").all_text_contents()


def wait_for_curves(page, place):
    """Scroll to a torque plot and wait for its three curves."""
    page.locator(place).first.scroll_into_view_if_needed()
    page.locator(f"{place} path.curve").nth(2).wait_for(state="attached")


def test_tabs_switch_by_click_and_keys(open_page):
    page = open_page()
    tabs = page.locator("#torque [role=tab]")
    panels = page.locator("#torque [role=tabpanel]")
    assert tabs.count() == 5, "four joints, and all of them at a glance"
    tabs.nth(2).click()
    assert panels.nth(2).is_visible()
    assert not panels.nth(0).is_visible()
    assert tabs.nth(2).get_attribute("aria-selected") == "true"
    wait_for_curves(page, "#torque-panel-2")
    for key, expected in (
        ("ArrowRight", 3),
        ("ArrowRight", 4),
        ("ArrowRight", 0),
        ("ArrowLeft", 4),
        ("Home", 0),
        ("End", 4),
    ):
        page.keyboard.press(key)
        assert panels.nth(expected).is_visible()
        assert page.evaluate("document.activeElement.id") == f"torque-tab-{expected}"


def test_plots_zoom_by_buttons_keys_and_drag_and_joints_zoom_together(open_page):
    page = open_page()
    area = page.locator(f"{FIRST_PLOT} .area").first
    wait_for_curves(page, "#torque-panel-0")
    whole = times(page)
    page.get_by_role("button", name="Zoom in").first.click()
    closer = times(page)
    assert closer != whole
    area.focus()
    page.keyboard.press("+")
    assert times(page) not in (whole, closer)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("0")
    assert times(page) == whole
    box = area.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 110, steps=4)
    page.mouse.up()
    dragged = times(page)
    assert dragged != whole
    assert "N" in page.locator(f"{FIRST_PLOT} .legend .value").first.text_content()
    page.locator("#torque [role=tab]").nth(1).click()
    wait_for_curves(page, "#torque-panel-1")
    assert times(page) == dragged
    page.locator("#torque-panel-1 figure:not([hidden]) .area svg").dblclick()
    assert times(page) == whole


def test_curves_are_drawn_where_the_numbers_are(open_page):
    """Check that the highest drawn point of the measured torque is at the largest value of the axis."""
    page = open_page()
    wait_for_curves(page, "#torque-panel-0")
    places, greatest = page.evaluate(
        """() => {
          const plot = Plot.all[0], path = plot.svg.querySelector("path.role-measured");
          const ticks = [...plot.svg.querySelectorAll("text.tick[text-anchor=end]")].slice(0, 2);
          const number = (text) => Number(text.replace("−", "-"));
          const at = ticks.map((tick) => [number(tick.textContent), number(tick.getAttribute("y")) - 4]);
          const heights = path.getAttribute("d").slice(1).split("L").map((pair) => Number(pair.split(" ")[1]));
          const slope = (at[1][0] - at[0][0]) / (at[1][1] - at[0][1]);
          const drawn = at[0][0] + (Math.min(...heights) - at[0][1]) * slope;
          return [[drawn, slope], Numbers["torque-0-0"].panes[0].series[0].y.high];
        }"""
    )
    assert places[0] == pytest.approx(greatest, abs=abs(places[1]))


def test_another_log_can_be_chosen(open_page):
    page = open_page()
    page.select_option("#log", "1")
    figures = page.locator("#torque-panel-0 figure")
    assert not figures.nth(0).is_visible()
    assert figures.nth(1).is_visible()
    wait_for_curves(page, "#torque-panel-0 figure:nth-of-type(2)")


def test_the_robot_rotates_by_drag_keys_and_buttons_and_moves_in_time(open_page):
    """The report contains the component of `mindyn view`, whose own tests are in test_view_in_browser.py."""
    page = open_page()
    area = page.locator("#space-view .area")
    area.scroll_into_view_if_needed()
    seen = []

    def look():
        seen.append(str(page.evaluate("[view.camera.position.toArray(), view.positions]")))

    look()
    box = area.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 240, steps=4)
    page.mouse.up()
    look()
    area.focus()
    page.keyboard.press("ArrowLeft")
    look()
    page.get_by_role("button", name="Tilt up").click()
    look()
    page.locator("#space-view input[type=range]").focus()
    page.keyboard.press("End")
    look()
    page.get_by_role("button", name="Nearer").click()
    look()
    assert len(set(seen)) == 6
    page.get_by_role("button", name="Play").click()
    page.wait_for_timeout(400)
    page.get_by_role("button", name="Pause").click()
    look()
    assert len(set(seen)) == 7, "it plays on from the beginning"


def test_the_path_of_the_tip_is_that_of_the_log(open_page):
    page = open_page()
    robot, log = arm(), log_of(arm(), 2)
    drawn = np.array(page.evaluate("Array.from(view.layers.path[0].geometry.attributes.position.array)")).reshape(-1, 3)
    model = mindyn.compile_model(robot)
    tip = [model.forward_kinematics(q, robot.link_names[-1])[:3, 3] for q in log.q[::20]]
    away = np.linalg.norm(np.array(tip)[:, None] - drawn[None], axis=2).min(axis=1)
    assert np.median(away) < 0.01, "every recorded position is on the path, but for noise and filters"
    path = page.get_by_label("Path of the tip")
    assert path.is_checked()
    path.uncheck()
    assert page.evaluate("view.layers.path[0].visible") is False


def test_links_are_coloured_by_residual_or_torque(open_page):
    page = open_page()
    page.evaluate("view.show(view.scene.playback.times.at(-1) / 2)")
    shares = [page.evaluate("view.scene.joints.map((_, joint) => view.share(joint))")]
    page.get_by_label("Colour").select_option("torque")
    shares.append(page.evaluate("view.scene.joints.map((_, joint) => view.share(joint))"))
    residual, torque = np.array(shares)
    assert (residual < 0.5).all(), "the model is good"
    log = log_of(arm(), 2)
    row = np.abs(log.time - log.time[0] - page.evaluate("view.time")).argmin()
    expected = np.abs(log.tau[row]) / np.abs(log.tau).max(axis=0)
    assert np.abs(torque - expected).max() < 0.1, "but for the filter"
    assert expected.max() > 0.15, "the test is void: the torques are small"


def test_the_theme_follows_the_system_and_the_reader(open_page):
    colours = {}
    for theme in ("light", "dark"):
        page = open_page(theme=theme)
        paper = "getComputedStyle(document.body).backgroundColor"
        colours[theme] = page.evaluate(paper)
        page.locator("#theme").click()
        colours[f"{theme} turned"] = page.evaluate(paper)
    assert colours["light"] == colours["dark turned"]
    assert colours["dark"] == colours["light turned"]
    assert colours["light"] != colours["dark"]


def test_parameters_can_be_found_filtered_and_sorted(open_page):
    page = open_page()
    rows = page.locator("#parameter-table tbody:not([hidden])")
    everything_shown = rows.count()
    page.fill("#find", "fc")
    assert rows.count() == 4
    assert f"4 of {everything_shown} shown" in page.locator("#found").text_content()
    page.fill("#find", "")
    page.get_by_role("button", name="Value").click()
    cells = rows.locator("tr:first-child > td:nth-child(2) span")
    values = [float(value) for value in cells.evaluate_all("all => all.map(one => one.dataset.sort)")]
    assert values == sorted(values)
    assert page.locator("#parameter-table th[aria-sort=ascending]").count() == 1
    page.get_by_role("button", name="Value").click()
    assert page.locator("#parameter-table th[aria-sort=descending]").count() == 1


def test_print_shows_every_tab_with_its_plots(open_page, tmp_path):
    page = open_page()
    hidden = "document.querySelectorAll('#torque-panel-3 path.curve').length"
    assert page.evaluate(hidden) == 0, "a plot that nobody has seen is not drawn"
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    assert page.evaluate(hidden) >= 3
    page.emulate_media(media="print")
    panels = page.locator("[role=tabpanel]").all()
    assert all(panel.is_visible() for panel in panels if not panel.locator(".glance").count())
    assert not page.locator("nav").is_visible()


def test_print_is_short_and_omits_raw_settings(open_page, tmp_path):
    page = open_page()
    page.pdf(path=str(tmp_path / "report.pdf"), format="A4")
    pages = len(re.findall(rb"/Type\s*/Page[^s]", (tmp_path / "report.pdf").read_bytes()))
    assert pages <= 12
    page.emulate_media(media="print")
    assert not page.locator("details.raw").first.is_visible()
    assert page.locator("#torque figure[data-log='0']").nth(3).is_visible()
    assert not page.locator("#torque figure[data-log='1']").first.is_visible()


def test_a_phone_shows_value_interval_and_a_scroll_hint(open_page):
    page = open_page(PHONE)
    frame = page.locator("#parameter-table")
    frame.scroll_into_view_if_needed()
    heads = [head.bounding_box() for head in frame.locator("thead th").all()[:3]]
    assert heads[-1]["x"] + heads[-1]["width"] <= PHONE[0]
    assert "wider" in frame.get_attribute("class")
    cue = frame.evaluate("one => getComputedStyle(one, '::before').content")
    assert "Scroll sideways" in cue


def test_a_desktop_shows_all_parameters_with_a_fixed_header(open_page):
    page = open_page()
    frame = page.locator("#parameter-table")
    assert frame.evaluate("one => one.scrollHeight - one.clientHeight") <= 1
    frame.locator("tbody").last.scroll_into_view_if_needed()
    assert frame.locator("thead th").first.bounding_box()["y"] >= 0


def test_unscored_ends_are_shaded(open_page):
    page = open_page()
    wait_for_curves(page, "#torque-panel-0")
    assert page.locator("#torque-panel-0 figure:not([hidden]) rect.shaded").count() == 4


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_pages_have_no_accessibility_violations(open_page, size, theme):
    page = open_page(size, theme)
    page.evaluate("Plot.all.forEach((plot) => plot.draw())")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    violations = axe_api.Axe().run(page)
    assert violations.violations_count == 0, violations.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], "the page is wider than the screen"


def test_names_with_markup_stay_text(open_page, tmp_path):
    names = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"]
    robot = arm("planar2", names)
    path = tmp_path / "named.html"
    mindyn.write_report(estimate_of(robot), path, validation_logs=log_of(robot, 2))
    page = open_page(path=path)
    assert page.locator("#torque [role=tab]").all_text_contents() == [*names, "All joints"]
    assert page.locator("img").count() == 0


def test_a_joint_without_friction_is_drawn_as_a_flat_line(open_page, tmp_path):
    robot = arm()
    estimate = estimate_of(replace(robot, drives=tuple(replace(d, viscous=0.0, coulomb=0.0) for d in robot.drives)))
    none = estimate.with_values(dropped=("fv1", "fc1"))
    gone = [estimate.names.index(name) for name in none.values.dropped]
    none = none.with_values(beta=_zero_rows(none.beta, gone)).with_uncertainty(
        covariance=_zero_rows(_zero_rows(none.covariance, gone).T, gone)
    )
    mindyn.write_report(none, tmp_path / "report.html", validation_logs=log_of(robot, 2))
    page = open_page(path=tmp_path / "report.html")
    page.locator("#friction").scroll_into_view_if_needed()
    wait_for_curves(page, "#friction")
    flat = page.locator("#friction figure").first
    assert "no friction was identified" in flat.inner_text()
    assert flat.locator("path.role-predicted").get_attribute("d").count("L") > 10


def _zero_rows(values, rows):
    estimate = values.copy()
    estimate[rows] = 0.0
    return estimate
