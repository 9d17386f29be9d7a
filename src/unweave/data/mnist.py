"""MNIST: 70,000 handwritten digits, 28 x 28."""

from __future__ import annotations

from typing import ClassVar, Literal

from unweave.core.card import Card
from unweave.data._dataset import DataSet, DataSource
from unweave.data._idx import IdxFiles, IdxSplit, IdxValues

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
    """Handwritten digits with the factor `digit`."""

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

    def load(self) -> DataSet:
        return FILES.load(self.split, self.values, self.size)
