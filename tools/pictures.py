"""Take the pictures of README and gallery from the report of the demo: python tools/pictures.py REPORT [FOLDER].

`make pictures` runs the demo first; the workflow of the documentation does the same, so that pictures and demo agree.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from shutil import which

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
PARTS = {
    "torque": "#torque [role=tabpanel]:not([hidden])",
    "intervals": "#parameters .forest",
    "friction": "#friction .grid",
    "residuals": "#residuals [role=tabpanel]:not([hidden])",
    "motion": "#robot .space",
}
"""Pictures of one part of the page: name and CSS selector."""
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
"""Chromium draws the robot in space without a graphics card."""
TALLEST = 900
"""Largest height of a picture, pixels; longer ones are cut."""


def save(png: bytes, path: Path) -> None:
    """Write a picture with few colours, cut to the tallest height."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(picture.height, TALLEST)))
    picture.quantize(128, method=Image.Quantize.MEDIANCUT).save(path, optimize=True)


def take_pictures(page: Page, report: Path, folder: Path) -> None:
    """Open the report and take all pictures."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(report.absolute().as_uri())
    page.wait_for_timeout(500)
    save(page.screenshot(), folder / "report.png")
    page.set_viewport_size({"width": 1280, "height": 1000})
    page.evaluate("view.show(view.scene.playback.times.at(-1) / 3)")
    for name, place in PARTS.items():
        save(page.locator(place).first.screenshot(), folder / f"{name}.png")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(report.absolute().as_uri())
    page.wait_for_timeout(500)
    save(page.screenshot(), folder / "phone.png")


def main() -> None:
    """Take the pictures of the report given on the command line."""
    report = Path(sys.argv[1])
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    chromium = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        take_pictures(browser.new_page(color_scheme="light"), report, folder)
        browser.close()
    print(f"wrote {', '.join(sorted(path.name for path in folder.glob('*.png')))} to {folder}")


if __name__ == "__main__":
    main()
