"""Grids of observations as pictures: PNG, and GIF where the columns are a movement or the cells are clips.

Observations become small colour pictures first (`as_pictures`): images as they are, vectors as bars or a strip of heat,
matrices as heat, clips as film strips. Then the grid is laid out with its names (`draw_grid`) and written.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unweave.base.errors import DataError
from unweave.base.files import replacing
from unweave.core.dataspec import DataSpec, Values
from unweave.media.shown import Shown

INK, FAINT, PAPER = (31, 35, 40), (110, 118, 129), (255, 255, 255)
POSITIVE, NEGATIVE, BED = (43, 108, 176), (200, 85, 61), (240, 242, 245)
MOST_BARS = 64
"""Vectors with more elements than this are shown as a strip of heat."""
FRAME_MS, HOLD_MS = 110, 500


@dataclass(frozen=True, eq=False)
class Pictures:
    """A grid ready to be drawn.

    grid: (R, K, H, W, 3) uint8
    full: (R, K) False where a cell is empty
    note: what was done to show the data, empty when they are shown as they are
    """

    grid: np.ndarray
    full: np.ndarray
    note: str = ""


def value_limits(images: np.ndarray, values: Values | None = None, levels: int | None = None) -> tuple[float, float]:
    """(black, white): the data values shown as black and as white.

    Values of known range have it; real numbers and counts take the range of these images. Without `values`, images
    within [0, 1] are taken as they are and others from their least to their greatest value.
    """
    if values == "tokens":
        raise DataError("word numbers have no picture: operations on text show sentences")
    if values in ("binary", "unit"):
        return 0.0, 1.0
    if values == "levels" and levels is not None:
        return 0.0, float(levels - 1)
    finite = images[np.isfinite(images)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if values is None and low >= 0 and high <= 1:
        return 0.0, 1.0
    if values == "counts" or (low >= 0 and values != "real"):
        low = 0.0
    return (low, high) if high > low else (low, low + 1.0)


def to_uint8(
    images: np.ndarray,
    values: Values | None = None,
    *,
    levels: int | None = None,
    limits: tuple[float, float] | None = None,
) -> np.ndarray:
    """The same array with 0 for black and 255 for white; values beyond the limits are cut off there.

    images: (..., C, H, W) or any other shape, in data units; NaN becomes black
    limits: what is black and what is white, from `value_limits` unless given
    """
    low, high = limits or value_limits(images, values, levels)
    unit = np.clip((np.nan_to_num(images, nan=low).astype(np.float64) - low) / (high - low), 0.0, 1.0)
    return np.round(unit * 255).astype(np.uint8)


def as_pictures(
    images: np.ndarray, spec: DataSpec | None = None, limits: tuple[float, float] | None = None
) -> Pictures:
    """Colour pictures of a grid of observations.

    images: (R, K, *shape); a cell that is NaN throughout is empty
    spec:   the data they are like; tells the range of values
    limits: what is black and what is white, for several grids that belong together
    """
    full = ~np.isnan(images).reshape(*images.shape[:2], -1).all(axis=2)
    if not np.isfinite(images[full]).all():
        raise DataError("a picture has NaN or infinite values: the system's output is not finite here")
    values, levels = (spec.values, spec.levels) if spec is not None else (None, None)
    limits = limits or value_limits(images, values, levels)
    event = images.shape[2:]
    if len(event) == 1:
        draw = _bars if event[0] <= MOST_BARS else _heat_strip
        return Pictures(draw(np.nan_to_num(images), limits), full)
    if len(event) == 2:
        return Pictures(_heat(to_uint8(images, limits=limits)), full)
    if len(event) == 4:
        return film_strips(clip_frames(images, spec, limits))
    if len(event) != 3:
        raise DataError(
            f"observations of shape {event} have no picture: expected (T, C, H, W), (C, H, W), (H, W) or (D,)"
        )
    note = ""
    if event[0] not in (1, 3):
        images, note = images.mean(axis=2, keepdims=True), f"mean of {event[0]} channels"
    grey_or_colour = np.moveaxis(to_uint8(images, limits=limits), 2, -1)
    return Pictures(np.broadcast_to(grey_or_colour, (*grey_or_colour.shape[:-1], 3)).copy(), full, note)


def clip_frames(
    images: np.ndarray, spec: DataSpec | None = None, limits: tuple[float, float] | None = None
) -> list[Pictures]:
    """The T grids of the frames of a grid of clips (R, K, T, C, H, W), all on one scale."""
    if limits is None:
        limits = value_limits(images, *((spec.values, spec.levels) if spec is not None else ()))
    return [as_pictures(images[:, :, step], spec, limits) for step in range(images.shape[2])]


def film_strips(frames: Sequence[Pictures], width: int = 4000) -> Pictures:
    """One grid of T grids: the frames of a cell side by side, made smaller where the whole is wider than `width`."""
    most = max(16, width // (len(frames) * frames[0].grid.shape[1]))
    fitted = [enlarge(shrink(frame.grid, most), min(48, most)) for frame in frames]
    gap = np.full((*fitted[0].shape[:3], 1, 3), PAPER, dtype=np.uint8)
    joined = [part for frame in fitted for part in (frame, gap)][:-1]
    return Pictures(np.concatenate(joined, axis=3), frames[0].full, frames[0].note)


def _bars(vectors: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """(R, K, 64, W, 3) bar charts of (R, K, D) vectors; bars start at zero, blue above and red below."""
    height, length = 64, vectors.shape[2]
    each = max(2, min(12, 96 // length))
    low, high = min(limits[0], 0.0), max(limits[1], 0.0)
    at = np.clip((high - vectors) / (high - low), 0, 1) * (height - 1)  # pixel rows from the top
    zero = round(high / (high - low) * (height - 1))
    line = np.arange(height)[:, None]
    at = np.round(at)[:, :, None, :]
    up = (line >= at) & (line <= zero) & (vectors[:, :, None, :] > 0)
    down = (line <= at) & (line >= zero) & (vectors[:, :, None, :] < 0)
    coloured = np.where(up[..., None], POSITIVE, np.where(down[..., None], NEGATIVE, BED)).astype(np.uint8)
    pictures = np.repeat(coloured, each, axis=3)
    if each > 3:
        pictures[:, :, :, each - 1 :: each] = BED
    pictures[:, :, zero] = np.minimum(pictures[:, :, zero], 170)
    return pictures


def _heat_strip(vectors: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """(R, K, 24, W, 3) strips of (R, K, D) vectors, neighbours averaged so that W is at most 192."""
    group = -(-vectors.shape[2] // 192)
    spare = -vectors.shape[2] % group
    padded = np.pad(vectors, ((0, 0), (0, 0), (0, spare)), mode="edge")
    averaged = padded.reshape(*vectors.shape[:2], -1, group).mean(axis=3)
    return np.repeat(_heat(to_uint8(averaged, limits=limits))[:, :, None], 24, axis=2)


def _heat(levels: np.ndarray) -> np.ndarray:
    """Colour of each 0..255 level: pale grey over blue to nearly black."""
    stops = np.array([BED, (122, 170, 216), POSITIVE, (14, 30, 56)], dtype=np.float64)
    place = levels.astype(np.float64) / 255 * (len(stops) - 1)
    return np.stack([np.interp(place, range(len(stops)), stops[:, c]) for c in range(3)], axis=-1).astype(np.uint8)


def enlarge(grid: np.ndarray, at_least: int) -> np.ndarray:
    """(..., H, W, 3) pictures magnified by a whole number so that the longer side reaches `at_least` pixels."""
    factor = max(1, -(-at_least // max(grid.shape[-3:-1])))
    return grid.repeat(factor, axis=-3).repeat(factor, axis=-2)


def shrink(grid: np.ndarray, at_most: int) -> np.ndarray:
    """(..., H, W, 3) pictures reduced by a whole number, squares of pixels averaged, to at most `at_most` pixels."""
    factor = -(-max(grid.shape[-3:-1]) // at_most)
    if factor <= 1:
        return grid
    height, width = (length // factor * factor for length in grid.shape[-3:-1])
    cut = grid[..., :height, :width, :].reshape(*grid.shape[:-3], height // factor, factor, width // factor, factor, 3)
    return np.round(cut.mean(axis=(-4, -2))).astype(np.uint8)


def montage(grid: np.ndarray, full: np.ndarray | None = None, gap: int = 0) -> np.ndarray:
    """(height, width, 3) one picture of (R, K, H, W, 3) pictures, empty cells and gaps the colour of paper."""
    rows, columns, height, width = grid.shape[:4]
    sheet = np.empty((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), dtype=np.uint8)
    sheet[:] = PAPER
    for row, column in np.ndindex(rows, columns):
        if full is None or full[row, column]:
            top, left = row * (height + gap), column * (width + gap)
            sheet[top : top + height, left : left + width] = grid[row, column]
    return sheet


def grid_png_bytes(grid: np.ndarray, full: np.ndarray | None = None, gap: int = 0) -> bytes:
    """A PNG file of (R, K, H, W, 3) pictures without names; gaps and empty cells are transparent."""
    from PIL import Image

    sheet = montage(grid, full, gap)
    covered = np.zeros(sheet.shape[:2], dtype=np.uint8)
    rows, columns, height, width = grid.shape[:4]
    for row, column in np.ndindex(rows, columns):
        if full is None or full[row, column]:
            top, left = row * (height + gap), column * (width + gap)
            covered[top : top + height, left : left + width] = 255
    grey = bool((grid[..., 0] == grid[..., 1]).all() and (grid[..., 1] == grid[..., 2]).all())
    channels = [sheet[..., 0]] if grey else [sheet[..., channel] for channel in range(3)]
    bands = [Image.fromarray(np.ascontiguousarray(channel)) for channel in channels]
    memory = io.BytesIO()
    if covered.all():
        image = bands[0] if grey else Image.merge("RGB", bands)
    else:
        image = Image.merge("LA" if grey else "RGBA", [*bands, Image.fromarray(covered)])
    image.save(memory, "PNG", optimize=True)
    return memory.getvalue()


def draw_grid(pictures: Pictures, rows: tuple[str, ...], columns: tuple[str, ...], title: str) -> Any:
    """A PIL image of a grid with its title above, column names over the columns and row names left of the rows."""
    from PIL import Image, ImageDraw

    grid = _comfortable(pictures.grid)
    height, width = grid.shape[2:4]
    name_font, title_font = _font(13), _font(16)
    margin, gap = 16, 4
    left = margin + (round(max(name_font.getlength(name) for name in rows)) + 10 if any(rows) else 0)
    columns = _shortened(columns, width + gap, name_font)
    top = margin + (30 if title else 0) + (20 if any(columns) else 0)
    sheet = montage(grid, pictures.full, gap)
    wide = max(left + sheet.shape[1], margin + round(title_font.getlength(title))) + margin
    image = Image.new("RGB", (wide, top + sheet.shape[0] + margin), PAPER)
    image.paste(Image.fromarray(sheet), (left, top))
    draw = ImageDraw.Draw(image)
    if title:
        draw.text((left, margin + 8), title, fill=INK, font=title_font, anchor="lm")
    for number, name in enumerate(columns):
        draw.text((left + number * (width + gap) + width / 2, top - 11), name, fill=FAINT, font=name_font, anchor="mm")
    for number, name in enumerate(rows):
        draw.text((left - 10, top + number * (height + gap) + height / 2), name, fill=INK, font=name_font, anchor="rm")
    return image


def save_png(shown: Shown, path: Path, spec: DataSpec | None = None) -> Path:
    """Write the grid with its names; `spec` tells the range of the values, which is guessed without it."""
    pictures = as_pictures(shown.images, spec)
    image = draw_grid(pictures, shown.rows, shown.columns, _titled(shown.title, pictures.note))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(Path(path)) as temporary:
        image.save(temporary, "PNG", optimize=True)
    return Path(path)


def save_gif(shown: Shown, path: Path, spec: DataSpec | None = None) -> Path:
    """Write what plays. Columns that move: each frame has all rows side by side, with their names; there and back, or
    forward when the columns are time. Clips: the whole grid, all cells at once, forward.
    """
    if not shown.plays:
        raise DataError(f"{shown.title!r} does not move: save it as PNG")
    from PIL import Image

    if shown.has_clips:
        frames, turn = _clip_frames(shown, spec), None
    else:
        frames = _column_frames(shown, spec)
        turn = None if shown.moves == "forward" else len(shown.columns) - 1
    palette = _shared_palette(frames)
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [FRAME_MS] * len(frames)
    times[-1 if turn is None else 0] = HOLD_MS  # a rest at each end of the way
    if turn is not None:
        times[min(turn, len(times) - 1)] = HOLD_MS
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replacing(Path(path)) as temporary:
        frames[0].save(
            temporary,
            "GIF",
            save_all=True,
            append_images=frames[1:],
            duration=times,
            loop=0,
            disposal=1,
            optimize=False,
        )
    return Path(path)


def _clip_frames(shown: Shown, spec: DataSpec | None) -> list[Any]:
    """PIL images of the whole grid at each step of its clips."""
    frames = clip_frames(shown.images, spec)
    return [draw_grid(frame, shown.rows, shown.columns, _titled(shown.title, frame.note)) for frame in frames]


def _column_frames(shown: Shown, spec: DataSpec | None) -> list[Any]:
    """PIL images of one column after the other, there and back unless it is time.

    On the way there and back a row with fewer cells than others rests on its last; in time, what is not there is blank.
    """
    pictures = as_pictures(shown.images, spec)
    forward = shown.moves == "forward"
    last = pictures.full.shape[1] - 1 - pictures.full[:, ::-1].argmax(axis=1)  # (R,) last full cell of each row
    rows, steps = pictures.full.shape
    side = min(rows, max(1, round(rows**0.5 * 1.6)))  # wider than high, as screens are
    lines = -(-rows // side)
    frames = []
    for step in range(steps) if forward else (*range(steps), *range(steps - 2, 0, -1)):
        cells = pictures.grid[np.arange(rows), step if forward else np.minimum(step, last)]
        grid = np.zeros((lines * side, *cells.shape[1:]), dtype=np.uint8)
        grid[:rows] = cells
        if forward:
            grid[:rows][~pictures.full[:, step]] = BED
        full = (np.arange(lines * side) < rows).reshape(lines, side)
        frame = Pictures(grid.reshape(lines, side, *cells.shape[1:]), full)
        frames.append(_draw_frame(frame, shown.rows))
    return frames


def _draw_frame(pictures: Pictures, names: tuple[str, ...]) -> Any:
    """A PIL image of cells side by side, each with its name above."""
    from PIL import Image, ImageDraw

    grid = _comfortable(pictures.grid)
    height, width = grid.shape[2:4]
    margin, gap, font = 12, 10, _font(13)
    above = 20 if any(names) else 0
    lines, side = pictures.full.shape
    names = _shortened(names, width + gap, font)
    size = (2 * margin + side * (width + gap) - gap, 2 * margin + lines * (above + height + gap) - gap)
    image = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(image)
    for number in np.flatnonzero(pictures.full.ravel()):
        line, column = divmod(int(number), side)
        left, top = margin + column * (width + gap), margin + line * (above + height + gap)
        draw.text((left + width / 2, top + 8), names[number], fill=INK, font=font, anchor="mm")
        image.paste(Image.fromarray(grid[line, column]), (left, top + above))
    return image


def _shared_palette(frames: list[Any]) -> Any:
    """One palette for all frames, so that what stands still does not flicker."""
    from PIL import Image

    chosen = frames[:: max(1, len(frames) // 8)]
    sheet = Image.new("RGB", (chosen[0].width, chosen[0].height * len(chosen)))
    for number, frame in enumerate(chosen):
        sheet.paste(frame, (0, number * frame.height))
    return sheet.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def _comfortable(grid: np.ndarray) -> np.ndarray:
    """Cells of about 100 pixels, fewer where the whole would be wider than 2000."""
    wanted = min(96, max(32, 2000 // grid.shape[1]))
    return enlarge(grid, wanted)


def _shortened(names: tuple[str, ...], width: int, font: Any) -> tuple[str, ...]:
    """Names cut with an ellipsis where they are wider than a cell."""
    kept = []
    for name in names:
        short = name
        while short and font.getlength(short + ("…" if short != name else "")) > width:
            short = short[:-1]
        kept.append(short + "…" if short != name else name)
    return tuple(kept)


def _titled(title: str, note: str) -> str:
    return f"{title} ({note})" if note else title


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
