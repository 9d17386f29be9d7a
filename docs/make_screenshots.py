"""Photograph the views of the explorer for docs/explorer.md and the README.

    python docs/make_screenshots.py [VIEW ...]

opens the trained runs that ship in headless Chromium, on a server of its own, and writes docs/images/explorer-VIEW.png.
The inputs are the first ones the page offers.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTH = 1320
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-quic"]
OFFLINE = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


@dataclass(frozen=True)
class View:
    """What the address says after the mark #, and how much of the page is shown."""

    address: str
    height: int = 800
    dark: bool = False


VIEWS = {
    "explore": View("explore?run=sprites-structured&set=shape:2;style[0]:1.2"),
    "dark": View("explore?run=mnist-structured&set=digit:3", dark=True),
    "compare": View("explore?run=mnist-structured&vs=mnist-mlvae&set=style[1]:2", height=960),
    "swap": View("mix?run=mnist-mlvae&mode=swap&parts=content", height=1020),
    "accumulate": View("mix?run=mnist-mlvae&mode=accumulate", height=1000),
    "understand": View("understand?run=sprites-structured&colour=x", height=1200),
    "training": View("training?run=mnist-structured", height=880),
    "operations": View("operations?run=sprites-structured&op=interpolate", height=1060),
}


@contextmanager
def page_address() -> Iterator[str]:
    """The address of `unweave explore` on the runs that ship, while it serves."""
    command = [sys.executable, "-m", "unweave", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()  # The explorer is at http://127.0.0.1:PORT/  (Ctrl-C stops it)
            yield next(word for word in line.split() if word.startswith("http://"))
        finally:
            server.terminate()


def photograph(browser: Browser, address: str, view: View) -> Image.Image:
    """The page as it is once everything that it asked for has come."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": view.height},
        color_scheme="dark" if view.dark else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{address}#{view.address}")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(800)  # plots are drawn a moment after their numbers have come
    picture = page.screenshot()
    context.close()
    return Image.open(io.BytesIO(picture)).convert("RGB")


def main(names: list[str]) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with page_address() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS, *OFFLINE])
        for name in names or VIEWS:
            path = IMAGES / f"explorer-{name}.png"
            picture = photograph(browser, address, VIEWS[name])
            picture.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
            print(f"{path.name}: {path.stat().st_size // 1024} KB")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
