"""What the page says of the runs of digits that ship, in numbers.

    UNWEAVE_DATA=FOLDER python -m unweave.explorer.promises RUN ... [--all]

Codes of test rows are changed and decoded, and a judge that has learned originals (`recognition`) looks at the
pictures. Of a run with a category it is asked whether a button shows what is written on it whatever the style, of a run
with content and style whose digit a swapped picture has. Style is measured (`measure_shape`): how far slant, width and
the like are from what is usual for the digit, since a 1 is narrow whoever wrote it.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unweave.base.errors import UnweaveError
from unweave.core.codes import Codes
from unweave.data import SHAPE_MEASURES, measure_shape, source
from unweave.metrics import category_purity, recognition
from unweave.runs import Run

JUDGED = 2_000
"""Rows whose codes are changed and decoded, at most."""
KNOWN = 10_000
"""Originals that the judge has learned, at most."""
SHAPE = ("area", "thickness", "width", "slant")
"""Measures of shape that style may carry. Height is none: nearly all of MNIST's digits are equally high."""
FAR = 2.0
"""Sliders are moved this many standard deviations to both sides."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A run and the rows it is tried on.

    codes:           of the rows
    images, digits:  (N, 1, H, W) and (N,) what they show
    training, known: (M, 1, H, W) and (M,) what the judge has learned
    """

    run: Run
    codes: Codes
    images: np.ndarray
    digits: np.ndarray
    training: np.ndarray
    known: np.ndarray

    @staticmethod
    def of(run: Run, factor: str = "digit") -> Trial:
        """Test rows, and training rows for the judge; where a run has a sample of test rows only, half of it each."""
        data, rows = run.dataset(), run.split_rows()
        if data.factors is None or factor not in data.factors.names:
            raise UnweaveError(f"{run.path} has no factor {factor!r}: give a run of digits")
        rng = np.random.default_rng(0)
        test = rng.permutation(rows["test"])
        if "train" in rows:
            tried, learned = test[:JUDGED], rng.permutation(rows["train"])[:KNOWN]
        else:
            tried, learned = np.split(test, [len(test) // 2])
        digits = data.factors.column(factor)
        images = data.observations(tried), data.observations(learned)
        return Trial(run, run.encode_rows(tried), images[0], digits[tried], images[1], digits[learned])

    def decoded(self, codes: Codes) -> np.ndarray:
        """(n, 1, H, W) pictures of codes."""
        return self.run.system().render(codes)

    def style(self, pictures: np.ndarray, digits: np.ndarray) -> np.ndarray:
        """(n, len(SHAPE)) measures of pictures, less what is usual for the digits they are to show."""
        usual = shapes(self.training)
        return shapes(pictures) - np.stack([np.nanmean(usual[self.known == digit], axis=0) for digit in digits])

    def seen(self, pictures: np.ndarray, digits: np.ndarray) -> float:
        """Share of the pictures in which the judge sees these digits."""
        score = recognition(
            pictures,
            digits,
            originals=self.images[: len(pictures)],
            training=self.training,
            training_labels=self.known,
        )
        return score.value


def of_category(trial: Trial, block: str, seed: int = 0) -> dict[str, float]:
    """What the buttons of a category promise.

    purity: share of the rows whose digit is the most frequent one of their category
    shown:  share of pictures in which the digit on the button is seen: a row's style, a used category at random
    slant, thickness, ...: correlation of these pictures' style with that of the rows
    """
    found = category_purity(trial.codes[block], trial.digits, repeats=2)
    used = np.flatnonzero(found.rows)  # nothing is written on the others
    chosen = np.random.default_rng(seed).choice(used, size=len(trial.digits))
    pictures = trial.decoded(trial.codes.replace(**{block: np.eye(len(found.rows), dtype=np.float32)[chosen]}))
    digits = found.labels[chosen]
    kept = correlations(trial.style(pictures, digits), trial.style(trial.images, trial.digits))
    return {"purity": found.purity, "shown": trial.seen(pictures, digits), **kept}


def of_swaps(trial: Trial, content: str = "content", seed: int = 0) -> dict[str, float]:
    """What a swap promises, of pairs of rows with unlike digits: one gives its content, the other all else.

    content: share of the pictures in which the digit of the content's donor is seen;  style: that of the other's
    slant, thickness, ...: correlation of the pictures' style with that of the style's donors
    slant of content, ...: and with that of the content's donors
    """
    order = np.random.default_rng(seed).permutation(len(trial.digits))
    other, donor = order, np.roll(order, 1)
    unlike = trial.digits[other] != trial.digits[donor]
    other, donor = other[unlike], donor[unlike]
    pictures = trial.decoded(trial.codes.take(other).replace(**{content: trial.codes[content][donor]}))
    style = trial.style(pictures, trial.digits[donor])
    own = trial.style(trial.images, trial.digits)
    return {
        "content": trial.seen(pictures, trial.digits[donor]),
        "style": trial.seen(pictures, trial.digits[other]),
        **correlations(style, own[other]),
        **{f"{name} of content": value for name, value in correlations(style, own[donor]).items()},
    }


def correlations(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Measure of shape -> correlation of (n, len(SHAPE)) measures of pictures and of what they took something from.

    A picture without ink has no shape and is left out. 0 where all pictures have the same.
    """
    found = {}
    for name, left, right in zip(SHAPE, one.T, other.T, strict=True):
        known = np.isfinite(left) & np.isfinite(right)
        varies = known.any() and np.ptp(left[known]) > 0 and np.ptp(right[known]) > 0
        found[name] = float(np.corrcoef(left[known], right[known])[0, 1]) if varies else 0.0
    return found


def moves(trial: Trial, block: str = "style", rows: int = 200) -> np.ndarray:
    """(D, len(SHAPE)) how far each slider moves each measure, from -2 to 2, in its standard deviations among images."""
    codes = trial.codes.take(np.arange(min(rows, len(trial.digits))))
    spread = np.nanstd(shapes(trial.images), axis=0)
    found = []
    for column in range(codes[block].shape[1]):
        ends = []
        for place in (-FAR, FAR):
            value = codes[block].copy()
            value[:, column] = place
            ends.append(shapes(trial.decoded(codes.replace(**{block: value}))))
        found.append(np.nanmean(ends[1] - ends[0], axis=0) / spread)
    return np.array(found)


def shapes(pictures: np.ndarray) -> np.ndarray:
    """(N, len(SHAPE)) measures of pictures (N, 1, H, W)."""
    return measure_shape(pictures[:, 0])[:, [SHAPE_MEASURES.index(name) for name in SHAPE]]


def promises(trial: Trial) -> dict[str, float]:
    """The numbers of a run of digits: those of its category if it has one, else those of swapping its first block."""
    categories = [block.name for block in trial.codes.blocks if block.kind == "simplex"]
    return of_category(trial, categories[0]) if categories else of_swaps(trial, trial.codes.blocks[0].name)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m unweave.explorer.promises", description="Measure runs of digits.")
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--all", action="store_true", help="on all of a run's data, where it carries a sample of them")
    asked = parser.parse_args(arguments)
    for path in asked.runs:
        run = Run.open(Path(path))
        if asked.all:
            run = Run.open(run.path, data=source(run.manifest.data, **run.manifest.data_settings).load())
        trial = Trial.of(run)
        numbers = {**promises(trial), "judge": trial.seen(trial.images, trial.digits)}
        print(path, json.dumps({name: round(value, 3) for name, value in numbers.items()}))
        for number, line in enumerate(moves(trial)):
            print(f"  style[{number}]", json.dumps(dict(zip(SHAPE, line.round(2).tolist(), strict=True))))


if __name__ == "__main__":
    main(sys.argv[1:])
