"""Olivetti faces: 40 people, ten pictures of each."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from unweave.base.card import Card
from unweave.base.errors import DataError
from unweave.core.dataspec import DataSpec
from unweave.core.factors import Factors
from unweave.data._dataset import DataSet, DataSource
from unweave.data._faces import FacesFile, ReadFaces, area_average
from unweave.data._fitting import Fitted, middle

FILE = FacesFile(
    folder="olivetti",
    filename="olivetti_64x64.npz",
    arrays={"images": "uint8 (400, 64, 64)", "subject": "the person 0 to 39"},
    checksum="f5495c59eeac98813e1d48f87a9069a1ce278acd9a453b18d7b4e500e4eed12d",
)


class Olivetti(DataSource):
    """Faces with the factor `subject`."""

    name: ClassVar[str] = "olivetti"
    card: ClassVar[Card] = Card(
        summary="Olivetti faces: 400 grey pictures 64 x 64, ten of each of 40 people",
        paper="Samaria, Harter: Parameterisation of a stochastic model for human face identification, 1994",
        bibtex="""@inproceedings{samaria1994parameterisation,
  author    = {Samaria, Ferdinando S. and Harter, Andy C.},
  title     = {Parameterisation of a stochastic model for human face identification},
  booktitle = {{IEEE} Workshop on Applications of Computer Vision},
  pages     = {138--142},
  year      = {1994},
}""",
        needs="the file olivetti_64x64.npz in the folder UNWEAVE_DATA; its page says how to make it",
    )

    size: int = Field(default=64, ge=8, le=64)
    """Height and width; less than 64 by area averaging."""

    def fit(self, picture: Any, height: int, width: int) -> Fitted:
        return middle(picture, height, width, averaged=True)

    def load(self) -> DataSet:
        arrays, notes = FILE.read()
        images, people = arrays["images"], np.unique(arrays["subject"])
        if self.size > min(images.shape[1:]):
            raise DataError(f"size={self.size} is larger than the pictures of {images.shape[1]} x {images.shape[2]}")
        how = f"{images.shape[1]} x {images.shape[2]} pixels, as in the file"
        if (self.size, self.size) != images.shape[1:]:
            images, how = area_average(images, self.size, self.size), f"averaged to {self.size} x {self.size}"
        subject = np.searchsorted(people, arrays["subject"]).astype(np.float64)
        factors = Factors(("subject",), subject[:, None], ("discrete",), (tuple(str(n) for n in people),))
        spec = DataSpec((1, *images.shape[1:]), "unit", len(images))
        told = ("pixels 0..255 divided by 255", how, f"{len(people)} people")
        return DataSet(self.name, spec, ReadFaces(images), factors, (*told, *notes))
