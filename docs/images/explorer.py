"""The pictures of docs/guides/explorer.md: python docs/images/explorer.py GRID_RUN [GAME_RUN] (needs Chromium).

The first run is one of `visr pretrain visr/Grid-v0 --preset demo`, the second any game's with a saved task.
"""

from __future__ import annotations

import io
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from visr.explorer.serve import Server

HERE = Path(__file__).parent


def paint(page: Page) -> None:
    """Two boxes, a penalty beside them, and a walk from the corner."""
    page.fill("#preset-text", "boxes:7")
    page.click("text=Paint it")
    page.click("text=− penalty")
    page.click("[name=size][value='2'] + span")
    page.locator("#map-reward").click(position={"x": 60, "y": 60})
    page.wait_for_timeout(1000)
    page.locator("#map-value").click(position={"x": 15, "y": 15})
    page.mouse.move(0, 0)
    page.wait_for_timeout(1400)


def watch(page: Page) -> None:
    """A saved task if there is one, for a hundred steps."""
    page.click("#tab-watch")
    page.wait_for_selector("#screen")
    page.click("#chooser >> text=A saved task")
    if page.locator("#saved-name").is_enabled():
        page.click("#chooser >> text=Load")
    page.click("#play")
    page.wait_for_timeout(9000)
    page.click("#play")
    page.wait_for_timeout(500)


def atlas(page: Page) -> None:
    """Ten tasks of the library."""
    page.click("#tab-atlas")
    page.fill("#atlas-count", "10")
    page.click("#atlas-make")
    page.wait_for_selector("#atlas-export:enabled", timeout=600_000)
    page.wait_for_timeout(1500)


def main(grid: str, game: str = "") -> None:
    """Four pictures, each small enough for a page; without a game three."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        take(browser, grid, "explorer_paint.png", paint, 1280, 1150, "light")
        if game:
            take(browser, game, "explorer_watch.png", watch, 1280, 900, "dark")
        take(browser, grid, "explorer_phone.png", paint, 390, 844, "dark")
        take(browser, grid, "explorer_atlas.png", atlas, 1280, 820, "light")
        browser.close()


def take(
    browser: Any,
    run: str,
    name: str,
    act: Callable[[Page], None],
    width: int,
    height: int,
    scheme: Any,
) -> None:
    """Serve a run, open it, act, and keep what is to be seen in 256 colours."""
    server = Server(run, port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.set_default_timeout(60_000)
    page.goto(server.url)
    page.wait_for_selector("[data-state=connected]")
    page.wait_for_timeout(2000)
    act(page)
    page.evaluate("scrollTo(0, 0)")
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(HERE / name, optimize=True)
    page.close()
    server.stop()
    thread.join(timeout=10)


if __name__ == "__main__":
    main(*sys.argv[1:])
