"""The explorer over loopback: slider to picture, page to ready, and many browsers at once.

    python benchmarks/explorer.py [--moves 400] [--browsers 8] [--sliders 30] [--save]

A run of the reference model (beta-VAE of Burgess et al. on 64 x 64, a few steps of training) is served by
`unweave explore` in a process of its own, and asked over one connection per browser, as a browser does. A move is one
position of a slider, all different, so that nothing comes from memory; its time ends when the whole picture is there.
The page is opened in headless Chromium where there is one: from the request to the first decoded picture on the page.
`--save` keeps the result of this processor in benchmarks/results/explorer and puts it into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from _processes import machine, usable_cores
from _report import Table, save, show, table

from unweave.models.presets import BURGESS
from unweave.runs import train

# A canvas has one pixel until a picture is painted on it. The page's own clock begins when it is asked for.
PAINTED = """() => new Promise((done) => {
  const isPainted = () => document.querySelector("#edited-picture")?.width > 1;
  const look = () => (isPainted() ? done(performance.now()) : setTimeout(look, 5));
  look();
})"""


def reference_run(folder: Path) -> Path:
    """A beta-VAE on images of one white square, trained for a moment."""
    rng = np.random.default_rng(0)
    images = np.zeros((2048, 64, 64), dtype=np.uint8)
    for image, (top, left) in zip(images, rng.integers(4, 44, (2048, 2)), strict=True):
        image[top : top + 16, left : left + 16] = 255
    np.save(folder / "squares.npy", images)
    settings = {**BURGESS, "training.steps": 30, "training.batch_size": 64}
    path = folder / "reference"
    train("betavae", str(folder / "squares.npy"), settings=settings, run=path, progress=False)
    return path


@contextmanager
def served(run: Path) -> Iterator[tuple[str, int]]:
    """Host and port of `unweave explore` on a run."""
    command = [sys.executable, "-m", "unweave", "explore", str(run), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://([\d.]+):(\d+)/", process.stdout.readline())
        if found is None:
            raise SystemExit("the explorer did not start")
        yield found[1], int(found[2])
    finally:
        process.terminate()
        process.wait()


class Browser:
    """One connection that stays open."""

    def __init__(self, address: tuple[str, int], seed: int):
        self.connection = http.client.HTTPConnection(*address, timeout=60)
        self.rng, self.views = np.random.default_rng(seed), seed
        self.about = json.loads(self.get("/api/runs/reference"))

    def get(self, path: str) -> bytes:
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
        return content

    def move(self, slider: int) -> tuple[float, int]:
        """Seconds until the picture of a new position is there, and the status."""
        code = list(self.about["mean"])
        code[slider % len(code)] = float(self.rng.normal())
        body = json.dumps({"codes": [code], "view": f"{self.views}-{slider}"})
        began = time.perf_counter()
        self.connection.request("POST", "/api/runs/reference/decode", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - began
        if answer.status == 200 and not content.startswith(b"\x89PNG"):
            raise RuntimeError("the answer is no picture")
        return seconds, answer.status


def many(address: tuple[str, int], browsers: int, sliders: int, rounds: int) -> tuple[list[list[float]], list[int]]:
    """Seconds of the moves of each browser in their order, and all statuses."""
    seconds: list[list[float]] = [[] for _ in range(browsers)]
    statuses: list[int] = []

    def work(number: int) -> None:
        browser = Browser(address, 100 + number)
        for _ in range(rounds):
            for slider in range(sliders):
                took, status = browser.move(slider)
                seconds[number].append(took)
                statuses.append(status)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(browsers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds, statuses


def page_ready(address: tuple[str, int]) -> list[float]:
    """Seconds from asking for the page to the first decoded picture on it; empty without Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=quiet)
        for _ in range(9):
            page = browser.new_context().new_page()
            page.goto(f"http://{address[0]}:{address[1]}/")
            found.append(page.evaluate(PAINTED) / 1e3)
            page.close()
        browser.close()
    return found


def milliseconds(seconds: list[float]) -> list[str]:
    return [f"{1e3 * float(np.percentile(seconds, level)):.1f}" for level in (50, 95, 99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=400, help="moves of one slider, one after the other")
    parser.add_argument("--browsers", type=int, default=8)
    parser.add_argument("--sliders", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="few moves: does everything run")
    parser.add_argument("--save", action="store_true", help="keep the result and put it into the README")
    given = parser.parse_args()
    moves, rounds = (20, 1) if given.quick else (given.moves, 5)
    with tempfile.TemporaryDirectory() as folder, served(reference_run(Path(folder))) as address:
        one = Browser(address, 0)
        for _ in range(10):
            one.move(0)
        alone = [one.move(0)[0] for _ in range(moves)]
        seconds, statuses = many(address, given.browsers, given.sliders, rounds)
        ready = page_ready(address)
    everyone = [each for browser in seconds for each in browser]
    quarter = len(seconds[0]) // 4
    first = [each for browser in seconds for each in browser[:quarter]]
    last = [each for browser in seconds for each in browser[-quarter:]]
    failed = sum(status not in (200, 204) for status in statuses)
    rows = [
        ["one browser, one slider", str(len(alone)), *milliseconds(alone)],
        [f"{given.browsers} browsers, {given.sliders} sliders each", str(len(everyone)), *milliseconds(everyone)],
        ["of these the first quarter", str(len(first)), *milliseconds(first)],
        ["of these the last quarter", str(len(last)), *milliseconds(last)],
    ]
    if ready:
        rows.append(["page to first picture, Chromium", str(len(ready)), *milliseconds(ready)])
    notes = [
        f"{failed} of {len(statuses)} answers were errors",
        "a queue that grows would show in the last quarter",
    ]
    tables: list[Table] = [table("Milliseconds", ["what", "times", "median", "95 %", "99 %"], rows, notes)]
    show(tables)
    if given.save:
        raw = {"alone": alone, "many": everyone, "ready": ready, "errors": failed}
        save("explorer", machine(usable_cores()), {"browsers": given.browsers, "sliders": given.sliders}, tables, raw)


if __name__ == "__main__":
    main()
