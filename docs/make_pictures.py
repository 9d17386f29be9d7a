"""Draw the pictures of the systems' and operations' pages, and of the README, from trained runs.

    python docs/make_pictures.py                            # only those of runs that ship with the library
    python docs/make_pictures.py runs/demo                  # these, and those of the run of `make demo`
    python docs/make_pictures.py runs/demo runs/dsprites    # all

The first folder is the run of `make demo`; the second is that of `unweave study dsprites` (with `capacity-0` and
`infovae-0` trained like the others). No run is chosen by its looks: every page shows seed 0.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from unweave.core.dataspec import DataSpec
from unweave.explorer import pretrained
from unweave.media import Shown, save_png
from unweave.runs import Run

DOCS = Path(__file__).parent
RUNS = Path(pretrained.__file__).parent
OPERATIONS = {
    "traverse": {"steps": 7, "most": 6},
    "reconstruct": {},
    "interpolate": {"steps": 8},
    "sample": {"lines": 3, "columns": 8},
}


def save(run: Run, operation: str, path: Path, **params: object) -> None:
    """One picture of an operation."""
    write(run.operate(operation, **params), path, run.dataset().spec)


def write(shown: Shown, path: Path, spec: DataSpec) -> None:
    """One picture, with a palette: a fraction of the size, and nothing to see of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_png(shown, path, spec)
    with Image.open(path) as picture:
        small = picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=32)
    small.save(path, optimize=True)


def draw_study(study: Path) -> None:
    for folder in sorted(study.glob("*-0")):
        run = Run.open(folder)
        name = run.manifest.system
        row = [int(run.code_rows()[0])]
        save(run, "traverse", DOCS / "systems" / "images" / f"{name}.png", rows=row, steps=7, most=8)


def draw_demo(demo: Path) -> None:
    shown = Run.open(demo)
    for operation, params in OPERATIONS.items():
        save(shown, operation, DOCS / "operations" / "images" / f"{operation}.png", **params)
    informative = shown.operate("traverse", steps=2, most=2).rows
    save(shown, "swap", DOCS / "operations" / "images" / "swap.png", blocks=tuple(dict.fromkeys(informative))[:2])
    screenshot(shown.report(), DOCS / "images" / "report.png")


def draw_shipped() -> None:
    """Pictures of a run that ships: its digits become another digit, and the style stays."""
    with tempfile.TemporaryDirectory() as work:  # a copy, since an operation keeps codes in the run
        run = Run.open(shutil.copytree(RUNS / "mnist-structured", Path(work) / "run"))
        save(run, "edit", DOCS / "operations" / "images" / "edit.png", set="digit=0")


def draw_using() -> None:
    """Drawings that no run has seen, what the run of sprites that ships makes of them, and with an edited code."""
    drawings = []
    for left, top, kind in ((8, 12, "ellipse"), (40, 30, "rectangle"), (55, 60, "ellipse"), (20, 55, "rectangle")):
        picture = Image.new("RGB", (96, 96))
        getattr(ImageDraw.Draw(picture), kind)((left, top, left + 24, top + 24), fill=(255, 255, 255))
        drawings.append(picture)
    run = Run.open(RUNS / "sprites-structured")
    codes = run.encode(drawings)
    heart = np.tile(np.eye(3, dtype=np.float32)[2], (len(drawings), 1))
    side = run.dataset().spec.shape[-1]
    given = np.stack([np.asarray(each.convert("L").resize((side, side)))[None] / 255 for each in drawings])
    rows = np.stack([given, run.decode(codes), run.decode(codes.replace(shape=heart))]).astype(np.float32)
    shown = Shown("Drawings no run has seen", rows, ("drawing", "decoded", "shape = heart"), ("",) * len(drawings))
    write(shown, DOCS / "images" / "using.png", DataSpec.from_dict(run.manifest.data_spec))


def screenshot(page: Path, path: Path) -> None:
    """The top of a page as headless Chromium shows it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
    offline = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with tempfile.TemporaryDirectory() as profile:
        where = [f"--user-data-dir={profile}", f"--screenshot={path}", "--window-size=1280,1390"]
        subprocess.run(["chromium", *quiet, *offline, *where, page.resolve().as_uri()], check=True, capture_output=True)
    with Image.open(path) as picture:
        small = picture.convert("RGB").convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
    small.save(path, optimize=True)


if __name__ == "__main__":
    draw_shipped()
    draw_using()
    for draw, folder in zip((draw_demo, draw_study), sys.argv[1:], strict=False):
        draw(Path(folder))
