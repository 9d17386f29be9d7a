"""The explorer's page in a real browser: a server, pages whose errors fail a test, and what is seen on them."""

from __future__ import annotations

import asyncio
import base64
import io
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import numpy as np
import uvicorn
from PIL import Image

from unweave.explorer.opened import OpenedRun
from unweave.explorer.server import _listen, build_app
from unweave.media.pictures import as_pictures

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]
PATIENCE = 60.0
"""Seconds until something that should appear counts as missing: two slow cores are shared."""

VIEWS = {
    "explore": ("Explore", "#edited-picture:not([width='1'])"),
    "mix": ("Swap & mix", "[data-testid=result]"),
    "understand": ("Understand", ".heat"),
    "training": ("Training", ".chart"),
    "operations": ("Operations", "[data-testid=result]"),
}
"""Title of each view, and what is there when it shows something."""
SETTLED = """view => {
    const panel = document.getElementById(`panel-${view}`);
    const isEmpty = (canvas) => canvas.checkVisibility() && canvas.width < 2;
    const moves = document.getAnimations().some((each) => each instanceof CSSTransition);
    return !moves && !panel.querySelector(".busy") && ![...panel.querySelectorAll("canvas")].some(isEmpty);
}"""


def chromium_path() -> str | None:
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Served:
    """The explorer's server on a free port of the loopback interface, in a thread."""

    def __init__(self, paths: Sequence[Path], token: str | None = None, port: int = 0):
        listener = _listen("127.0.0.1", port)
        self.port = listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/"
        self.app = build_app(paths, token)
        config = uvicorn.Config(self.app, log_level="error", access_log=False, lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([listener])), daemon=True)
        self.thread.start()
        until(lambda: self.server.started, "the server starts")

    def stop(self) -> None:
        self.server.force_exit = self.server.should_exit = True  # pages keep connections open
        self.thread.join(PATIENCE)


def until(holds: Callable[[], Any], what: str, page: Any = None, patience: float = PATIENCE) -> Any:
    """Wait until something holds, and give it; fail with `what` when it does not."""
    end = time.monotonic() + patience
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not in {patience:g} s: {what}")
        if page is not None:
            page.wait_for_timeout(60)  # lets the page's own events in
        else:
            time.sleep(0.01)


class Visit:
    """Opens pages of one test and hears their errors; `expected` holds parts of messages that may come."""

    def __init__(self, browser: Any, address: str):
        self.browser, self.address = browser, address
        self.contexts: list[Any] = []
        self.errors: list[str] = []
        self.expected: list[str] = []

    def __call__(self, where: str = "", *, size: tuple[int, int] = (1280, 800), **options: Any) -> Any:
        """A page in a browser context of its own; where: what follows the server's address."""
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        self.contexts.append(context)
        return self.beside(context, where)

    def beside(self, context: Any, where: str) -> Any:
        """Another page in the same context."""
        context.set_default_timeout(1000 * PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(where if "://" in where else self.address + where)
        return page

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(part in error for part in self.expected)]

    def close(self) -> None:
        for context in self.contexts:
            for page in context.pages:
                page.unroute_all(behavior="ignoreErrors")  # a request may be held or on its way
            context.close()


def link(view: str = "explore", **values: Any) -> str:
    """The part of an address that opens a view."""
    pairs = [f"{name}={quote(str(value))}" for name, value in values.items()]
    return f"#{view}?{'&'.join(pairs)}"


def address_of(page: Any) -> dict[str, str]:
    """What the page's address says, `view` included, once it has been written."""
    view, _, query = page.evaluate("location.hash").removeprefix("#").partition("?")
    return {"view": view, **dict(parse_qsl(query.replace("+", "%2B")))}


def link_of(page: Any) -> str:
    """The link that restores what the page shows now, as `visit` takes it.

    The address follows a change after 150 ms.
    """
    pass_time(page)
    return page.evaluate("location.hash")


def pass_time(page: Any, milliseconds: int = 300) -> None:
    """Let the page's own time pass.

    A page's timers fire in the order of their ends: one that is begun now ends after those that were to fire until
    then, however slow the machine is.
    """
    page.evaluate("time => new Promise(done => setTimeout(done, time))", milliseconds)


def answer(page: Any, route: Any) -> None:
    """Let a request that was held go on, until the page has done what it does with the answer."""
    route.continue_()
    route.request.response().finished()
    pass_time(page)


def choose_random(page: Any) -> int:
    """Choose Random and give its seed, once the server has drawn.

    The server is a thread of the test: two that draw from a seed at the same time take each other's random numbers.
    """
    with page.expect_response("**/draw?*") as drawn:
        page.locator("#random").click()
    seed = drawn.value.url.rpartition("seed=")[2]
    wait_address(page, seed=seed)
    return int(seed)


def record(node: Any, attribute: str | None = None) -> Callable[[], list[str]]:
    """Keep each text that a node has from now on, or each value of an attribute: none is there too briefly."""
    node.evaluate(
        """(node, name) => {
            const read = () => (name ? node.getAttribute(name) : node.textContent);
            const texts = (window.recorded = [read()]);
            const changed = () => texts.at(-1) !== read() && texts.push(read());
            const all = { attributes: true, childList: true, characterData: true, subtree: true };
            new MutationObserver(changed).observe(node, all);
        }""",
        attribute,
    )
    return lambda: node.page.evaluate("window.recorded")


def wait_address(page: Any, **wanted: str) -> dict[str, str]:
    """The address once it says so; "" is for what it should not say."""
    return until(
        lambda: (
            (found := address_of(page))
            and all(found.get(name, "") == value for name, value in wanted.items())
            and found
        ),
        f"the address says {wanted}, it is {page.evaluate('location.hash')}",
        page,
    )


def seen(page: Any, selector: str) -> np.ndarray:
    """(H, W, 3) the pixels of a canvas."""
    return pixels(page.locator(selector).first.evaluate("node => node.toDataURL('image/png')"))


def pixels(text: str) -> np.ndarray:
    """(H, W, 3) the pixels of a PNG in a data: link."""
    with Image.open(io.BytesIO(base64.b64decode(text.partition(",")[2]))) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def same(first: np.ndarray, second: np.ndarray, by: int = 1) -> bool:
    """Equal pictures; a level of 255 may differ, since batches of other sizes round differently."""
    return first.shape == second.shape and bool(np.abs(first.astype(int) - second.astype(int)).max() <= by)


def wait_picture(page: Any, selector: str, expected: np.ndarray, by: int = 1) -> None:
    """Wait until a canvas shows a picture."""
    until(lambda: same(seen(page, selector), expected, by), f"{selector} shows what the system renders", page)


def wait_view(page: Any, view: str) -> None:
    """Wait until a view has all its pictures and stands still."""
    page.locator(f"#panel-{view}").locator(VIEWS[view][1]).first.wait_for()
    until(lambda: page.evaluate(SETTLED, view), f"all pictures of {view}", page)


def ready(page: Any) -> None:
    """Wait until Explore shows its pictures: of the input, the strips and the pad."""
    page.wait_for_selector(".strip-cell canvas:not([width='1'])")
    wait_view(page, "explore")


class Expected:
    """What the library itself makes of a run, to compare pages with."""

    def __init__(self, path: Path):
        self.path = path
        self.state = OpenedRun(path.name, path).state()
        self.about = self.state.about

    def code(self, row: int) -> np.ndarray:
        """(D,) the code of a row."""
        return np.asarray(self.state.input(row)["code"])

    def knob(self, name: str) -> dict[str, Any]:
        return next(knob for knob in self.about["knobs"] if knob["name"] == name)

    def by_information(self) -> list[dict[str, Any]]:
        return sorted(self.about["knobs"], key=lambda knob: -knob["nats"])

    def turned(self, code: np.ndarray, name: str, value: float) -> np.ndarray:
        """The code with one knob at a value; of a category, its number."""
        knob, made = self.knob(name), np.array(code, dtype=np.float64)
        width = len(knob["columns"]) // knob["steps"]
        for place, column in enumerate(knob["columns"]):
            made[column] = float(place % width == value) if knob["kind"] == "simplex" else value
        return made

    def picture(self, code: np.ndarray) -> np.ndarray:
        """(H, W, 3) what the system renders for a code."""
        rendered = self.state.run.system().render(self.state.reference.unflat(np.asarray(code, np.float32)[None]))
        return self.grid(rendered[None])[0, 0].astype(int)

    def row(self, row: int) -> np.ndarray:
        """(H, W, 3) a row of the data."""
        return self.grid(self.state.dataset.observations([row])[None])[0, 0].astype(int)

    def grid(self, images: np.ndarray) -> np.ndarray:
        return as_pictures(images, self.state.dataset.spec, self.state.limits).grid
