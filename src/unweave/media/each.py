"""Observations as files: a picture of each, pixel by pixel, so that encoding them again gives what they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from unweave.base.errors import DataError
from unweave.base.files import replacing
from unweave.core.dataspec import DataSpec
from unweave.media.pictures import FRAME_MS, to_uint8


def save_each(images: np.ndarray, folder: Path, spec: DataSpec, names: Sequence[str] | None = None) -> list[Path]:
    """Write a PNG of each (N, C, H, W) image, or a GIF of each (N, T, C, H, W) clip, into a folder.

    names: N file names, which keep their folders and get the ending of the picture; numbers without
    """
    from PIL import Image

    if not (spec.is_image or spec.is_clip) or spec.shape[-3] > 4 or spec.values not in ("unit", "binary", "levels"):
        raise DataError(
            f"observations of shape {spec.shape} with {spec.values} values are no pictures: write them to a .npy file"
        )
    pixels = np.moveaxis(to_uint8(images, spec.values, levels=spec.levels), -3, -1)
    ending = ".gif" if spec.is_clip else ".png"
    paths = [folder / name for name in _names(len(images), names, ending)]
    for path, each in zip(paths, pixels, strict=True):
        shown = [frame[..., 0] if frame.shape[-1] == 1 else frame for frame in (each if spec.is_clip else each[None])]
        frames = [Image.fromarray(np.ascontiguousarray(frame)) for frame in shown]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            if spec.is_clip:
                frames[0].save(
                    temporary, "GIF", save_all=True, append_images=frames[1:], duration=FRAME_MS, loop=0, disposal=1
                )
            else:
                frames[0].save(temporary, "PNG")
    return paths


def _names(rows: int, names: Sequence[str] | None, ending: str) -> list[str]:
    """A file name for each row, all different, none of which leads out of the folder."""
    if names is None:
        return [f"{row:0{len(str(rows - 1))}}{ending}" for row in range(rows)]
    for row, name in enumerate(names):
        parts = PurePosixPath(name.replace("\\", "/")).parts
        leads_out = ".." in parts or (name and not parts) or name.startswith(("/", "\\")) or ":" in name
        if leads_out or any(ord(sign) < 32 for sign in name):
            raise DataError(f"row {row} has the name {name!r}, which is no file name within a folder: change it")
    bare = [str(PurePosixPath(name).with_suffix("")) if name else f"{row}" for row, name in enumerate(names)]
    if len(set(bare)) < rows:  # 3.png and 3.jpg, or names that come twice
        bare = [f"{row:0{len(str(rows - 1))}}-{name or 'row'}".replace("/", "-") for row, name in enumerate(names)]
    return [name + ending for name in bare]
