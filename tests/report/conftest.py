"""Chromium with a report; any error or network request fails the test."""

from __future__ import annotations

import shutil

import pytest
from reported_arms import arm, estimate_of, everything

import mindyn

DESKTOP = (1280, 900)
FLAGS = ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"]
"""Run without a GPU, with WebGL on the CPU."""


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if executable is None:
        pytest.skip("no chromium is found on the path")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    robot = arm()
    path = tmp_path_factory.mktemp("report") / "report.html"
    mindyn.write_report(estimate_of(robot), path, **everything(robot))
    return path


def _harmless(message):
    """Return whether a message is a note, or a warning of a graphics driver about its speed."""
    return message.type == "info" or "GL Driver Message (OpenGL, Performance" in message.text


@pytest.fixture
def open_page(browser, report):
    """Open the report; fail if there was an error or a network request."""
    contexts, trouble = [], []

    def opened(size=DESKTOP, theme="light", path=report):
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: None if _harmless(message) else trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: trouble.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []
