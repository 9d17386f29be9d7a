"""How long dSprites takes: rendering all images, mapping the packed cache, decompressing an .npz of the same images.

    python benchmarks/dsprites.py

Works in a temporary folder (about 400 MB) and prints seconds and ratios. The .npz is bit-packed, eight times less to
decompress than one byte per pixel as published, so its time is a lower bound for such a file.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from unweave.data.dsprites import DSprites


def seconds(action: Callable[[], object], repeats: int = 1) -> float:
    """The shortest of some repeats: what the work takes when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main(folder: Path) -> None:
    os.environ["UNWEAVE_DATA"] = str(folder)
    data = DSprites().load()
    print(f"make the settings and the factor table   {1e3 * seconds(lambda: DSprites().load(), 3):9.2f} ms")

    render = seconds(lambda: data.observations([0]))
    print(f"render and store all {len(data)} images      {1e3 * render:9.2f} ms")

    packed = next(folder.rglob("*.npy"))
    archive = folder / "images.npz"
    np.savez_compressed(archive, images=np.load(packed, mmap_mode="r"))
    decompress = seconds(lambda: np.load(archive)["images"])
    print(f"decompress an .npz of them ({archive.stat().st_size / 1e6:.1f} MB)      {1e3 * decompress:9.2f} ms")

    again = DSprites().load()
    mapped = seconds(lambda: again.observations([0]))
    print(f"open the cache and read one image        {1e3 * mapped:9.2f} ms")
    print(f"rendering takes {render / decompress:.2f} times as long as decompressing")
    print(f"opening the cache is {decompress / mapped:.0f} times faster than decompressing")

    rng = np.random.default_rng(0)
    uncached = DSprites(cached=False).load()
    for count in (64, 10_000):
        rows = rng.integers(0, len(data), count)
        read = seconds(lambda rows=rows: data.observations(rows), 10)  # type: ignore[misc]
        rendered = seconds(lambda rows=rows: uncached.observations(rows), 10)  # type: ignore[misc]
        print(
            f"{count:6d} random rows: {1e3 * read:.2f} ms from the cache, {1e3 * rendered:.2f} ms rendered on reading"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
