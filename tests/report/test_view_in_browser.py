"""The page of a robot in space in a browser: it draws, plays and responds to keys, and loads nothing."""

from __future__ import annotations

import numpy as np
import pytest
from reported_arms import arm, estimate_of, log_of

import mindyn
from mindyn.kernels.model import compile_model
from mindyn.motions.excitation.motions import ApproachPath, Fourier, Motion, Run

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
SIZES = {"phone": (390, 844), "desktop": (1400, 900)}
POSES = "view.groups.map((group) => { const m = group.matrix.elements; return [m[12], m[13], m[14]]; })"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return pages of a robot alone, with a motion, and with a log."""
    folder, robot = tmp_path_factory.mktemp("view"), arm("puma560")
    motion = Motion(Fourier(1), 6.0, np.zeros(6), np.full((2, 6), 0.3))
    way = ApproachPath(np.array([np.full(6, 0.2), np.zeros(6)]), np.array([1.5]))
    drawn = {
        "alone": mindyn.write_view(robot, folder / "alone.html"),
        "motion": mindyn.write_view(robot, folder / "motion.html", motion=Run(robot.primary_names, motion, way)),
    }
    scara = arm()
    drawn["log"] = mindyn.write_view(scara, folder / "log.html", log=log_of(scara, 2), estimate=estimate_of(scara))
    return drawn


def test_links_stand_where_the_kinematics_puts_them(open_page, pages):
    page = open_page(path=pages["alone"])
    robot = arm("puma560")
    model, positions = compile_model(robot), [0.3, -0.2, 0.4, 0.1, -0.5, 0.2]
    for k, value in enumerate(positions):
        page.locator("#sliders input").nth(k).evaluate(
            "(one, value) => { one.step = 'any'; one.value = value; one.dispatchEvent(new Event('input')); }", value
        )
    drawn = np.array(page.evaluate(POSES))
    expected = [model.forward_kinematics(positions, name)[:3, 3] for name in robot.link_names]
    np.testing.assert_allclose(drawn[1:], expected, atol=1e-6)
    page.get_by_role("button", name="Move all joints home").click()
    still = [model.forward_kinematics(np.zeros(6), name)[:3, 3] for name in robot.link_names]
    np.testing.assert_allclose(np.array(page.evaluate(POSES))[1:], still, atol=1e-6)


def test_keys_turn_and_zoom_and_space_plays(open_page, pages):
    page = open_page(path=pages["motion"])
    page.locator("#space-view .area").focus()
    places = [page.evaluate("view.camera.position.toArray()")]
    for key in ("ArrowLeft", "ArrowUp", "+"):
        page.keyboard.press(key)
        places.append(page.evaluate("view.camera.position.toArray()"))
    assert len({tuple(np.round(place, 6)) for place in places}) == 4
    page.keyboard.press("0")
    np.testing.assert_allclose(page.evaluate("view.camera.position.toArray()"), places[0], atol=1e-9)
    page.keyboard.press(" ")
    page.wait_for_timeout(400)
    assert page.evaluate("view.playing || view.time > 0")
    page.keyboard.press(" ")
    assert page.evaluate("view.playing") is False


def test_a_motion_shows_its_parts_and_the_closest_pair(open_page, pages):
    page = open_page(path=pages["motion"])
    page.get_by_role("button", name="Go to return").click()
    assert page.evaluate("view.time") == pytest.approx(7.5)
    assert "closest: " in page.locator(".closest").text_content()
    page.locator("#distance svg path.curve").wait_for(state="attached")
    page.locator("#distance .area").scroll_into_view_if_needed()
    box = page.locator("#distance .area svg").bounding_box()
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 0.4 * box["height"])
    assert 3 < page.evaluate("view.time") < 6
    rehearsal = page.get_by_label("Speed").locator("option").nth(1).text_content()
    assert rehearsal.startswith("rehearsal")


def test_a_residual_peak_shows_its_pose_and_its_joint(open_page, pages):
    page = open_page(path=pages["log"])
    peak = page.locator("button[data-time]").first
    peak.click()
    assert page.evaluate("view.time") == pytest.approx(float(peak.get_attribute("data-time")), abs=1e-3)
    joint = int(peak.get_attribute("data-joint"))
    assert page.locator("#torque [role=tab]").nth(joint).get_attribute("aria-selected") == "true"


def test_something_is_drawn(open_page, pages):
    """The picture of the canvas has many colours: an empty one has those of the grid alone."""
    page = open_page(path=pages["alone"])
    page.evaluate("view.layer('links', false), view.render()")
    count = """() => { const gl = view.renderer.getContext(), [w, h] = [gl.drawingBufferWidth, gl.drawingBufferHeight];
        const pixels = new Uint8Array(4 * w * h); gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
        let drawn = 0; for (let k = 3; k < pixels.length; k += 4) drawn += pixels[k] > 0; return drawn; }"""
    empty = page.evaluate(count)
    page.evaluate("view.layer('links', true), view.render()")
    assert page.evaluate(count) > empty + 5000


def test_without_webgl_the_still_picture_stays(browser, pages):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null;")
    page.goto(pages["alone"].as_uri())
    assert page.locator("#space-view svg.still").is_visible()
    assert page.locator("#space-view svg.still line").count() > 5
    assert page.locator("#space-view canvas").count() == 0
    context.close()


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", ["alone", "motion", "log"])
def test_pages_have_no_accessibility_violations(open_page, pages, name, size):
    page = open_page(size, "light" if size[0] > 500 else "dark", path=pages[name])
    violations = axe_api.Axe().run(page)
    assert violations.violations_count == 0, violations.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0], "the page is wider than the screen"


def test_names_with_markup_stay_text(open_page, tmp_path):
    names = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"]
    robot = arm("planar2", names)
    path = mindyn.write_view(robot, tmp_path / "named.html")
    page = open_page(path=path)
    assert page.locator("#sliders .name").all_text_contents() == names
    assert page.locator("img").count() == 0
