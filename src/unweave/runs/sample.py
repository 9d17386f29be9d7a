"""A sample of its data that travels with a run, so that it opens where the data are not: sample.npz beside run.json."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from unweave.base.errors import DataError, RunError
from unweave.base.files import replacing
from unweave.core.factors import Factors
from unweave.data import DataSet, from_arrays
from unweave.runs.manifest import Manifest

SAMPLE = "sample.npz"


def write_sample(path: Path, data: DataSet, rows: np.ndarray) -> None:
    """Put rows of images and their factors into a run's directory, pixels as bytes."""
    if len(data.spec.shape) != 3 or data.spec.values not in ("unit", "binary"):
        raise DataError(f"{data.name} has no images with values from 0 to 1: only such travel with a run, as bytes")
    known = None if data.factors is None else data.factors.take(rows)
    about: dict[str, Any] = {"names": [], "kinds": [], "labels": []}
    if known is not None:
        about = {"names": known.names, "kinds": known.kinds, "labels": known.labels}
    images = np.round(255 * data.observations(rows)).astype(np.uint8)
    factors = np.zeros((len(rows), 0)) if known is None else known.values
    with replacing(path / SAMPLE) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, images=images, factors=factors, about=np.array(json.dumps(about)))


def read_sample(path: Path, manifest: Manifest) -> DataSet | None:
    """The rows that travel with the run in a directory; None when it has none and its own data are to be loaded."""
    file = path / SAMPLE
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as arrays:
            images, values, about = arrays["images"], arrays["factors"], json.loads(str(arrays["about"]))
        labels = tuple(None if each is None else tuple(each) for each in about["labels"])
        factors = Factors(tuple(about["names"]), values, tuple(about["kinds"]), labels) if about["names"] else None
        kind = manifest.data_spec["values"]
        return from_arrays(images, factors=factors, values=kind, layout="NCHW", name=manifest.data)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise RunError(f"{file} is damaged ({error}): restore it, or remove it to use the run's own data") from None
