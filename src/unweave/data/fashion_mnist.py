"""Fashion-MNIST: 70,000 pictures of clothes, 28 x 28, in the format of MNIST."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from unweave.base.card import Card
from unweave.data._dataset import DataSet, DataSource
from unweave.data._fitting import Fitted, middle, with_margin
from unweave.data._idx import SIDE, IdxFiles, IdxSplit, IdxValues

FILES = IdxFiles(
    folder="fashion_mnist",
    mirrors=(
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    checksums={
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    factor="article",
    labels=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)


class FashionMnist(DataSource):
    """Pictures of clothes with the factor `article`."""

    name: ClassVar[str] = "fashion_mnist"
    card: ClassVar[Card] = Card(
        summary="Fashion-MNIST: 70,000 pictures of clothes 28 x 28, with the article",
        paper="Xiao, Rasul, Vollgraf: Fashion-MNIST: a novel image dataset, arXiv 1708.07747, 2017",
        bibtex="""@misc{xiao2017fashion,
  author        = {Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  title         = {{Fashion-MNIST}: a Novel Image Dataset for Benchmarking Machine Learning Algorithms},
  eprint        = {1708.07747},
  archiveprefix = {arXiv},
  year          = {2017},
}""",
        needs="30.9 MB, downloaded once, or the official files in the cache folder",
    )

    split: IdxSplit = "train"
    """train: the first 60,000; test: the other 10,000; all: both, in this order."""
    values: IdxValues = "unit"
    """unit: pixels divided by 255; binary: 1 where that is above 0.5, else 0."""
    size: Literal[28, 32] = 28
    """Height and width; 32 adds two black pixels on each side."""

    def fit(self, picture: Any, height: int, width: int) -> Fitted:
        return middle(picture, height, width) if self.size == SIDE else with_margin(picture, height, width, SIDE)

    def load(self) -> DataSet:
        return FILES.load(self.split, self.values, self.size)
