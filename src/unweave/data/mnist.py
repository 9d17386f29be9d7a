"""MNIST: 70,000 handwritten digits, 28 x 28."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from unweave.base.card import Card
from unweave.core.factors import FactorKind, Factors
from unweave.data._dataset import DataSet, DataSource
from unweave.data._fitting import Fitted, middle, with_margin
from unweave.data._idx import SIDE, IdxFiles, IdxSplit, IdxValues
from unweave.data._morphology import SHAPE_MEASURES, measure_shape

FILES = IdxFiles(
    folder="mnist",
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    checksums={
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    factor="digit",
    labels=tuple("0123456789"),
)


class Mnist(DataSource):
    """Handwritten digits with the factor `digit`, and measures of their shape on request."""

    name: ClassVar[str] = "mnist"
    card: ClassVar[Card] = Card(
        summary="MNIST: 70,000 handwritten digits 28 x 28, with the digit",
        paper="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, 1998",
        bibtex="""@article{lecun1998gradient,
  author  = {LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick},
  title   = {Gradient-based learning applied to document recognition},
  journal = {Proceedings of the {IEEE}},
  volume  = {86},
  number  = {11},
  pages   = {2278--2324},
  year    = {1998},
}""",
        needs="11.6 MB, downloaded once, or the official files in the cache folder",
    )

    split: IdxSplit = "train"
    """train: the first 60,000; test: the other 10,000; all: both, in this order."""
    values: IdxValues = "unit"
    """unit: pixels divided by 255; binary: 1 where that is above 0.5, else 0."""
    size: Literal[28, 32] = 28
    """Height and width; 32 adds two black pixels on each side."""

    morphology: bool = False
    """Adds the factors area, thickness, width, height and slant, measured from the grey picture."""

    def fit(self, picture: Any, height: int, width: int) -> Fitted:
        return middle(picture, height, width) if self.size == SIDE else with_margin(picture, height, width, SIDE)

    def load(self) -> DataSet:
        data = FILES.load(self.split, self.values, self.size)
        return with_morphology(data, FILES.load(self.split, "unit", 28)) if self.morphology else data


def with_morphology(data: DataSet, grey: DataSet) -> DataSet:
    """`data` with the measures of shape of the pictures `grey` (1, H, W), row by row, as continuous factors."""
    assert data.factors is not None
    kinds: list[FactorKind] = ["continuous"] * len(SHAPE_MEASURES)
    measured = measure_shape(grey.observations(np.arange(len(grey)))[:, 0])
    factors = Factors(
        (*data.factors.names, *SHAPE_MEASURES),
        np.concatenate([data.factors.values, measured], axis=1),
        (*data.factors.kinds, *kinds),
        data.factors.labels + (None,) * len(SHAPE_MEASURES),
    )
    return replace(data, factors=factors, notes=(*data.notes, f"{', '.join(SHAPE_MEASURES)} measured from the picture"))
